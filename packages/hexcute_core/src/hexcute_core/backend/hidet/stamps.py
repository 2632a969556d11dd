"""Stamps -> the clock, written to global memory by one thread of each warp group, four words at a
time.

    a stamp = one instruction that reads the clock; a row of four words = a store and its predicate

Where rows lie says `thread/stamps.py`. The clock is the multiprocessor's own, which counts each of
its clocks; the nanoseconds that all multiprocessors share, which go on in steps of up to a
microsecond, are read at both ends alone. A thread holds where its next row goes and how many still
fit, and takes room for a run of stamps at once. Those that write none have room for none, so that
no stamp is a branch; rows that do not fit are counted.

A stamp holds what is written in front of it and behind it where it was written, which costs a
kernel more than its instructions do. So the kernel is there twice: blocks that are not told of run
it without stamps, and touch no memory for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import data_type

from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.scope import Scope, integer
from hexcute_core.thread import Stamp, Stamps
from hexcute_core.thread.stamps import HEAD, LEAST, NONE, ROW, TRACK, WORDS, rows, tracks

_SHIFT = TRACK.bit_length() - 1


@dataclass(frozen=True)
class Stamping:
    """The variables of a thread that stamps: where its next row goes, how many still fit, whether
    its block is told of, when it started, the words of even and odd rows that are being filled;
    and what the stamps are."""

    place: Any
    room: Any
    told: Any
    started: tuple[Any, Any]
    words: tuple[list[Any], list[Any]]
    stamps: Stamps


# Whether a block is told of is known without a look into memory, unless others lie between.
_OPEN = Instruction(
    "hx_stamps_open",
    "{ .reg .pred p, q; .reg .b32 x, y, z, nx, ny, t; .reg .b64 w; "
    "mov.u32 x, %%ctaid.x; mov.u32 y, %%ctaid.y; mov.u32 z, %%ctaid.z; "
    "mov.u32 nx, %%nctaid.x; mov.u32 ny, %%nctaid.y; mov.u32 t, %%tid.x; "
    "mad.lo.u32 y, z, ny, y; mad.lo.u32 x, y, nx, x; mov.b64 {y, z}, %7; "
    "sub.u32 x, x, y; setp.lt.u32 p, x, z; "
    "setp.ne.and.u64 q, %6, 0, p; mad.wide.u32 w, x, 4, %6; @q ld.global.u32 x, [w]; "
    f"setp.ne.and.u32 p, x, {NONE}, p; selp.b32 %2, 1, 0, p; "
    f"and.b32 z, t, {TRACK - 1}; setp.eq.and.u32 p, z, 0, p; shr.u32 t, t, {_SHIFT}; "
    "cvt.u32.u64 z, %8; mad.lo.u32 x, x, %9, t; "
    f"mad.lo.u32 y, z, {ROW}, {HEAD}; mad.wide.u32 w, x, y, %5; "
    "selp.b64 %0, w, 0, p; selp.b32 %1, z, 0, p; "
    "mov.u64 w, %%globaltimer; cvt.u32.u64 %3, w; mov.u32 %4, %%clock; }",
    ("uint64", "int32", "uint32", "uint32", "uint32"),
    ("uint64", "uint64", "uint64", "uint64", "uint32"),
)
# The address and the room change in step, so that they tell where a track's rows end: at 0 for who
# has none.
_CLOSE = Instruction(
    "hx_stamps_close",
    f"{{ .reg .pred p; .reg .b32 x, c, lo, hi; .reg .b64 n, h; mad.wide.s32 h, %1, {ROW}, %0; "
    f"setp.ne.u64 p, h, 0; setp.gt.and.s32 p, %1, {LEAST}, p; "
    "mov.u64 n, %%globaltimer; mov.u32 c, %%clock; mov.u32 x, %%smid; mov.b64 {lo, hi}, n; "
    "@p st.global.v4.b32 [h], {lo, hi, c, %1}; "
    "@p st.global.v4.b32 [h+16], {%2, %3, x, 0}; }",
    (),
    ("uint64", "int32", "uint32", "uint32"),
)
_CLOCK = Instruction("hx_stamp", "mov.u32 %0, %%clock;", ("uint32",))
_TAKE = Instruction(
    "hx_stamps_take",
    # A count that went round would write again.
    f"{{ .reg .b64 w; sub.s32 %1, %1, %2; max.s32 %1, %1, {LEAST}; "
    f"mul.wide.s32 w, %2, {ROW}; add.u64 %0, %0, w; }}",
    ("uint64", "int32"),
    ("int32",),
    updated=True,
)


def _row(words: int, left: int) -> Instruction:
    """Writes the first `words` words of a row that `left` rows of its run follow."""
    # Words that nobody reads may be whatever a register holds.
    listed = [f"%{2 + i}" for i in range(words)] + ["u"] * (WORDS - words)
    return Instruction(
        f"hx_stamps_row_{words}_{left}",
        "{ .reg .pred p; .reg .b32 u; setp.ge.s32 p, %1, 0; "
        f"@p st.global.v4.b32 [%0+{-ROW * (1 + left)}], {{{', '.join(listed)}}}; }}",
        (),
        ("uint64", "int32", *("uint32",) * words),
    )


def opening(scope: Scope, stamps: Stamps, threads: int) -> list[Any]:
    """Before the kernel's first statement: when the track starts, and where its rows lie."""
    place, room = he.Var("stamps_place", data_type("uint64")), he.Var("room", data_type("int32"))
    told, started, clock, *words = (
        he.Var(f"stamp_{name}", data_type("uint32"))
        for name in ("told", "started", "clock", *(f"word{i}" for i in range(2 * WORDS)))
    )
    both = words[:WORDS], words[WORDS:]
    scope.stamping = Stamping(place, room, told, (started, clock), both, stamps)
    given = [*map(scope.variable, stamps.params), integer(tracks(threads), "uint32")]
    opened = scope.instruction(_OPEN, [place, room, told, started, clock, *given])
    declared = map(hs.DeclareStmt, (place, room, told, started, clock, *words))
    return [*declared, hs.EvaluateStmt(opened)]


