"""Arithmetic: mma.sync, multiply-adds, special functions, shuffles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hexcute_bench.microbench.probe import (
    LANE,
    MULTIPROCESSOR,
    SUBCORE,
    THREAD,
    WARP,
    Probe,
    Row,
    element,
    i32,
    kept,
    program,
    zeroed,
)
from hexcute_core import dtypes as dt
from hexcute_core.arch import MmaRow, arch
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Call, Scalar, Unary, add, cast, mul
from hexcute_core.thread import Prim, Regs, SetElement, Stmt

Step: TypeAlias = Callable[[Scalar], Scalar]
UNITS = 4
"""Quarters of a multiprocessor, a warp scheduler and a Tensor Core each."""
WARPS, CALLS, CHAIN = 16, 8, 8
TRIPS = (64, 128, 192, 256)


def _method(warps: int) -> str:
    return f"{warps} warps, {CALLS} independent calls each a trip"


CHAINED = f"one warp, {CHAIN} calls a trip, each on the result of the last one"


def _registers(array: str, dtype: DType, first: int, count: int) -> Regs:
    per = max(1, 32 // dtype.bits)
    return Regs(array, i32(0), tuple(range(first, first + count, per)), per, dtype)


def _mma(row: MmaRow) -> Row:
    m, n, k = row.tile
    sizes = (m * n // WARP, m * k // WARP, n * k // WARP)
    a = _registers("a", row.a_dtype, 0, sizes[1])
    b = _registers("b", row.b_dtype, 0, sizes[2])
    operands = (*zeroed("a", row.a_dtype, sizes[1]), *zeroed("b", row.b_dtype, sizes[2]))

    def calls(accumulators: int, times: int) -> tuple[Stmt, ...]:
        one = tuple(
            Prim(row.name, (_registers("c", row.c_dtype, sizes[0] * i, sizes[0]), a, b))
            for i in range(accumulators)
        )
        return one * times

    def made(what: str, threads: int, accumulators: int, times: int) -> Probe:
        per = max(1, 32 // row.c_dtype.bits)
        built = program(
            f"{row.name} {what}", threads, calls(accumulators, times),
            before=(*operands, *zeroed("c", row.c_dtype, accumulators * sizes[0])),
            after=kept("c", row.c_dtype, accumulators * sizes[0] // per),
        )  # fmt: skip
        return (
            Probe(built, WARPS // 2 * CALLS / UNITS, TRIPS, _method(WARPS // 2))
            if what == "issue"
            else Probe(built, CHAIN, TRIPS, CHAINED)
        )

    return Row(
        row.name, SUBCORE, made("issue", WARPS // 2 * WARP, CALLS, 1),
        made("latency", WARP, 1, CHAIN),
    )  # fmt: skip


def _scalar(name: str, unit: str, dtype: DType, step: Step, units: int) -> Row:
    """`step(value)` gives the next value of a chain; full load has `CALLS` chains per thread."""

    def body(chains: int, times: int) -> tuple[Stmt, ...]:
        one = tuple(
            SetElement("r", i32(i), step(element("r", i, dtype))) for i in range(chains)
        )
        return one * times

    def before(chains: int) -> tuple[Stmt, ...]:
        values = tuple(SetElement("r", i32(i), cast(LANE + i, dtype)) for i in range(chains))
        return (*zeroed("r", dtype, chains), *values)

    full = program(
        f"{name} issue", WARPS * WARP, body(CALLS, 1), before=before(CALLS),
        after=kept("r", dtype, CALLS),
    )  # fmt: skip
    chain = program(
        f"{name} latency", WARP, body(1, CHAIN), before=before(1), after=kept("r", dtype)
    )
    return Row(
        name, unit, Probe(full, WARPS * CALLS / units, TRIPS, _method(WARPS)),
        Probe(chain, CHAIN, TRIPS, CHAINED),
    )  # fmt: skip


def rows() -> list[Row]:
    """All of them."""
    table = arch("sm_80").mmas
    found = [_mma(row) for row in table if row.threads == WARP]

    def fma(dtype: DType) -> Step:
        return lambda value: add(mul(value, cast(THREAD, dtype)), value)

    def shuffled(value: Scalar) -> Scalar:
        return Call("shfl.xor", (value, i32(1)), dt.u32)

    def exp2(value: Scalar) -> Scalar:
        return Unary("exp2", value, dt.f32)

    return [
        *found,
        *(_scalar(r.name, SUBCORE, r.c_dtype, fma(r.c_dtype), UNITS)
          for r in table if r.threads == 1),
        _scalar("exp2", MULTIPROCESSOR, dt.f32, exp2, 1),
        _scalar("shfl.xor", MULTIPROCESSOR, dt.u32, shuffled, 1),
    ]  # fmt: skip
