"""The memory of stamps, read as a GPU would have left it: order, wrap, overflow."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from timeline_kernels import by_roles

from hexcute_core.driver.stamping import names, told
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import StampBuffer
from hexcute_core.runtime.stamps import parse, table
from hexcute_core.thread.stamps import HEAD, NONE, ROW, rows, track_bytes
from hexcute_core.thread.timeline import Timeline

ROOM = 3
RUNS = ((0, None), (1, 2, None), (0, 1, 2, None), (1,))
Part = tuple[tuple[int, int], tuple[int, int], list[tuple[int, ...]], int, int]


def written(blocks: Any, *parts: Part) -> Any:
    """Of each track its start, its end, its runs (a number, then clocks), rows left, where it ran:
    what a GPU would have left of it, read."""
    raw = b""
    for start, end, runs, left, where in parts:
        lines = b""
        for number, *clocks in runs:
            words = (1 + number, *clocks)
            lines += struct.pack(f"<{len(words)}I", *words) + bytes(-4 * len(words) % ROW)
        raw += lines + bytes(ROW * ROOM - len(lines))
        raw += struct.pack("<QIiIIII", *end, left, start[0] % 2**32, start[1], where, 0)
    return parse(np.frombuffer(raw, np.uint8), blocks, len(parts) // max(len(blocks), 1), RUNS)


def timeline(*args: Any) -> Any:
    compiled = by_roles.compile("sm_90")
    return told(compiled.stamped.thread, compiled.tile, written(*args))


def test_every_block_finds_its_number_and_no_other() -> None:
    assert table([9, 4, 6]).tolist() == [1, NONE, 2, NONE, NONE, 0]
    # Rows and heads are written four words at a time.
    assert track_bytes(0) == HEAD and track_bytes(ROOM) == ROW * ROOM + HEAD
    assert HEAD % 16 == ROW % 16 == 0


@pytest.mark.parametrize(("stamps", "count"), [(1, 1), (3, 1), (4, 2), (7, 2), (8, 3)])
def test_a_run_takes_the_rows_that_its_words_fill(stamps: int, count: int) -> None:
    assert rows(stamps) == count


class Left:
    """A GPU's memory as a launch left it."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __getitem__(self, part: slice) -> Left:
        return Left(self.raw[part])

    def cpu(self) -> Left:
        return self

    def numpy(self) -> Any:
        return self.raw


def test_a_track_without_an_end_is_told_and_not_read() -> None:
    buffer = StampBuffer.__new__(StampBuffer)
    raw = np.zeros(track_bytes(ROOM), np.uint8)
    vars(buffer).update(
        _memory=Left(raw), _size=raw.size, _blocks=[(0, 0, 0)], _count=1, _runs=RUNS, _span=None
    )
    with pytest.raises(LaunchError, match="a track has no end: its stamps went on") as caught:
        buffer.read()
    assert caught.value.fix == "launch the kernel on less work"


def test_what_stands_there_is_read() -> None:
    one = ((1000, 7), (3000, 2007), [(0, 10, 20)], 2, 5)
    # The run of two rows found no room behind two of one; room that is left is no room to come.
    late = ((1010, 17), (2990, 1997), [(1, 30, 40, 90), (3, 95)], -4, 5)
    long = ((1010, 17), (2990, 1997), [(2, 30, 40, 90, 95), (3, 99)], 0, 5)
    blocks = [(0, 0, 0), (2, 0, 0)]
    found = written(blocks, one, late, long, long)
    assert [(w.block, w.track, w.lost, w.multiprocessor) for w in found] == [
        ((0, 0, 0), 0, 0, 5), ((0, 0, 0), 1, 4, 5), ((2, 0, 0), 0, 0, 5), ((2, 0, 0), 1, 0, 5),
    ]  # fmt: skip
    # The start's nanoseconds are known by their low half.
    (slow,) = written([(0, 0, 0)], ((2**33 - 5, 7), (2**33 + 3, 2007), [], 3, 5))
    assert (slow.start, slow.end) == ((2**33 - 5, 7), (2**33 + 3, 2007))
    assert found[0].stamps == ((0, 10), (None, 20))
    assert found[1].stamps == ((1, 30), (2, 40), (None, 90), (1, 95))
    assert found[2].stamps == ((0, 30), (1, 40), (2, 90), (None, 95), (1, 99))


