"""What synchronises threads: pipelines between roles, and raw barriers under the author's control.

A pipeline's barriers, bytes and phases are derived. A raw mbarrier or named barrier is a thread's
own affair: whoever runs the statement arrives or waits, under any condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Scalar


@dataclass(frozen=True)
class Pipeline:
    """A ring of `stages` slots, each with a full and an empty barrier.

    Barriers, transaction bytes and arrival counts are derived from the copies that fill a slot
    and the roles that read it: all of them read every slot, or with `readers` "one" a single role
    reads each and passes over the others'.
    """

    name: str
    stages: int
    span: SourceSpan
    readers: Literal["all", "one"] = "all"


@dataclass(frozen=True)
class PipelineWait:
    """Waits until slot `stage` is full in the round of parity `phase`."""

    pipeline: str
    stage: Scalar
    phase: Scalar
    span: SourceSpan


@dataclass(frozen=True)
class PipelineRelease:
    """This role is done with slot `stage`; asynchronous gemms that read it have been waited for."""

    pipeline: str
    stage: Scalar
    span: SourceSpan


@dataclass(frozen=True)
class Mbarrier:
    """`size` mbarriers side by side in shared memory, initialised at the kernel's start: `count`
    arrivals complete a phase."""

    name: str
    count: int
    size: int
    span: SourceSpan


@dataclass(frozen=True)
class MbarrierOp:
    """A thread's use of mbarrier `index` of `barrier`.

    "arrive": one arrival; "expect": one arrival that also expects `value` bytes in this phase;
    "wait": until the phase of parity `value` has completed; "remote": one arrival at the same
    mbarrier of block `value` of the cluster.
    """

    action: Literal["arrive", "expect", "wait", "remote"]
    barrier: str
    index: Scalar
    value: Scalar | None
    span: SourceSpan


@dataclass(frozen=True)
class NamedBarrier:
    """A hardware barrier where `threads` threads meet, those that only arrive included."""

    name: str
    threads: int
    span: SourceSpan


@dataclass(frozen=True)
class NamedBarrierOp:
    """ "sync": arrive and wait until all have; "arrive": arrive and go on."""

    action: Literal["sync", "arrive"]
    barrier: str
    span: SourceSpan


@dataclass(frozen=True)
class ClusterOp:
    """Half of a meeting of all threads of the cluster: writes before every "arrive" are visible
    after the "wait"."""

    action: Literal["arrive", "wait"]
    span: SourceSpan


BarrierStmt = MbarrierOp | NamedBarrierOp | ClusterOp
"""Statements of single threads: they may stand under conditions that threads do not share."""
