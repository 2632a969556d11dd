"""In which order blocks take rows of queries and heads, and which keys a head reads.

    rows   all rows of a head, then the next head
    heads  all heads of a row, then the next row
"""

from __future__ import annotations

import hexcute_core as hx


class _Orders(dict[str, bool]):
    """Says what there is where another is asked for; the compiler tells where, as of any key."""

    def __missing__(self, order: object) -> bool:
        raise KeyError(f"ORDER is one of {', '.join(map(repr, self))}, not {order!r}")


ORDERS = _Orders(rows=True, heads=False)
"""Whether blocks of one head follow one another."""


@hx.device
def key_head(h, hq, hk):
    """The head of keys that head h of queries reads. A number that a branch sets is computed where
    it stands: one division per block, and not another for every box that is loaded."""
    head = h
    if hq != hk:
        head = h // (hq // hk)
    return head
