"""narrow(solution) = the copies of global memory that move fewer bytes at once than they could,
with what keeps them from it and what would widen them.

A thread moves neighbours in memory together, 16 bytes at most, as far as it is known that they
begin at a multiple of as many: the pointer, the row length, the strides and where the tile begins
each allow some number of elements, and the least of these is what a copy has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from hexcute_core.arch import product
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Scalar, is_const, mul, show
from hexcute_core.synthesis.memory import WIDEST, GlobalTile, describe_global, outer_strides
from hexcute_core.synthesis.solution import CopyPlan, Solution, subject
from hexcute_core.tile import Copy, GlobalTensor, GlobalView, TileProgram, TileRef
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.teams import by_team


@dataclass(frozen=True)
class Limit:
    """What allows so many `elements` at once, and what would allow more."""

    elements: int
    reason: str
    remedy: str


@dataclass(frozen=True)
class Narrow:
    """A copy that moves `bytes` at once for a thread, of `possible` ones."""

    span: SourceSpan
    text: str
    bytes: int
    possible: int
    reason: str
    remedy: str


def narrow(solution: Solution, facts: Facts) -> Iterator[Narrow]:
    """In the order of the program."""
    program = solution.program
    for op, team in by_team(program):
        if not isinstance(op, Copy) or op.id not in solution.copies or op.update is not None:
            continue
        plan = solution.copies[op.id]
        for ref in (op.src, op.dst):
            view = program.tensor(ref.tensor)
            if isinstance(view, GlobalView):
                found = _narrow(solution, facts, op, plan, ref, team.threads)
                if found is not None:
                    yield found


def _narrow(
    solution: Solution, facts: Facts, op: Copy, plan: CopyPlan, ref: TileRef, threads: int
) -> Narrow | None:
    program = solution.program
    view = program.tensor(ref.tensor)
    assert isinstance(view, GlobalView)
    bits, param = view.dtype.bits, program.param(view.param)
    memory = describe_global(program, facts, ref)
    possible = _possible(memory, param, ref, bits, threads)
    if plan.row.bytes >= possible:
        return None
    wanted = possible * 8 // bits
    limits = [limit for limit in _limits(program, facts, ref) if limit.elements < wanted]
    if limits:
        least = min(limit.elements for limit in limits)
        limits = [limit for limit in limits if limit.elements == least]
    else:
        limits = [_layout(solution, op, plan, wanted)]
    reasons, remedies = (
        tuple(dict.fromkeys(texts))
        for texts in ([x.reason for x in limits], [x.remedy for x in limits])
    )
    between = subject(op).removeprefix("copy ")
    why, remedy = ", and ".join(reasons), ", and ".join(remedies)
    return Narrow(op.span, between, plan.row.bytes, possible, why, remedy)


def _possible(
    memory: GlobalTile, param: GlobalTensor, ref: TileRef, bits: int, threads: int
) -> int:
    """The bytes that a thread could move at once, of the tile that there is: as many as lie side by
    side in it, of its share."""
    if param.unit is None:
        run = prod(ref.shape)
    elif memory.contiguous is not None:
        run = product(memory.modes[memory.contiguous][:1])
        run = min(run, ref.shape[memory.contiguous])
    else:
        run = product(memory.run)
    share = max(1, prod(ref.shape) // threads)
    found = min(run & -run, 1 << share.bit_length() - 1)
    return min(WIDEST, found * bits // 8)


def _limits(program: TileProgram, facts: Facts, ref: TileRef) -> Iterator[Limit]:
    """What each part of an address allows."""
    view = program.tensor(ref.tensor)
    assert isinstance(view, GlobalView)
    param = program.param(view.param)
    whole = WIDEST * 8 // view.dtype.bits
    if param.unit is None:
        yield Limit(
            1,
            f"no stride of `{param.name}` is declared as 1",
            f"a declaration of the dimension whose elements follow one another, as in "
            f"`{param.name}: {view.dtype}[{_declared(param)}]`",
        )
        return
    if param.name not in program.promise.aligned:
        begin = program.promise.begin(param.name)
        yield Limit(
            max(1, 8 * begin // view.dtype.bits),
            f"`{param.name}` is not known to begin at a multiple of {WIDEST} bytes"
            + (f" but of {begin}" if begin > 1 else ""),
            f"`{param.name}` at one",
        )
    rows = param.shape[param.unit]
    pairs = [(f"the row length {show(rows)}", rows)]
    pairs += [(f"the stride {show(s)} of dimension {d}", s) for d, s in outer_strides(param)]
    for what, e in pairs:
        found = facts.divisor(e)
        yield Limit(
            _power(found, whole),
            f"{what} of `{param.name}` {_known(e, found)}",
            f"padding to a multiple of {whole}"
            if isinstance(e, Const)
            else f"{show(e)} a multiple of {whole}",
        )
    for e in _begins(view, ref, param.unit):
        found = facts.divisor(e)
        yield Limit(
            _power(found, whole),
            f"the tile begins at {show(e)} in a row, which {_known(e, found)}",
            f"beginnings and steps that are multiples of {whole}"
            if isinstance(e, Const)
            else f"hx.multiple_of({show(e)}, {whole}) where that holds",
        )


def _begins(view: GlobalView, ref: TileRef, last: int) -> Iterator[Scalar]:
    """What the coordinate along dimension `last` where a thread begins is added up from."""
    yield view.origin[last]
    for m, subs in enumerate(view.modes):
        moving = [s for s in subs if s.dim == last and not is_const(s.step, 1)]
        if m != view.named:
            yield from (s.step for s in moving if not is_const(s.extent, 1))
        if subs and subs[0].dim == last and not is_const(ref.starts[m], 0):
            yield mul(ref.starts[m], subs[0].step)


def _power(divisor: int, whole: int) -> int:
    """The largest power of two that divides, `whole` of 0."""
    return min(divisor & -divisor, whole) if divisor else whole


def _known(e: Scalar, divisor: int) -> str:
    if isinstance(e, Const):
        return f"is a multiple of {divisor & -divisor}"
    if divisor == 1:
        return "may be any number"
    return f"is known as a multiple of {divisor}"


def _declared(param: GlobalTensor) -> str:
    pairs = [f"{show(e)}:{show(s)}" for e, s in zip(param.shape[:-1], param.strides)]
    return ", ".join([*pairs, f"{show(param.shape[-1])}:1"])


def _layout(solution: Solution, op: Copy, plan: CopyPlan, wanted: int) -> Limit:
    """Nothing is unknown: what operations share a layout does not allow more, or costs more."""
    said = [
        r.reason
        for r in solution.rejected
        if (r.subject, r.span) == (subject(op), op.span) and not r.reason.startswith("needs")
    ]
    return Limit(
        plan.row.bytes,
        said[0] if said else "the layouts that its other operations share cost less so",
        "hx.rearrange of the tile in front of the copy, or a copy by way of shared memory",
    )
