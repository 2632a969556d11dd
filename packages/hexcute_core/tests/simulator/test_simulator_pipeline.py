"""A hand-written pipelined GEMM: right, fast to simulate, and every barrier and wait is needed."""

import dataclasses
import time

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.scalar import Const, Var, compare
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
    verify,
)

TX, ITER = Var("threadIdx.x"), Var("it")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
BK, STAGES = 32, 3
ROW = BK * 2 + 16  # bytes of a shared row, padded so that eight rows meet no bank twice


def number(value):
    return Const(value, dt.i32)


def at(line):
    return SourceSpan("pipeline.py", line)


def load_tile(name, rows, k, base, tile, stage, valid):
    """128 threads copy rows x BK of `name` by 16 bytes: four threads a row."""
    for i in range(rows // 32):
        row, chunk = TX // 4 + 32 * i, TX % 4
        place = SharedPtr(stage + row * ROW + (chunk * 16 + base))
        source = GlobalPtr(name, row * k + tile * BK + chunk * 8, dt.f16)
        yield Prim("cp.async.16", (place, source, valid), at(10))


def zeroed(array, size):
    return [
        DeclareArray(array, dt.f32, size),
        For(
            Var("z"), ZERO, number(size), ONE,
            (SetElement(array, Var("z"), Const(0.0, dt.f32)),),
            unroll=True,
        ),
    ]  # fmt: skip


def multiply_stage(m_tiles, n_tiles, stage, b_base):
    """Each of 2 x 2 warps multiplies its part of one stage."""
    lane, warp = TX % 32, TX // 32
    body = [DeclareArray("a", dt.f16, 8 * m_tiles), DeclareArray("b", dt.f16, 4 * n_tiles)]
    for kk in range(BK // 16):
        for i in range(m_tiles):
            row = (warp % 2) * (16 * m_tiles) + lane % 16 + 16 * i
            where = SharedPtr(stage + row * ROW + (lane // 16) * 16 + 32 * kk)
            pieces = tuple(8 * i + 2 * r for r in range(4))
            body.append(Prim("ldmatrix.x4", (Regs("a", ZERO, pieces, 2, dt.f16), where), at(20)))
        for j in range(n_tiles):
            row = (warp // 2) * (8 * n_tiles) + lane % 8 + 8 * j
            where = SharedPtr(stage + row * ROW + ((lane // 8) % 2) * 16 + (32 * kk + b_base))
            pieces = tuple(4 * j + 2 * r for r in range(2))
            body.append(Prim("ldmatrix.x2", (Regs("b", ZERO, pieces, 2, dt.f16), where), at(21)))
        for i in range(m_tiles):
            for j in range(n_tiles):
                operands = (
                    Regs("c", number(4 * (i * n_tiles + j)), (0, 1, 2, 3), 1, dt.f32),
                    Regs("a", number(8 * i), (0, 2, 4, 6), 2, dt.f16),
                    Regs("b", number(4 * j), (0, 2), 2, dt.f16),
                )
                body.append(Prim("mma.16x8x16.f32.f16.f16", operands, at(22)))
    return body


def pipelined_gemm(bm, bn, k):
    """c[bm, bn] = a[bm, k] b[bn, k]^T in one block of 128 threads, three stages of cp.async."""
    m_tiles, n_tiles = bm // 32, bn // 16
    size = (bm + bn) * ROW
    tiles = k // BK

    def load(tile, stage, valid):
        return [
            *load_tile("a", bm, k, 0, tile, stage, valid),
            *load_tile("b", bn, k, bm * ROW, tile, stage, valid),
            Prim("cp.async.commit", (), at(11)),
        ]

    ahead = ITER + (STAGES - 1)
    body = [*zeroed("c", 4 * m_tiles * n_tiles)]
    for stage in range(STAGES - 1):
        body += load(number(stage), number(stage * size), Const(stage < tiles, dt.boolean))
    loop = [
        Prim("cp.async.wait", (number(STAGES - 2),), at(30)),
        Prim("bar.sync", (), at(31)),
        *load(ahead, (ahead % STAGES) * size, compare("lt", ahead, tiles)),
        *multiply_stage(m_tiles, n_tiles, (ITER % STAGES) * size, bm * ROW),
    ]
    body.append(For(ITER, ZERO, number(tiles), ONE, tuple(loop)))
    lane, warp = TX % 32, TX // 32
    body.append(Assign(Var("row"), (warp % 2) * (16 * m_tiles) + lane // 4, True))
    body.append(Assign(Var("column"), (warp // 2) * (8 * n_tiles) + (lane % 4) * 2, True))
    for i in range(m_tiles):
        for j in range(n_tiles):
            for half in range(2):
                row, column = Var("row") + (16 * i + 8 * half), Var("column") + 8 * j
                part = Regs("c", ZERO, (4 * (i * n_tiles + j) + 2 * half,), 2, dt.f32)
                place = GlobalPtr("c", row * bn + column, dt.f32)
                body.append(Prim("st.global.8", (place, part, TRUE), at(40)))
    params = [
        ThreadParam(name, dtype, tuple(map(number, shape)), pointer=True, aligned=True)
        for name, dtype, shape in (
            ("a", dt.f16, (bm, k)),
            ("b", dt.f16, (bn, k)),
            ("c", dt.f32, (bm, bn)),
        )
    ]
    made = ThreadProgram(
        "pipeline", tuple(params), (ONE, ONE, ONE), 128, STAGES * size, tuple(body)
    )
    verify(made)
    return made


def run(program, bm, bn, k):
    rng = np.random.default_rng(5)
    a = rng.integers(-4, 5, (bm, k)).astype(np.float16)
    b = rng.integers(-4, 5, (bn, k)).astype(np.float16)
    c = np.full((bm, bn), np.nan, dtype=np.float32)
    report = simulate(program, {"a": a, "b": b, "c": c}, {})
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    return report


def test_a_128x128_block_is_right_and_quick():
    program = pipelined_gemm(128, 128, 256)
    start = time.process_time()
    report = run(program, 128, 128, 256)
    assert time.process_time() - start < 5
    counters = report.counters
    assert counters.instructions["mma.16x8x16.f32.f16.f16"] == 128 * 128 * 256 // (16 * 8 * 16)
    # Padded rows: no conflict, an ldmatrix.x4 is four phases of one wavefront.
    assert counters.wavefronts["ldmatrix.x4"] == 4 * counters.instructions["ldmatrix.x4"]
    assert counters.bytes["cp.async.16"] == 2 * 128 * 256 * 2
    assert counters.sectors["cp.async.16"] == 2 * 128 * 256 * 2 // 32


def without(program, name):
    """The program without each of its primitives `name`, one at a time."""

    def variants(stmts):
        for i, stmt in enumerate(stmts):
            if isinstance(stmt, Prim) and stmt.name == name:
                yield (*stmts[:i], *stmts[i + 1 :])
            elif isinstance(stmt, For):
                for body in variants(stmt.body):
                    yield (*stmts[:i], dataclasses.replace(stmt, body=body), *stmts[i + 1 :])

    for body in variants(program.body):
        yield dataclasses.replace(program, body=body)


@pytest.mark.parametrize("name", ["bar.sync", "cp.async.wait", "cp.async.commit"])
def test_deleting_any_barrier_wait_or_commit_is_reported(name):
    mutants = list(without(pipelined_gemm(32, 32, 256), name))
    assert len(mutants) == {"bar.sync": 1, "cp.async.wait": 1, "cp.async.commit": 3}[name]
    for mutant in mutants:
        with pytest.raises(SimulationError) as caught:
            run(mutant, 32, 32, 256)
        assert "pipeline.py:10" in str(caught.value) or "pipeline.py:2" in str(caught.value)


def test_the_whole_pipeline_is_clean():
    run(pipelined_gemm(32, 32, 256), 32, 32, 256)
