"""The partial results of a cluster's blocks, added up in shared memory, where they are.

    m = max over blocks of m_s      w_s = 2^((m_s - m) factor)
    o = sum of w_s o_s              l = sum of w_s l_s

Each block adds up a strip of o's columns, in the order of the splits.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.parts.softmax import LEAST


@hx.device
def join(ro, m, total, factor, splits):
    """(strip, m, l, start): of o (rows, columns), m and l (rows, 1) that `splits` blocks have, the
    columns from `start` on of the sum, which are this block's."""
    (high, wide), width = ro.shape, ro.shape[1] // splits
    s_o = hx.shared_tensor(f32, (high, wide))
    s_m, s_l = hx.shared_tensor(f32, (high, 1)), hx.shared_tensor(f32, (high, 1))
    hx.copy(ro, s_o)
    hx.copy(m, s_m)
    hx.copy(total, s_l)
    start = hx.cluster_rank() * width
    hx.cluster_sync()
    top = hx.register_tensor(f32, (high, 1))
    strip, rest = hx.register_tensor(f32, (high, width)), hx.register_tensor(f32, (high, 1))
    hx.fill(top, LEAST)
    hx.fill(strip, 0.0)
    hx.fill(rest, 0.0)
    found = []
    for s in hx.static_range(splits):
        theirs, sums = hx.register_tensor(f32, (high, 1)), hx.register_tensor(f32, (high, 1))
        part = hx.register_tensor(f32, (high, width))
        hx.copy(hx.remote(s_m, s), theirs)
        hx.copy(hx.remote(s_l, s), sums)
        hx.copy(hx.remote(s_o[:, hx.ds(start, width)], s), part)
        top = hx.maximum(top, theirs)
        found.append((theirs, sums, part))
    # No block may end while others read its memory.
    hx.cluster_sync()
    for theirs, sums, part in found:
        weight = hx.exp2((theirs - top) * factor)
        strip += part * weight
        rest += sums * weight
    return strip, top, rest, start
