"""prove(solution, thread program): a copy's calls touch what its view and its layouts say.

Of a copy of threads, the set of (thread, register, element of global memory, byte of shared memory)
is worked out twice: from the lowered expressions, and from the meaning of the tile: the thread's
tile coordinate, its digits over the view's sub-modes, the tensor's strides and extents, the shared
layout's function table. They must be one set, for every thread and call, at several values of what
is known at run time alone, drawn within what the compiler takes to be known of it.

Where a tile of numbers names rows, the numbers are drawn as well, inside their dimension and beside
it, and which of them a call looks up follows from its addresses in shared memory.

A shared tensor may begin anywhere in the arena, at one place for all its copies. What is not
covered is listed in the result: boxes of TMA, descriptors of wgmma, the cells in which reductions
and scans meet, the registers that an update compares with and gives back, and copies for which no
values were found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import TypeAlias

import numpy as np

from hexcute_core.driver.accesses import (
    BLOCK,
    GLOBAL,
    REGISTER,
    SHARED,
    THREAD,
    Accesses,
    Rows,
    Site,
    Touched,
)
from hexcute_core.driver.lookups import Numbers, found_at, named_side, numbers_at
from hexcute_core.driver.places import Unsuited, places
from hexcute_core.errors import SimulationError, VerifyError
from hexcute_core.scalar import Scalar, Var
from hexcute_core.scalar.visit import walk
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import Value, storage
from hexcute_core.synthesis.proof.tables import Table, calls, digits, inside, offsets
from hexcute_core.synthesis.solution import Solution, subject
from hexcute_core.thread import ThreadProgram
from hexcute_core.tile import (
    Copy,
    GlobalView,
    Reduce,
    RegisterTensor,
    Scan,
    SharedTensor,
    TileRef,
)
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.teams import Team, by_team

Row: TypeAlias = tuple[int, ...]
SAMPLES, TRIES = 6, 64
"""Values of the variables at which a copy is proved, and how many are drawn to find so many."""
SMALL, EXTENTS, LARGE = (1, 3, 30), (3, 60, 1000), 1 << 16
"""How far variables and extents reach beyond the least; extents whose products need 64 bits."""


@dataclass(frozen=True)
class AddressProof:
    """The copies that were proved, by id, and what was not, each with the reason."""

    proved: tuple[int, ...]
    left: tuple[tuple[TileOp, str], ...]

    def __str__(self) -> str:
        lines = [f"addresses of {len(self.proved)} copies proved"]
        lines += [
            f"not covered: {subject(op)}, line {op.span.line}: {why}" for op, why in self.left
        ]
        return "\n".join(lines)


def prove(solution: Solution, lowered: ThreadProgram) -> AddressProof:
    """What of `lowered` is proved; VerifyError, located, at the first copy that touches another
    element than `solution` says."""
    found, proved, left = _Prover(solution, lowered), [], []
    for op, team in by_team(solution.program):
        if isinstance(op, TileOp):
            if isinstance(op, Copy) and op.id in solution.copies:
                why = found.copy(op, team)
                if why is None:
                    proved.append(op.id)
                    why = _beside(op)
            else:
                why = _apart(solution, op)
            if why is not None:
                left.append((op, why))
    return AddressProof(tuple(proved), tuple(left))


def _beside(op: Copy) -> str | None:
    """Which registers of a proved copy are not covered."""
    if op.update is None or (op.update.old is None and op.update.compare is None):
        return None
    return "the registers that it compares with and gives back"


def _apart(solution: Solution, op: TileOp) -> str | None:
    """Why the memory that `op` touches is not covered; None where it touches none."""
    if op.id in solution.bulk:
        return "the boxes of TMA"
    if op.id in solution.wgmmas:
        return "the descriptors of wgmma"
    if isinstance(op, (Reduce, Scan)):
        return "the cells of shared memory in which threads meet"
    return None


class _Prover:
    def __init__(self, solution: Solution, lowered: ThreadProgram) -> None:
        self._solution, self._program = solution, solution.program
        self._room = lowered.shared_bytes
        self._accesses = Accesses(self._program, lowered)
        self._facts = Facts(self._program)
        self._tables: dict[str, Table] = {}
        self._bases: dict[str, int] = {}

    def copy(self, op: Copy, team: Team) -> str | None:
        """Proves one copy; gives the reason where it cannot."""
        sites = self._accesses.sites.get(op.id, [])
        if not sites:
            raise VerifyError(f"nothing was lowered of {subject(op)}", op.span)
        if any(v.name.startswith("threadIdx") for v in self._variables(op)):
            return "every thread begins where its own number says"
        side = named_side(self._program, op)
        if side is not None and side[2].tensor not in self._bases:
            return f"no copy before it shows where `{side[2].tensor}` lies"
        for site in sites:
            self._operands(site, op)
            free = {v.name: v for v in (*self._accesses.free(site), *self._variables(op))}
            random, done, why = Random(op.id), 0, "no values of its variables were found"
            for attempt in range(TRIES if free else 1):
                names = {v.name: self._drawn(v, random, attempt) for v in free.values()}
                try:
                    rows = self._numbers(op, names, random)
                    wanted, beyond = self._meant(op, team, names, rows)
                    touched = self._accesses.touched(
                        site, names, team, self._array(op), self._found(op, rows)
                    )
                except (Unsuited, SimulationError) as error:
                    why = str(error) if isinstance(error, SimulationError) else why
                    continue
                self._compare(op, touched, wanted, beyond)
                # Where nothing is in bounds, little is seen.
                done += len(wanted.moved) > 0
                if done == SAMPLES:
                    break
            if not done:
                return why
        return None

    def _operands(self, site: Site, op: Copy) -> None:
        """The tensors and the registers of a call must be the copy's."""
        plan, program = self._solution.copies[op.id], self._program
        views = [program.tensor(ref.tensor) for ref in (op.src, op.dst)]
        params = {v.param for v in views if isinstance(v, GlobalView)}
        if site.params != params:
            raise VerifyError(f"{subject(op)} touches {site.params}, not {params}", op.span)
        own = [regs for regs in site.arrays if regs.array == self._array(op)]
        # Between memories it is through registers of its own that elements go, and an update has
        # such for what it compares with and for what it finds.
        spare = 1 if op.update is None or op.update.compare is None else 2
        through = {regs for regs in site.arrays if regs.array != self._array(op)}
        planned = (plan.pieces, plan.width)
        if any((regs.pieces, regs.width) != planned for regs in own) or len(through) > spare:
            raise VerifyError(f"{subject(op)} moves other registers than planned", op.span)

    def _array(self, op: Copy) -> str:
        names = [ref.tensor for ref in (op.src, op.dst)]
        return next((n for n in names if isinstance(self._program.tensor(n), RegisterTensor)), "")

    def _variables(self, op: Copy) -> Iterator[Var]:
        """The variables of what a copy's tiles mean."""
        scalars: list[Scalar] = []
        for ref in (op.src, op.dst):
            scalars += [*ref.starts, *([] if ref.rank is None else [ref.rank])]
            scalars += [] if ref.rows is None else ref.rows.starts
            view = self._program.tensor(ref.tensor)
            if isinstance(view, GlobalView):
                param = self._program.param(view.param)
                scalars += [*view.origin, *param.shape, *param.strides]
                scalars += [e for mode in view.modes for s in mode for e in (s.extent, s.step)]
        for e in scalars:
            yield from (node for node in walk(e) if isinstance(node, Var))

    def _drawn(self, var: Var, random: Random, attempt: int) -> Value:
        """A value of a variable, among those that the compiler takes to be possible: the least in
        the first attempt, then small ones; where offsets have 64 bits, at times such as need them.
        """
        if not var.dtype.is_integer:
            return np.asarray(random.randint(0, 1), storage(var.dtype))[()]
        step = self._facts.divisor(var)
        low, high = self._facts.bounds(var)
        if step == 0:
            return 0
        least = low if low is not None else random.choice((0, 0, 0, -2 * step)) if attempt else 0
        first = -(-min(least, least if high is None else high) // step)
        reach = random.choice(SMALL) if attempt else 0
        large = self._program.promise.wide and random.randint(0, 3) > 0
        if var.name in self._program.symbols:
            first = max(first, LARGE // step if large else 1)
            reach = first if large else random.choice(EXTENTS) if attempt else 0
        elif large:
            reach = random.choice((*SMALL, 512))
        last = first + reach if high is None else min(first + reach, high // step)
        return random.randint(first, max(first, last)) * step

    def _number(self, e: Scalar, names: dict[str, Value]) -> int:
        """A scalar that all threads agree on."""
        found = self._accesses.value(LaneState(names, 1, [(0, 0, 0)]), e)
        return int(found)

    def _numbers(self, op: Copy, names: dict[str, Value], random: Random) -> Table | None:
        """Numbers for all of the tile that names rows of `op`, within their dimension or beside it;
        None where none does."""
        side = named_side(self._program, op)
        if side is None:
            return None
        view, dim, rows = side
        extent = self._number(self._program.param(view.param).shape[dim], names)
        shape = self._table(rows.tensor).shape
        return np.array([random.randint(-1, extent) for _ in range(prod(shape))]).reshape(shape)

    def _found(self, op: Copy, numbers: Table | None) -> Numbers | None:
        """What a call of `op` finds at bytes of the arena, where `numbers` name its rows."""
        side = named_side(self._program, op)
        if side is None or numbers is None:
            return None
        *_, rows = side
        return found_at(self._bases[rows.tensor], self._table(rows.tensor), numbers)

    def _meant(
        self, op: Copy, team: Team, names: dict[str, Value], numbers: Table | None
    ) -> tuple[Touched, Rows]:
        """What the tiles of `op` say that it touches, and rows of registers beyond the tile."""
        plan, rank = self._solution.copies[op.id], len(op.dst.shape)
        starts = digits(np.arange(team.threads), plan.thread, rank)
        turns = list(calls(plan, rank))
        coords = (np.array([move for move, _ in turns])[:, None] + starts).reshape(-1, rank)
        rows = np.full((len(coords), 5), -1, dtype=np.int64)
        rows[:, THREAD] = np.tile(np.arange(team.threads), len(turns))
        held = inside(coords, op.dst.shape)
        exists = np.ones(len(coords), dtype=bool)
        for ref in (op.src, op.dst):
            tensor = self._program.tensor(ref.tensor)
            begin = [self._number(e, names) for e in ref.starts]
            where = [np.full(len(coords), start) for start in begin]
            for d, m in enumerate(ref.kept):
                where[m] = where[m] + np.where(held, coords[:, d], 0)
            match tensor:
                case RegisterTensor():
                    registers = np.array([reg for _, reg in turns]) + self._register(ref, begin)
                    rows[:, REGISTER] = np.repeat(registers, team.threads)
                case SharedTensor():
                    if any(
                        not 0 <= at <= size - extent
                        for at, size, extent in zip(begin, tensor.shape, ref.extents)
                    ):
                        raise Unsuited
                    table = self._table(ref.tensor)
                    rows[:, SHARED] = table[tuple(where)] * tensor.dtype.bits // 8
                    if ref.rank is not None:
                        rows[:, BLOCK] = self._number(ref.rank, names)
                case GlobalView():
                    named = None
                    if ref.rows is not None and numbers is not None:
                        first = [self._number(e, names) for e in ref.rows.starts]
                        named = numbers_at(tensor, ref.rows, first, where, numbers)
                        if named is None:
                            raise Unsuited
                    rows[:, GLOBAL], there = places(
                        self._program, tensor, where, named, lambda e: self._number(e, names)
                    )
                    exists &= there
        zeroed, beyond = rows[held & ~exists], rows[~held]
        zeroed[:, GLOBAL] = beyond[:, GLOBAL] = -1
        return Touched(rows[held & exists], zeroed), beyond

    def _register(self, ref: TileRef, begin: Sequence[int]) -> int:
        """The first register of the part of a register tensor that begins there."""
        if not any(begin):
            return 0
        f = self._solution.fragments[ref.tensor]
        values = digits(np.arange(f.values), f.value, len(f.shape))
        found = np.flatnonzero((values == np.array(begin)).all(axis=1))
        if not len(found):
            raise Unsuited
        return int(found[0])

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = offsets(self._solution.shared[name])
        return self._tables[name]

    def _compare(self, op: Copy, touched: Touched, wanted: Touched, beyond: Rows) -> None:
        for ref in (op.src, op.dst):
            if isinstance(self._program.tensor(ref.tensor), SharedTensor):
                base = self._base(op, ref.tensor, touched, wanted)
                for rows in (wanted.moved, wanted.zeroed):
                    rows[:, SHARED] += base
        if all(map(np.array_equal, _both(touched), _both(wanted))):
            return
        made, meant = _set(touched.moved), _set(wanted.moved)
        clears, cleared = _set(touched.zeroed), _set(wanted.zeroed)
        # Into registers every thread moves its own; of those that hold the same, one may store.
        loads = self._array(op) == op.dst.tensor
        _refuse(op, made - meant, "moves")
        _refuse(op, meant - made if loads else _places(meant) - _places(made), "does not move")
        if not isinstance(self._program.tensor(op.dst.tensor), GlobalView):
            # A register of what lies beyond the tile may be cleared as well.
            spare = {row[:GLOBAL] for row in _set(beyond)} if loads else set()
            _refuse(op, {r for r in clears - cleared if r[:GLOBAL] not in spare}, "clears")
            gone = cleared - clears if loads else _places(cleared) - _places(clears)
            _refuse(op, gone, "does not clear")

    def _base(self, op: Copy, name: str, touched: Touched, wanted: Touched) -> int:
        """Where a shared tensor begins in the arena: where its first copy finds it."""
        if name not in self._bases:
            have, want = (
                np.concatenate([t.moved[:, SHARED], t.zeroed[:, SHARED]]) for t in (touched, wanted)
            )
            if not len(have) or not len(want):
                return 0
            tensor = self._program.tensor(name)
            assert isinstance(tensor, SharedTensor)
            base, room = int(have.min() - want.min()), prod(tensor.shape) * tensor.dtype.bits // 8
            if not 0 <= base <= self._room - room:
                raise VerifyError(f"{subject(op)}: `{name}` is beyond the arena", op.span)
            self._bases[name] = base
        return self._bases[name]


def _both(touched: Touched) -> tuple[Rows, Rows]:
    return touched.moved, touched.zeroed


def _set(rows: Rows) -> set[Row]:
    return set(map(tuple, rows.tolist()))


def _places(rows: set[Row]) -> set[Row]:
    """Rows without who writes them."""
    return {row[GLOBAL:] for row in rows}


def _refuse(op: Copy, rows: set[Row], what: str) -> None:
    """Raises VerifyError of the first of `rows` that should be none."""
    if rows:
        row = min(rows)
        *who, there, byte, block = (-1,) * (5 - len(row)) + row
        parts = [("thread", who[0]), ("register", who[1]), ("element", there), ("byte", byte)]
        shown = ", ".join(f"{name} {at}" for name, at in (*parts, ("block", block)) if at != -1)
        raise VerifyError(f"the lowering of {subject(op)} {what} {shown}", op.span)
