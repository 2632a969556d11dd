"""From a kernel in Python, or a table of another machine, to numbers."""

import numpy as np
import pytest
import tile_builder
import tile_runs

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core import thread as th
from hexcute_core.arch import Arch, Fragment, MmaRow, Mode, Timing, arch, register, registry
from hexcute_core.lowering import lower
from hexcute_core.runtime import bind
from hexcute_core.simulator import interpret, primitives, simulate
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.operands import regs_operand
from hexcute_core.synthesis import synthesize
from hexcute_core.synthesis.proof.check import check
from hexcute_core.thread import PRIMS, prims
from hexcute_core.thread.spec import Product

m, n, k = hx.dims("m n k")


# A machine that is none: one product of 24x8x12 by 32 threads, fragments in an order of their own,
# memory accesses of 4 and 8 bytes alone.
NAME = "mma.24x8x12.f32.f32.f32"
A = Fragment((24, 12), (Mode(4, 3, 1), Mode(8, 3, 0)), (Mode(3, 1, 1), Mode(3, 1, 0)))
B = Fragment((8, 12), (Mode(8, 1, 0), Mode(2, 6, 1), Mode(2, 3, 1)), (Mode(3, 1, 1),))
C = Fragment(
    (24, 8), (Mode(8, 1, 1), Mode(2, 12, 0), Mode(2, 6, 0)), (Mode(2, 3, 0), Mode(3, 1, 0))
)


def odd_table():
    rows = tuple(
        r for r in arch("sm_80").copies
        if r.bytes in (4, 8) and r.access == "vector" and not r.asynchronous
    )  # fmt: skip
    timing = Timing(5.0, 40.0, "made up")
    mma = MmaRow(NAME, (24, 8, 12), 32, f32, f32, f32, A, B, C, timing)
    return Arch("odd_1", (1, 0), 48 * 1024, 128, rows, (mma,))


def odd_mma(stmt, compiler):
    """c += a b^T on the fragments above, element by element."""
    c, a, b = (regs_operand(stmt, i) for i in range(3))
    site, name = compiler.site(stmt.span), stmt.name
    tables = [np.array(f.table()) for f in (C, A, B)]

    def run(machine):
        machine.site = site
        machine.count(name)
        lanes = machine.active()
        c_regs, a_regs, b_regs = (x.read(machine, lanes).copy() for x in (c, a, b))
        for warp in range(machine.warps):
            own = slice(32 * warp, 32 * warp + 32)
            left, right = np.zeros((24, 12), np.float32), np.zeros((8, 12), np.float32)
            left[tables[1][..., 0], tables[1][..., 1]] = a_regs[own]
            right[tables[2][..., 0], tables[2][..., 1]] = b_regs[own]
            product = left @ right.T
            c_regs[own] += product[tables[0][..., 0], tables[0][..., 1]]
        c.write(machine, c_regs)

    return run


PRODUCT = Product(24, 8, 12, f32, f32, f32)


@pytest.fixture
def odd_machine(monkeypatch):
    monkeypatch.setattr(registry, "_TABLES", dict(registry._TABLES))
    register(odd_table())
    monkeypatch.setitem(PRIMS, NAME, prims.PrimSpec(NAME, ("regs",) * 3, what=PRODUCT))
    instruction = Instruction(make=odd_mma)
    tables = (lambda name: instruction if name == NAME else None, *primitives.TABLES)
    monkeypatch.setattr(primitives, "TABLES", tables)
    return arch("odd_1")


def odd_gemm(rows, columns, depth, threads):
    b = tile_builder.TileBuilder(threads=threads)
    ga, gw, gc = (
        b.tile("a", f32, rows, depth),
        b.tile("w", f32, columns, depth),
        b.tile("c", f32, rows, columns),
    )
    sa = b.shared("sa", f32, rows, depth)
    ra, rw = b.register("ra", f32, rows, depth), b.register("rw", f32, columns, depth)
    rc = b.register("rc", f32, rows, columns)
    through = b.register("through", f32, rows, depth)
    b.copy(ga, through)
    b.copy(through, sa)
    b.sync()
    b.copy(sa, ra)
    b.copy(gw, rw)
    b.fill(rc, 0.0, f32)
    b.gemm(rc, ra, rw)
    b.copy(rc, gc)
    return b.program()


