"""One shape: check every candidate of every peer, choose by the clock, time the best in turns.

A candidate that raises or gives a wrong result never wins; what happened to it is in the row.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hexcute_bench.errors import DeviceLost, PeerAbsent
from hexcute_bench.interface import Candidate, Case, Peer, Run, Settings, TunedPeer, Work
from hexcute_bench.rows import ABSENT, FAILED, OK, WRONG
from hexcute_bench.shape import Shape
from hexcute_bench.timing import Clock, Timing, interleave

# Samples a candidate is chosen by; the one that wins is timed again, in turns with the peers.
TUNING_SAMPLES = 3
_TREE = Path(__file__).resolve().parents[3]


@dataclass
class Measured:
    """What came of one peer on one shape; becomes one row."""

    system: str
    status: str
    config: str = ""
    error: float = math.nan
    timing: Timing | None = None
    notes: list[str] = field(default_factory=list)
    slack: float = 1.0


@dataclass
class _Choice:
    """A candidate that is right, and how to launch it."""

    candidate: Candidate
    run: Run
    error: float


def reason(error: BaseException) -> str:
    """One line for the row: the kind of error and its first line, paths within the tree."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}".replace(f"{_TREE}/", "")[:300]


def measured_columns(
    measured: Measured, shape: Shape, case: Case | None, work: Work
) -> dict[str, Any]:
    """The row of one peer on one shape, as far as the measurement knows it."""
    row: dict[str, Any] = {
        "shape": str(shape),
        "system": measured.system,
        "status": measured.status,
        "config": measured.config,
        "error": measured.error,
        "note": "; ".join(measured.notes),
    }
    if case is not None:
        row |= {"sets": case.sets, "tolerance": case.tolerance * measured.slack}
    timing = measured.timing
    if timing is not None:
        row |= {
            "time_us": timing.median,
            "low_us": timing.low,
            "high_us": timing.high,
            "rounds": timing.rounds,
            "launches": timing.launches,
            "method": timing.method,
            "tflops": work.flops / timing.median * 1e-6,
            "tbps": work.bytes / timing.median * 1e-6,
        }
    return row


def worst_error(peer: Peer, case: Case, run: Run) -> float:
    """The largest error over the first and the last set, each poisoned before the launch."""
    errors = []
    for index in sorted({0, case.sets - 1}):
        case.poison(index)
        made = run(index)
        errors.append(peer.check(case, case.output(index) if made is None else made, index))
    return math.nan if any(math.isnan(error) for error in errors) else max(errors)


def within(error: float, tolerance: float) -> bool:
    """NaN never passes."""
    return error <= tolerance


class ShapeMeasurement:
    """Measures peers on one case; `results` are in the order of the peers.

    Raises `DeviceLost` once a peer has broken the device for this process.
    """

    def __init__(self, case: Case, clock: Clock, settings: Settings, suite: str = "") -> None:
        self._case, self._clock, self._settings, self._suite = case, clock, settings, suite

    def results(self, peers: Sequence[Peer]) -> list[Measured]:
        found, chosen = [], []
        for peer in peers:
            measured, choice = self._choose(peer)
            found.append(measured)
            if measured.status == FAILED and not self._clock.alive():
                raise DeviceLost(measured)
            if choice is not None:
                replay = self._replay(measured, choice)
                if replay is not None:
                    chosen.append((peer, measured, choice, replay))
        timings = interleave(
            [replay for *_, replay in chosen], self._settings.rounds, self._settings.pause_s
        )
        for (peer, measured, choice, replay), timing in zip(chosen, timings):
            measured.timing = timing
            self._check_again(peer, measured, choice, replay)
        chosen.clear()
        gc.collect()
        return found

    def _choose(self, peer: Peer) -> tuple[Measured, _Choice | None]:
        measured = Measured(peer.name, FAILED, slack=peer.slack)
        try:
            if isinstance(peer, TunedPeer):
                candidates = peer.tuned(self._case, self._suite)
            else:
                candidates = peer.prepare(self._case)
        except PeerAbsent as error:
            measured.status = ABSENT
            measured.notes.append(str(error))
            return measured, None
        except Exception as error:
            measured.notes.append(reason(error))
            return measured, None
        right, wrong = self._checked(peer, candidates, measured)
        if not right:
            if wrong:
                name, measured.error = wrong[0]
                measured.status, measured.config = WRONG, name
            return measured, None
        best = right[0] if len(right) == 1 else self._fastest(right, measured)
        measured.status, measured.config = OK, best.candidate.name
        measured.notes += [best.candidate.note] * bool(best.candidate.note)
        measured.error = best.error
        return measured, best

    def _checked(
        self, peer: Peer, candidates: Sequence[Candidate], measured: Measured
    ) -> tuple[list[_Choice], list[tuple[str, float]]]:
        """The candidates that are right, and the wrong ones with their errors."""
        right, wrong = [], []
        failures: dict[str, list[str]] = {}
        for candidate in candidates:
            try:
                run = candidate.build()
                error = worst_error(peer, self._case, run)
            except Exception as problem:
                failures.setdefault(reason(problem), []).append(candidate.name)
                continue
            if within(error, self._case.tolerance * measured.slack):
                right.append(_Choice(candidate, run, error))
            else:
                wrong.append((candidate.name, error))
                measured.notes.append(f"wrong: {candidate.name} (error {error:.3g})")
        for text, names in failures.items():
            count = f"{len(names)} of {len(candidates)} configurations failed, first "
            measured.notes.append(f"{count if len(candidates) > 1 else ''}{names[0]}: {text}")
        return right, wrong

    def _fastest(self, right: Sequence[_Choice], measured: Measured) -> _Choice:
        times: list[tuple[float, int]] = []
        for index, choice in enumerate(right):
            try:
                replay = self._clock.replay(choice.run, self._case.sets, self._settings.tune_us)
                replay.sample()
                taken = [replay.sample() for _ in range(TUNING_SAMPLES)]
            except Exception as problem:
                measured.notes.append(f"not timed: {choice.candidate.name}: {reason(problem)}")
                continue
            times.append((statistics.median(taken), index))
        measured.notes.append(f"best of {len(times)}")
        return right[min(times)[1]] if times else right[0]

    def _replay(self, measured: Measured, choice: _Choice) -> Any:
        try:
            return self._clock.replay(choice.run, self._case.sets, self._settings.replay_us)
        except Exception as problem:
            measured.status = FAILED
            measured.notes.append(f"right, but not timed: {reason(problem)}")
            return None

    def _check_again(self, peer: Peer, measured: Measured, choice: _Choice, replay: Any) -> None:
        """The timed launches must have computed too: poison every output, replay, compare."""
        case = self._case
        if replay.method == "host" or choice.run(0) is not None:
            return
        for index in range(case.sets):
            case.poison(index)
        replay.sample()
        last = case.sets - 1
        error = max(peer.check(case, case.output(index), index) for index in sorted({0, last}))
        if not within(error, case.tolerance * measured.slack):
            measured.status, measured.error = WRONG, error
            measured.notes.append("wrong after the timed replays")
