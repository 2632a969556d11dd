"""Operands of any size, copied into rows that TMA takes, and the products behind the copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_kernels.gemm.packing import pack


@pytest.mark.parametrize("major", ["k", "m"])
@pytest.mark.parametrize(
    ("rows", "k"), [(1, 1), (33, 203), (100, 130), (70, 129), (31, 8)], ids=str
)
def test_rows_are_whole_and_the_rest_is_zero(rows: int, k: int, major: str) -> None:
    wide = -(-k // 8) * 8
    x = np.random.default_rng(k).normal(size=(rows, k)).astype(np.float16)
    y = np.full((rows, wide), np.nan, np.float16)
    stored = x if major == "k" else np.ascontiguousarray(x.T)
    pack(hx.f16, major).simulate(stored, y, target="sm_90")
    np.testing.assert_array_equal(y[:, :k], x)
    assert not y[:, k:].any()


def products() -> Any:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, turned: bool = False) -> Any:
        made = torch.zeros(shape[:-2] + shape[:-3:-1] if turned else shape, dtype=torch.float16)
        return on_gpu(made.mT if turned else made)

    return torch, gpu, zeros


@pytest.mark.parametrize(
    ("shape", "turned", "variant", "copies"),
    [
        ((300, 257, 203), "", "wgmma_packed", ["a", "b"]),
        ((2313, 1, 5026), "", "thin_packed", ["a", "b"]),
        ((3000, 1257, 208), "", "wgmma_packed", []),
        ((301, 264, 208), "a", "wgmma_packed", ["a"]),
        ((304, 264, 201), "a", "wgmma_packed", ["a", "b"]),
        ((30, 25, 2001), "", "thin_packed", ["a", "b"]),
        ((304, 257, 208), "ab", "wgmma_packed", ["b"]),
        ((304, 257, 208), "", "mma", []),
        ((30, 25, 20), "", "thin_packed", ["a", "b"]),
        ((3000, 264, 8), "", "mma", []),
    ],
    ids=str,
)
def test_only_what_tma_cannot_read_is_copied(
    shape: tuple[int, int, int], turned: str, variant: str, copies: list[str]
) -> None:
    _, gpu, zeros = products()
    from hexcute_kernels.gemm import matmul

    m, n, k = shape
    a, b = zeros(m, k, turned="a" in turned), zeros(n, k, turned="b" in turned)
    with gpu("h200", "sm_90") as launches:
        launches.clear()
        matmul(a, b, variant=variant)
    *packed, last = launches
    assert len(packed) == bool(copies)
    sources = [t for noted in packed for t in noted.prepared[::2]]
    assert [s.data_ptr() for s in sources] == [{"a": a, "b": b}[c].data_ptr() for c in copies]
    assert all(t.shape[-1] % 8 == 0 for noted in packed for t in noted.prepared[1::2])
    operands = [tuple(t.shape) for t in last.prepared]
    if copies == ["a", "b"]:
        wide = -(-k // 8) * 8
        assert sorted(operands[:2]) == sorted([(m, wide), (n, wide)])


@pytest.mark.parametrize(
    ("shape", "turned"),
    [((130, 70, 300), ""), ((3, 90, 8001), ""), ((257, 130, 71), "a"), ((64, 264, 136), "")],
    ids=str,
)
def test_all_launches_of_a_call_against_numpy(shape: tuple[int, int, int], turned: str) -> None:
    """Every lane of every block of every launch, on the tensors that a call hands on."""
    torch, gpu, zeros = products()
    from hexcute_kernels.gemm import matmul

    m, n, k = shape
    a, b = zeros(m, k, turned="a" in turned), zeros(n, k, turned="b" in turned)
    rng = np.random.default_rng(m)
    for t in (a, b):
        t.copy_(torch.from_numpy(rng.integers(-2, 3, t.shape).astype(np.float16)))
    if shape == (64, 264, 136):
        # Where it starts is no multiple of 16 bytes.
        odd = zeros(m * k + 1, 1)[1:, 0].view(m, k)
        a = odd.copy_(a)
    with gpu("h200", "sm_90") as launches:
        launches.clear()
        c = matmul(a, b, variant="thin_packed" if min(shape) < 64 else "wgmma_packed")
        c.fill_(float("nan"))
    plain = [t.as_subclass(torch.Tensor) for t in (a, b, c)]
    # By where it lies: arguments and result, and what launches hand on to each other.
    kept = {t.data_ptr(): t.reshape(-1) if t.is_contiguous() else t.mT.reshape(-1) for t in plain}
    for noted in launches:
        arrays = []
        for like, address in zip(noted.prepared, noted.addresses, strict=True):
            made = torch.full((like.numel(),), float("nan"), dtype=torch.float16)
            flat = kept.setdefault(address, made)
            arrays.append(flat.as_strided(like.shape, like.stride()).numpy())
        noted.kernel.simulate(*arrays, target="sm_90", **noted.constants)
    want = a.as_subclass(torch.Tensor).numpy().astype(np.float32)
    want = want @ b.as_subclass(torch.Tensor).numpy().astype(np.float32).T
    np.testing.assert_array_equal(c.as_subclass(torch.Tensor).numpy(), want.astype(np.float16))


@pytest.mark.gpu
def test_any_sizes_on_a_gpu() -> None:
    """Log-uniform sizes, every order, results poisoned; whole numbers, so sums are exact."""
    torch = pytest.importorskip("torch")
    from hexcute_kernels.gemm import linear, matmul

    rng = np.random.default_rng(0)
    used = set()
    for index in range(120):
        m, n, k = (int(2 ** rng.uniform(0, 11.5)) for _ in range(3))
        a, b = (torch.randint(-2, 3, (rows, k), device="cuda").half() for rows in (m, n))
        want = (a.float() @ b.float().t()).half()
        left = a if index % 2 else a.t().contiguous().t()
        right = b if index % 3 else b.t().contiguous().t()
        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
        used.add(matmul.plan((left, right)).variant)
        matmul(left, right, out=c)
        assert torch.equal(c, want), (m, n, k, index)
        bias = torch.randint(-9, 9, (n,), device="cuda").half()
        assert torch.equal(linear(a, b, bias), (want.float() + bias.float()).half()), (m, n, k)
    if torch.cuda.get_device_capability() == (9, 0):
        assert {"staged", "wgmma_packed"} <= used
