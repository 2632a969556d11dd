"""The memory of stamps, read as a GPU would have left it: order, wrap, overflow."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from timeline_kernels import by_roles

from hexcute_core.driver.stamping import names, told
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import StampBuffer
from hexcute_core.runtime.stamps import parse, table
from hexcute_core.thread.stamps import ENTRY, HEAD, NONE, STAMP, part_bytes, tracks

ROOM = 3


def part(*each: tuple[tuple[int, int], tuple[int, int], list[tuple[int, int]], int, int]) -> bytes:
    """A block's part: for each track its start, end, stamps, how many came, multiprocessor."""
    out = b""
    for start, end, stamps, came, where in each:
        out += struct.pack("<QQIIII", start[0], end[0], start[1], end[1], came, where)
        for stamp in stamps:
            out += struct.pack("<II", *stamp)
        out += bytes(STAMP * (ROOM - len(stamps)))
    return out


def read(raw: bytes, blocks: Any) -> Any:
    return parse(np.frombuffer(raw, np.uint8), blocks, 256, ROOM)


def test_every_block_finds_its_part_and_no_other() -> None:
    grid, blocks, address = (3, 2, 2), [(2, 1, 1), (0, 0, 0), (1, 1, 0)], 4096
    entries = table(grid, blocks, 384, ROOM, address)
    rows = struct.iter_unpack("<QII", entries.tobytes())
    found = {i: (place, room) for i, (place, room, zero) in enumerate(rows) if place}
    assert len(entries) == ENTRY * 12
    assert {room for _, room in found.values()} == {ROOM}
    x = {i: (i % 3, i // 3 % 2, i // 6) for i in range(12)}
    assert {x[i] for i in found} == set(blocks)
    # Parts lie behind the table one after the other, aligned for what is written there.
    places = sorted(place for place, _ in found.values())
    size = part_bytes(384, ROOM)
    assert size == tracks(384) * (HEAD + ROOM * STAMP) == 3 * 56
    assert places == [address + len(entries) + i * size for i in range(3)]
    assert all(place % 8 == 0 for place in places)


def test_what_stands_there_is_read() -> None:
    one = ((1000, 7), (3000, 2007), [(0, 10), (NONE, 20)], 2, 5)
    late = ((1010, 17), (2990, 1997), [(1, 30), (2, 40), (NONE, 90)], 8, 5)
    never = ((0, 0), (0, 0), [], 0, 0)
    written = read(part(one, late) + part(never, never), [(0, 0, 0), (1, 0, 0)])
    assert [(w.block, w.track, w.came, w.multiprocessor) for w in written] == [
        ((0, 0, 0), 0, 2, 5), ((0, 0, 0), 1, 8, 5),
    ]  # fmt: skip
    assert written[0].stamps == ((0, 10), (None, 20))
    thread = by_roles.compile("sm_90").stamped.thread
    timeline = told(thread, by_roles.compile("sm_90").tile, written, ROOM)
    producer, consumer = timeline.tracks
    assert (timeline.lost, producer.lost, consumer.lost) == (5, 0, 5)
    assert timeline.clocks == pytest.approx(1.0)
    assert (producer.start, producer.end) == (0.0, 2000.0)
    assert [(s.start, s.end) for s in producer.stretches] == [(3.0, 13.0)]
    assert consumer.start == pytest.approx(10.0)
    assert [(s.start, s.end) for s in consumer.stretches] == [(23.0, 33.0), (33.0, 83.0)]
    assert "5 stamps found no room" in timeline.show()


def test_clocks_that_go_round_go_on() -> None:
    top = 2**32 - 100
    one = ((0, top), (2000, 1900), [(0, top + 50), (1, 50), (NONE, 1000)], 3, 0)
    other = ((0, (top + 120) % 2**32), (1000, 900), [(0, 300), (NONE, 500)], 2, 0)
    thread, tile = by_roles.compile("sm_90").stamped.thread, by_roles.compile("sm_90").tile
    timeline = told(thread, tile, read(part(one, other), [(0, 0, 0)]), ROOM)
    pace = 3000 / (2000 + 880)
    first, second = timeline.tracks
    begun = [s.start - first.start for s in first.stretches]
    assert begun == pytest.approx([50 * pace, 150 * pace])
    assert first.end - first.start == pytest.approx(2000 * pace)
    assert second.start - first.start == pytest.approx(120 * pace)


def test_blocks_of_other_multiprocessors_begin_by_the_common_clock() -> None:
    """Their own clocks begin anywhere."""
    one = ((5000, 100), (6000, 1100), [], 0, 1)
    other = ((5500, 4_000_000_000), (6500, 4_000_001_000), [], 0, 2)
    thread, tile = by_roles.compile("sm_90").stamped.thread, by_roles.compile("sm_90").tile
    raw = part(one, one) + part(other, other)
    timeline = told(thread, tile, read(raw, [(0, 0, 0), (1, 0, 0)]), ROOM)
    assert [t.start for t in timeline.tracks] == pytest.approx([0, 0, 500, 500])
    assert timeline.end == pytest.approx(1500)


def test_nothing_ran() -> None:
    thread, tile = by_roles.compile("sm_90").stamped.thread, by_roles.compile("sm_90").tile
    timeline = told(thread, tile, [], ROOM)
    assert (timeline.tracks, timeline.end, timeline.lost) == ((), 0.0, 0)
    assert timeline.show() and timeline.trace() and timeline.picture()


def test_warp_groups_are_called_by_their_roles() -> None:
    assert names(by_roles.compile("sm_90").tile) == [
        "producer, threads 0 to 127", "consumer, threads 128 to 255",
    ]  # fmt: skip


def test_a_buffer_that_is_too_large_is_refused() -> None:
    with pytest.raises(LaunchError, match="at most 1073741824") as refused:
        StampBuffer(0, (64, 64, 64), [(0, 0, 0)] * 100, 1024, 2**24)
    assert refused.value.fix == "name fewer blocks, or ask for fewer stamps"