@pytest.mark.parametrize("rows, columns, depth, threads", [
    (24, 8, 12, 32), (48, 16, 24, 64), (72, 16, 36, 96), (96, 40, 12, 128), (24, 24, 24, 128),
])  # fmt: skip
def test_a_machine_of_another_table_needs_no_change_of_the_compiler(
    odd_machine, rows, columns, depth, threads
):
    for f in (A, B, C):
        assert f.covers() and f.threads == 32
    program = odd_gemm(rows, columns, depth, threads)
    solution = synthesize(program, odd_machine)
    check(solution)
    assert [p.row.name for p in solution.gemms.values()] == [NAME]
    thread = lower(solution, odd_machine)
    th.verify(thread)
    rng = np.random.default_rng(5)
    arrays = {
        "a": rng.integers(-4, 5, (rows, depth)).astype(np.float32),
        "w": rng.integers(-4, 5, (columns, depth)).astype(np.float32),
        "c": np.zeros((rows, columns), np.float32),
    }
    expected = {name: x.copy() for name, x in arrays.items()}
    simulate(thread, arrays, {})
    interpret(program, expected, {})
    np.testing.assert_array_equal(arrays["c"], arrays["a"] @ arrays["w"].T)
    np.testing.assert_array_equal(arrays["c"], expected["c"])


def test_a_fictional_table_leaves_the_others_alone():
    assert "odd_1" not in registry.names()


@hx.kernel(cache=False)
def matmul(a: f16[m, k], b: f16[n, k], c: f32[m, n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 32), hx.cdiv(n, 32)
    hx.attrs.cuda.block_dim = 64
    bm, bn = hx.blockIdx.x * 32, hx.blockIdx.y * 32
    ga = hx.global_view(a[bm:, :], ((32, 32, hx.cdiv(k, 32)), (k, 1, 32)))
    gb = hx.global_view(b[bn:, :], ((32, 32, hx.cdiv(k, 32)), (k, 1, 32)))
    sa, sb = hx.shared_tensor(f16, (32, 32)), hx.shared_tensor(f16, (32, 32))
    ra, rb = hx.register_tensor(f16, (32, 32)), hx.register_tensor(f16, (32, 32))
    rc = hx.register_tensor(f32, (32, 32))
    hx.fill(rc, 0.0)
    for i in range(hx.cdiv(k, 32)):
        hx.copy(ga[:, :, i], sa)
        hx.copy(gb[:, :, i], sb)
        hx.cp_async_commit()
        hx.cp_async_wait(0)
        hx.syncthreads()
        hx.copy(sa, ra)
        hx.copy(sb, rb)
        hx.gemm(rc, ra, rb)
        hx.syncthreads()
    hx.copy(rc, hx.global_view(c[bm:, bn:], ((32, 32), (n, 1))))


def run_matmul(depth, rows=40, columns=33):
    """Compiles for what the arguments are, runs, compares; the widest copy from global memory."""
    rng = np.random.default_rng(depth)
    a = rng.integers(-3, 4, (rows, depth)).astype(np.float16)
    b = rng.integers(-3, 4, (columns, depth)).astype(np.float16)
    c = np.full((rows, columns), np.nan, np.float32)
    bound = bind(matmul.signature, (a, b, c))
    compiled = matmul.specialise("sm_80", bound.key, {}, verify=True)
    report = compiled.simulate(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    loads = [x for x in report.counters.bytes if x.startswith(("cp.async.", "ld.global."))]
    return max(int(x.split(".")[-1]) for x in loads)


def test_a_dynamic_k_that_is_a_multiple_of_8_moves_16_bytes_and_others_what_divides_a_row():
    before = matmul.compilations
    assert [run_matmul(depth) for depth in (64, 8, 72, 256)] == [16] * 4
    assert matmul.compilations == before + 1
    assert [run_matmul(depth) for depth in (65, 7, 36, 100)] == [2, 2, 8, 8]
    # One more for rows of 8 bytes and one for odd ones, and none again for those of 16.
    assert matmul.compilations == before + 3
    run_matmul(128)
    assert matmul.compilations == before + 3


def test_transposing_through_shared_memory_is_exact():
    b = tile_builder.TileBuilder(threads=128)
    a, c = b.tile("a", f16, 128, 128), b.tile("c", f16, 128, 128, major=(1, 0))
    s, r = b.shared("s", f16, 128, 128), b.register("r", f16, 128, 128)
    b.copy(a, s)
    b.settle()
    b.copy(s, r)
    b.copy(r, c)
    found = tile_runs.run(b.program())
    names = [p.name for _, p in sorted(found.solution.copies.items())]
    assert names == ["cp.async.16", "ldmatrix.x4.trans", "st.global.16"]
    np.testing.assert_array_equal(found.outputs["c"], found.outputs["a"].T)
    waves = found.counters
    assert waves.wavefronts["ldmatrix.x4.trans"] * 128 == waves.bytes["ldmatrix.x4.trans"]
