"""shfl(value, source lane) and vote(predicate): what the lanes of one warp tell each other.

All lanes of a warp, 32 consecutive threads, must execute the instruction together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hexcute_core.dtypes import DType
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import Array, Value, broadcast, storage

WarpCall = Callable[..., Value]
SourceLane = Callable[[Array, Array], Array]


def _pick(m: LaneState, name: str, value: Value, source: Array, words: int) -> Value:
    """value of lane `source` [lanes], checked to be executing; `source` counts all lanes. An
    instruction moves one of its `words`."""
    for _ in range(words):
        m.count(name)
    lanes = m.active()
    held = np.clip(source, 0, m.lanes - 1)
    lost = (source != held) | (m.warp_of[held] != m.warp_of)
    if m.mask is not None:
        lost |= ~m.mask[held]
    if lost.any():
        bad = lanes[lost[lanes]]
        if len(bad):
            lane = int(bad[0])
            wanted = int(source[lane] - lane + m.thread_of[lane]) % 32
            m.fail(f"{name} reads lane {wanted}, which does not execute it", lane)
    _whole(m, name)
    if not isinstance(value, np.ndarray):
        return value
    picked: Array = value[held]
    return picked


def _whole(m: LaneState, name: str) -> None:
    """The instruction names all lanes of its warp, so all must execute it."""
    if m.mask is None:
        return
    here = np.bincount(m.warp_of[m.mask], minlength=m.warps)
    torn = (here > 0) & (here < np.bincount(m.warp_of, minlength=m.warps))
    if torn.any():
        lane = int(np.flatnonzero(m.mask & torn[m.warp_of])[0])
        m.fail(f"{name} inside divergent control flow: only part of a warp reaches it", lane)


def _lane_and_base(m: LaneState) -> tuple[Array, Array]:
    """Lane in the warp, and index of the warp's lane 0, of every lane."""
    lane = m.thread_of % 32
    return lane, m.all_lanes - lane


def _shuffle(name: str, source_lane: SourceLane) -> Callable[[DType], WarpCall]:
    def make(dtype: DType) -> WarpCall:
        words = 2 if dtype.bits == 64 else 1

        def run(m: LaneState, value: Value, operand: Value) -> Value:
            lane, base = _lane_and_base(m)
            wanted = source_lane(lane, np.asarray(operand).astype(np.int64))
            # Past the warp's ends a lane keeps its own value.
            wanted = np.where((wanted < 0) | (wanted > 31), lane, wanted)
            return _pick(m, name, value, base + wanted, words)

        return run

    return make


def _vote(name: str) -> Callable[[DType], WarpCall]:
    def make(dtype: DType) -> WarpCall:
        def run(m: LaneState, predicate: Value) -> Value:
            m.count(name)
            _whole(m, name)
            votes = broadcast(predicate, dtype, m.lanes) != 0
            executing = np.ones(m.lanes, dtype=np.bool_) if m.mask is None else m.mask
            if name == "vote.all":
                quorum = np.bincount(m.warp_of[executing & ~votes], minlength=m.warps) == 0
            elif name == "vote.any":
                quorum = np.bincount(m.warp_of[executing & votes], minlength=m.warps) > 0
            else:
                lane, _ = _lane_and_base(m)
                bits = np.where(executing & votes, np.int64(1) << lane, 0)
                total = np.zeros(m.warps, dtype=np.int64)
                np.add.at(total, m.warp_of, bits)
                quorum = total
            told: Array = quorum[m.warp_of].astype(storage(dtype))
            return told

        return run

    return make


CALLS: Mapping[str, Callable[[DType], WarpCall]] = {
    "shfl.xor": _shuffle("shfl.xor", lambda lane, mask: lane ^ mask),
    "shfl.idx": _shuffle("shfl.idx", lambda lane, index: (index & 31) + 0 * lane),
    "shfl.down": _shuffle("shfl.down", lambda lane, delta: lane + delta),
    "shfl.up": _shuffle("shfl.up", lambda lane, delta: lane - delta),
    "vote.all": _vote("vote.all"),
    "vote.any": _vote("vote.any"),
    "vote.ballot": _vote("vote.ballot"),
}