def test_what_found_no_room_is_told(tmp_path: Any) -> None:
    one = ((1000, 7), (3000, 2007), [(0, 10, 20)], 2, 5)
    late = ((1010, 17), (2990, 1997), [(1, 30, 40, 90), (3, 1000)], -4, 5)
    timeline_ = timeline([(0, 0, 0)], one, late)
    producer, consumer = timeline_.tracks
    assert (timeline_.lost, producer.lost, consumer.lost) == (4, 0, 4)
    assert timeline_.clocks == pytest.approx(1.0)
    assert (producer.start, producer.end) == (0.0, 2000.0)
    assert [(s.start, s.end) for s in producer.stretches] == [(3.0, 13.0)]
    assert consumer.start == pytest.approx(10.0)
    ends = [(s.start, s.end) for s in consumer.stretches]
    assert ends == [(23.0, 33.0), (33.0, 83.0), (993.0, 993.0)]
    # Time of which nothing is known is not the thread's own.
    assert (producer.told, consumer.told) == (2000.0, 993.0)
    shown = timeline_.show()
    assert "4 rows of stamps found no room: raise stamps= by 4" in shown
    assert re.search(r"other +untold\n", shown) and re.search(r"consumer.*47% +50%\n", shown)
    drawn = timeline_.picture()
    assert "untold: stamps found no room" in drawn and drawn.count('fill="url(#untold)"') == 2
    whole = replace(timeline_, tracks=(producer,))
    assert "untold" not in whole.show() + whole.picture()
    said = [e for e in json.loads(timeline_.trace())["traceEvents"] if e["ph"] == "i"]
    assert [(e["name"], e["ts"]) for e in said] == [("4 rows of stamps found no room", 0.993)]
    assert repr(timeline_).endswith("2.00 us, 4 rows of stamps lost>")
    again = Timeline.load(timeline_.save(tmp_path / "trace.json"))
    assert again.trace() == timeline_.trace() and again.show() == shown


def test_clocks_that_go_round_go_on() -> None:
    top = 2**32 - 100
    one = ((5, top), (2000, 1900), [(1, top + 50, 50, 1000)], 1, 0)
    other = ((5, (top + 120) % 2**32), (1000, 900), [(0, 300, 500)], 1, 0)
    pace = (1995 + 995) / (2000 + 880)
    first, second = timeline([(0, 0, 0)], one, other).tracks
    begun = [s.start - first.start for s in first.stretches]
    assert begun == pytest.approx([50 * pace, 150 * pace])
    assert first.end - first.start == pytest.approx(2000 * pace)
    assert second.start - first.start == pytest.approx(120 * pace)


def test_blocks_of_other_multiprocessors_begin_by_the_common_clock() -> None:
    """Their own clocks begin anywhere."""
    one = ((5000, 100), (6000, 1100), [], 0, 1)
    other = ((5500, 4_000_000_000), (6500, 4_000_001_000), [], 0, 2)
    found = timeline([(0, 0, 0), (1, 0, 0)], one, one, other, other)
    assert [t.start for t in found.tracks] == pytest.approx([0, 0, 500, 500])
    assert found.end == pytest.approx(1500)


def test_nothing_ran() -> None:
    found = timeline([])
    assert (found.tracks, found.end, found.lost) == ((), 0.0, 0)
    assert found.show() and found.trace() and found.picture()


def test_warp_groups_are_called_by_their_roles() -> None:
    assert names(by_roles.compile("sm_90").tile) == [
        "producer, threads 0 to 127", "consumer, threads 128 to 255",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("grid", "blocks", "room"),
    [
        ((64, 64, 64), [(0, 0, 0)] * 100, 2**24),
        # A table from the one to the other.
        ((2**20, 2**10, 1), [(0, 0, 0), (2**20 - 1, 2**10 - 1, 0)], 1),
        # A number that a block does not have.
        ((2**31 - 1, 2, 2), [(2**31 - 2, 1, 1)], 1),
    ],
)
def test_a_buffer_that_is_too_large_is_refused(grid: Any, blocks: Any, room: int) -> None:
    with pytest.raises(LaunchError, match="at most 1073741824") as refused:
        StampBuffer(0, grid, blocks, 1024, RUNS, room)
    assert refused.value.fix == "name fewer blocks, or such as lie closer, or ask for fewer stamps"
