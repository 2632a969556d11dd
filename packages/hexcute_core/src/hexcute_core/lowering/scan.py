"""scan: runs of a thread one value after the other, then level by level what comes before each run.

A run knows `total`, the combination of its block so far up to the run's end, and `carry`, that up
to its beginning. A level joins blocks: it combines what the blocks before come to with the carry
and the total of every run. Lanes tell each other by shuffles, in steps that double; beyond a warp
the totals of blocks go through shared memory. In the end each value is combined with its carry.

Nothing need be neutral: what has no predecessor is left alone. What lies beyond the tile comes
last, or first in reverse, where it is no predecessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from hexcute_core import thread as th
from hexcute_core.arch.groups import WARP
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.scan_plan import Level, Plan, ValueDigit, plan_scan
from hexcute_core.lowering.threads import (
    ThreadDigit,
    cell,
    thread_digits,
    thread_in,
    without,
)
from hexcute_core.scalar import (
    Call,
    Const,
    Element,
    Scalar,
    Var,
    add,
    cast,
    compare,
    land,
    mod,
    mul,
    select,
    sub,
    substitute,
)
from hexcute_core.tile import Scan
from hexcute_core.tile.ir import scan_operands

Loops = Mapping[ValueDigit, Scalar]
Told = Callable[[Scalar], tuple[list[th.Stmt], list[Scalar]]]
TRUE = land()


def lower_scan(ctx: Context, op: Scan) -> tuple[th.Stmt, ...]:
    """dsts = srcs scanned along the axis."""
    return _Scan(ctx, plan_scan(op, ctx.solution.fragments)).statements()


class _Scan:
    """One scan being lowered: its register arrays and what the levels share."""

    def __init__(self, ctx: Context, plan: Plan) -> None:
        self.ctx, self.plan, self.op = ctx, plan, plan.op
        self.count, self.span = len(plan.types), plan.op.span
        self.values, self.totals, self.carries = (
            [ctx.fresh(stem) for _ in plan.types] for stem in ("scanned_", "total_", "carry_")
        )
        self.thread = ctx.once(thread_in(ctx, plan.fragment))
        threads = thread_digits(plan.fragment, plan.op.axis)
        self.digits = {d: ctx.once(d.of(self.thread)) for d in threads}

    def statements(self) -> tuple[th.Stmt, ...]:
        """The runs, the levels, the results."""
        plan = self.plan
        size = plan.run_length * prod(d.size for d in (*plan.kept, *plan.outer))
        arrays = [(name, size) for name in self.values]
        if plan.levels:
            arrays += [(name, size // plan.run_length) for name in (*self.totals, *self.carries)]
        types = plan.types * 3
        declared = [th.DeclareArray(name, t, n) for (name, n), t in zip(arrays, types)]
        levels = [s for level in plan.levels for s in self._level(level)]
        return (*declared, *self._runs(), *levels, *self._results())

    # Digits, places and the scan's order.

    def _loops(self, digits: Sequence[ValueDigit]) -> dict[ValueDigit, Scalar]:
        return dict(zip(digits, self.ctx.loops([d.size for d in digits])))

    def _nest(self, loops: Loops, body: Sequence[th.Stmt]) -> tuple[th.Stmt, ...]:
        return nest(list(loops.values()), [d.size for d in loops], body)

    def _order(self, size: int, at: Scalar | int) -> Scalar:
        """The digit that comes as number `at`."""
        number = add(at)
        return sub(size - 1, number) if self.op.reverse else number

    def _last(self, size: int) -> int:
        return 0 if self.op.reverse else size - 1

    def _ended(self, level: Level) -> Loops:
        """The values of a block of the level that come last."""
        return {d: Const(self._last(d.size), i32) for d in level.values}

    def _place(self, loops: Loops) -> Scalar:
        return add(*(mul(loop, d.place) for d, loop in loops.items()))

    def _run(self, names: Sequence[str], loops: Loops) -> list[Scalar]:
        """What `names` hold of the run at `loops`."""
        at = self._run_place(loops)
        return [Element(name, (at,), t) for name, t in zip(names, self.plan.types)]

    def _run_place(self, loops: Loops) -> Scalar:
        length = self.plan.run_length
        return add(*(mul(loop, d.place // length) for d, loop in loops.items()))

    def _reach(self, threads: Sequence[ThreadDigit], loops: Loops) -> Scalar:
        """How far these digits move along the axis."""
        own = self.ctx.once(add(*(mul(self.digits[d], d.step) for d in threads)))
        return add(own, *(mul(loop, d.step) for d, loop in loops.items()))

    def _inside(self, coordinate: Scalar) -> Scalar:
        """Whether a predecessor at this coordinate of the axis lies in the tile."""
        if not self.plan.guarded:
            return TRUE
        return compare("lt", coordinate, self.plan.fragment.shape[self.op.axis])

    # What is combined.

    def _combined(self, left: Sequence[Scalar], right: Sequence[Scalar]) -> list[Scalar]:
        """left and right combined, each in the type that the scan computes in."""
        op = self.op
        places = scan_operands([e.dtype for e in op.combine])
        given = zip((*places[0], *places[1]), (*left, *right))
        values = {place.name: cast(value, place.dtype) for place, value in given}
        return [cast(substitute(e, values), t) for e, t in zip(op.combine, self.plan.types)]

    def _chosen(
        self, condition: Scalar, values: Sequence[Scalar], others: Sequence[Scalar]
    ) -> list[Scalar]:
        return [select(condition, a, b) for a, b in zip(values, others)]

    def _named(self, stem: str, values: Sequence[Scalar]) -> tuple[list[th.Stmt], list[Var]]:
        """Variables that hold `values`: all of them read before any is used."""
        made = [Var(self.ctx.fresh(stem), v.dtype) for v in values]
        return [th.Assign(m, v, True, self.span) for m, v in zip(made, values)], made

    def _become(self, names: Sequence[Var], values: Sequence[Scalar]) -> list[th.Stmt]:
        """The variables take new values, all at once."""
        if self.count == 1:
            return [th.Assign(names[0], values[0], False, self.span)]
        first, made = self._named("new_", values)
        return [*first, *(th.Assign(n, m, False, self.span) for n, m in zip(names, made))]

    def _set(self, names: Sequence[str], at: Scalar, values: Sequence[Scalar]) -> list[th.Stmt]:
        return [th.SetElement(n, at, v, self.span) for n, v in zip(names, values)]

    # The runs of a thread, and the results.

    def _runs(self) -> tuple[th.Stmt, ...]:
        """Each run scanned by itself."""
        plan = self.plan
        rows, run = self._loops((*plan.kept, *plan.outer)), self._loops(plan.run)
        first = {d: self._order(d.size, 0) for d in plan.run}
        ordered = {d: self._order(d.size, loop) for d, loop in run.items()}
        start, so_far = self._named("run_", self._sources({**rows, **first}))
        values = self._sources({**rows, **ordered})
        next_one = add(self._reach(tuple(self.digits), {**rows, **ordered}), 1)
        follows = land(compare("gt", add(*run.values()), 0), self._inside(next_one))
        joined = self._chosen(follows, self._combined(so_far, values), values)
        body = self._become(so_far, joined) if plan.run else []
        body += self._set(self.values, self._place({**rows, **ordered}), so_far)
        whole = [*start, *self._nest(run, body)]
        if plan.levels:
            at = self._run_place(rows)
            whole += self._set((*self.totals, *self.carries), at, (*so_far, *so_far))
        return self._nest(rows, whole)

    def _sources(self, loops: Loops) -> list[Scalar]:
        """The values of the scanned tiles, as they are carried."""
        out = []
        for i, (ref, t) in enumerate(zip(self.op.srcs, self.plan.types)):
            at = add(*(mul(loop, d.registers[self.count + i]) for d, loop in loops.items()))
            out.append(cast(cast(self.ctx.element(ref, at), self.op.combine[i].dtype), t))
        return out

    def _results(self) -> tuple[th.Stmt, ...]:
        """Each value combined with what comes before its run."""
        plan = self.plan
        rows, run = self._loops((*plan.kept, *plan.outer)), self._loops(plan.run)
        place = self._place({**run, **rows})
        values: list[Scalar] = [
            Element(name, (place,), t) for name, t in zip(self.values, plan.types)
        ]
        if plan.levels:
            carried = self._combined(self._run(self.carries, rows), values)
            values = self._chosen(self._precedes(None, rows), carried, values)
        body = []
        for i, (ref, value) in enumerate(zip(self.op.dsts, values)):
            at = add(*(mul(loop, d.registers[i]) for d, loop in (*run.items(), *rows.items())))
            body.append(self.ctx.assign(ref, at, value, self.span))
        return self._nest({**run, **rows}, body)

    # The levels.

    def _precedes(self, level: Level | None, rows: Loops) -> Scalar:
        """Whether a run has a predecessor in its block of `level`, in the whole axis for None."""
        plan = self.plan
        values = plan.outer if level is None else level.values
        threads = tuple(self.digits) if level is None else level.threads
        if not values and not threads:
            return Const(False, TRUE.dtype)
        before = self._reach(threads, {d: rows[d] for d in values})
        if not self.op.reverse:
            return compare("gt", before, 0)
        block = prod(d.size for d in values) * prod(d.size for d in threads) * plan.run_length
        more = compare("lt", add(before, plan.run_length), block)
        start = self._reach(tuple(self.digits), {d: rows[d] for d in plan.outer})
        return land(more, self._inside(add(start, plan.run_length)))

    def _level(self, level: Level) -> tuple[th.Stmt, ...]:
        digit = level.digit
        if not level.near:
            return self._through_memory(level)
        units = self._loops(self.plan.units(level))
        if isinstance(digit, ThreadDigit):
            return self._nest(units, self._lanes(level, digit, units))

        def told(number: Scalar) -> tuple[list[th.Stmt], list[Scalar]]:
            block = {**units, digit: self._order(digit.size, number)}
            taken, got = self._named("got_", self._told(level, block))
            return taken, list(got)

        return self._nest(units, self._blocks(level, units, told))

    def _told(self, level: Level, loops: Loops) -> list[Scalar]:
        """What a block of the level's comes to, told by the lane that holds its end."""
        totals = self._run(self.totals, {**loops, **self._ended(level)})
        if not level.threads:
            return totals
        lane = self.ctx.once(mod(self._ends(level, self.ctx.lane, level.threads), WARP))
        return [Call("shfl.idx", (v, lane), v.dtype) for v in totals]

    def _ends(self, level: Level, thread: Scalar, digits: Sequence[ThreadDigit]) -> Scalar:
        """The thread with the end of a block; the digits of `digits` beside the level's are 0."""
        last = (self._last(d.size) * d.stride for d in level.threads)
        return self.ctx.once(add(without(thread, digits), *last))

    def _start(self, level: Level, units: Loops) -> Scalar:
        """Where the first of the blocks that a level joins begins along the axis."""
        below = (*level.threads, level.digit)
        threads = [d for d in self.digits if d not in below]
        return self._reach(threads, {d: units[d] for d in self.plan.outer if d in units})

    def _has(self, level: Level, digit: ThreadDigit, units: Loops, back: int) -> Scalar:
        """Whether there is a block `back` blocks before the thread's own."""
        own = self.digits[digit]
        if not self.op.reverse:
            return compare("ge", own, back)
        there = add(self._start(level, units), mul(add(own, back), digit.step))
        return land(compare("lt", add(own, back), digit.size), self._inside(there))

    def _lanes(self, level: Level, digit: ThreadDigit, units: Loops) -> list[th.Stmt]:
        """Lanes scan what their blocks come to: in steps of 1, 2, 4, ... blocks back."""
        way = "shfl.down" if self.op.reverse else "shfl.up"

        def back(k: int) -> tuple[list[th.Stmt], list[Var]]:
            by = Const(k * digit.stride, i32)
            return self._named("got_", [Call(way, (v, by), v.dtype) for v in so_far])

        body, so_far = self._named("so_far_", self._told(level, units))
        k = 1
        while k < digit.size:
            taken, got = back(k)
            joined = self._combined(got, so_far)
            chosen = self._chosen(self._has(level, digit, units, k), joined, so_far)
            body += [*taken, *self._become(so_far, chosen)]
            k *= 2
        taken, before = back(1)
        known = None if level.values or level.threads else so_far
        there = self._has(level, digit, units, 1)
        return [*body, *taken, *self._update(level, units, there, before, known)]

    def _blocks(self, level: Level, units: Loops, told: Told) -> list[th.Stmt]:
        """Blocks joined one after the other, `told` what number 0, 1, ... comes to; a thread's
        own learn what comes before them."""
        digit = level.digit
        (loop,) = self.ctx.loops([digit.size - 1])
        block, start = self._order(digit.size, loop), self._start(level, units)
        taken, got = told(loop)
        anything = self._run(self.totals, {d: Const(0, i32) for d in units})
        first, so_far = self._named("so_far_", anything)
        follows = land(
            compare("gt", loop, 0), self._inside(add(start, mul(add(block, 1), digit.step)))
        )
        # What lanes told just now holds what the blocks before come to already.
        joined = got if level.near else self._chosen(follows, self._combined(so_far, got), got)
        if isinstance(digit, ThreadDigit):
            sides = (loop, self.digits[digit])
            sides = (self.digits[digit], block) if self.op.reverse else sides
            joined = self._chosen(compare("lt", *sides), joined, so_far)
        body = [*taken, *self._become(so_far, joined)]
        if isinstance(digit, ValueDigit):
            following = {**units, digit: self._order(digit.size, add(loop, 1))}
            there = self._inside(add(start, mul(block, digit.step)))
            body += self._update(level, following, there, so_far)
        out = [*first, *nest([loop], [digit.size - 1], body)]
        if isinstance(digit, ThreadDigit):
            out += self._update(level, units, self._has(level, digit, units, 1), so_far)
        return out

    def _update(
        self,
        level: Level,
        units: Loops,
        there: Scalar,
        before: Sequence[Scalar],
        known: Sequence[Scalar] | None = None,
    ) -> tuple[th.Stmt, ...]:
        """The runs of a block learn what comes `before` it, if that is `there`; `known` is what
        they come to with it, where that is known."""
        inner = self._loops(level.values)
        loops = {**units, **inner}
        totals, carries = self._run(self.totals, loops), self._run(self.carries, loops)
        carried = self._chosen(
            self._precedes(level, loops), self._combined(before, carries), before
        )
        ended = known or self._chosen(there, self._combined(before, totals), totals)
        made, values = self._named("new_", [*self._chosen(there, carried, carries), *ended])
        at = self._run_place(loops)
        return self._nest(inner, [*made, *self._set((*self.carries, *self.totals), at, values)])

    def _through_memory(self, level: Level) -> tuple[th.Stmt, ...]:
        """Threads publish what their blocks come to, so many at a time, and read the others'."""
        ctx, plan, digit, types = self.ctx, self.plan, level.digit, self.plan.types
        zero: Scalar = Const(0, i32)
        units, sizes, slots = plan.units(level), plan.batches(level), plan.slots(level)
        counts = [d.size // n for d, n in zip(units, sizes)]
        rounds, inner = ctx.loops(counts), ctx.loops(sizes)
        loops = {d: add(i, mul(r, n)) for d, i, r, n in zip(units, inner, rounds, sizes)}
        unit: Scalar = zero
        for loop, n in zip(reversed(inner), reversed(sizes)):
            unit = add(mul(unit, n), loop)
        cells = prod(sizes) * slots
        behind = [ctx.program.block_dim * cells * sum(t.bits // 8 for t in types[:i])
                  for i in range(self.count)]  # fmt: skip
        got = [ctx.fresh("cell_") for _ in types]

        def place(i: int, thread: Scalar, slot: Scalar) -> th.SharedPtr:
            return cell(ctx, thread, add(mul(unit, slots), slot), types[i], behind[i])

        (slot,) = ctx.loops([slots])
        published = {**loops, **self._ended(level)}
        if isinstance(digit, ValueDigit):
            published[digit] = self._order(digit.size, slot)
        at = self._run_place(published)
        publish = [
            th.Prim(
                f"st.shared.{t.bits // 8}",
                (place(i, ctx.lane, slot), th.Regs(self.totals[i], at, (0,), 1, t)),
                self.span,
            )
            for i, t in enumerate(types)
        ]
        cleared = level.threads
        if isinstance(digit, ThreadDigit):
            cleared = (*cleared, digit)
        home = self._ends(level, self.thread, cleared)

        def told(number: Scalar) -> tuple[list[th.Stmt], list[Scalar]]:
            block = self._order(digit.size, number)
            thread, index = home, number
            if isinstance(digit, ThreadDigit):
                thread, index = add(home, mul(block, digit.stride)), zero
            loads: list[th.Stmt] = [
                th.Prim(
                    f"ld.shared.{t.bits // 8}",
                    (th.Regs(name, zero, (0,), 1, t), place(i, thread, index)),
                    self.span,
                )
                for i, (name, t) in enumerate(zip(got, types))
            ]
            return loads, [Element(name, (zero,), t) for name, t in zip(got, types)]

        barrier = ctx.barrier(self.span)
        body = [
            barrier,
            *nest([*inner, slot], [*sizes, slots], publish),
            barrier,
            *nest(inner, sizes, self._blocks(level, loops, told)),
        ]
        declared = [th.DeclareArray(name, t, 1) for name, t in zip(got, types)]
        return (*declared, *nest(rounds, counts, body))
