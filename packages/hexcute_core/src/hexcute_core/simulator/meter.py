"""Meter : what warps execute -> when, by the clocks of the cost model.

    start = max(the warp's time, when its unit is free);  done = start + busy + latency

A warp's instructions follow one another. Each keeps a unit of its block busy (a Tensor Core or the
arithmetic of one of four schedulers, shared memory, global memory) for its issue clocks; what it
loads is waited for by the next instruction that is no load, and what it only starts by its wait.
Whoever waits for others goes on when the last of them has come. Warps of one scheduler take turns,
and a block has its multiprocessor to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from hexcute_core.arch import Arch, Timing
from hexcute_core.scalar import Scalar
from hexcute_core.simulator.code import PAUSE, Code, Routine, Step, Waits
from hexcute_core.synthesis.compute_cost import SIMPLE, scalar_clocks
from hexcute_core.synthesis.cost import BOX_CLOCKS, CLOCKS_A_SECTOR, SECTOR_BYTES
from hexcute_core.synthesis.timeline import TMA_LATENCY
from hexcute_core.thread import MapRef, Prim, Stamp, ThreadProgram
from hexcute_core.thread.stamps import TRACK

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.lanes.state import Block
    from hexcute_core.simulator.machine import Machine

SCHEDULERS = 4
TURN = 64.0
"""Clocks that a warp computes before another of its scheduler may."""
_UNKNOWN = Timing(1.0, 0.0, "an issue slot")
_WARP_BYTES = 32
Charge = Callable[["Machine"], None]


class Meter:
    """The clocks of one run: its units, and the stamps that came, each with its block, thread and
    interval; when each block `began` and, by its first thread, each warp of it `ended`."""

    def __init__(self, program: ThreadProgram, arch: Arch) -> None:
        self._program = program
        self._timings = {row.name: row.timing for row in arch.copies}
        self._timings |= {row.name: row.timing for row in arch.mmas}
        self._timings |= {_plain(row.name("kk")): row.timing for row in arch.wgmmas}
        bits = {p.name: p.dtype.bits for p in program.params}
        self._boxes = {m.name: prod(m.box) * max(8, bits[m.param]) // 8 for m in program.maps}
        self._free: dict[tuple[Block, str], float] = {}
        self._due: dict[int, float] = {}
        self.time = 0.0
        self.stamps: list[tuple[Block, int, int | None, float]] = []
        self.began: dict[Block, float] = {}
        self.ended: dict[tuple[Block, int], float] = {}

    def begin(self, group: BlockAgents) -> None:
        """A block starts: at once, or when those before it can only wait for it."""
        self.began[group.block] = self.time
        for agent in group.agents:
            agent.machine.pace.now = self.time

    def stamp(self, m: Machine, stamp: Stamp) -> None:
        """A stamp, of the first thread of each warp group."""
        assert self._program.stamps is not None
        opens = self._program.stamps.opens(stamp)
        for lane in m.active():
            if m.thread_of[lane] % TRACK == 0:
                block = m.blocks[int(m.block_of[lane])]
                self.stamps.append((block, int(m.thread_of[lane]), opens, m.pace.now))

    def started(self, m: Machine, engine: object) -> None:
        """Something asynchronous is under way."""
        self._due[id(engine)] = m.pace.done

    def due(self, engine: object) -> float:
        """When something asynchronous happens."""
        return self._due.get(id(engine), self.time)

    def reserve(self, m: Machine, unit: str, start: float, busy: float) -> float:
        """Keeps a unit of the block busy; when it has begun."""
        key = m.blocks[0], unit
        begun = max(start, self._free.get(key, 0.0))
        self._free[key] = begun + busy
        return begun

    def computed(self, e: Scalar, step: Step) -> Routine:
        """A step in which a warp computes `e`; now and then others of its scheduler come before."""
        busy = SCHEDULERS * max(SIMPLE, scalar_clocks(e))

        def start(m: Machine) -> Waits:
            pace = m.pace
            pace.now = max(pace.now, pace.loads)
            if pace.now >= pace.turn:
                yield PAUSE
                pace.turn = pace.now + TURN
            unit = f"arithmetic {m.column % SCHEDULERS}"
            pace.now = self.reserve(m, unit, pace.now, busy) + busy
            step(m)

        return Routine(start)

    def metered(self, stmt: Prim, code: Code) -> Code:
        """A primitive that runs when its warp's turn in time has come, and takes its time."""
        charge, settle = self._charge(stmt), self._settle(stmt)

        def start(m: Machine) -> Waits:
            yield PAUSE
            charge(m)
            m.pace.done = self._done(m, stmt)
            if isinstance(code, Routine):
                yield from code.start(m)
            else:
                code(m)
            settle(m)

        return Routine(start)

    def _charge(self, stmt: Prim) -> Charge:
        """What `stmt` costs its warp before it does anything."""
        name, words = stmt.name, stmt.name.split(".")
        timing = self._timings.get(_plain(name), _UNKNOWN)
        match words:
            case ["wgmma", shape, *_] if shape.startswith("64x"):
                return self._product(timing, "wgmma")
            case ["mma", *_]:
                return self._product(timing, None)
            case ["ld", "global", *_] | ["ld", "cluster", *_] | ["atom", *_]:
                return self._access("global", words[-1], timing.latency)
            case ["ld", *_] | ["ldmatrix", *_]:
                return self._access("shared", words[-1], timing.latency)
            case ["cp", "async", size] if size.isdigit():
                return self._started(int(size), timing.latency)
            case ["st", "global", *_] | ["red", *_] | ["st", "cluster", *_]:
                return self._access("global", words[-1], None)
            case ["st", *_] | ["stmatrix", *_]:
                return self._access("shared", words[-1], None)
            case _:
                return _issued

    def _product(self, timing: Timing, engine: str | None) -> Charge:
        def charge(m: Machine) -> None:
            pace = m.pace
            pace.now = max(pace.now, pace.loads)
            unit = f"tensor {m.column % SCHEDULERS}"
            begun = self.reserve(m, unit, pace.now, timing.issue)
            if engine is None:
                pace.now = begun
                pace.loads = max(pace.loads, begun + timing.latency)
            else:
                pace.begin(engine, begun + max(timing.issue, timing.latency))
                pace.now += 1.0

        return charge

    def _access(self, unit: str, size: str, latency: float | None) -> Charge:
        """An access of a warp; with a `latency` it loads."""
        lanes_bytes = _WARP_BYTES * int(size) if size.isdigit() else 4 * _WARP_BYTES
        busy = 1.0 + lanes_bytes * (CLOCKS_A_SECTOR / SECTOR_BYTES if unit == "global" else 1 / 128)

        def charge(m: Machine) -> None:
            pace = m.pace
            if latency is None:
                pace.now = max(pace.now, pace.loads)
            pace.now = self.reserve(m, unit, pace.now, busy) + 1.0
            if latency is not None:
                pace.loads = max(pace.loads, pace.now + busy + latency)

        return charge

    def _started(self, size: int, latency: float) -> Charge:
        busy = 1.0 + _WARP_BYTES * size * CLOCKS_A_SECTOR / SECTOR_BYTES

        def charge(m: Machine) -> None:
            begun = self.reserve(m, "global", m.pace.now, busy)
            m.pace.now = begun + 1.0
            m.pace.begin("cp.async", begun + busy + latency)

        return charge

    def _settle(self, stmt: Prim) -> Charge:
        """What `stmt` waits for of what its own warp started."""
        words = stmt.name.split(".")
        match words:
            case ["wgmma" | "tma", "commit"] | ["cp", "async", "commit"]:
                engine = ".".join(words[:-1])
                return lambda m: m.pace.commit(engine)
            case ["wgmma", "wait"] | ["cp", "async", "wait"]:
                engine, pending = ".".join(words[:-1]), _constant(stmt)
                return lambda m: m.pace.await_groups(engine, pending)
            case _:
                return lambda m: None

    def _done(self, m: Machine, stmt: Prim) -> float:
        """When what `stmt` starts is done: a box, or an arrival when copies have landed."""
        if stmt.name == "cp.async.mbarrier":
            return max([m.pace.now, *m.pace.open.values(), *m.pace.groups.get("cp.async", [])])
        boxes = [self._boxes.get(o.name, 0) for o in stmt.operands if isinstance(o, MapRef)]
        if not boxes:
            return m.pace.now
        busy = BOX_CLOCKS + CLOCKS_A_SECTOR * sum(boxes) / SECTOR_BYTES
        return self.reserve(m, "global", m.pace.now, busy) + busy + TMA_LATENCY


def _issued(m: Machine) -> None:
    m.pace.now = max(m.pace.now, m.pace.loads) + 1.0


def _plain(name: str) -> str:
    """The name of a product by warp groups without how its operands lie."""
    return name.rpartition(".")[0] if name.startswith("wgmma.64x") else name


def _constant(stmt: Prim) -> int:
    """The number that a wait is given."""
    value = getattr(stmt.operands[0], "value", 0) if stmt.operands else 0
    return int(value)
