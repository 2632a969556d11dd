"""Loads that blocks of a cluster share: which block loads which part of a tile, which blocks
receive it, and which are notified when a slot is free again.

A pipeline whose loads are shared along axes S (a set of axes a load) is emptied by the readers of
all blocks that write into a slot: for each S, every block of the group along S arrives at every
other. A block stays until its cluster has met at the end: others may still write into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context
from hexcute_core.scalar import Const, Scalar, Var, add, binary, mod, mul
from hexcute_core.synthesis.solution import Multicast, Solution
from hexcute_core.tile import Copy, Produce, Stmt, TileProgram

AXES = "xyz"


def groups_of(
    program: TileProgram, solution: Solution, slots: Sequence[Produce]
) -> tuple[tuple[int, ...], ...]:
    """The sets of axes along which blocks share loads into these slots."""
    copies: list[Stmt] = [c for s in slots for c in s.body if isinstance(c, Copy)]
    found = [solution.multicasts.get(c.id) for c in copies if isinstance(c, Copy)]
    return tuple(dict.fromkeys(m.axes for m in found if m is not None))


def members(program: TileProgram, axes: tuple[int, ...]) -> tuple[Scalar, ...]:
    """Ranks of the blocks of this block's group along `axes`."""
    return tuple(_rank(program, axes, at) for at in _places(program, axes))


def index_in_group(program: TileProgram, axes: tuple[int, ...]) -> Scalar:
    """This block's number in its group, in the order of `members`."""
    number: Scalar = Const(0, i32)
    for axis in axes:
        extent = program.cluster_dim[axis]
        number = add(mul(number, extent), _own(program, axis))
    return number


def mask(program: TileProgram, axes: tuple[int, ...]) -> Scalar:
    """One bit per block of the group, by rank."""
    strides = _strides(program)
    bits = sum(1 << sum(p * strides[a] for p, a in zip(at, axes)) for at in _places(program, axes))
    base = _rank(program, axes, (0,) * len(axes))
    return binary("shl", Const(bits, i32), base)


def part_of(ctx: Context, shared: Multicast) -> Scalar:
    """Which part of every box this block loads."""
    return ctx.once(index_in_group(ctx.program, shared.axes))


def _places(program: TileProgram, axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(program.cluster_dim[axis]) for axis in axes)))


def _strides(program: TileProgram) -> tuple[int, int, int]:
    x, y, _ = program.cluster_dim
    return 1, x, x * y


def _own(program: TileProgram, axis: int) -> Scalar:
    return mod(Var(f"blockIdx.{AXES[axis]}", i32), program.cluster_dim[axis])


def _rank(program: TileProgram, axes: tuple[int, ...], at: tuple[int, ...]) -> Scalar:
    """The rank of the block at `at` along `axes`, at this block's own place along the others."""
    known = dict(zip(axes, at))
    rank: Scalar = Const(0, i32)
    for axis, stride in enumerate(_strides(program)):
        place = known.get(axis)
        if place is not None:
            rank = add(rank, place * stride)
        elif program.cluster_dim[axis] > 1:
            rank = add(rank, mul(_own(program, axis), stride))
    return rank
