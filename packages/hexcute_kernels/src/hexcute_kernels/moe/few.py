"""c = x ((q - zero) * scale)^T, few rows: weights stream to the registers that multiply, once.

As `streamed` has it: a thread's 16 bytes of weights are its operands of a group of k, and what it
has asked for is what is under way. Blocks of a cluster SPLIT the groups among them and add their
parts up through shared memory. Sizes of the weights are known when a kernel is compiled.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, u16
from hexcute_kernels.moe.packing import GROUP, packed_rows
from hexcute_kernels.moe.streamed import (
    HALVES,
    bring,
    order,
    over_cluster,
    products,
    weights_of,
)

tokens = hx.dim("tokens")


@cache
def few_rows(n: int, k: int) -> hx.Kernel:
    """The kernel for weights of n columns and k rows."""
    groups = k // GROUP

    @hx.kernel
    def few(
        x: f16[tokens, k],
        q: u16[1, groups, packed_rows(n), HALVES],
        strip: f16[1, groups, packed_rows(n) * HALVES],
        c: f16[tokens, n],
        *,
        BM: int = 8,
        BN: int = 128,
        DEPTH: int = 2,
        SPLIT: int = 2,
        WARPS: int = 4,
        BLOCKS: int = 3,
    ):
        wide, steps = BM // SPLIT, hx.cdiv(groups, DEPTH * SPLIT)
        hx.attrs.cuda.grid_dim = SPLIT, hx.cdiv(n, BN), hx.cdiv(tokens, BM)
        hx.attrs.cuda.cluster_dim = SPLIT
        hx.attrs.cuda.block_dim = 32 * WARPS
        hx.attrs.cuda.min_blocks = BLOCKS
        rank, column, row = hx.blockIdx.x, hx.blockIdx.y * BN, hx.blockIdx.z * BM
        sx = hx.shared_tensor(f16, (BM, GROUP * DEPTH * steps))
        parts = hx.shared_tensor(f32, (BN, BM))
        begin = rank * (DEPTH * steps)
        lots = [weights_of(q, strip, 0, n, column, BN, begin, DEPTH, steps)]
        rc = hx.register_tensor(f32, (BN, BM))
        ordered = order(lots, BN, DEPTH, DEPTH * steps)
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
        bring(x, (row,), begin * GROUP, sx)
        products([rc], lots, ordered, sx, DEPTH)
        hx.copy(rc, parts)
        hx.cluster_sync()
        total = over_cluster(parts, 0, BN, rank * wide, wide, SPLIT)
        hx.cluster_sync()
        gc = hx.global_view(c[row + rank * wide :, column:], ((BN, wide), (1, n)))
        hx.copy(hx.cast(total, f16), gc)

    return few
