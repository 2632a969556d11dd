"""The layout of the memory for stamps, on which the code that writes it and the code that reads it
agree.

    parameters      all u64: `rows`, the address of the first track; `table`, that of a u32 for each
                    block from the first told of to the last, its number among them or NONE, 0 if
                    they follow one another; `blocks`, the number of the first in the grid and, from
                    bit 32 on, how many there are to the last; `room`, rows that fit in a track
    track           one for each warp group of each block that is told of: rows, then its head
    row             four words: a run begins with its number, counted from 1, then come the clocks
                    of its stamps, in as many rows as they take
    head            u64 nanoseconds, u32 clock at the end, s32 rows that there was still room for;
                    u32 nanoseconds (their low half), u32 clock at the start, u32 multiprocessor, 0
"""

from __future__ import annotations

PARAMETERS = ("rows", "table", "blocks", "room")
TRACK = 128
"""Threads of a warp group, the first of which stamps for all."""
ROW, HEAD, TABLED = 16, 32, 4
"""Bytes of a row, of a head, of what the table says of a block."""
WORDS = 4
"""Of a row."""
NONE = 2**32 - 1
"""The number of a block that is not told of."""
LEAST = -(2**30)
"""Rows that are missed are counted until there is room for so many; then a track has no head."""


def tracks(threads: int) -> int:
    """Tracks of a block of so many threads."""
    return -(-threads // TRACK)


def rows(stamps: int) -> int:
    """Rows that a run of so many stamps takes."""
    return -(-(1 + stamps) // WORDS)


def track_bytes(room: int) -> int:
    """Bytes of a track."""
    return ROW * room + HEAD
