"""Where the keys and values of a sequence lie, and how tiles of them come to shared memory.

    key p of sequence z  =  row  z sk + p                            of a cache of sk keys each
                            row  table[z, p // page] page + p % page of a cache of pages

Rows of all heads are one matrix either way. A tile is brought page by page, the page's number read
by all threads; of pages with fewer rows than UNIT the rows are gathered, by numbers that were
looked up a tile ahead.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import i32

UNIT = 8
"""Rows of the smallest pages that are brought as such."""


def gathers(page: int | None) -> bool:
    """Whether rows of pages of this size are gathered."""
    return page is not None and page < UNIT


@hx.device
def row_of(z, key, sk, table, page):
    """The row of a key of sequence z."""
    if page is None:
        return z * sk + key
    return table[z, key // page] * page + key % page


@hx.device
def look_up(table, z, at, page, count):
    """The rows of `count` keys of sequence z from `at` on, both multiples of `page`."""
    numbers = hx.register_tensor(i32, (count,))
    hx.copy(hx.global_view(table[z, at // page :], (((page, count // page),), ((0, 1),))), numbers)
    return numbers * page + hx.iota((count,), 0) % page


@hx.device
def bring(k, v, s_k, s_v, kh, row):
    """Starts copies of the rows from `row` on of head kh, as many as the tiles have."""
    (_, hk, d), (count, wide) = k.shape, s_k.shape
    hx.copy(hx.global_view(k[row:, kh, :], ((count, wide), (hk * d, 1))), s_k)
    hx.copy(hx.global_view(v[row:, kh, :], ((wide, count), (1, hk * d))), s_v)


@hx.device
def bring_keys(k, v, s_k, s_v, kh, z, at, sk, table, page, rows):
    """Starts copies of the keys and values from key `at` of sequence z on to a slot's tiles; `rows`
    are their numbers where they are gathered."""
    count, wide = s_k.shape
    if gathers(page):
        hx.copy(hx.global_view(k[:, kh, :], ((count, wide), (rows, 1))), s_k)
        hx.copy(hx.global_view(v[:, kh, :], ((wide, count), (1, rows))), s_v)
    else:
        unit = count if page is None else min(page, count)
        for u in hx.static_range(0, count, unit):
            row = row_of(z, at + u, sk, table, page)
            bring(k, v, s_k[u : u + unit, :], s_v[:, u : u + unit], kh, row)
