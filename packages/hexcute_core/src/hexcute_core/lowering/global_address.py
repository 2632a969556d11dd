"""Element offset and bounds predicate in global memory, a buffer dimension at a time.

coordinate_d = origin_d + starts + thread digits + repetitions; the offset is
`sum coordinate_d * stride_d`, the predicate `0 <= coordinate_d < extent_d` for every d that is not
proved; it is never a comparison of linear offsets, so a tail cannot wrap into the next row, nor
what lies before a row into the one before.

Along a mode whose places are named, what is added is the number that was looked up for this call.

A mode with sub-modes splits an index into digits. Where those of the start, of the thread and of
the repetitions never carry into one another, each is split on its own; else their sum is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from hexcute_core import dtypes
from hexcute_core.arch import Mode
from hexcute_core.lowering.digits import digits, index_in
from hexcute_core.scalar import Const, Scalar, Var, add, cast, compare, floordiv, land, mod, mul
from hexcute_core.tile import GlobalTensor, GlobalView, SubMode, TileProgram, TileRef
from hexcute_core.tile.facts import Bounds, Facts
from hexcute_core.tile.teams import Team

Moves = list[tuple[Scalar, int]]
"""Steps, each along a dimension of the buffer."""


class GlobalAddress:
    """Addresses of one copy's side in one global view: digits `thread` of the thread's number in
    its team, and repetitions `reps`, each with the scalar that is its digit; `once` is given what
    depends on the thread alone; `looked_up` is where the view's named mode has this call."""

    def __init__(
        self,
        program: TileProgram,
        facts: Facts,
        ref: TileRef,
        team: Team,
        thread: Sequence[Mode],
        reps: Sequence[tuple[Mode, Scalar]],
        once: Callable[[Scalar], Scalar],
        looked_up: Scalar | None = None,
    ) -> None:
        view = program.tensor(ref.tensor)
        assert isinstance(view, GlobalView)
        self.param: GlobalTensor = program.param(view.param)
        self._facts, self._wide = facts, program.promise.wide
        self._loops = {v.name: Bounds(0, m.size - 1) for m, v in reps if isinstance(v, Var)}
        rank = len(self.param.shape)
        base: list[Scalar] = [*view.origin]
        own: list[Scalar] = [Const(0, dtypes.i32)] * rank
        # What depends on the repetitions, by dimension of the buffer.
        self._moves: list[list[Scalar]] = [[] for _ in range(rank)]
        found = digits(index_in(team), [m.size for m in thread], team.threads)
        for m, (subs, start) in enumerate(zip(view.modes, ref.starts)):
            if m == view.named:
                assert looked_up is not None
                self._moves[subs[0].dim].append(looked_up)
                continue
            mine, again = (
                [(mode, d) for mode, d in pairs if mode.step and ref.kept[mode.dim] == m]
                for pairs in (tuple(zip(thread, found)), reps)
            )
            if self._carries(subs, start, [mode for mode, _ in (*mine, *again)]):
                index = add(start, *(mul(digit, mode.step) for mode, digit in (*mine, *again)))
                for step, d in _split(subs, index):
                    self._moves[d].append(step)
                continue
            for step, d in _split(subs, start):
                base[d] = add(base[d], step)
            for mode, digit in mine:
                for step, d in _split(subs, mul(digit, mode.step)):
                    own[d] = add(own[d], step)
            for mode, digit in again:
                for step, d in _split(subs, mul(digit, mode.step)):
                    self._moves[d].append(step)
        self._base = [add(b, once(mine)) for b, mine in zip(base, own)]
        # The same for the facts, which know nothing of what is computed at the kernel's start.
        self._plain = [add(b, mine) for b, mine in zip(base, own)]
        # The product of two extents may need 64 bits as well.
        self._index = dtypes.i64 if self._wide else dtypes.i32
        self._strides: list[Scalar] = [Const(1, self._index)] * rank
        for d in reversed(range(rank - 1)):
            extent = self.param.shape[d + 1]
            self._strides[d] = mul(self._strides[d + 1], cast(extent, self._index))
        if self.param.strides:
            self._strides = [cast(stride, self._index) for stride in self.param.strides]

    def _carries(self, subs: Sequence[SubMode], start: Scalar, modes: Sequence[Mode]) -> bool:
        """Whether the digits of start and `modes`, split over `subs` apart, may need a carry."""
        boundary = 1
        for sub in subs[:-1]:
            if not modes or not isinstance(sub.extent, Const):
                return False
            boundary *= int(sub.extent.value)
            if isinstance(start, Const):
                reached = int(start.value) % boundary
            else:
                reached = boundary - gcd(self._facts.divisor(start), boundary)
            for mode in modes:
                reached += max(i * mode.step % boundary for i in range(mode.size))
            if reached >= boundary:
                return True
        return False

    def corner(self) -> tuple[Scalar, ...]:
        """The first coordinate along every buffer dimension."""
        return tuple(add(base, *moves) for base, moves in zip(self._base, self._moves))

    def at(self) -> tuple[Scalar, Scalar]:
        """(element offset, predicate) of a call."""
        offset: Scalar = Const(0, self._index)
        predicates: list[Scalar] = []
        repeated: list[Scalar] = []
        for d, (coordinate, extent) in enumerate(zip(self.corner(), self.param.shape)):
            stride = self._strides[d]
            if self._wide:
                offset = add(offset, mul(cast(coordinate, self._index), stride))
            else:
                offset = add(offset, mul(self._base[d], stride))
                repeated += [mul(move, stride) for move in self._moves[d]]
            known = self._facts.bounds(add(self._plain[d], *self._moves[d]), self._loops)
            predicates.append(_inside(coordinate, extent, known))
        return add(offset, *repeated), land(*predicates)


def _inside(coordinate: Scalar, extent: Scalar, known: Bounds) -> Scalar:
    """Whether 0 <= coordinate < extent, as far as what is `known` leaves it open."""
    before = known.low is None or known.low < 0
    past = known.high is None or not isinstance(extent, Const) or known.high >= int(extent.value)
    if before and past:
        # As a natural number, what lies before the tensor lies far beyond it.
        wide = dtypes.u64 if 64 in (coordinate.dtype.bits, extent.dtype.bits) else dtypes.u32
        return compare("lt", cast(coordinate, wide), cast(extent, wide))
    if past:
        return compare("lt", coordinate, extent)
    return compare("ge", coordinate, 0) if before else Const(True, dtypes.boolean)


def _split(subs: Sequence[SubMode], index: Scalar) -> Moves:
    """The steps that `index` of a mode makes along the buffer: its digits over `subs`, the last one
    without an end."""
    if isinstance(index, Const) and index.value == 0:
        return []
    out: Moves = []
    below: Scalar = Const(1, dtypes.i32)
    for i, sub in enumerate(subs):
        digit = floordiv(index, below)
        if i < len(subs) - 1:
            digit = mod(digit, sub.extent)
            below = mul(below, sub.extent)
        out.append((mul(digit, sub.step), sub.dim))
    return out
