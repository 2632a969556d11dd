"""The layout of the memory for stamps, on which the code that writes it and the code that reads it
agree.

    table[block]    u64 address of the block's part, 0 where none is wanted; u32 stamps a track has
                    room for, u32 0
    part            a track for each warp group: head, then (u32 interval, u32 clock) a stamp
    head            u64 nanoseconds at the start, u64 at the end; u32 clock at the start, u32 at the
                    end; u32 stamps that came, u32 multiprocessor
"""

from __future__ import annotations

TRACK = 128
"""Threads of a warp group, the first of which stamps for all."""
ENTRY, HEAD, STAMP = 16, 32, 8
"""Bytes of a block's entry in the table, of a track's head, of a stamp."""
NONE = 2**32 - 1
"""The interval of a stamp behind which a thread is in none."""


def tracks(threads: int) -> int:
    """Tracks of a block of so many threads."""
    return -(-threads // TRACK)


def part_bytes(threads: int, room: int) -> int:
    """Bytes of a block's part of the buffer."""
    return tracks(threads) * (HEAD + room * STAMP)
