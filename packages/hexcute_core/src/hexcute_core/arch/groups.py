"""How threads are grouped, and the size of a barrier, on every GPU that has a table."""

from __future__ import annotations

WARP = 32
"""Threads of a warp."""
WARP_GROUP = 128
"""Threads of four warps in a row, of which the first begins at a multiple of four."""
BARRIER_BYTES = 8
"""Bytes of shared memory that an mbarrier takes."""
