"""Element offset and bounds predicate in global memory, a buffer dimension at a time.

coordinate_d = origin_d + starts + thread digits + repetitions; the offset is
`sum coordinate_d * stride_d`, the predicate `coordinate_d < extent_d` for every d that is not
proved; it is never a comparison of linear offsets, so a tail cannot wrap into the next row.
"""

from __future__ import annotations

from collections.abc import Sequence

from hexcute_core import dtypes
from hexcute_core.arch import Mode
from hexcute_core.lowering.digits import digits, index_in
from hexcute_core.scalar import Const, Scalar, add, cast, compare, land, mul
from hexcute_core.scalar.visit import free_vars
from hexcute_core.synthesis.facts import Facts
from hexcute_core.synthesis.graph import Team
from hexcute_core.tile import GlobalTensor, GlobalView, SubMode, TileProgram, TileRef


class GlobalAddress:
    """Addresses of one copy's side in one global view."""

    def __init__(self, program: TileProgram, facts: Facts, ref: TileRef, team: Team) -> None:
        view = program.tensor(ref.tensor)
        assert isinstance(view, GlobalView)
        self.param: GlobalTensor = program.param(view.param)
        self._view, self._ref, self._facts = view, ref, facts
        self._wide = program.promise.wide
        self._team = team
        rank = len(self.param.shape)
        self._base: list[Scalar] = [*view.origin]
        for m, start in enumerate(ref.starts):
            for step, d in self._move(view.modes[m], start):
                self._base[d] = add(self._base[d], step)
        self._strides: list[Scalar] = [Const(1, dtypes.i32)] * rank
        for d in reversed(range(rank - 1)):
            self._strides[d] = mul(self._strides[d + 1], self.param.shape[d + 1])

    def _move(self, subs: tuple[SubMode, ...], index: Scalar) -> list[tuple[Scalar, int]]:
        """Coordinate moves of `index` along a mode, split over its sub-modes."""
        if isinstance(index, Const) and index.value == 0:
            return []
        if len(subs) == 1:
            return [(mul(index, subs[0].step), subs[0].dim)]
        sizes = [int(s.extent.value) for s in subs if isinstance(s.extent, Const)]
        whole = 1
        for size in sizes:
            whole *= size
        found = digits(index, sizes, whole)
        return [(mul(d, s.step), s.dim) for d, s in zip(found, subs)]

    def _spread(self, mode: Mode, index: Scalar) -> list[tuple[Scalar, int]]:
        """Coordinate moves of a digit of a tile mode."""
        if mode.step == 0:
            return []
        return self._move(self._view.modes[self._ref.kept[mode.dim]], mul(index, mode.step))

    def coordinates(
        self, thread: Sequence[Mode], reps: Sequence[tuple[Mode, Scalar]]
    ) -> tuple[list[Scalar], list[list[Scalar]]]:
        """(thread coordinate, repetition moves) along every buffer dimension."""
        own: list[Scalar] = [Const(0, dtypes.i32) for _ in self._base]
        found = digits(index_in(self._team), [m.size for m in thread], self._team.threads)
        for mode, digit in zip(thread, found):
            for step, d in self._spread(mode, digit):
                own[d] = add(own[d], step)
        moves: list[list[Scalar]] = [[] for _ in self._base]
        for mode, loop in reps:
            for step, d in self._spread(mode, loop):
                moves[d].append(step)
        return own, moves

    def corner(self, own: Sequence[Scalar]) -> list[Scalar]:
        """The tile's first coordinate along every buffer dimension, moved by `own`."""
        return [add(base, mine) for base, mine in zip(self._base, own)]

    def at(
        self, own: Sequence[Scalar], moves: Sequence[Sequence[Scalar]], bound: dict[str, int]
    ) -> tuple[Scalar, Scalar]:
        """(element offset, predicate) of a call; `bound` gives the loops' sizes."""
        offset: Scalar = Const(0, dtypes.i64 if self._wide else dtypes.i32)
        predicates: list[Scalar] = []
        repeated: list[Scalar] = []
        for d, extent in enumerate(self.param.shape):
            base = add(self._base[d], own[d])
            coordinate = add(base, *moves[d])
            stride = self._strides[d]
            if self._wide:
                offset = add(offset, mul(cast(coordinate, dtypes.i64), cast(stride, dtypes.i64)))
            else:
                offset = add(offset, mul(base, stride))
                repeated += [mul(move, stride) for move in moves[d]]
            if not self._inside(coordinate, extent, bound):
                predicates.append(compare("lt", coordinate, extent))
        return add(offset, *repeated), land(*predicates)

    def _inside(self, coordinate: Scalar, extent: Scalar, bound: dict[str, int]) -> bool:
        from hexcute_core.scalar.visit import substitute

        tops: dict[str, Scalar] = {
            name: Const(size - 1, dtypes.i32)
            for name, size in bound.items()
            if name in free_vars(coordinate)
        }
        upper = self._facts.upper(substitute(coordinate, tops))
        return upper is not None and isinstance(extent, Const) and upper < int(extent.value)
