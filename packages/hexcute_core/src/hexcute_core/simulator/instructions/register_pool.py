"""setmaxnreg: warps hand registers back to their block's pool, and wait for more.

A block starts with what the launch gives each thread, the largest multiple of 8 that fits 65536
registers over the threads of the blocks that are to share a multiprocessor; the pool is what warps
have given back. An increase waits until the pool has enough: roles whose sum is too large never go
on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.code import Routine, Waits
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.operands import lanes_of, scalar_operand
from hexcute_core.simulator.lanes.state import WARP, padded
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

FILE = 65536
STEP, LEAST, MOST = 8, 24, 256
GROUP = 4
ALIKE = "let all four warps of a warp group execute it, with one number"


def _group(warp: int) -> range:
    """The warps of a warp's group."""
    first = warp // GROUP * GROUP
    return range(first, first + GROUP)


class RegisterPool:
    """Registers per thread that each warp of a block holds, and the registers that are free."""

    def __init__(self, threads: int, blocks: int = 1) -> None:
        """`blocks` are to fit a multiprocessor."""
        self.start = min(MOST - 1, FILE // blocks // padded(threads)) // STEP * STEP
        self.free = 0
        self.held: dict[int, int] = {}
        self._asked: dict[int, list[tuple[str, int, SourceSpan | None]]] = {}

    def ask(self, m: Machine, name: str, wanted: int) -> None:
        """The machine's warp executes `name`, as all warps of its group must, one after another."""
        mine = self._asked.setdefault(m.column, [])
        mine.append((name, wanted, m.span))
        for warp in _group(m.column):
            theirs = self._asked.get(warp, [])
            if len(theirs) >= len(mine) and theirs[len(mine) - 1][:2] != (name, wanted):
                self._apart(m, name, theirs[len(mine) - 1][2])

    def torn(self, warps: int) -> tuple[str, SourceSpan | None] | None:
        """What only part of a warp group has executed when its block ends."""
        for warp in range(warps):
            for other in _group(warp):
                mine, theirs = self._asked.get(warp, []), self._asked.get(other, [])
                if other < warps and len(mine) > len(theirs):
                    name, _, span = mine[len(theirs)]
                    return f"{name} was executed by warp {warp} and not by warp {other}", span
        return None

    def _apart(self, m: Machine, name: str, other: SourceSpan | None) -> None:
        m.stop(
            "divergent instruction",
            f"{name}: the warps of a group execute different ones",
            0,
            ALIKE,
            other,
        )

    def take(self, warp: int, wanted: int) -> None:
        """The warp has `wanted` registers per thread from now on."""
        self.free += (self.held.get(warp, self.start) - wanted) * WARP
        self.held[warp] = wanted


class AtRegisters:
    """A warp waits for registers."""

    def __init__(self, pool: RegisterPool, warp: int, wanted: int, span: SourceSpan | None) -> None:
        self.span = span
        self._pool, self._warp, self._wanted = pool, warp, wanted

    def _needed(self) -> int:
        return (self._wanted - self._pool.held.get(self._warp, self._pool.start)) * WARP

    def ready(self) -> bool:
        """Whether the pool has them."""
        return self._pool.free >= self._needed()

    def describe(self) -> str:
        """How many are missing."""
        return (
            f"waits for {self._wanted} registers per thread: {self._needed()} are needed, the "
            f"pool has {self._pool.free}"
        )


def set_registers(stmt: Prim, compiler: StatementCompiler) -> Routine:
    """`setmaxnreg.inc n`, `setmaxnreg.dec n`."""
    compiler.require_agents()
    wanted, site, name = scalar_operand(stmt, 0), compiler.site(stmt.span), stmt.name
    more = name.endswith(".inc")

    def start(m: Machine) -> Waits:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        pool, warp = m.home.pool, m.column
        count = int(lanes_of(wanted(m), m.all_lanes)[0])
        now = pool.held.get(warp, pool.start)
        pool.ask(m, name, count)
        if count % STEP or not LEAST <= count <= MOST or (count < now if more else count > now):
            m.stop(
                "undefined",
                f"{name} to {count} registers per thread from {now}",
                0,
                f"name a multiple of {STEP} from {LEAST} to {MOST}, for inc no less than now, for "
                "dec no more",
            )
        if more:
            yield AtRegisters(pool, warp, count, m.span)
        pool.take(warp, count)

    return Routine(start)


def instruction(name: str) -> Instruction | None:
    """Register reallocation."""
    return Instruction(set_registers) if name in ("setmaxnreg.inc", "setmaxnreg.dec") else None
