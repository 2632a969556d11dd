"""bar.sync, bar.named: threads of a block meet, and what came before is known to all after.

| primitive | operands | meaning |
|---|---|---|
| `bar.sync` | - | all threads of the block |
| `bar.named.sync` | int id, int threads | waits until `threads` threads have come to barrier `id` |
| `bar.named.arrive` | int id, int threads | comes to barrier `id` without waiting |
| `bar.named.any` | Regs flag, int id, int threads | waits, then 1 where any of them has no 0 |
| `bar.warp.sync` | - | the lanes of a warp |

A barrier counts whole warps, wherever they come from: two different statements of one id may
meet. `bar.sync` is barrier 0. When its count is full the barrier is free again, one phase later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.code import PAUSE, Code, NeedsAgents, Routine, Step, Waits
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.operands import regs_operand, scalar_operand
from hexcute_core.simulator.lanes.control import uniform
from hexcute_core.simulator.lanes.state import WARP, padded
from hexcute_core.simulator.lanes.values import Array, Value
from hexcute_core.simulator.memory.clocks import VectorClock, join
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

BARRIERS = 16


class Phase:
    """One filling of a named barrier."""

    def __init__(self, number: int, count: int, span: SourceSpan | None) -> None:
        self.number = number
        self.count = count
        self.span = span
        self.came: dict[int, int] = {}
        self.known: Array = np.zeros(0, dtype=np.int64)
        # Whether a thread that came had something to tell.
        self.told = False

    @property
    def full(self) -> bool:
        """Whether all threads have come."""
        return len(self.came) * WARP >= self.count


class NamedBarrier:
    """Barrier `number` of a block, with the phase that is being filled."""

    def __init__(self, number: int, group: BlockAgents) -> None:
        self.number = number
        self.group = group
        self._phase: Phase | None = None
        self._last: Phase | None = None
        self._next = 0

    def arrive(self, m: Machine, count: int, name: str) -> Phase:
        """The machine's warp comes; the phase it has come to."""
        phase = self._phase
        if phase is None:
            phase = self._phase = Phase(self._next, count, m.span)
            self._next += 1
        if phase.count != count:
            m.stop(
                "barrier misuse",
                f"{name} counts {count} threads at barrier {self.number}, which counts "
                f"{phase.count} since {phase.span}",
                0,
                "give all threads that meet at a barrier one count",
                phase.span,
            )
        if m.column in phase.came:
            m.stop(
                "barrier misuse",
                f"warp {m.column} comes to barrier {self.number} again before phase "
                f"{phase.number} of it is full",
                0,
                "let the warp wait for the phase before it comes again, or take another barrier",
                phase.span,
            )
        self._check_order(m, name)
        clock = m.agent_clock
        phase.came[m.column] = clock.time
        shown = clock.release()
        phase.known = join(phase.known, shown)
        if phase.full:
            self._phase, self._last = None, phase
        return phase

    def _check_order(self, m: Machine, name: str) -> None:
        """A warp that may come while the phase before still fills might take another's place."""
        last, clock = self._last, m.agent_clock
        if last is None:
            return
        first = clock.unit - m.column
        for warp, time in last.came.items():
            if warp != m.column and not clock.knows(first + warp, time):
                m.report(
                    "barrier misuse",
                    f"{name}: nothing tells warp {m.column} that warp {warp} has come to barrier "
                    f"{self.number} in its phase before, for which it may be counted itself",
                    0,
                    "let the same threads meet at a barrier each time, or give others a barrier of "
                    "their own",
                    last.span,
                )
                return


class AtBarrier:
    """A warp waits for a phase of a barrier."""

    def __init__(self, barrier: NamedBarrier, phase: Phase, span: SourceSpan | None) -> None:
        self.span = span
        self._barrier, self._phase = barrier, phase

    def ready(self) -> bool:
        """Whether everybody has come."""
        return self._phase.full

    def describe(self) -> str:
        """Which barrier and phase, and who is missing."""
        phase, group = self._phase, self._barrier.group
        missing = phase.count - WARP * len(phase.came)
        absent = [a for a in group.agents if a.warp not in phase.came]
        ended = [str(a.warp) for a in absent if a.ended]
        gone = f", warps {', '.join(ended)} have ended" if ended else ""
        away = [str(a.warp) for a in absent if not a.ended]
        late = f", warps {', '.join(away)} have not come" if away else ""
        return (
            f"waits at barrier {self._barrier.number} (phase {phase.number}) for {missing} of "
            f"{phase.count} threads{late}{gone}"
        )


