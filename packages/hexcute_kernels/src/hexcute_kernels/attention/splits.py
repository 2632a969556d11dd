"""Which part of which sequence a block takes, from the lengths on the device alone.

    share = tiles of all sequences / blocks wanted, rounded up
    n(z) = tiles of z / share, to the nearest, and 1 at least
    first(z) = the sum of n of those before z: blocks first(z) to first(z) + n(z) - 1 are its own
    of a sequence of t tiles, the first t % n of n splits take t / n, rounded down, and one more

Sequences of less than a SHORT part of a share come behind all others, so that no long block is left
to the end. Blocks as many as wanted, and one more for each sequence, suffice.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import i32

CHUNK = 256
"""Lengths at a time, at most."""
SHORT = 2
"""A sequence is short whose tiles, times this, are less than a block's share."""
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
    before it are counted, first of long sequences, then of short ones. Blocks that are left over
    have none, z is their number at least."""
    b, z, first, before, at = lengths.shape[0], 0, 0, 0, 0
    behind = hx.cdiv(b, COUNT) * COUNT
    while at < behind or (at < 2 * behind and before <= block):
        row = hx.where(at < behind, at, at - behind)
        _, tiles = tiles_of(chunk_of(lengths, row, COUNT, sk), sq, left, BN)
        short = hx.cast(tiles * SHORT < share, i32)
        counts = (hx.iota((COUNT,), 0) + row < b) & (short == hx.select(at < behind, 0, 1))
        ends = before + hx.cumsum(hx.where(counts, number_of_splits(tiles, share), 0), 0)
        z += hx.number(hx.sum(hx.where(ends <= block, 1, 0), 0))
        first = hx.maximum(first, hx.number(hx.max(hx.where(ends <= block, ends, 0), 0)))
        before = hx.number(hx.max(ends, 0))
        at += COUNT
    return hx.where(z < behind, z, z - behind), first


@hx.device
def find_part(kind, lengths, plan, sk, sq, left, blocks, BN, COUNT):
    """(z, split, splits, place, length, at, count): the sequence of a block, which of its splits
    the block is, its place in the workspace, the keys of the sequence, and the block's own: `count`
    tiles from key `at` on. Where a sequence's splits are as many as its length asks for, its first
    block tells `plan` where they lie; one from number `splits` on has nothing to do."""
    split, z, share = hx.blockIdx.y, hx.blockIdx.z, 0
    first, splits = z * blocks, blocks
    if kind.several:
        share = share_of(lengths, sk, sq, left, blocks - lengths.shape[0], BN, COUNT)
        z, first = sequence_of(split, share, lengths, sk, sq, left, BN, COUNT)
        split = split - first
    length = hx.clamp(lengths[z], 0, sk) if kind.ragged else sk
    start, tiles = tiles_of(length, sq, left, BN)
    if kind.several:
        splits = number_of_splits(tiles, share)
        if split < 1 and hx.blockIdx.x < 1:
            told = hx.where(hx.iota((2,), 0) == 0, first, splits)
            hx.copy(told, hx.global_view(plan[z, :], ((2,), (1,))))
    begin, end = part_of_sequence(tiles, split, splits)
    return z, split, splits, first + split, length, (start + begin) * BN, end - begin
