"""kernel.timeline on a GPU: results are right, tracks are in order, nothing is written outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_timeline import arguments, check_order, expected
from timeline_kernels import KERNELS, by_roles, in_step

from hexcute_core.runtime import StampBuffer, bind, device_target

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


def fitting() -> list[str]:
    return [n for n, (_, target) in KERNELS.items() if target <= device_target(0)]


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_launch_is_told_and_right(name: str) -> None:
    if name not in fitting():
        pytest.skip("the GPU lacks what the kernel needs")
    kernel, _ = KERNELS[name]
    host = arguments(200, 136, 520)
    args = [torch.from_numpy(x).cuda() for x in host]
    timeline = kernel.timeline(*args)
    assert np.array_equal(args[2].cpu().numpy(), expected(host))
    assert timeline.unit == "ns" and timeline.lost == 0
    assert 0.5 < timeline.clocks < 3.0 and 0 < timeline.end < 1e6
    assert len({t.block for t in timeline.tracks}) == 8
    for t in timeline.tracks:
        check_order(t)
        assert t.multiprocessor is not None
    told = {s.activity for t in timeline.tracks for s in t.stretches}
    assert told == {"wait", "copy", "multiply", "store"}


def test_few_stamps_are_kept_and_the_rest_counted() -> None:
    if "by_roles" not in fitting():
        pytest.skip("the GPU lacks what the kernel needs")
    host = arguments(64, 64, 2048)
    args = [torch.from_numpy(x).cuda() for x in host]
    whole = by_roles.timeline(*args)
    timeline = by_roles.timeline(*args, stamps=5, blocks=[(0, 0, 0)])
    assert np.array_equal(args[2].cpu().numpy(), expected(host))
    assert all(t.lost > 0 and 0 < len(t.stretches) <= 15 for t in timeline.tracks)
    # What was missing is what it says.
    again = by_roles.timeline(*args, stamps=5 + max(t.lost for t in timeline.tracks))
    assert again.lost == 0
    kept = [s.activity for s in timeline.tracks[0].stretches]
    assert kept == [s.activity for s in whole.tracks[0].stretches][: len(kept)]


@pytest.mark.parametrize("step", [1, 2, -1])
def test_nothing_is_written_beside_the_tracks(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Tracks of three rows, of blocks that follow one another, or do not, and behind them memory
    that must stay as it is."""
    if "by_roles" not in fitting():
        pytest.skip("the GPU lacks what the kernel needs")
    host = arguments(200, 136, 520)
    args = [torch.from_numpy(x).cuda() for x in host]
    bound = bind(by_roles.signature, args, by_roles.divisors)
    compiled = by_roles.specialise("sm_90", bound.key, {})
    made: list[Any] = []

    def guarded(device: int, grid: Any, blocks: Any, *rest: Any) -> Any:
        # The last two blocks have tracks, but the kernel is not told of them.
        buffer = StampBuffer(device, grid, blocks, *rest)
        rows, listed, where, room = buffer.given
        if listed:
            numbers = buffer._memory[buffer._size :].view(torch.int32)
            numbers[numbers >= len(blocks) - 2] = -1
        else:
            buffer.given = rows, listed, where - (2 << 32), room
        made.append(buffer._memory[: buffer._size].view(len(blocks), -1))
        buffer._blocks = blocks[:-2]
        buffer._size -= 2 * made[0].shape[1]
        return buffer

    monkeypatch.setattr("hexcute_core.driver.stamping.StampBuffer", guarded)
    blocks = [(x, y, 0) for y in range(3) for x in range(4)][::step]
    timeline = compiled.stamped.launch(bound.device, bound.values, blocks, 3)
    assert np.array_equal(args[2].cpu().numpy(), expected(host))
    assert [t.block for t in timeline.tracks] == [b for b in blocks[:-2] for _ in range(2)]
    assert all(t.lost and t.stretches for t in timeline.tracks)
    assert made[0][:-2].any(dim=1).all() and not made[0][-2:].any()


@pytest.mark.parametrize(("m", "blocks"), [(0, None), (200, [])])
def test_no_block_is_told_of(m: int, blocks: Any) -> None:
    host = arguments(m, 136, 64)
    args = [torch.from_numpy(x).cuda() for x in host]
    timeline = in_step.timeline(*args, blocks=blocks)
    assert (timeline.tracks, timeline.lost, timeline.end) == ((), 0, 0.0) and timeline.show()
    assert np.array_equal(args[2].cpu().numpy(), expected(host))
