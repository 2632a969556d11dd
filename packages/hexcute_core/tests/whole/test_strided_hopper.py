"""Transposes as operands of Hopper's products, and as what they add to: TMA takes either order."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import bf16, f8e4m3, f16, f32
from hexcute_core.runtime import best_key
from hexcute_core.runtime.specialisation import LEVEL_BITS
from hexcute_core.simulator.lanes.values import storage

m, n, k = hx.dims("m n k")
sk, sn, sc = hx.dims("sk sn sc")

# The operand's type and the strides of its view, by the index that is contiguous.
A = {"k": (f16[m:sk, k:1], (sk, 1, 64)), "m": (f16[m:1, k:sk], (1, sk, 64 * sk))}
B = {"k": (f16[n:sn, k:1], (sn, 1, 64)), "n": (f16[n:1, k:sn], (1, sn, 64 * sn))}


def product(a_major: str, b_major: str) -> hx.Kernel:
    (a_type, a_view), (b_type, b_view) = A[a_major], B[b_major]

    @hx.kernel(cache=False)
    def added(a: a_type, b: b_type, c: f32[m:1, n:sc]):
        """c += a b^T, the columns of c one after another."""
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
        bm, bn, tiles = hx.blockIdx.x * 64, hx.blockIdx.y * 64, hx.cdiv(k, 64)
        ga = hx.global_view(a[bm:, :], ((64, 64, tiles), a_view))
        gb = hx.global_view(b[bn:, :], ((64, 64, tiles), b_view))
        gc = hx.global_view(c[bm:, bn:], ((64, 64), (1, sc)))
        sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
        total, pipe = hx.shared_tensor(f32, (64, 64)), hx.pipeline(2)
        with hx.warp_groups_producer():
            for i in range(tiles):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
        with hx.warp_groups_consumer():
            hx.prefetch(gc)
            rc = hx.register_tensor(f32, (64, 64))
            hx.fill(rc, 0)
            for _ in range(tiles):
                with pipe.consume() as s:
                    hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            hx.copy(rc, total)
            hx.sync_role()
            hx.copy(total, gc, reduce="add")

    return added


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-3, 4, (rows, 72)).astype(np.float16) for rows in (104, 80))


@pytest.mark.parametrize("b_major", B)
@pytest.mark.parametrize("a_major", A)
def test_either_order_of_the_operands_goes_by_tma(a_major: str, b_major: str) -> None:
    a, b = operands()
    c = np.asfortranarray(np.ones((104, 80), np.float32))
    kernel = product(a_major, b_major)
    given = (x if major == "k" else np.asfortranarray(x)
             for x, major in ((a, a_major), (b, b_major)))  # fmt: skip
    kernel.simulate(*given, c, target="sm_90", compare=True, schedules=2)
    assert np.array_equal(c, 1 + a.astype(np.float32) @ b.astype(np.float32).T)
    solution = kernel.compile("sm_90", verify=True).solution
    names = [plan.name for plan in solution.bulk.values()]
    assert names == ["tma.load", "tma.load", "tma.reduce.add", "tma.prefetch"]
    assert len(solution.wgmmas) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("b_major", B)
@pytest.mark.parametrize("a_major", A)
def test_either_order_on_a_gpu(a_major: str, b_major: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs a Hopper GPU")
    a, b = (torch.from_numpy(x).cuda() for x in operands())
    c = torch.ones(80, 104, device="cuda").t()
    given = (x if major == "k" else x.t().contiguous().t()
             for x, major in ((a, a_major), (b, b_major)))  # fmt: skip
    product(a_major, b_major)(*given, c)
    assert torch.equal(c, 1 + a.float() @ b.float().t())


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_narrow_floats_have_strides_too(target: str) -> None:
    @hx.kernel(cache=False)
    def moved(x: f8e4m3[m:sk, n:1], y: f8e4m3[m:sc, n:1], z: bf16[m:1, n:sn]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 32)
        hx.attrs.cuda.block_dim = 64
        first = hx.blockIdx.x * 32
        r = hx.register_tensor(f8e4m3, (32, 64))
        hx.copy(hx.global_view(x[first:, :], ((32, 64), (sk, 1))), r)
        hx.copy(r, hx.global_view(y[first:, :], ((32, 64), (sc, 1))))
        hx.copy(hx.cast(hx.cast(r, f32), bf16),
                hx.global_view(z[first:, :], ((32, 64), (1, sn))))  # fmt: skip

    numbers = np.random.default_rng(1).integers(-3, 4, (50, 128)).astype(np.float32)
    x, y = numbers.astype(storage(f8e4m3))[:, 64:], np.zeros((50, 192), storage(f8e4m3))[:, :64]
    z = np.asfortranarray(np.zeros((50, 64), np.float32).astype(storage(bf16)))
    moved.simulate(x, y, z, target=target, compare=True)
    for found in (y, z):
        assert np.array_equal(found.astype(np.float32), numbers[:, 64:])


def test_tensors_that_reach_far_are_indexed_in_64_bits() -> None:
    @hx.kernel(cache=False)
    def far(x: f16[3:sk, n:1], y: f16[3, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f16, (3, 64))
        hx.copy(hx.global_view(x, ((3, 64), (sk, 1))), r)
        hx.copy(r, hx.global_view(y, ((3, 64), (n, 1))))

    best = best_key(far.signature, far.divisors)
    wide = 1 << LEVEL_BITS * (2 + len(far.divisors)) + 1
    for key, word in ((best, False), (best | wide, True)):
        compiled = far.specialise("sm_90", key, {}, verify=True)
        assert compiled.tile.promise.wide == word
        assert ("((long long)sk)" in compiled.source()) == word
