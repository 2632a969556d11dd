"""Where the keys and values of a sequence lie, and how tiles of them come to shared memory.

    key p of sequence z  =  row  z sk + p                            of a cache of sk keys each
                            row  table[z, p // page] page + p % page of a cache of pages

Rows of all heads are one matrix either way. A tile is brought page by page, the page's number read
by all threads; of pages with fewer rows than UNIT the rows are gathered, by numbers that are looked
up first.
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
def rows_at(table, z, at, sk, page, count):
    """The rows (count,) of so many keys of sequence z from `at` on, in registers; `at` is a
    multiple of a page, or a page is of `count`."""
    if page is None or page >= count:
        return row_of(z, at, sk, table, page) + hx.iota((count,), 0)
    numbers = hx.register_tensor(i32, (count,))
    hx.copy(hx.global_view(table[z, at // page :], (((page, count // page),), ((0, 1),))), numbers)
    return numbers * page + hx.iota((count,), 0) % page


@hx.device
def look_up(table, z, at, page, count):
    """The same rows of pages, where all threads find them."""
    found = hx.shared_tensor(i32, (count,))
    hx.copy(rows_at(table, z, at, None, page, count), found)
    hx.syncthreads()
    return found


@hx.device
def bring_keys(k, v, s_k, s_v, slot, kh, z, at, sk, table, page):
    """Starts copies of the keys and values from key `at` of sequence z on to the tiles of a slot;
    values have a column for each key. There may be no values. Where rows are gathered, all threads
    meet."""
    (_, hk, d), (count, wide, _) = k.shape, s_k.shape
    unit = count if page is None or gathers(page) else min(page, count)
    for u in hx.static_range(0, count, unit):
        row, step = 0, hk * d
        if gathers(page):
            step = look_up(table, z, at, page, count)
        else:
            row = row_of(z, at + u, sk, table, page)
        part = slice(u, u + unit)
        hx.copy(hx.global_view(k[row:, kh, :], ((unit, wide), (step, 1))), s_k[part, :, slot])
        if v is not None:
            hx.copy(hx.global_view(v[row:, kh, :], ((wide, unit), (1, step))), s_v[:, part, slot])
