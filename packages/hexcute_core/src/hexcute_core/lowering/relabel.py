"""relabel: the bits of a thread's registers, under other names.

Elements of one width are the same elements elsewhere: each is given its name. Where widths differ,
`mov.B` moves B bytes of registers of one type to registers of another, as many at a time as lie
side by side in both, at least an element of the wider.
"""

from __future__ import annotations

from math import gcd

from hexcute_core import thread as th
from hexcute_core.arch.registers import Digit, register_map
from hexcute_core.arch.relabel import flat
from hexcute_core.lowering.context import Context, nest
from hexcute_core.scalar import Scalar, add, mul
from hexcute_core.tile import Relabel, TileRef

WORD = 32
BYTE = 8


def lower_relabel(ctx: Context, op: Relabel) -> tuple[th.Stmt, ...]:
    """dst = the bits of src."""
    unit, natural = min(op.bits), tuple(range(len(op.dst.shape)))
    target = flat(ctx.fragment(op.dst), natural, op.bits[1], unit)
    source = flat(ctx.fragment(op.src), op.order, op.bits[0], unit)
    wider_first = op.bits[1] >= op.bits[0]
    one, other = (target, source) if wider_first else (source, target)
    digits = None if one is None or other is None else register_map(one, other)
    if digits is None:
        raise TypeError(f"{op.src.tensor} does not hold the bits of {op.dst.tensor}")
    if ctx.dtype(op.dst) == ctx.dtype(op.src):
        return _renamed(ctx, op, digits)
    run, rest = _together(digits, unit, max(BYTE, *op.bits))
    sizes = [digit.size for digit in rest]
    loops = ctx.loops(sizes)
    wide, narrow = (op.dst, op.src) if wider_first else (op.src, op.dst)
    per, count = max(op.bits) // unit, 1
    for digit in run:
        count *= digit.size
    offsets = [0]
    for digit in run:
        offsets = [o + d * digit.second for d in range(digit.size) for o in offsets]
    whole = _regs(ctx, wide, [d.first // per for d in rest], loops, list(range(count // per)))
    parts = _regs(ctx, narrow, [d.second for d in rest], loops, offsets)
    operands = (whole, parts) if wider_first else (parts, whole)
    move = th.Prim(f"mov.{count * unit // BYTE}", operands, op.span)
    return nest(loops, sizes, (move,))


def _renamed(ctx: Context, op: Relabel, digits: tuple[Digit, ...]) -> tuple[th.Stmt, ...]:
    """Elements of one type: `first` is their order in dst."""
    sizes = [digit.size for digit in digits]
    loops = ctx.loops(sizes)
    to, of = (add(*(mul(x, d[side]) for x, d in zip(loops, digits))) for side in (1, 2))
    return nest(loops, sizes, (ctx.assign(op.dst, to, ctx.element(op.src, of), op.span),))


def _together(digits: tuple[Digit, ...], unit: int, least: int) -> tuple[list[Digit], list[Digit]]:
    """The digits of one move, and those of its repetitions: at least `least` bits, and more of a
    word where they follow one another in both."""
    run: list[Digit] = []
    rest: list[Digit] = []
    count = 1
    for size, first, second in digits:
        want = max(1, least // (count * unit))
        if want == 1 and not rest and first == second == count:
            want = max(1, WORD // (count * unit))
        take = gcd(size, want) if not rest else 1
        if take > 1:
            run.append(Digit(take, first, second))
            count *= take
        if size > take:
            rest.append(Digit(size // take, first * take, second * take))
    return run, rest


def _regs(
    ctx: Context, ref: TileRef, strides: list[int], loops: list[Scalar], offsets: list[int]
) -> th.Regs:
    base = ctx.register_base(ref)
    place = add(base, *(mul(loop, stride) for loop, stride in zip(loops, strides)))
    side_by_side = offsets == list(range(len(offsets)))
    pieces, width = ((0,), len(offsets)) if side_by_side else (tuple(offsets), 1)
    return th.Regs(ref.tensor, place, pieces, width, ctx.dtype(ref))
