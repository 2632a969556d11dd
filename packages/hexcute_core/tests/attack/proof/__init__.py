"""unproved(program, arrays, numbers) = what of a program is not ordered on every schedule.

`trace` says what each warp executed, `replay` makes a graph of it, `conflicts` asks that of any two
accesses of which one writes one comes before the other. That the barriers themselves are, phase by
phase, what they were is asked as well (`barriers`): then no other order of warps, engines and
blocks can come out otherwise, since the first thing that did would have to follow from two things
that are not ordered.

What a thread does to its own registers, and how it waits for the products that use them, is in its
own order: a run that finds nothing there says it of all schedules. A proof is for the arguments of
its run, in which rings should come round.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from attack.proof.conflicts import unordered
from attack.proof.replay import Replay
from attack.proof.trace import trace
from attack.proof.warps import Unproved
from hexcute_core.simulator.primitives import shared_granule
from hexcute_core.thread import ThreadProgram


def unproved(
    program: ThreadProgram, arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Any]
) -> frozenset[str]:
    """What cannot be shown of a program without findings; nothing where all is ordered."""
    try:
        replay = Replay(
            trace(program, arrays, numbers), program.block_dim, prod(program.cluster_dim),
            shared_granule(program),
        )  # fmt: skip
        replay.run()
    except Unproved as reason:
        return frozenset((str(reason),))
    return frozenset(unordered(replay.accesses, replay.fences, replay.graph))
