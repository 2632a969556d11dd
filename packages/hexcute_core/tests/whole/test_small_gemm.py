"""Products of any extents: instructions go on beyond the tile, along K over zeros."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import bf16, f16, f32, i8, i32, tf32, u8
from hexcute_core.dtypes import DType
from hexcute_core.errors import NoLayout
from hexcute_core.simulator.lanes.values import storage

SIZES = [(1, 1, 1), (4, 16, 16), (1, 64, 32), (16, 16, 8), (16, 16, 4), (16, 4, 16), (5, 7, 3),
         (24, 24, 16), (33, 9, 17), (3, 40, 24), (17, 17, 17)]  # fmt: skip
TYPES = [(f16, f32), (bf16, f32), (f16, f16), (i8, i32), (u8, i32), (tf32, f32), (f32, f32)]


def product(
    m: int, n: int, k: int, operand: DType, result: DType, threads: int, turns: int = 1
) -> hx.Kernel:
    """c = 1 + turns * a b^T."""

    @hx.kernel(cache=False)
    def kernel(a: operand[m, k], b: operand[n, k], c: result[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        ra, rb = hx.register_tensor(operand, (m, k)), hx.register_tensor(operand, (n, k))
        rc = hx.register_tensor(result, (m, n))
        hx.copy(hx.global_view(a, ((m, k), (k, 1))), ra)
        hx.copy(hx.global_view(b, ((n, k), (k, 1))), rb)
        hx.fill(rc, 1)
        for _ in range(turns):
            hx.gemm(rc, ra, rb)
        hx.copy(rc, hx.global_view(c, ((m, n), (n, 1))))

    return kernel


def operands(m: int, n: int, k: int, operand: DType) -> tuple[np.ndarray, np.ndarray]:
    rng, low = np.random.default_rng(0), 0 if operand.kind == "uint" else -3
    return tuple(rng.integers(low, 4, s).astype(storage(operand)) for s in ((m, k), (n, k)))


@pytest.mark.parametrize("operand, result", TYPES, ids=lambda d: str(d))
@pytest.mark.parametrize("m, n, k", SIZES)
def test_products_of_any_extents(
    m: int, n: int, k: int, operand: DType, result: DType
) -> None:
    a, b = operands(m, n, k, operand)
    meant = 1 + 2 * (a.astype(np.float64) @ b.astype(np.float64).T)
    for target, threads in (("sm_80", 32), ("sm_90", 128)):
        c = np.zeros((m, n), storage(result))
        kernel = product(m, n, k, operand, result, threads, turns=2)
        kernel.simulate(a, b, c, target=target, compare=True)
        assert np.array_equal(c.astype(np.float64), meant)
        assert kernel.compile(target, verify=True, aligned=False).thread.body


@pytest.mark.gpu
@pytest.mark.parametrize("operand, result", [(f16, f32), (bf16, f32), (i8, i32)], ids=str)
@pytest.mark.parametrize("m, n, k", SIZES)
def test_products_on_a_gpu(m: int, n: int, k: int, operand: DType, result: DType) -> None:
    torch = pytest.importorskip("torch")
    kind = {f16: torch.float16, bf16: torch.bfloat16, i8: torch.int8}[operand]
    a, b = (torch.randint(-3, 4, (rows, k), device="cuda").to(kind) for rows in (m, n))
    c = torch.zeros(m, n, device="cuda", dtype=torch.int32 if result == i32 else torch.float32)
    product(m, n, k, operand, result, 64)(a, b, c)
    assert torch.equal(c.double(), 1 + a.double() @ b.double().T)


def test_what_lies_beyond_spoils_nothing_that_follows() -> None:
    """Softmax of five scores a row, times values: what is reduced and multiplied again ends where
    the tile does, though garbage lies in registers behind."""

    @hx.kernel(cache=False)
    def attended(q: f16[3, 20], k: f16[5, 20], v: f16[12, 5], o: f32[3, 12]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        rq, rk, rv = (hx.register_tensor(f16, s) for s in ((3, 20), (5, 20), (12, 5)))
        hx.copy(hx.global_view(q, ((3, 20), (20, 1))), rq)
        hx.copy(hx.global_view(k, ((5, 20), (20, 1))), rk)
        hx.copy(hx.global_view(v, ((12, 5), (5, 1))), rv)
        s, ro = hx.register_tensor(f32, (3, 5)), hx.register_tensor(f32, (3, 12))
        hx.fill(s, 0.0), hx.fill(ro, 0.0)
        hx.gemm(s, rq, rk)
        p = hx.exp(s - hx.max(s, 1))
        total = hx.sum(p, 1)
        hx.gemm(ro, hx.cast(p, f16), rv)
        hx.copy(ro / total, hx.global_view(o, ((3, 12), (12, 1))))

    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=s).astype(np.float16) for s in ((3, 20), (5, 20), (12, 5)))
    scores = q.astype(np.float32) @ k.astype(np.float32).T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    meant = weights / weights.sum(1, keepdims=True) @ v.astype(np.float32).T
    for target in ("sm_80", "sm_90"):
        o = np.zeros((3, 12), np.float32)
        attended.simulate(q, k, v, o, target=target)
        assert np.allclose(o, meant, atol=2e-3)
        assert attended.compile(target, verify=True, aligned=False).thread.body


def test_what_divides_is_not_padded() -> None:
    sizes = {"16x16x16": (16, 16, 16), "8x16x16": (8, 16, 16), "32x24x32": (32, 24, 32)}
    for m, n, k in sizes.values():
        found = product(m, n, k, f16, f32, 32).compile("sm_80").solution
        for f in found.fragments.values():
            reach = [0] * len(f.shape)
            for mode in (*f.thread, *f.value):
                reach[mode.dim] += (mode.size - 1) * mode.step
            assert all(r < extent for r, extent in zip(reach, f.shape))


def test_parts_of_tiles_are_multiples_of_an_instruction() -> None:
    @hx.kernel(cache=False)
    def parted(a: f16[16, 8], c: f32[16, 16]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r, rc = hx.register_tensor(f16, (16, 8, 2)), hx.register_tensor(f32, (16, 16))
        hx.fill(r, 0.0), hx.fill(rc, 0.0)
        hx.copy(hx.global_view(a, ((16, 8), (8, 1))), r[:, :, 0])
        hx.gemm(rc, r[:, :, 0], r[:, :, 1])
        hx.copy(rc, hx.global_view(c, ((16, 16), (16, 1))))

    with pytest.raises(NoLayout, match="gemm of 16x16x8") as caught:
        assert parted.compile("sm_80").solution
    assert caught.value.fix == (
        "multiply whole register tiles, or make their parts multiples of the instruction"
    )
