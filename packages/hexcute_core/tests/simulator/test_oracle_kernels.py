"""Compiled kernels, lane by lane, against the interpreter of what was written and against numpy."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import bf16, f16, f32, i8, i32, tf32
from hexcute_core.arch import arch
from hexcute_core.errors import SimulationError
from hexcute_core.frontend import define, trace
from hexcute_core.lowering import lower
from hexcute_core.simulator import interpret, simulate
from hexcute_core.synthesis import synthesize
from hexcute_core.thread import For, Prim, verify
from hexcute_core.tile.promise import Promise

m, n, k = hx.dims("m n k")
RNG = np.random.default_rng(11)


@cache
def compiled(kernel, aligned, target="sm_80", **constants):
    """The tile program and the verified thread program of a kernel function."""
    definition = define(kernel)
    names = [p.name for p in definition.params]
    promise = Promise()
    if aligned:
        promise = Promise((("k", 16), ("m", 16), ("n", 16)), frozenset(names))
    tile = trace(definition, constants, promise)
    table = arch(target)
    thread = lower(synthesize(tile, table), table)
    verify(thread)
    return tile, thread


def run(kernel, arrays, out, sizes, aligned=True, target="sm_80", **constants):
    """The output `out` of the kernel, the same bits from both runs."""
    tile, thread = compiled(kernel, aligned, target, **constants)
    meant = {name: array.copy() for name, array in arrays.items()}
    scalars = {p.name: sizes[p.name] for p in thread.params if not p.pointer}
    report = simulate(thread, arrays, scalars)
    interpret(tile, meant, {name: sizes[name] for name in (*tile.symbols, *dict(tile.scalars))})
    np.testing.assert_array_equal(arrays[out], meant[out])
    return arrays[out], report.counters


def gemm(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, BM: int = 128, BN: int = 128, BK: int = 32):
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


SHAPES = [(128, 128, 256, True), (208, 144, 272, True), (77, 65, 45, False), (1, 24, 40, False)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("blocks", [(128, 128, 32), (64, 32, 64)])
def test_gemm(shape, blocks):
    rows, columns, depth, aligned = shape
    a = RNG.integers(-3, 4, (rows, depth)).astype(np.float16)
    b = RNG.integers(-3, 4, (columns, depth)).astype(np.float16)
    c = np.full((rows, columns), np.nan, dtype=np.float16)
    names = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
    sizes = {"m": rows, "n": columns, "k": depth}
    got, counters = run(gemm, {"a": a, "b": b, "c": c}, "c", sizes, aligned, **names)
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32).T)
    assert ("ld.global.16" in counters.instructions) == aligned


def pipelined(
    a: f16[m, k], b: f16[n, k], c: f32[m, n], *, BM: int = 64, BN: int = 64, BK: int = 32
):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    ga = hx.global_view(a[bm:, :], ((BM, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    sa, sb = hx.shared_tensor(f16, (BM, BK, 3)), hx.shared_tensor(f16, (BN, BK, 3))
    ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for s in range(2):
        hx.copy(ga[:, :, s], sa[:, :, s])
        hx.copy(gb[:, :, s], sb[:, :, s])
        hx.cp_async_commit()
    for i in range(hx.cdiv(k, BK)):
        hx.cp_async_wait(1)
        hx.syncthreads()
        hx.copy(ga[:, :, i + 2], sa[:, :, (i + 2) % 3])
        hx.copy(gb[:, :, i + 2], sb[:, :, (i + 2) % 3])
        hx.cp_async_commit()
        hx.copy(sa[:, :, i % 3], ra)
        hx.copy(sb[:, :, i % 3], rb)
        hx.gemm(rc, ra, rb)
    hx.copy(rc, hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))


@pytest.mark.parametrize("shape", [(64, 64, 256, True), (80, 144, 144, True), (33, 70, 47, False)])
def test_a_pipeline_of_asynchronous_copies(shape):
    rows, columns, depth, aligned = shape
    a = RNG.integers(-3, 4, (rows, depth)).astype(np.float16)
    b = RNG.integers(-3, 4, (columns, depth)).astype(np.float16)
    c = np.full((rows, columns), np.nan, dtype=np.float32)
    sizes = {"m": rows, "n": columns, "k": depth}
    got, counters = run(pipelined, {"a": a, "b": b, "c": c}, "c", sizes, aligned)
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32).T)
    if aligned:
        assert "cp.async.16" in counters.instructions
        assert "ldmatrix.x4" in counters.instructions


def without(program, names):
    """The program without each of its primitives in `names`, one at a time, and its line."""

    def variants(stmts):
        for i, stmt in enumerate(stmts):
            if isinstance(stmt, Prim) and stmt.name in names:
                yield (*stmts[:i], *stmts[i + 1 :]), stmt
            elif isinstance(stmt, For):
                for body, gone in variants(stmt.body):
                    yield (*stmts[:i], replace(stmt, body=body), *stmts[i + 1 :]), gone

    for body, gone in variants(program.body):
        yield replace(program, body=body), gone


def test_every_barrier_and_wait_of_the_pipeline_is_needed():
    _, thread = compiled(pipelined, True)
    names = ("bar.sync", "cp.async.wait", "cp.async.commit")
    mutants = list(without(thread, names))
    assert {gone.name for _, gone in mutants} == set(names)
    a, b = np.ones((64, 256), dtype=np.float16), np.ones((64, 256), dtype=np.float16)
    c, sizes = np.zeros((64, 64), dtype=np.float32), {"m": 64, "n": 64, "k": 256}
    simulate(thread, {"a": a, "b": b, "c": c}, sizes)
    for mutant, _ in mutants:
        with pytest.raises(SimulationError, match=r"test_oracle_kernels\.py:\d+: .*\.py:\d+"):
            simulate(mutant, {"a": a, "b": b, "c": c}, sizes)


def typed_gemm(element, total):
    def matmul(a: element[m, k], b: element[n, k], c: total[m, n]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
        hx.attrs.cuda.block_dim = 128
        bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
        ga = hx.global_view(a[bm:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
        gb = hx.global_view(b[bn:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
        sa, sb = hx.shared_tensor(element, (64, 64)), hx.shared_tensor(element, (64, 64))
        ra, rb = hx.register_tensor(element, (64, 64)), hx.register_tensor(element, (64, 64))
        rc = hx.register_tensor(total, (64, 64))
        hx.fill(rc, 0)
        for i in range(hx.cdiv(k, 64)):
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

    return matmul


@pytest.mark.parametrize(
    ("element", "total", "cell", "result"),
    [
        (bf16, f32, "bfloat16", np.float32),
        (tf32, f32, "float32", np.float32),
        (i8, i32, "int8", np.int32),
    ],
)
def test_gemm_of_other_types(element, total, cell, result):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    cell = np.dtype(getattr(ml_dtypes, cell) if cell == "bfloat16" else cell)
    a = RNG.integers(-4, 5, (80, 144)).astype(cell)
    b = RNG.integers(-4, 5, (64, 144)).astype(cell)
    c = np.zeros((80, 64), dtype=result)
    sizes = {"m": 80, "n": 64, "k": 144}
    got, _ = run(typed_gemm(element, total), {"a": a, "b": b, "c": c}, "c", sizes)
    np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64).T)


def softmax(x: f32[m, k], y: f32[m, k], *, ROWS: int = 16, COLUMNS: int = 64):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, ROWS)
    hx.attrs.cuda.block_dim = 64
    at = hx.blockIdx.x * ROWS
    r = hx.register_tensor(f32, (ROWS, COLUMNS))
    hx.copy(hx.global_view(x[at:, :], ((ROWS, COLUMNS), (k, 1))), r)
    for i, j in hx.elements(r):
        if j >= k:
            r[i, j] = -1e30
    e = hx.exp(r - hx.max(r, 1))
    hx.copy(
        e / hx.sum(e, 1), hx.global_view(y[hx.blockIdx.x * ROWS :, :], ((ROWS, COLUMNS), (k, 1)))
    )


@pytest.mark.parametrize(("rows", "columns", "aligned"), [(32, 64, True), (19, 37, False)])
def test_softmax(rows, columns, aligned):
    x = RNG.standard_normal((rows, columns)).astype(np.float32)
    tile, thread = compiled(softmax, aligned)
    y, meant = np.zeros_like(x), np.zeros_like(x)
    sizes = {"m": rows, "k": columns}
    simulate(thread, {"x": x, "y": y}, sizes)
    interpret(tile, {"x": x, "y": meant}, sizes)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(y, meant, rtol=1e-5)


def column_sums(x: f32[m, n], y: f32[1, n], *, ROWS: int = 128, COLUMNS: int = 32):
    hx.attrs.cuda.grid_dim = hx.cdiv(n, COLUMNS)
    hx.attrs.cuda.block_dim = 128
    at = hx.blockIdx.x * COLUMNS
    total = hx.register_tensor(f32, (1, COLUMNS))
    hx.fill(total, 0.0)
    gx = hx.global_view(x[:, at:], ((ROWS, COLUMNS, hx.cdiv(m, ROWS)), (n, 1, ROWS * n)))
    r = hx.register_tensor(f32, (ROWS, COLUMNS))
    for i in range(hx.cdiv(m, ROWS)):
        hx.copy(gx[:, :, i], r)
        total = total + hx.sum(r, 0)
    hx.copy(total, hx.global_view(y[:, at:], ((1, COLUMNS), (n, 1))))


@pytest.mark.parametrize(("rows", "columns", "aligned"), [(256, 64, True), (301, 37, False)])
def test_sums_across_warps(rows, columns, aligned):
    x = RNG.integers(-50, 50, (rows, columns)).astype(np.float32)
    y = np.zeros((1, columns), dtype=np.float32)
    got, _ = run(column_sums, {"x": x, "y": y}, "y", {"m": rows, "n": columns}, aligned)
    np.testing.assert_array_equal(got[0], x.sum(axis=0))