def twice(scope: Scope, body: Callable[[], Any]) -> list[Any]:
    """What `body` emits, with its stamps for blocks that are told of and without for the others."""
    held = scope.stamping
    with_stamps = hs.SeqStmt([*body().seq, *_closing(scope)])
    scope.stamping = None
    without = body()
    scope.stamping = held
    return [hs.IfStmt(he.not_equal(held.told, integer(0, "uint32")), with_stamps, without)]


def _closing(scope: Scope) -> list[Any]:
    """Behind its last: when it started and ended, and for how many rows there was room left."""
    held = scope.stamping
    given = [held.place, held.room, *held.started]
    return [hs.EvaluateStmt(scope.instruction(_CLOSE, given))]


def emit(scope: Scope, stmt: Stamp) -> list[Any]:
    """One stamp, and the rows that are due: a row is written when the next one has begun, whose
    registers are others then, so that no stamp waits for a store to have read its own."""
    held = scope.stamping
    if held is None:
        return []
    run = held.stamps.runs[stmt.run]
    row, word = divmod(1 + stmt.at, WORDS)
    last = stmt.at + 1 == len(run)
    out = [hs.EvaluateStmt(scope.instruction(_CLOCK, [held.words[row % 2][word]]))]
    if stmt.at == 0:
        taken = scope.instruction(_TAKE, [held.place, held.room, integer(rows(len(run)), "int32")])
        out.append(hs.EvaluateStmt(taken))
    if row and word == 0:
        out += _store(scope, stmt.run, row - 1, WORDS)
    if last:
        out += _store(scope, stmt.run, row, word + 1)
    return out


def _store(scope: Scope, run: int, row: int, count: int) -> list[Any]:
    """Writes the first `count` words of a row."""
    held = scope.stamping
    words = list(held.words[row % 2][:count])
    if row == 0:
        words[0] = integer(1 + run, "uint32")
    written = _row(count, rows(len(held.stamps.runs[run])) - row - 1)
    return [hs.EvaluateStmt(scope.instruction(written, [held.place, held.room, *words]))]
