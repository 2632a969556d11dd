"""Views whose rows a tile of numbers names: gathered, scattered, masked, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.driver.pipeline import Compilation, Request
from hexcute_core.driver.proof import prove
from hexcute_core.errors import SimulationError, VerifyError
from hexcute_core.lowering import lower, rows
from hexcute_core.synthesis import memory
from hexcute_core.synthesis.proof.check import check
from hexcute_core.tile.promise import Promise

b, m, n, t = hx.dims("b m n t")
TARGETS = ("sm_80", "sm_90")


@hx.kernel(cache=False)
def gathered(x: f16[m, n], idx: i32[t], y: f16[t, n], *, BM: int = 32, BN: int = 64, SHARED=True):
    """y[i] = x[idx[i]], zero where there is no such row."""
    hx.attrs.cuda.grid_dim = hx.cdiv(t, BM)
    hx.attrs.cuda.block_dim = 128
    bt, tiles = hx.blockIdx.x * BM, hx.cdiv(n, BN)
    rows = hx.shared_tensor(i32, (BM,))
    hx.copy(hx.global_view(idx[bt:], ((BM,), (1,))), rows)
    hx.syncthreads()
    gx = hx.global_view(x, ((BM, BN, tiles), (rows, 1, BN)))
    gy = hx.global_view(y[bt:, :], ((BM, BN, tiles), (n, 1, BN)))
    s = hx.shared_tensor(f16, (BM, BN))
    for i in range(tiles):
        r = hx.register_tensor(f16, (BM, BN))
        if SHARED:
            hx.copy(gx[:, :, i], s)
            hx.syncthreads()
            hx.copy(s, r)
            hx.syncthreads()
        else:
            hx.copy(gx[:, :, i], r)
        hx.copy(r, gy[:, :, i])


def taken(x, idx):
    """Rows of `x`, zero where there is none."""
    inside = (idx >= 0) & (idx < len(x))
    return np.where(inside[:, None], x[np.clip(idx, 0, len(x) - 1)], 0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "constants, columns",
    [({}, 72), ({}, 77), ({"SHARED": False}, 72), ({"SHARED": False}, 77),
     ({"BM": 20, "BN": 24}, 72), ({"BM": 20, "BN": 24, "SHARED": False}, 77),
     ({"BM": 229, "BN": 8, "SHARED": False}, 16)],
)  # fmt: skip
def test_rows_are_gathered(target, constants, columns):
    rng, told = np.random.default_rng(0), {}
    x = rng.normal(size=(9, columns)).astype(np.float16)
    idx = rng.integers(-2, 11, 44).astype(np.int32)
    y = np.full((44, columns), 7, np.float16)
    compiled = gathered.compile(
        target, aligned=columns % 8 == 0, verify=True, trace=told.setdefault, **constants
    )
    compiled.simulate(x, idx, y, compare=True)
    assert np.array_equal(y, taken(x, idx))
    assert not told["proof"].left
    assert len(compiled.built.cubin) > 0


def test_sixteen_bytes_a_row_are_copied_asynchronously():
    compiled = gathered.compile("sm_80")
    assert "cp.async.16 x2" in compiled.explain()
    assert "cp.async.cg.shared.global" in compiled.ptx()
    assert "32:rows@0" in compiled.explain()


@hx.kernel(cache=False)
def scattered(x: f32[t, n], idx: i32[t], y: f32[m, n], *, BM: int = 24, BN: int = 32):
    """y[idx[i]] = x[i], where there is such a row."""
    hx.attrs.cuda.grid_dim = hx.cdiv(t, BM)
    hx.attrs.cuda.block_dim = 96
    bt = hx.blockIdx.x * BM
    names, rows = hx.register_tensor(i32, (BM,)), hx.shared_tensor(i32, (BM,))
    hx.copy(hx.global_view(idx[bt:], ((BM,), (1,))), names, outside=-1)
    hx.copy(names, rows)
    hx.syncthreads()
    r = hx.register_tensor(f32, (BM, BN))
    hx.copy(hx.global_view(x[bt:, :], ((BM, BN), (n, 1))), r)
    hx.copy(r, hx.global_view(y, ((BM, BN), (rows, 1))))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [32, 19])
def test_rows_are_scattered(target, columns):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(41, columns)).astype(np.float32)
    idx = rng.permutation(60)[:41].astype(np.int32) - 8
    y = np.full((45, columns), 7, np.float32)
    compiled = scattered.compile(target, aligned=False, verify=True)
    compiled.simulate(x, idx, y, compare=True)
    want = np.full_like(y, 7)
    there = (idx >= 0) & (idx < 45)
    want[idx[there]] = x[there]
    assert np.array_equal(y, want)
    assert len(compiled.built.cubin) > 0


@hx.kernel(cache=False)
def parts(x: f16[b, m, n], idx: i32[2, 16], y: f16[b, n, 16], z: f16[b, 1, n]):
    """Columns of a transposed view by the numbers of one slot, in parts, and one of them alone."""
    hx.attrs.cuda.grid_dim = b
    hx.attrs.cuda.block_dim = 64
    at = hx.blockIdx.x
    rows = hx.shared_tensor(i32, (16, 2))
    hx.copy(hx.global_view(idx, ((16, 2), (1, 16))), rows)
    hx.syncthreads()
    gx = hx.global_view(x[at, 1:, :], ((16, 40), (hx.along(1, rows[:, at % 2]), 1)))
    gy = hx.global_view(y[at, :, :], ((16, 40), (1, 16)))
    for h in range(2):
        r = hx.register_tensor(f16, (8, 40))
        hx.copy(gx[hx.ds(h * 8, 8), :], r)
        hx.copy(r, gy[hx.ds(h * 8, 8), :])
    one = hx.register_tensor(f16, (40,))
    hx.copy(gx[5, :], one)
    hx.copy(one, hx.global_view(z[at, 0, :], ((40,), (1,))))


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_and_views_are_taken_in_parts(target):
    rng, told = np.random.default_rng(2), {}
    x = rng.normal(size=(3, 7, 40)).astype(np.float16)
    idx = rng.integers(-2, 7, (2, 16)).astype(np.int32)
    y, z = np.zeros((3, 40, 16), np.float16), np.zeros((3, 1, 40), np.float16)
    compiled = parts.compile(target, verify=True, trace=told.setdefault)
    compiled.simulate(x, idx, y, z, compare=True)
    for at in range(3):
        want = taken(x[at], idx[at % 2] + 1)
        assert np.array_equal(y[at].T, want) and np.array_equal(z[at, 0], want[5])
    assert not told["proof"].left


@hx.kernel(cache=False)
def columns(x: f32[m, n], idx: i32[32], y: f32[m, 32]):
    """The numbers name columns, of which no two lie side by side for all that is known."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 16)
    hx.attrs.cuda.block_dim = 64
    bm = hx.blockIdx.x * 16
    rows, r = hx.shared_tensor(i32, (32,)), hx.register_tensor(f32, (16, 32))
    hx.copy(hx.global_view(idx, ((32,), (1,))), rows)
    hx.syncthreads()
    hx.copy(hx.global_view(x[bm:, :], ((16, 32), (n, hx.along(1, rows)))), r)
    hx.copy(r, hx.global_view(y[bm:, :], ((16, 32), (32, 1))))


