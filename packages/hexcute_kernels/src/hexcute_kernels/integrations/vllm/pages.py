"""A layer's pages in one memory: the keys of a block, then its values.

    kv [blocks, 2, page, kv_heads * d]  =  pages [2 blocks, page, kv_heads, d]

Page 2 b are the keys of block b, page 2 b + 1 its values. So keys and values are read by one table
of even numbers, from caches of which the second begins a page further on; each cache's odd pages
are the other's, and in no table.
"""

from __future__ import annotations

import torch


def caches(kv: torch.Tensor, heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The caches of keys and of values, (pages, page, heads, d), of kv (blocks, 2, page, heads *
    d)."""
    pages = kv.view(-1, kv.shape[2], heads, kv.shape[3] // heads)
    return pages[:-1], pages[1:]


def store(kv: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slots: torch.Tensor) -> None:
    """Writes keys and values (tokens, heads, d) to their slots, int64 (tokens): block * page + row;
    those below 0 to row 0 of block 0, which no sequence has."""
    page, width = kv.shape[2:]
    rows, slot = kv.view(-1, width), slots.clamp(min=0)
    at, many = slot // page * (2 * page) + slot % page, slots.shape[0]
    rows[at] = key[:many].reshape(many, width).to(rows.dtype)
    rows[at + page] = value[:many].reshape(many, width).to(rows.dtype)


def gathered(
    kv: torch.Tensor, heads: int, tables: torch.Tensor, ends: torch.Tensor, keys: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of sequences one behind the other, (keys, heads, d).

    tables: int32 (sequences, most), even numbers of pages. ends: int32 (sequences + 1), from 0:
    where each begins. keys: at least ends[-1]; rows behind it hold anything. Nothing waits for the
    GPU.
    """
    at = torch.arange(keys, device=ends.device, dtype=torch.int32)
    which = torch.searchsorted(ends[1:], at, right=True).clamp(max=tables.shape[0] - 1)
    place, page = (at - ends[which]).clamp(min=0), kv.shape[2]
    number = tables[which, (place // page).clamp(max=tables.shape[1] - 1)]
    row, rows = number.long() * page + place % page, kv.view(-1, kv.shape[3])
    shape = (keys, heads, kv.shape[3] // heads)
    return rows[row].view(shape), rows[row + page].view(shape)
