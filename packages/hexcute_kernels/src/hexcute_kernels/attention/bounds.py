"""Which keys a block of queries sees, as numbers of key tiles, walked from the last one down.

Query i of sq sees keys from i + sk - sq - left to i + sk - sq + right, where those are bounded:
aligned so that the last query is beside the last key. Of BM queries from `bm` on and tiles of BN
keys, tile `last` is the first that is walked, `tiles` of them are; those of `whole` are seen by
all queries, the others need `hide`.
"""

from __future__ import annotations

import hexcute_core as hx


def tile_width(d: int) -> int:
    """Columns of a tile for heads of width d: whole steps of the Tensor Core, the rest zeros."""
    return -(-d // 16) * 16


@hx.device
def key_tiles(bm, sq, sk, right, left, bounded_right, bounded_left, BM, BN):
    """(last, tiles, first_whole, after_whole): steps first_whole to after_whole - 1 of the walk are
    seen whole, step 0 is always looked at."""
    shift = sk - sq
    end, whole_end = sk, sk // BN
    if bounded_right:
        end = hx.maximum(hx.minimum(sk, bm + BM + shift + right), 0)
        whole_end = hx.maximum(hx.minimum(whole_end, (bm + shift + right + 1) // BN), 0)
    begin = 0
    if bounded_left:
        begin = hx.maximum(bm + shift - left, 0) // BN
    count = hx.cdiv(end, BN)
    tiles = hx.maximum(count - begin, 0)
    first_whole = hx.minimum(hx.maximum(count - whole_end, 1), tiles)
    after_whole = tiles
    if bounded_left:
        whole_begin = hx.cdiv(hx.maximum(bm + BM - 1 + shift - left, 0), BN)
        after_whole = hx.maximum(hx.minimum(count - whole_begin, tiles), first_whole)
    return count - 1, tiles, first_whole, after_whole
