"""The GEMM of the language's description and a pipelined one: their programs, and their numbers."""

from pathlib import Path

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.frontend import define, trace
from hexcute_core.simulator import interpret
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify

m, n, k = hx.dims("m n k")


def matmul(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, BM: int = 128, BN: int = 128, BK: int = 32):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    ga = hx.global_view(a[bm:, :], ((BM, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(hx.cdiv(k, BK)):
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.gemm(rc, ra, rb)
    sc = hx.shared_tensor(f16, (BM, BN))
    hx.copy(hx.cast(rc, f16), sc)
    hx.syncthreads()
    rd = hx.register_tensor(f16, (BM, BN))
    hx.copy(sc, rd)
    hx.copy(rd, hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))


def pipelined(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, BM=16, BN=8, BK=16, STAGES=3):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 32
    hx.attrs.cuda.min_blocks = 2
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    tiles = hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    sa, sb = hx.shared_tensor(f16, (BM, BK, STAGES)), hx.shared_tensor(f16, (BN, BK, STAGES))
    ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for stage in hx.static_range(STAGES - 1):
        hx.copy(ga[:, :, stage], sa[:, :, stage])
        hx.copy(gb[:, :, stage], sb[:, :, stage])
        hx.cp_async_commit()
    read, write = 0, STAGES - 1
    for i in range(tiles):
        hx.cp_async_wait(STAGES - 2)
        hx.syncthreads()
        ahead = i + (STAGES - 1)
        hx.copy(ga[:, :, ahead], sa[:, :, write])
        hx.copy(gb[:, :, ahead], sb[:, :, write])
        hx.cp_async_commit()
        hx.copy(sa[:, :, read], ra)
        hx.copy(sb[:, :, read], rb)
        hx.gemm(rc, ra, rb, warps=(1, 1))
        read = (read + 1) % STAGES
        write = (write + 1) % STAGES
    hx.copy(hx.cast(rc, f16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))


MATMUL = """\
kernel matmul(a: f16[m, k], b: f16[n, k], c: f16[m, n])
  grid (cdiv(m, 64), cdiv(n, 128), 1) threads 128
  promised k % 8 == 0, a aligned
  ga = view a(blockIdx.x * 64, 0) f16 (64:1@0, 32:1@1, cdiv(k, 32):32@1)
  gb = view b(blockIdx.y * 128, 0) f16 (128:1@0, 32:1@1, cdiv(k, 32):32@1)
  ra = registers f16 (64, 32)
  rb = registers f16 (128, 32)
  rc = registers f32 (64, 128)
  sc = shared f16 (64, 128)
  cast = registers f16 (64, 128)
  rd = registers f16 (64, 128)
  view_c = view c(blockIdx.x * 64, blockIdx.y * 128) f16 (64:1@0, 128:1@1)
  %0 fill rc = 0.0
  for i in range(0, cdiv(k, 32), 1):
    %1 copy ga[:, :, i] -> ra
    %2 copy gb[:, :, i] -> rb
    %3 gemm rc += ra * rb^T
  %4 cast rc -> cast
  %5 copy cast -> sc
  syncthreads
  %6 copy sc -> rd
  %7 copy rd -> view_c
"""

PIPELINED_LOOP = """\
  var read: i32 = 0
  var write: i32 = 2
  for i in range(0, cdiv(k, 16), 1):
    cp_async_wait 1
    syncthreads
    %5 copy ga[:, :, i + 2] -> sa[:, :, write]
    %6 copy gb[:, :, i + 2] -> sb[:, :, write]
    cp_async_commit
    %7 copy sa[:, :, read] -> ra
    %8 copy sb[:, :, read] -> rb
    %9 gemm rc += ra * rb^T warps (1, 1)
    read = (read + 1) % 3
    write = (write + 1) % 3
"""


def test_the_simple_gemm_as_text():
    promise = Promise((("k", 8),), frozenset({"a"}))
    assert show_program(trace(define(matmul), {"BM": 64}, promise)) == MATMUL


def test_the_pipelined_gemm_as_text():
    text = show_program(trace(define(pipelined), {}, Promise()))
    assert PIPELINED_LOOP in text
    assert "threads 32 min_blocks 2" in text
    assert text.count("cp_async_commit") == 3


def test_tracing_twice_gives_equal_programs():
    first, second = (trace(define(matmul), {}, Promise()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("shape", [(16, 8, 16), (17, 9, 40), (33, 24, 65), (1, 3, 100)])
@pytest.mark.parametrize("kernel", [matmul, pipelined])
def test_the_numbers(kernel, shape):
    rows, cols, depth = shape
    constants = {"BM": 16, "BN": 8, "BK": 16}
    program = trace(define(kernel), constants, Promise())
    verify(program)
    rng = np.random.default_rng(rows)
    a = rng.integers(-3, 4, (rows, depth)).astype(np.float16)
    b = rng.integers(-3, 4, (cols, depth)).astype(np.float16)
    arrays = {"a": a, "b": b, "c": np.full((rows, cols), np.nan, np.float16)}
    got = interpret(program, arrays, {"m": rows, "n": cols, "k": depth})["c"]
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.T.astype(np.float32))


def test_every_statement_keeps_its_line():
    text = show_program(trace(define(matmul), {}, Promise()), spans=True)
    source = Path(__file__).read_text().splitlines()
    written = source.index("        hx.gemm(rc, ra, rb)") + 1
    line = next(row for row in text.splitlines() if "%3 gemm" in row)
    assert line.endswith(f"test_frontend_gemm.py:{written}")
