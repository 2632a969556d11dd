"""release -> acquire: what a flag in memory hands from one thread to another.

A release stores beside the flag what its lane knows; an acquire that reads the flag takes it over.
A relaxed access hands over what the lane knew at its last fence, and takes over at its next one.
A read-modify-write adds to what its flag holds, a store replaces it. `fence.gpu` orders between all
threads, `fence.cta` between those of one block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.code import Code, Step, then_pause
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.lanes.state import Block
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import AtomicKind, join
from hexcute_core.simulator.memory.shadow import Shadow
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

Cells = Callable[[], Array]


@dataclass(frozen=True)
class Released:
    """What a flag holds: for other threads of the block that wrote it, and for all threads."""

    block: Block
    near: Array
    far: Array

    def to(self, block: Block) -> Array:
        """What a thread of `block` is shown."""
        return self.near if block == self.block else self.far


@dataclass(frozen=True)
class Order:
    """The memory order of an access; the empty name is a plain access, which orders nothing."""

    name: str

    @property
    def strong(self) -> bool:
        """Whether it may meet other strong accesses."""
        return bool(self.name)

    @property
    def kind(self) -> AtomicKind:
        """Which accesses one of this order is atomic to."""
        return "all" if self.strong else "no"

    def fits(self, family: str) -> bool:
        """Loads acquire, stores release."""
        return {"acquire": "ld", "release": "st", "acq_rel": "atom"}.get(self.name, family[:2]) in (
            family[:2],
            family[:4],
        )

    def read(self, m: Machine, lanes: Array, shadow: Shadow | None, cells: Cells) -> None:
        """`lanes` have read the flags at `cells`, a row each: what those hold becomes known."""
        if not self.strong or shadow is None:
            return
        clock, flags = m.agent_clock, cells()
        for cell in np.unique(flags):
            shown = shadow.released.get(int(cell))
            if shown is None:
                continue
            here = shown.to(m.blocks[0])
            who = m.alone(lanes[(flags == cell).any(axis=1)])
            if self.name in ("acquire", "acq_rel"):
                clock.acquire(here, who)
            else:
                (clock.near if shown.block == m.blocks[0] else clock.far).read(here, who)

    def update(self, m: Machine, lanes: Array, shadow: Shadow | None, cells: Array) -> None:
        """The flags at `cells` are read, modified and written."""
        self.read(m, lanes, shadow, lambda: cells)
        self.write(m, lanes, shadow, lambda: cells, updates=True)

    def write(
        self, m: Machine, lanes: Array, shadow: Shadow | None, cells: Cells, updates: bool = False
    ) -> None:
        """`lanes` are about to write the flags at `cells`, a row each; `updates` for a
        read-modify-write."""
        if not self.strong or shadow is None:
            return
        clock, block, flags = m.agent_clock, m.blocks[0], cells()
        releases = self.name in ("release", "acq_rel")
        for cell in np.unique(flags):
            who = m.alone(lanes[(flags == cell).any(axis=1)])
            near = far = clock.shows(who)
            if not releases:
                near, far = clock.near.hands(who), clock.far.hands(who)
            held = shadow.released.get(int(cell)) if updates else None
            both = (near, far) if held is None else (
                join(held.to(block), near), join(held.far, far)
            )  # fmt: skip
            shadow.released[int(cell)] = Released(block, *both)
        if releases:
            clock.time += 1

    def code(self, compiler: StatementCompiler, step: Step) -> Code:
        """`step` as code: others may come between strong accesses."""
        if not self.strong:
            return step
        compiler.require_agents()
        return then_pause(step)


PLAIN = Order("")
ORDERS = (PLAIN, Order("relaxed"), Order("acquire"), Order("release"), Order("acq_rel"))


def fence(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`fence.cta`, `fence.gpu`: orders the relaxed accesses around it."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name
    far = name == "fence.gpu"

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        clock, lanes = m.agent_clock, m.alone(m.active())
        for reach in (clock.near, clock.far) if far else (clock.near,):
            reach.acquire(clock, lanes)
        then = clock.copy()
        for reach in (clock.near, clock.far) if far else (clock.near,):
            reach.fence(then, lanes)
        clock.time += 1

    return then_pause(run)


def instruction(name: str) -> Instruction | None:
    """Fences between accesses of the same proxy."""
    return Instruction(fence) if name in ("fence.cta", "fence.gpu") else None
