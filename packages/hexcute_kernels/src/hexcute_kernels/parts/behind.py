"""A tile that is stored behind its products: its results stay in registers until the next tile's
first products run, and go to memory part by part under them.

    multiply_and_store    the products of a tile, and the stores of the tile before
    store_held            those stores alone, of the last tile
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_kernels.parts.epilogue import store_part
from hexcute_kernels.parts.schedule import in_clusters


@hx.device
def multiply_and_store(rc, sa, sb, pipe, tiles_k, more, held, parts, some, to, tile, placed):
    """rc = the products of `tiles_k` slots, of `parts` at least, `more` on top of what it is; under
    each of the first a part of the tile `held` is stored, if `some` tile is: see `store_held`.
    Gives where tile number `tile` of those `placed` so begins, divided out under products too."""
    for p in hx.static_range(parts):
        s = pipe.wait()
        old = more or p > 0
        hx.gemm(rc, sa[:, :, s], sb[:, :, s], asynchronous=True, accumulate=old)
        if some > 0:
            store_held(held, p, parts, *to)
        if p > 0:
            hx.wait_gemm(1)
            pipe.release()
    top, left = in_clusters(tile, *placed)
    for _ in range(parts, tiles_k):
        s = pipe.wait()
        hx.gemm(rc, sa[:, :, s], sb[:, :, s], asynchronous=True)
        hx.wait_gemm(1)
        pipe.release()
    hx.wait_gemm(0)
    pipe.release()
    return top, left


@hx.device
def store_held(held, p, parts, c, row, column, sc, turned):
    """Writes part number `p` of `parts` of the finished tile `held` of c, or `turned` its
    transpose, that begins at (row, column), through `sc`, by the threads of a role."""
    width = held.shape[1] // parts
    hx.sync_role()  # The part before has left sc.
    part = hx.reshape(held, (held.shape[0], parts, width))[:, p, :]
    store_part(part, c, row, column + p * width, sc, turned)
