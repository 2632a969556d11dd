"""Runs a suite into a folder: what is measured is kept, what is missing is measured.

    rows still to measure = shapes x systems - rows already there with a timed answer

A shape whose systems were partly measured before is measured with the baseline beside the
missing ones, because a ratio holds only within one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexcute_bench import environment
from hexcute_bench.errors import BenchError, DeviceLost, PeerAbsent
from hexcute_bench.interface import KernelSuite, Peer, ProcessPeer, Settings, Suite, TableSuite
from hexcute_bench.measure import Measured, ShapeMeasurement, measured_columns, reason
from hexcute_bench.peers.ours import missing_operator
from hexcute_bench.progress import Progress
from hexcute_bench.rows import (
    ABSENT,
    ALL_SHAPES,
    FAILED,
    MAIN,
    OK,
    TIMED_COLUMNS,
    WRONG,
    ResultFile,
)
from hexcute_bench.shape import Shape, select
from hexcute_bench.timing import Clock

_LOST = "broke the device"


@dataclass(frozen=True)
class Order:
    """What to run: names of systems (all where empty), shape filters, and until when.

    `seconds` is the time after which no new shape is begun; `keys` are what keys of a table begin
    with.
    """

    out: Path
    settings: Settings
    systems: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    seconds: float = float("inf")
    quiet: bool = False


def missing_kernel(suite: Suite) -> str:
    """Why ours cannot run in this suite; empty where it can."""
    return missing_operator(suite.operator) if suite.operator else ""


class SuiteRun:
    """One suite into one CSV file; `go` returns whether everything asked for is there."""

    def __init__(
        self,
        order: Order,
        clock: Callable[[Settings], Clock],
        look: Callable[[], environment.Environment] = environment.look,
    ) -> None:
        self._order, self._clock, self._look = order, clock, look
        self._deadline = time.monotonic() + order.seconds

    def go(self, suite: Suite) -> bool:
        match suite:
            case KernelSuite():
                return self._timed(suite)
            case TableSuite():
                return self._table(suite)

    def _timed(self, suite: KernelSuite) -> bool:
        order = self._order
        wanted = self._wanted(suite)
        results = ResultFile(order.out / f"{suite.name}.csv", TIMED_COLUMNS)
        shapes = select(suite.quick if order.settings.quick else suite.shapes, order.filters)
        clock = self._clock(order.settings)
        state = _State(suite, order, results, self._look(), environment.ClockWatch())
        state.save()
        pending = [(shape, state.pending(shape, wanted)) for shape in shapes]
        pending = [(shape, names) for shape, names in pending if names]
        complete = True
        with Progress(suite.name, len(pending), order.quiet) as progress:
            progress.say(f"{suite.title}: {len(shapes)} shapes, {len(pending)} to measure")
            for shape, names in pending:
                if time.monotonic() > self._deadline:
                    progress.say("out of time; run the same command again to go on")
                    complete = False
                    break
                lines = self._shape(state, clock, shape, names)
                progress.step(f"{shape}: {lines}")
            for group in suite.processes:
                complete &= self._process(state, group, shapes, wanted, progress)
        state.save()
        return complete

    def _wanted(self, suite: KernelSuite) -> tuple[str, ...]:
        known = suite.systems()
        strange = [name for name in self._order.systems if name not in known]
        if strange:
            raise BenchError(f"{suite.name} has no peer {strange[0]!r}; it has {', '.join(known)}")
        return self._order.systems or known

    def _shape(self, state: _State, clock: Clock, shape: Shape, names: Sequence[str]) -> str:
        suite = state.suite
        by_name = {peer.name: peer for peer in suite.peers}
        peers: list[Peer] = [by_name[name] for name in names]
        try:
            case = suite.case(shape)
        except Exception as error:
            failed = [Measured(peer.name, FAILED, notes=[reason(error)]) for peer in peers]
            state.add(shape, failed, None)
            return f"no inputs: {reason(error)}"
        state.watch.start()
        try:
            results = ShapeMeasurement(case, clock, state.settings, suite.name).results(peers)
        except DeviceLost as lost:
            lost.measured.notes.append(_LOST)
            state.add(shape, [lost.measured], case)
            state.save()
            raise
        mhz = state.watch.finish()
        state.add(shape, results, case, mhz)
        return "  ".join(_brief(result) for result in results)

    def _process(
        self,
        state: _State,
        group: ProcessPeer,
        shapes: Iterable[Shape],
        wanted: Sequence[str],
        progress: Progress,
    ) -> bool:
        names = [name for name in group.systems if name in wanted]
        left = [shape for shape in shapes if state.missing(shape, names, group.process)]
        if not left:
            return True
        seconds = self._deadline - time.monotonic()
        if seconds < 0:
            return False
        _release_memory()
        progress.say(f"{group.process}: {len(left)} shapes in a process of its own")
        done = set()
        try:
            for row in group.rows(state.suite.name, left, names, state.settings):
                state.add_row({**row, "process": group.process})
                done.add(row["shape"])
                progress.say(f"[{group.process} {len(done)}/{len(left)}] {_brief_row(row)}")
                if time.monotonic() > self._deadline:
                    break
        except BenchError as error:
            status = ABSENT if isinstance(error, PeerAbsent) else FAILED
            for name in names:
                state.add_row({
                    "shape": ALL_SHAPES, "system": name, "status": status,
                    "process": group.process, "note": str(error),
                })  # fmt: skip
            progress.say(f"{group.process}: {error}")
        return len(done) == len(left)

    def _table(self, suite: TableSuite) -> bool:
        order = self._order
        results = ResultFile(order.out / f"{suite.name}.csv", suite.columns)
        done = {row["key"] for row in results.rows if row["status"] == OK}
        keys = [
            key
            for key in suite.keys(order.settings.quick)
            if key not in done and (not order.keys or key.startswith(order.keys))
        ]
        seen = self._look()
        with Progress(suite.name, len(keys), order.quiet) as progress:
            for key in keys:
                if time.monotonic() > self._deadline:
                    progress.say("out of time; run the same command again to go on")
                    return False
                try:
                    rows: Sequence[Mapping[str, Any]] = suite.measure(key, order.settings)
                except Exception as error:
                    if order.settings.ranks > 1:
                        # The other ranks wait for this one: torchrun ends them with it.
                        raise
                    rows = [{"key": key, "status": FAILED, "note": reason(error)}]
                results.append({**seen.columns(), **row} for row in rows)
                progress.step(f"{key}: {rows[0]['status'] if rows else 'nothing'}")
        environment.write(order.out, seen, suite.name, {})
        return True


class _State:
    """The result file of a running suite and what each of its rows carries."""

    def __init__(
        self,
        suite: KernelSuite,
        order: Order,
        results: ResultFile,
        seen: environment.Environment,
        watch: environment.ClockWatch,
    ) -> None:
        self.suite, self.results, self.environment, self.watch = suite, results, seen, watch
        self.settings = order.settings
        # Baselines that another process times as its link do not count for this one.
        self._measured = results.measured("shape", "system", "protocol", "process")
        lost = {row["system"] for row in results.rows if row["note"].endswith(_LOST)}
        self._lost = lost - set(order.systems)

    def missing(self, shape: Shape, names: Iterable[str], process: str = MAIN) -> list[str]:
        """The systems without a timed answer; one that broke the device is asked for by name
        only."""
        protocol = self.settings.protocol
        return [
            name
            for name in names
            if (str(shape), name, protocol, process) not in self._measured
            and name not in self._lost
        ]

    def pending(self, shape: Shape, wanted: Sequence[str]) -> list[str]:
        """The in-process systems to measure now, the baseline among them if there are any."""
        inside = [peer.name for peer in self.suite.peers]
        names = self.missing(shape, [name for name in inside if name in wanted])
        if names and self.suite.baseline in inside and self.suite.baseline not in names:
            names = [self.suite.baseline, *names]
        return names

    def add(self, shape: Shape, found: Sequence[Measured], case: Any, mhz: str = "") -> None:
        work = self.suite.work(shape)
        common = {
            **self.environment.columns(), "suite": self.suite.name, "sm_mhz": mhz,
            "protocol": self.settings.protocol, "process": MAIN,
        }  # fmt: skip
        self.results.append(
            {**common, **measured_columns(measured, shape, case, work)} for measured in found
        )

    def add_row(self, row: Mapping[str, Any]) -> None:
        common = {"suite": self.suite.name, "protocol": self.settings.protocol}
        self.results.append([{**self.environment.columns(), **common, **row}])

    def save(self) -> None:
        environment.write(
            self.results.path.parent,
            self.environment,
            self.suite.name,
            {"clocks_seen": self.watch.summary(), "protocol": self.settings.protocol},
        )


def _release_memory() -> None:
    """Gives cached device memory back before another process measures."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _brief(measured: Measured) -> str:
    if measured.timing is None:
        return f"{measured.system} {measured.status}"
    flag = "" if measured.status == OK else f" {measured.status.upper()}"
    return f"{measured.system} {measured.timing.median:.1f}us{flag}"


def _brief_row(row: Mapping[str, Any]) -> str:
    time_us = row.get("time_us")
    took = f"{float(time_us):.1f}us" if time_us else ""
    flag = "" if row["status"] == OK else row["status"].upper()
    note = row.get("note", "") if row["status"] in (FAILED, WRONG) else ""
    return f"{row['shape']} {row['system']} {took} {flag} {note}".strip()
