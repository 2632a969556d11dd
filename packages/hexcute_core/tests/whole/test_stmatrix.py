"""stmatrix: chosen where a gemm's result goes to shared memory, proved, and run lane by lane."""

import numpy as np
import pytest
import tile_builder
import tile_runs

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.arch import arch
from hexcute_core.synthesis import alternatives
from hexcute_core.synthesis.copies import Rejection, register_copies

m, n, k = hx.dims("m n k")


@hx.device
def by_shared_memory(a, b, view, rows, columns):
    """view = a b^T of one block, the result by way of shared memory."""
    ra, rb = hx.register_tensor(f16, (rows, 64)), hx.register_tensor(f16, (columns, 64))
    rc = hx.register_tensor(f32, (rows, columns))
    hx.fill(rc, 0.0)
    hx.copy(hx.global_view(a, ((rows, 64), (k, 1))), ra)
    hx.copy(hx.global_view(b, ((columns, 64), (k, 1))), rb)
    hx.gemm(rc, ra, rb)
    sc, rd = hx.shared_tensor(f16, (rows, columns)), hx.register_tensor(f16, (rows, columns))
    hx.copy(hx.cast(rc, f16), sc)
    hx.syncthreads()
    hx.copy(sc, rd)
    hx.copy(rd, view)


@hx.kernel(cache=False)
def straight(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, BM: int = 64, BN: int = 64):
    hx.attrs.cuda.grid_dim, hx.attrs.cuda.block_dim = 1, 128
    by_shared_memory(a, b, hx.global_view(c, ((BM, BN), (n, 1))), BM, BN)


@hx.kernel(cache=False)
def turned(a: f16[m, k], b: f16[n, k], c: f16[n, m], *, BM: int = 64, BN: int = 64):
    hx.attrs.cuda.grid_dim, hx.attrs.cuda.block_dim = 1, 128
    by_shared_memory(a, b, hx.global_view(c, ((BM, BN), (1, m))), BM, BN)


@pytest.mark.parametrize("shape", [(64, 64), (64, 128), (128, 64), (64, 48)])
@pytest.mark.parametrize("kernel, suffix", [(straight, ""), (turned, ".trans")])
def test_a_result_goes_to_shared_memory_by_matrices(shape, kernel, suffix):
    rows, columns = shape
    compiled = kernel.compile("sm_90", BM=rows, BN=columns, verify=True)
    stores = [p.name for p in compiled.solution.copies.values() if p.name.startswith("stmatrix")]
    assert stores and stores[0] == stores[0].removesuffix(".trans") + suffix
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (x, 64)).astype(np.float16) for x in shape)
    c = np.full((columns, rows) if suffix else shape, 7, np.float16)
    report = compiled.simulate(a, b, c, schedules=2)
    assert not report.findings
    want = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(c.T if suffix else c, want.astype(np.float16))
    used = report.counters.instructions
    assert used[stores[0]] > 0 and not any(name.startswith("st.shared") for name in used)


def test_sm_80_has_none():
    compiled = straight.compile("sm_80", verify=True)
    names = {p.name for p in compiled.solution.copies.values()}
    assert not any(name.startswith("stmatrix") for name in names)


def test_only_registers_are_stored_as_matrices():
    """Between memories a row of a load is a row of a store: 16 contiguous bytes of one thread."""
    b = tile_builder.TileBuilder(threads=128)
    s, r = b.shared("s", f16, 64, 64), b.register("r", f16, 64, 64)
    b.copy(b.tile("a", f16, 64, 64), s)
    b.settle()
    b.copy(s, r)
    b.copy(r, b.tile("c", f16, 64, 64))
    solution = tile_runs.run(b.program(), target="sm_90").solution
    others = {name for _, name in alternatives(solution, arch("sm_90"))}
    staged = {name for name in others if " + " in name}
    assert staged == {f"ld.global.{n} + st.shared.{n}" for n in (2, 4, 8, 16)}


def test_lanes_that_repeat_others_store_no_matrix():
    """Each lane's registers are rows of their own: lanes that hold the same would write twice."""
    from hexcute_core.arch import Fragment, Mode

    repeated = Fragment(
        (8, 8), (Mode(4, 2, 1), Mode(4, 1, 0), Mode(2, 0, 0)), (Mode(2, 1, 1), Mode(2, 4, 0))
    )
    found = list(register_copies(arch("sm_90"), repeated, 16, None, load=False))
    matrices = [c for c in found if c.name.startswith("stmatrix")]
    assert matrices and all(isinstance(c, Rejection) for c in matrices)


@hx.kernel(cache=False)
def words(x: hx.i32[64, 8], y: f32[64, 8], z: hx.i32[64, 8], w: f32[64, 8]):
    """Whole rows a thread go to shared memory as matrices, whatever 32 bits they are."""
    hx.attrs.cuda.grid_dim, hx.attrs.cuda.block_dim = 1, 64
    for source, target in ((x, z), (y, w)):
        r = hx.register_tensor(source.dtype, (64, 8))
        hx.copy(hx.global_view(source, ((64, 8), (8, 1))), r)
        r = hx.rearrange(r, "(64,8):(1,64)")
        s, column = hx.shared_tensor(r.dtype, (64, 8)), hx.register_tensor(r.dtype, (64, 1))
        hx.copy(r, s)
        hx.syncthreads()
        for i in range(8):
            hx.copy(s[:, hx.ds(i, 1)], column)
            hx.copy(column, hx.global_view(target[:, i:], ((64, 1), (8, 1))))
        hx.syncthreads()


def test_matrices_of_32_bit_elements_are_stored_as_bits():
    compiled = words.compile("sm_90", verify=True)
    names = {p.name for p in compiled.solution.copies.values()}
    assert any(name.startswith("stmatrix") for name in names)
    assert "hx_stmatrix_x4_float32" in compiled.source()
    assert "F2I" not in compiled.sass(), "a float is not rounded to a word"
    x = np.arange(512, dtype=np.int32).reshape(64, 8)
    y = np.random.default_rng(0).normal(size=(64, 8))
    z, w = np.zeros_like(x), np.zeros((64, 8), np.float32)
    compiled.simulate(x, y.astype(np.float32), z, w)
    assert np.array_equal(z, x) and np.array_equal(w, y.astype(np.float32))
