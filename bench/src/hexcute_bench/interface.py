"""What suites, cases, peers and clocks are to the harness: one interface each.

A suite makes a `Case` for a shape: rotated sets of fresh random inputs, a poisoned output a
set, and the reference they are checked against. A peer turns a case into `Candidate`s, one per
configuration; building one gives a function of the set's index that launches the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from hexcute_bench.shape import Shape

# Launches on the inputs of one set. Gives the tensor it made, or None where it wrote the set's
# own output.
Run = Callable[[int], Any]


class Case(Protocol):
    """One shape's data on the device.

    `sets` is the number of rotated input sets and `tolerance` the largest allowed `error`.
    """

    shape: Shape
    sets: int
    tolerance: float

    def poison(self, index: int) -> None:
        """Fills the set's output with a value no right result holds."""

    def output(self, index: int) -> Any:
        """The set's own output."""

    def error(self, output: Any, index: int) -> float:
        """How far an output is from the reference; NaN and infinity where it holds any."""


@dataclass(frozen=True)
class Candidate:
    """One configuration of a peer; `build` may raise, which drops this configuration only. `note`
    is for the row."""

    name: str
    build: Callable[[], Run]
    note: str = ""


class Peer(Protocol):
    """One system under measurement.

    `prepare` raises `PeerAbsent` where it is not installed. `check` gives the error of an
    output; most peers leave that to the case. `slack` is how many times the case's tolerance that
    may be: 1, but for a library that rounds to 16 bits where the case's own bound has no rounding.
    """

    @property
    def name(self) -> str: ...

    @property
    def slack(self) -> float: ...

    def prepare(self, case: Any) -> Sequence[Candidate]: ...

    def check(self, case: Any, output: Any, index: int) -> float: ...


@runtime_checkable
class TunedPeer(Protocol):
    """A peer that has a tuner of its own, which has to know the suite to make its cases anew."""

    def tuned(self, case: Any, suite: str) -> Sequence[Candidate]: ...


class CasePeer:
    """A peer whose outputs the case itself can check."""

    slack: float = 1.0

    def check(self, case: Any, output: Any, index: int) -> float:
        return float(case.error(output, index))


@dataclass(frozen=True)
class Work:
    """What a shape asks for at least: floating-point operations, and bytes moved once each."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class ProcessPeer:
    """Peers that cannot share a process: `command` gets the shapes and prints a row per line.

    Arguments: the suite's name, the shapes to measure, the systems wanted, and the settings.
    The process times the suite's baseline too, as the link between the two.
    """

    systems: tuple[str, ...]
    process: str
    rows: Callable[[str, Sequence[Shape], Sequence[str], Settings], Iterator[Mapping[str, Any]]]


@dataclass(frozen=True)
class Settings:
    """How long and by which protocol to measure.

    `protocol` is "graph" (device time, replayed graphs) or "host" (each launch waited for, the
    host's launch counted, as the paper did). Before each sample the device rests for `pause_s`:
    under steady load it lowers its clocks, the more the hotter the sample before was, and a
    system would be timed at clocks that its neighbours chose.
    """

    quick: bool = False
    protocol: str = "graph"
    rounds: int = 15
    replay_us: float = 5000.0
    pause_s: float = 0.02
    tune_us: float = 1000.0
    ranks: int = 1
    spread: str = ""

    @classmethod
    def of(cls, quick: bool, protocol: str) -> Settings:
        if quick:
            return cls(quick, protocol, rounds=7, replay_us=2500.0, tune_us=500.0)
        return cls(quick, protocol)


@dataclass(frozen=True)
class KernelSuite:
    """Shapes on which our kernel and its peers are timed side by side.

    `operator` names the operator of ours that it is about; `regime` names the group a shape's ratio
    is averaged in.
    """

    name: str
    title: str
    operator: str
    baseline: str
    shapes: tuple[Shape, ...]
    quick: tuple[Shape, ...]
    peers: tuple[Peer, ...]
    case: Callable[[Shape], Case]
    work: Callable[[Shape], Work]
    regime: Callable[[Shape], str]
    processes: tuple[ProcessPeer, ...] = ()
    note: str = ""

    def systems(self) -> tuple[str, ...]:
        inside = tuple(peer.name for peer in self.peers)
        return inside + tuple(name for group in self.processes for name in group.systems)


@dataclass(frozen=True)
class TableSuite:
    """Facts that are counted or compiled, not timed beside peers: one row per key and more.

    `keys` lists the work; `measure` gives the rows of one key, which carry `key` and `status`.
    `operator` names the operator of ours that it needs, where it needs one. `several` says whether
    it takes several GPUs, one process each.
    """

    name: str
    title: str
    operator: str
    columns: tuple[str, ...]
    keys: Callable[[bool], Sequence[str]]
    measure: Callable[[str, Settings], Sequence[Mapping[str, Any]]]
    note: str = field(default="")
    several: bool = False


Suite = KernelSuite | TableSuite
