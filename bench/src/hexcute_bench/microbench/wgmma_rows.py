"""wgmma: operands in shared memory in rows of 128 bytes, swizzled, so that no banks conflict."""

from __future__ import annotations

from hexcute_bench.microbench.probe import (
    MULTIPROCESSOR,
    TRUE,
    Probe,
    Row,
    i32,
    kept,
    program,
    zeroed,
)
from hexcute_core import dtypes as dt
from hexcute_core.dtypes import DType
from hexcute_core.thread import MatrixDesc, Prim, Regs, Stmt
from hexcute_core.thread.prims_sm90 import WGMMA_K

GROUP = 128
WIDTHS = (8, 32, 64, 128, 256)
TYPES: tuple[tuple[DType, DType], ...] = (
    (dt.f32, dt.f16), (dt.f16, dt.f16), (dt.f32, dt.bf16), (dt.f32, dt.tf32), (dt.f32, dt.f8e4m3),
    (dt.i32, dt.i8),
)  # fmt: skip
GROUPS, CALLS = 2, 16
A_BYTES, ROW_BYTES, GROUP_OF_ROWS, STEP_BYTES = 8192, 128, 1024, 32
TRIPS = (16, 32, 48, 64)


def _wgmma(d: DType, a: DType, n: int, a_in_registers: bool) -> Row:
    name = f"wgmma.64x{n}x{WGMMA_K[a.name]}.{d}.{a}.{a}"
    majors = "rk" if a_in_registers else "kk"
    count, word = n // 2, max(1, 32 // d.bits)
    c = Regs("c", i32(0), tuple(range(0, count, word)), word, d)
    held = 128 // a.bits
    per = max(1, 32 // a.bits)
    registers = Regs("a", i32(0), tuple(range(0, held, per)), per, a)

    def product(call: int) -> Stmt:
        step = call % 4 * STEP_BYTES
        b = MatrixDesc(i32(A_BYTES + step), 16, GROUP_OF_ROWS, 128)
        first = registers if a_in_registers else MatrixDesc(i32(step), 16, GROUP_OF_ROWS, 128)
        return Prim(f"{name}.{majors}", (c, first, b, TRUE))

    def made(what: str, threads: int, calls: int) -> Probe:
        loop = (
            Prim("wgmma.fence", ()), *(product(call) for call in range(calls)),
            Prim("wgmma.commit", ()), Prim("wgmma.wait", (i32(0),)),
        )  # fmt: skip
        before = (*zeroed("a", a, held), *zeroed("c", d, count))
        built = program(
            f"{name}.{majors} {what}", threads, loop, before=before,
            after=kept("c", d, min(count // word, 4)), shared=A_BYTES + n * ROW_BYTES,
        )  # fmt: skip
        if what == "issue":
            method = f"{GROUPS} warp groups, {CALLS} calls each a group of products"
            return Probe(built, GROUPS * CALLS, TRIPS, method)
        return Probe(built, 1, TRIPS, "one warp group, one call, fenced, committed, waited for")

    shown = f"{name}.r" if a_in_registers else name
    return Row(
        shown, MULTIPROCESSOR, made("issue", GROUPS * GROUP, CALLS), made("latency", GROUP, 1),
        capability=90,
    )  # fmt: skip


def rows() -> list[Row]:
    """Every type at some widths, A in shared memory; f16 with A in registers as well."""
    found = [_wgmma(d, a, n, False) for d, a in TYPES for n in WIDTHS]
    return [*found, *(_wgmma(dt.f32, dt.f16, n, True) for n in WIDTHS)]
