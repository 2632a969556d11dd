"""Products of few rows: where M is no multiple of 16, an instruction takes its operands turned."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import bf16, f16, f32, i8, i32, tf32
from hexcute_core.arch import arch
from hexcute_core.errors import VerifyError
from hexcute_core.lowering import lower
from hexcute_core.thread import verify

m, n, k = hx.dims("m n k")


def product(dtype, total, BM, BN=64, BK=32, threads=128, warps=None):
    """c = a b^T for tiles of `BM` rows."""

    @hx.kernel(cache=False)
    def product(a: dtype[m, k], b: dtype[n, k], c: total[m, n]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
        hx.attrs.cuda.block_dim = threads
        bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
        ga = hx.global_view(a[bm:, :], ((BM, BK, hx.cdiv(k, BK)), (k, 1, BK)))
        gb = hx.global_view(b[bn:, :], ((BN, BK, hx.cdiv(k, BK)), (k, 1, BK)))
        sb = hx.shared_tensor(dtype, (BN, BK))
        rc = hx.register_tensor(total, (BM, BN))
        hx.fill(rc, 0)
        for i in range(hx.cdiv(k, BK)):
            ra, rb = hx.register_tensor(dtype, (BM, BK)), hx.register_tensor(dtype, (BN, BK))
            hx.copy(ga[:, :, i], ra)
            hx.copy(gb[:, :, i], sb)
            hx.syncthreads()
            hx.copy(sb, rb)
            hx.gemm(rc, ra, rb, warps=warps)
            hx.syncthreads()
        hx.copy(rc, hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))

    return product


CASES = [
    (f16, f32, np.float16, np.float32, {"BM": 8}),
    (f16, f16, np.float16, np.float16, {"BM": 8, "BN": 16, "threads": 32}),
    (bf16, f32, "bfloat16", np.float32, {"BM": 24, "warps": (1, 4)}),
    (tf32, f32, np.float32, np.float32, {"BM": 8, "BN": 32, "threads": 64}),
    (i8, i32, np.int8, np.int32, {"BM": 40, "BN": 32, "threads": 64}),
]


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype, total, cells, sums, how", CASES, ids=lambda x: str(x))
def test_few_rows_are_multiplied(dtype, total, cells, sums, how, target):
    if cells == "bfloat16":
        cells = pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, 80)).astype(cells) for rows in (21, 72))
    c = np.zeros((21, 72), sums)
    compiled = product(dtype, total, **how).compile(target, aligned=False, verify=True)
    compiled.simulate(a, b, c, compare=True)
    assert np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)
    assert "its operands turned" in compiled.explain()
    assert "mma.sync" in compiled.ptx()


def test_sixteen_rows_are_not_turned():
    assert "operands turned" not in product(f16, f32, 16).compile("sm_80").explain()


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_turned_product_is_the_operand_of_the_next(target):
    """relu(q p^T) v for eight rows: what the first leaves goes to the second by lanes."""

    @hx.kernel(cache=False)
    def chain(q: f16[8, 64], p: f16[64, 64], v: f16[64, 64], o: f32[8, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        rq, rp, rv = (hx.register_tensor(f16, (rows, 64)) for rows in (8, 64, 64))
        rs, ro = hx.register_tensor(f32, (8, 64)), hx.register_tensor(f32, (8, 64))
        hx.copy(hx.global_view(q, ((8, 64), (64, 1))), rq)
        hx.copy(hx.global_view(p, ((64, 64), (64, 1))), rp)
        hx.copy(hx.global_view(v, ((64, 64), (1, 64))), rv)
        hx.fill(rs, 0.0)
        hx.fill(ro, 0.0)
        hx.gemm(rs, rq, rp)
        hx.gemm(ro, hx.cast(hx.maximum(rs, 0.0), f16), rv)
        hx.copy(ro, hx.global_view(o, ((8, 64), (64, 1))))

    q, p, v = (np.random.default_rng(1).integers(-1, 2, (r, 64)).astype(np.float16)
               for r in (8, 64, 64))  # fmt: skip
    o = np.zeros((8, 64), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hx.RearrangeWarning)
        compiled = chain.compile(target, verify=True)
        compiled.simulate(q, p, v, o, compare=True)
    wide = [x.astype(np.float64) for x in (q, p, v)]
    assert np.array_equal(o, np.maximum(wide[0] @ wide[1].T, 0) @ wide[2])


def test_operands_in_their_usual_order_are_refused():
    """An instruction that is given what a turned one should be given has the wrong registers."""
    solution = product(f16, f32, 8).compile("sm_80").solution
    ((number, plan),) = solution.gemms.items()
    usual = replace(plan, row=replace(plan.row, turned=False))
    verify(lower(solution, arch("sm_80")))
    with pytest.raises(VerifyError, match="mma"):
        verify(lower(replace(solution, gemms={number: usual}), arch("sm_80")))
