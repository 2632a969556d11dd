"""kernel.timeline on a GPU: results are right, tracks are in order, nothing is written outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_timeline import arguments, check_order, expected
from timeline_kernels import KERNELS, by_roles

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
    assert all(t.lost > 0 and len(t.stretches) <= 5 for t in timeline.tracks)
    kept = [s.activity for s in timeline.tracks[0].stretches]
    assert kept == [s.activity for s in whole.tracks[0].stretches][: len(kept)]


def test_nothing_is_written_beside_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracks of three stamps, a guard behind each block's part."""
    if "by_roles" not in fitting():
        pytest.skip("the GPU lacks what the kernel needs")
    host = arguments(200, 136, 520)
    args = [torch.from_numpy(x).cuda() for x in host]
    bound = bind(by_roles.signature, args, by_roles.divisors)
    compiled = by_roles.specialise("sm_90", bound.key, {})
    stamped = compiled.stamped
    made: list[StampBuffer] = []

    def guarded(device: int, grid: Any, blocks: Any, threads: int, room: int, span: Any) -> Any:
        # Every second block is told of; the parts of the others lie between and stay clear.
        buffer = StampBuffer(device, grid, blocks, threads, room, span)
        made.append(buffer)
        entries = buffer._memory[: buffer._table].view(-1, 16)
        entries[1::2] = 0
        return buffer

    monkeypatch.setattr("hexcute_core.driver.stamping.StampBuffer", guarded)
    blocks = [(x, y, 0) for y in range(3) for x in range(4)]
    timeline = stamped.launch(bound.device, bound.values, blocks, 3)
    assert np.array_equal(args[2].cpu().numpy(), expected(host))
    assert {t.block for t in timeline.tracks} == set(blocks[::2])
    parts = made[0]._memory[made[0]._table :].view(len(blocks), -1)
    assert parts[::2].any() and not parts[1::2].any()
