"""Stamps -> the clock, written to global memory by one thread of each warp group.

Where they lie says `thread/stamps.py`. A stamp reads the multiprocessor's own clock, which takes a
few clocks and counts each one; the nanoseconds that all multiprocessors share, which go on in steps
of up to a microsecond, are read at both ends alone. A thread holds where its next stamp goes and
how many still fit. Those that write none have room for none, so that no stamp is a branch; those
that do not fit are counted.
"""

from __future__ import annotations

from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import data_type

from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.scope import Scope, integer
from hexcute_core.thread import Stamp, Stamps
from hexcute_core.thread.stamps import HEAD, NONE, STAMP, TRACK

# Where the track of this thread's warp group lies, and whether the thread writes it.
_TRACK = (
    "mov.u32 x, %%ctaid.x; mov.u32 y, %%ctaid.y; mov.u32 z, %%ctaid.z; "
    "mov.u32 nx, %%nctaid.x; mov.u32 ny, %%nctaid.y; mov.u32 t, %%tid.x; "
    "mad.lo.u32 y, z, ny, y; mad.lo.u32 x, y, nx, x; mad.wide.u32 e, x, 16, {table}; "
    "ld.global.u64 a, [e]; ld.global.u32 room, [e+8]; "
    f"and.b32 x, t, {TRACK - 1}; setp.eq.u32 p, x, 0; setp.ne.and.u64 p, a, 0, p; "
    f"div.u32 t, t, {TRACK}; mad.lo.u32 y, room, {STAMP}, {HEAD}; mad.wide.u32 a, t, y, a; "
)
_NAMES = ".reg .pred p; .reg .b32 x, y, z, nx, ny, t, room, c; .reg .b64 e, a, n; "
_NOW = "mov.u64 n, %%globaltimer; mov.u32 c, %%clock; "
_OPEN = Instruction(
    "hx_stamps_open",
    "{ " + _NAMES + _TRACK.format(table="%2") + _NOW + "mov.u32 x, %%smid; "
    "@p st.global.u64 [a], n; @p st.global.u32 [a+16], c; @p st.global.u32 [a+28], x; "
    f"add.u64 %0, a, {HEAD}; selp.b32 %1, room, 0, p; }}",
    ("uint64", "int32"),
    ("uint64",),
)
_STAMP = Instruction(
    "hx_stamp",
    "{ .reg .pred p; .reg .b32 c; setp.gt.s32 p, %1, 0; mov.u32 c, %%clock; "
    f"@p st.global.v2.b32 [%0], {{%2, c}}; @p add.u64 %0, %0, {STAMP}; add.s32 %1, %1, -1; "
    # A count that went round would write again.
    "max.s32 %1, %1, -1073741824; }",
    ("uint64", "int32"),
    ("uint32",),
    updated=True,
)
_CLOSE = Instruction(
    "hx_stamps_close",
    "{ " + _NAMES + _TRACK.format(table="%1") + _NOW + "sub.s32 x, room, %0; "
    "@p st.global.u64 [a+8], n; @p st.global.u32 [a+20], c; @p st.global.u32 [a+24], x; }",
    (),
    ("int32", "uint64"),
)


def opening(scope: Scope, stamps: Stamps) -> list[Any]:
    """Before the kernel's first statement: its track, and where the first stamp goes."""
    place, room = he.Var("stamp_place", data_type("uint64")), he.Var("stamps", data_type("int32"))
    scope.stamping = place, room
    table = scope.variable(stamps.param)
    started = scope.instruction(_OPEN, [place, room, table])
    return [hs.DeclareStmt(place), hs.DeclareStmt(room), hs.EvaluateStmt(started)]


def closing(scope: Scope, stamps: Stamps) -> list[Any]:
    """Behind its last: when it ended, and how many stamps came."""
    _, room = scope.stamping
    return [hs.EvaluateStmt(scope.instruction(_CLOSE, [room, scope.variable(stamps.param)]))]


def emit(scope: Scope, stmt: Stamp) -> Any:
    """One stamp."""
    number = integer(NONE if stmt.opens is None else stmt.opens, "uint32")
    return hs.EvaluateStmt(scope.instruction(_STAMP, [*scope.stamping, number]))
