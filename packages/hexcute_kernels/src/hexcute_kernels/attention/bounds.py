"""Which keys a block of queries sees, as numbers of key tiles, walked from the last one down.

Query i of sq sees keys from i + sk - sq - left to i + sk - sq + right, where those are bounded:
aligned so that the last query is beside the last key. Of BM queries from `bm` on and tiles of BN
keys, tile `last` is the one with the last key that is seen, and `tiles` of them are walked. `first`
is how many lie before the first that all queries see: that one comes before all others, so that no
query begins with the few keys that a mask leaves it. Those between take exact maxima: at least one
tile where the others `guess`.
"""

from __future__ import annotations

import hexcute_core as hx


def tile_width(d: int) -> int:
    """Columns of a tile for heads of width d: whole steps of the Tensor Core, the rest zeros."""
    return -(-d // 16) * 16


@hx.device
def key_tiles(bm, sq, sk, right, left, bounded_right, bounded_left, BM, BN, guess=False):
    """(last, tiles, first, after_whole, whole): tiles last - first - 1 down to last - after_whole +
    1 are seen whole, and where `whole`, of masks with no bound at the left, tile last - first."""
    shift, end, whole_end = sk - sq, sk, sk // BN
    if bounded_right:
        end = hx.maximum(hx.minimum(sk, bm + BM + shift + right), 0)
        whole_end = hx.maximum(hx.minimum(whole_end, (bm + shift + right + 1) // BN), 0)
    count, begin = hx.cdiv(end, BN), hx.maximum(bm + shift - left, 0) // BN if bounded_left else 0
    tiles = after_whole = hx.maximum(count - begin, 0)
    first = hx.minimum(hx.maximum(count - whole_end, int(guess)), tiles - 1)
    if bounded_left:
        whole_begin = hx.cdiv(hx.maximum(bm + BM - 1 + shift - left, 0), BN)
        after_whole = hx.maximum(hx.minimum(count - whole_begin, tiles), first + 1)
    return count - 1, tiles, first, after_whole, count - first <= whole_end and not bounded_left
