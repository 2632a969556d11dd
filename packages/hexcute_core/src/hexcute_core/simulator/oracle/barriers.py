"""What roles of a tile program wait for, without threads: phases that fill and complete.

A slot of a pipeline is two of them, full and empty; mbarriers and named barriers count the
executing lanes. `wait parity` goes on when the phase in progress has the other parity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.tile import (
    PipelineRelease,
    Produce,
    Role,
    Stmt,
    TileProgram,
)
from hexcute_core.tile.visit import statements

Ready = Callable[[], bool]
Waits = Iterator[Ready]


class Phases:
    """A barrier that `count` arrivals and all expected bytes bring to its next phase."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.phase = 0
        self._pending, self._bytes = count, 0

    def arrive(self, times: int = 1, expected: int = 0) -> None:
        """So many arrivals, which expect so many bytes more."""
        self._pending -= times
        self._bytes += expected
        self._advance()

    def complete(self, moved: int) -> None:
        """So many bytes have come."""
        self._bytes -= moved
        self._advance()

    def _advance(self) -> None:
        if self._pending <= 0 and self._bytes == 0:
            self.phase += 1
            self._pending += self.count

    def done(self, parity: int) -> bool:
        """Whether the phase of `parity` has completed."""
        return self.phase & 1 != parity & 1


class BlockBarriers:
    """All barriers of one block."""

    def __init__(self, program: TileProgram) -> None:
        self.full: dict[str, list[Phases]] = {}
        self.empty: dict[str, list[Phases]] = {}
        for ring in program.pipelines:
            filling = _roles_with(program.body, Produce, ring.name)
            freeing = 1 if ring.readers == "one" else _roles_with(
                program.body, PipelineRelease, ring.name
            )  # fmt: skip
            self.full[ring.name] = [Phases(max(1, filling)) for _ in range(ring.stages)]
            self.empty[ring.name] = [Phases(max(1, freeing)) for _ in range(ring.stages)]
        self.raw = {b.name: [Phases(b.count) for _ in range(b.size)] for b in program.mbarriers}
        self.named = {b.name: Phases(b.threads) for b in program.named_barriers}


def _roles_with(
    body: Sequence[Stmt], kind: type[Produce] | type[PipelineRelease], name: str
) -> int:
    """How many roles have such a statement of pipeline `name`; all threads are one."""

    def found(part: Sequence[Stmt]) -> bool:
        return any(isinstance(s, kind) and s.pipeline == name for s in statements(part))

    roles = [stmt for stmt in body if isinstance(stmt, Role)]
    rest = [stmt for stmt in body if not isinstance(stmt, Role)]
    return sum(found(role.body) for role in roles) + found(rest)


def side_by_side(runs: Sequence[Waits], span: SourceSpan | None) -> Waits:
    """Runs all in turns; waits when none can go on."""
    waiting: list[tuple[Waits, Ready]] = [(run, _now) for run in runs]
    while waiting:
        going = [(run, ready) for run, ready in waiting if ready()]
        if not going:
            pending = [ready for _, ready in waiting]
            yield lambda: any(ready() for ready in pending)  # noqa: B023
            continue
        held = [(run, ready) for run, ready in waiting if not ready()]
        for run, _ in going:
            wanted = next(run, None)
            if wanted is not None:
                held.append((run, wanted))
        waiting = held


def _now() -> bool:
    return True


def run_all(runs: Sequence[Waits], span: SourceSpan | None) -> None:
    """Runs all to their ends; SimulationError where they wait for each other for ever."""
    for ready in side_by_side(runs, span):
        if not ready():
            raise SimulationError(
                "the roles wait for each other for ever: a slot is waited for that nobody fills, "
                "or filled again that nobody releases",
                span,
            )