def find_barrier(m: Machine, number: int) -> NamedBarrier:
    """Named barrier `number` of the machine's block."""
    if not 0 <= number < BARRIERS:
        m.stop("barrier misuse", f"barrier {number} is not one of 0 to {BARRIERS - 1}", 0)
    assert m.group is not None
    return m.group.barriers.setdefault(number, NamedBarrier(number, m.group))


def _uniform(m: Machine, value: Value, what: str) -> int:
    shared = uniform(m, value)
    if not isinstance(shared, int):
        m.stop("barrier misuse", f"{what} differs within a warp", 0)
    return shared


def _named(stmt: Prim, compiler: StatementCompiler, waits: bool, votes: bool = False) -> Routine:
    """A barrier of agents: barrier 0 of all threads where there are no operands."""
    site, name = compiler.site(stmt.span), stmt.name
    numbers = range(int(votes), int(votes) + 2) if stmt.operands else ()
    operands = [scalar_operand(stmt, i) for i in numbers]
    flag = regs_operand(stmt, 0, 4) if votes else None

    def start(m: Machine) -> Waits:
        m.site = site
        m.count(name)
        _whole_warp(m, name)
        number, count = 0, padded(m.threads)
        if operands:
            number = _uniform(m, operands[0](m), "the barrier")
            count = _uniform(m, operands[1](m), "the number of threads")
            if count <= 0 or count % WARP:
                m.stop("barrier misuse", f"{name} of {count} threads: not whole warps", 0)
        barrier = find_barrier(m, number)
        phase = barrier.arrive(m, count, name)
        if flag is not None:
            phase.told |= bool(flag.read(m, m.active()).any())
        if not waits:
            yield PAUSE
            return
        yield AtBarrier(barrier, phase, m.span)
        m.agent_clock.acquire(phase.known)
        if flag is not None:
            flag.write(m, np.full((m.lanes, 1), phase.told, dtype=np.int32))

    return Routine(start)


def _whole_warp(m: Machine, name: str) -> None:
    if m.mask is not None and not m.mask.all():
        m.stop(
            "divergent barrier",
            f"{name} inside divergent control flow: {int(m.mask.sum())} of {m.lanes} threads of "
            f"warp {m.column} reach it",
            int(m.active()[0]),
            fix="move the barrier out of the `if` or loop whose condition differs by thread",
        )


def barrier(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`bar.sync`."""
    if compiler.agents:
        return _named(stmt, compiler, waits=True)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        clock = m.clock
        if isinstance(clock, VectorClock):
            raise NeedsAgents
        if m.mask is None:
            clock.epoch += 1
            return
        rows = m.mask.reshape(len(m.blocks), m.threads)
        torn = rows.any(axis=1) & ~rows.all(axis=1)
        if torn.any():
            _torn(m, name, rows[torn][0])
        clock.epoch[m.mask] += 1

    return run


def _torn(m: Machine, name: str, row: Array) -> None:
    """Not all threads of a block reach the barrier: whole warps may still come elsewhere."""
    warps = np.pad(row, (0, padded(m.threads) - m.threads), mode="edge").reshape(-1, WARP)
    if (warps.all(axis=1) | ~warps.any(axis=1)).all():
        raise NeedsAgents
    m.stop(
        "divergent barrier",
        f"{name} inside divergent control flow: {int(row.sum())} of {m.threads} threads reach it",
        int(m.active()[0]),
        fix="move the barrier out of the `if` or loop whose condition differs by thread",
    )


def named_sync(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`bar.named.sync id, threads`."""
    compiler.require_agents()
    return _named(stmt, compiler, waits=True)


def named_any(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`bar.named.any flag, id, threads`."""
    compiler.require_agents()
    return _named(stmt, compiler, waits=True, votes=True)


def named_arrive(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`bar.named.arrive id, threads`."""
    compiler.require_agents()
    return _named(stmt, compiler, waits=False)


def warp_barrier(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`bar.warp.sync`: the lanes of a warp know of each other's accesses."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        m.agent_clock.meet()

    return run


def instruction(name: str) -> Instruction | None:
    """The barriers of a block's threads."""
    return {
        "bar.sync": Instruction(barrier),
        "bar.named.sync": Instruction(named_sync),
        "bar.named.arrive": Instruction(named_arrive),
        "bar.named.any": Instruction(named_any),
        "bar.warp.sync": Instruction(warp_barrier),
    }.get(name)
