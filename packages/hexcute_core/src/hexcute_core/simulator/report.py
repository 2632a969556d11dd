"""SimulationReport = what a simulation left: outputs, findings, counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hexcute_core.simulator.counting import Counters
from hexcute_core.simulator.findings import Finding, FoundError
from hexcute_core.simulator.lanes.state import Block
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.thread.timeline import Timeline


@dataclass(frozen=True)
class SimulationReport:
    """What a run left.

    `outputs` are the caller's arrays, written in place by the first schedule; `counters` are its
    counts too. `findings` are those of all schedules, each place once; `seeds` names the
    schedules, and `deterministic` says whether they all left the same bytes. `wrong` names the
    arrays that differ from what the tile program means, where that was asked for. `printed` is what
    the first schedule printed.
    """

    outputs: Mapping[str, Array]
    counters: Counters
    blocks: tuple[Block, ...]
    findings: tuple[Finding, ...] = ()
    seeds: tuple[int, ...] = (0,)
    deterministic: bool = True
    wrong: tuple[str, ...] = ()
    printed: str = ""
    timeline: Timeline | None = None

    def check(self) -> None:
        """Raises the first finding, where there is one, as a SimulationError."""
        if self.findings:
            raise FoundError(self.findings[0])

    def show(self) -> str:
        """What was printed, the findings, then the counters, as text."""
        told = [str(finding) for finding in self.findings] or ["no findings"]
        ran = f"{len(self.blocks)} blocks, {len(self.seeds)} schedules"
        same = "" if self.deterministic else ", which left different outputs"
        printed = self.printed + "\n" * (not self.printed.endswith("\n")) if self.printed else ""
        return printed + "\n".join([f"{ran}{same}", *told]) + "\n\n" + self.counters.show()
