"""A search narrowed to what an author names: the words of `explain()`, in and out."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.arch import arch
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis import alternatives

m, n, k = hx.dims("m n k")


@hx.kernel(cache=False)
def staged(a: f16[m, k], b: f16[n, k], c: f32[m, n], *, BK: int = 32):
    """c = a b^T, both operands through shared memory."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    ga = hx.global_view(a[bm:, :], ((64, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((64, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    sa, sb = hx.shared_tensor(f16, (64, BK)), hx.shared_tensor(f16, (64, BK))
    ra, rb = hx.register_tensor(f16, (64, BK)), hx.register_tensor(f16, (64, BK))
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    for i in range(hx.cdiv(k, BK)):
        hx.copy(ga[:, :, i], sa)
        hx.copy(gb[:, :, i], sb)
        hx.cp_async_commit()
        hx.cp_async_wait(0)
        hx.syncthreads()
        hx.copy(sa, ra)
        hx.copy(sb, rb)
        hx.syncthreads()
        hx.gemm(rc, ra, rb)
    hx.copy(rc, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))))


TABLE = arch("sm_80")
CHOSEN = staged.compile("sm_80")
OTHERS = alternatives(CHOSEN.solution, TABLE)


def carried(compiled):
    """Operations with what carries them."""
    text = compiled.explain(rejected=0)
    return {line.strip() for line in text.splitlines() if " copy " in line or " gemm " in line}


def test_there_are_alternatives_to_every_copy_and_to_the_gemm():
    names = {name for name, _ in OTHERS}
    assert names == {
        "copy ga -> sa", "copy gb -> sb", "copy sa -> ra", "copy sb -> rb", "copy rc -> view_c",
        "gemm rc",
    }  # fmt: skip
    assert ("copy ga -> sa", "cp.async.8") in OTHERS
    assert ("copy sa -> ra", "ldmatrix.x2") in OTHERS
    assert ("copy ga -> sa", "cp.async.16") not in OTHERS
    assert {way for name, way in OTHERS if name == "gemm rc"} == {"1x4", "4x1"}


@pytest.mark.parametrize("operation, way", OTHERS, ids=" by ".join)
def test_every_alternative_is_proved_and_computes_the_same(operation, way):
    forced = staged.compile("sm_80", only={operation: way}, verify=True)
    assert forced.solution.cost >= CHOSEN.solution.cost, "the search found the least clocks"
    asked = f"warps {way}" if operation.startswith("gemm") else f"{operation}: {way} x"
    assert any(operation in line and asked in line for line in carried(forced))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.full((64, 64), 7, np.float32)
    forced.simulate(a, b, c)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("operation, way, said", [
    ("copy ga -> sb", "cp.async.8", "name one of copy ga -> sa, copy gb -> sb"),
    ("copy ga -> sa", "cp.async.32", "only cp.async.32 was asked for"),
    ("gemm rc", "two by two", "how many along M and along N"),
    ("gemm rc", "3x1", "arranged (3, 1)"),
])  # fmt: skip
def test_what_nothing_can_carry_is_refused(operation, way, said):
    with pytest.raises(NoLayout) as caught:
        _ = staged.compile("sm_80", only={operation: way}).solution
    assert said in str(caught.value) and caught.value.span is not None


def test_a_narrowed_kernel_is_another_entry_of_the_cache():
    from hexcute_core.driver.build import request_key

    keys = set()
    for only in (None, {"copy ga -> sa": "cp.async.8"}, {"copy gb -> sb": "cp.async.8"}):
        compiled = staged.compile("sm_80", only=only)
        keys.add(request_key(compiled._request, compiled.tile, "this compiler"))
    assert len(keys) == 3