@pytest.mark.parametrize("kernel", [gathered, scattered, parts, columns])
def test_offsets_of_64_bits_are_proved(kernel):
    solution = solved(kernel, wide=True)
    assert not prove(solution, lower(solution, hx.arch.arch("sm_80"))).left


def test_columns_are_gathered_one_by_one():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20, 12)).astype(np.float32)
    idx = rng.integers(-2, 14, 32).astype(np.int32)
    y = np.zeros((20, 32), np.float32)
    compiled = columns.compile("sm_80", verify=True)
    compiled.simulate(x, idx, y, compare=True)
    assert np.array_equal(y, taken(x.T, idx).T)


@hx.kernel(cache=False)
def experts(x: f16[m, 128], idx: i32[t], w: f16[n, 128], y: f16[t, n], *, STAGES: int = 2):
    """y[i] = x[idx[i]] w^T, the gathered rows in a pipeline's slots."""
    hx.attrs.cuda.grid_dim = hx.cdiv(t, 64), hx.cdiv(n, 64)
    bt, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    rows = hx.shared_tensor(i32, (64,))
    sx, sw = hx.shared_tensor(f16, (64, 64, STAGES)), hx.shared_tensor(f16, (64, 64, STAGES))
    pipe = hx.pipeline(STAGES)
    hx.copy(hx.global_view(idx[bt:], ((64,), (1,))), rows)
    hx.syncthreads()
    gx = hx.global_view(x, ((64, 64, 2), (rows, 1, 64)))
    gw = hx.global_view(w[bn:, :], ((64, 64, 2), (128, 1, 64)))
    with hx.warp_groups_producer():
        for i in range(2):
            with pipe.produce() as s:
                hx.copy(gx[:, :, i], sx[:, :, s])
                hx.copy(gw[:, :, i], sw[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for _ in range(2):
            with pipe.consume() as s:
                hx.gemm(rc, sx[:, :, s], sw[:, :, s])
        hx.copy(hx.cast(rc, f16), hx.global_view(y[bt:, bn:], ((64, 64), (n, 1))))


def test_a_producer_gathers_into_slots():
    rng = np.random.default_rng(4)
    x, w = (rng.integers(-2, 3, (r, 128)).astype(np.float16) for r in (20, 72))
    idx = rng.integers(0, 20, 100).astype(np.int32)
    y = np.zeros((100, 72), np.float16)
    compiled = experts.compile("sm_90", verify=True)
    report = compiled.simulate(x, idx, w, y, schedules=2)
    assert np.array_equal(y, x[idx].astype(np.float32) @ w.astype(np.float32).T)
    assert report.counters.instructions["tma.load"] and "cp.async.16" in compiled.explain()
    assert "the rows lie where another tile says" in compiled.explain(rejected=None)
    assert len(compiled.built.cubin) > 0


def test_numbers_that_are_not_there_yet_are_found():
    """Without the barrier, threads look numbers up that others may not have written."""

    @hx.kernel(cache=False)
    def hasty(x: f32[m, 32], y: f32[m, 32]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        r, rows = hx.register_tensor(i32, (64,)), hx.shared_tensor(i32, (64,))
        for (i,) in hx.elements(r):
            r[i] = 63 - i
        hx.copy(r, rows)
        held = hx.register_tensor(f32, (64, 32))
        hx.copy(hx.global_view(x, ((64, 32), (rows, 1))), held)
        hx.copy(held, hx.global_view(y, ((64, 32), (32, 1))))

    x = np.zeros((64, 32), np.float32)
    with pytest.raises(SimulationError, match="race"):
        hasty.compile("sm_80").simulate(x, np.zeros_like(x))


def test_a_row_that_two_threads_write_is_found():
    x, y = np.ones((24, 32), np.float32), np.zeros((8, 32), np.float32)
    x[1:] = 2
    with pytest.raises(SimulationError, match="race"):
        scattered.compile("sm_80", aligned=False).simulate(x, np.zeros(24, np.int32), y)


def solved(kernel, wide=False):
    request = Request(kernel.definition, {}, Promise(wide=wide), hx.arch.arch("sm_80"), "sm_80")
    return Compilation(request).solution


@pytest.mark.parametrize("kernel", [gathered, scattered, parts])
def test_a_wrong_row_is_refused_by_the_proof(kernel, monkeypatch):
    solution, along = solved(kernel), rows._along
    monkeypatch.setattr(rows, "_along", lambda modes, named: along(modes, 1))
    with pytest.raises(VerifyError, match="the lowering of copy"):
        prove(solution, lower(solution, hx.arch.arch("sm_80")))


def test_a_run_across_named_places_is_refused_by_the_proof(monkeypatch):
    """The synthesis that takes named columns for neighbours is caught."""
    from dataclasses import replace

    from hexcute_core.synthesis import options

    true = memory.describe_global

    def blind(program, facts, ref):
        tensors = tuple(
            replace(t, named=None) if getattr(t, "named", None) is not None else t
            for t in program.tensors
        )
        return true(replace(program, tensors=tensors), facts, ref)

    monkeypatch.setattr(options, "describe_global", blind)
    request = Request(
        columns.definition, {}, Promise((("n", 4),), frozenset("xy")), hx.arch.arch("sm_80"),
        "sm_80",
    )  # fmt: skip
    with pytest.raises(VerifyError, match="no aligned run of `x`"):
        check(Compilation(request).solution)
