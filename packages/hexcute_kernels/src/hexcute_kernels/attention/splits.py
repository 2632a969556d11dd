"""Which part of which sequence a block takes, from the lengths on the device alone.

    share = tiles of all sequences / blocks wanted, rounded up
    n(z) = tiles of z / share, to the nearest, and 1 at least
    first(z) = n(0) + ... + n(z - 1): blocks first(z) to first(z) + n(z) - 1 are sequence z's
    of a sequence of t tiles, the first t % n of n splits take t / n, rounded down, and one more

Blocks as many as wanted, and one more for each sequence, suffice.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import i32

CHUNK = 256
"""Lengths at a time, at most."""
LEAST_SHARE = 4
"""Tiles that are worth a block of their own, where many sequences fill the GPU anyway."""


@hx.device
def tiles_of(length, sq, left, BN):
    """(first, count): the tiles of keys that the last sq queries of so many keys see, `left` keys
    before its own each."""
    first = hx.maximum(length - sq - left, 0) // BN
    return first, hx.cdiv(length, BN) - first


@hx.device
def number_of_splits(tiles, share):
    """Into how many parts of about `share` tiles so many are cut."""
    return hx.maximum((tiles + share // 2) // share, 1)


@hx.device
def part_of_sequence(tiles, split, count):
    """(begin, end): the tiles of one of `count` splits."""
    each = tiles // count
    more = tiles - each * count
    begin = split * each + hx.minimum(split, more)
    return begin, begin + each + hx.select(split < more, 1, 0)


@hx.device
def chunk_of(lengths, at, count, sk):
    """Lengths from sequence `at` on, none more than sk; each lane divides few of them."""
    r = hx.register_tensor(i32, (count,), threads=(32,))
    hx.copy(hx.global_view(lengths[at:], ((count,), (1,))), r)
    return hx.clamp(r, 0, sk)


@hx.device
def share_of(lengths, sk, sq, left, wanted, BN, COUNT):
    """Tiles a block, where `wanted` blocks share those of all sequences."""
    b, total = lengths.shape[0], 0
    for at in range(0, b, COUNT):
        _, tiles = tiles_of(chunk_of(lengths, at, COUNT, sk), sq, left, BN)
        total += hx.number(hx.sum(tiles, 0))
    return hx.maximum(hx.cdiv(total, hx.maximum(wanted, 1)), hx.clamp(b, 1, LEAST_SHARE))


@hx.device
def sequence_of(block, share, lengths, sk, sq, left, BN, COUNT):
    """(z, first): the sequence that a block works for, and the first of its blocks: those that end
    before it are counted. Blocks that are left over have none, z is their number at least."""
    b, z, first, before = lengths.shape[0], 0, 0, 0
    for at in range(0, b, COUNT):
        _, tiles = tiles_of(chunk_of(lengths, at, COUNT, sk), sq, left, BN)
        there = hx.iota((COUNT,), 0) + at < b
        ends = before + hx.cumsum(hx.where(there, number_of_splits(tiles, share), 0), 0)
        z += hx.number(hx.sum(hx.where(ends <= block, 1, 0), 0))
        first = hx.maximum(first, hx.number(hx.max(hx.where(ends <= block, ends, 0), 0)))
        before = hx.number(hx.max(ends, 0))
    return z, first
