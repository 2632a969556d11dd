"""In which order blocks take rows of queries and heads, and which keys a head reads.

    rows      all rows of a head, then the next head
    heads     all heads of a row, then the next row
    sections  as many heads side by side as L2 holds keys and values of, their rows one after
              the other, then the next such heads
"""

from __future__ import annotations

import hexcute_core as hx

ORDERS = ("rows", "heads", "sections")
L2_BYTES = 32 << 20
"""Keys and values that blocks which run together may read: about half of Hopper's L2."""


@hx.device
def in_sections(block, rows, heads, group, head_bytes):
    """Row and head of `block` in sections: `group` heads share keys and values of `head_bytes`."""
    together = hx.maximum(L2_BYTES // head_bytes, 1) * group
    section = block // (together * rows)
    rest, width = block % (together * rows), hx.minimum(together, heads - section * together)
    return rest // width, section * together + rest % width


@hx.device
def key_head(h, hq, hk):
    """The head of keys that head h of queries reads. A number that a branch sets is computed where
    it stands: one division per block, and not another for every box that is loaded."""
    head = h
    if hq != hk:
        head = h // (hq // hk)
    return head
