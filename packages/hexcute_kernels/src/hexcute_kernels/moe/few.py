"""c = x ((q - zero) * scale)^T, few rows: weights stream to the registers that multiply, once.

As `streamed` has it: a thread's 16 bytes of weights are its operands of a group of k, and what it
has asked for is what is under way. Blocks of a cluster SPLIT the groups among them and add their
parts up through shared memory. Sizes of the weights are known when a kernel is compiled.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, u16
from hexcute_kernels.moe.forms import PLAIN, Weights
from hexcute_kernels.moe.streamed import HALVES
from hexcute_kernels.moe.streaming import bring, order, over_cluster, products, weights_of

tokens = hx.dim("tokens")


@cache
def few_rows(n: int, k: int, held: Weights = PLAIN, dtype: hx.DType = f16) -> hx.Kernel:
    """The kernel for weights of n columns and k rows, as they are `held`."""
    form, lines = held.form, held.rows(n)
    blocks_of_k = k // form.block

    @hx.kernel
    def few(
        x: dtype[tokens, k],
        q: u16[1, blocks_of_k, lines, HALVES],
        strip: f16[1, blocks_of_k, lines * HALVES],
        c: dtype[tokens, n],
        *,
        BM: int = 8,
        BN: int = 128,
        DEPTH: int = 2,
        SPLIT: int = 2,
        WARPS: int = 4,
        BLOCKS: int = 3,
    ):
        wide, steps = BM // SPLIT, hx.cdiv(blocks_of_k, DEPTH * SPLIT)
        hx.attrs.cuda.grid_dim = SPLIT, hx.cdiv(n, BN), hx.cdiv(tokens, BM)
        hx.attrs.cuda.cluster_dim = SPLIT
        hx.attrs.cuda.block_dim = 32 * WARPS
        hx.attrs.cuda.min_blocks = BLOCKS
        rank, column, row = hx.blockIdx.x, hx.blockIdx.y * BN, hx.blockIdx.z * BM
        sx = hx.shared_tensor(dtype, (BM, form.block * DEPTH * steps))
        sums = hx.shared_tensor(f32, (BN, BM))
        begin = rank * (DEPTH * steps)
        lots = [weights_of(q, strip, 0, n, column, BN, begin, DEPTH, steps, held)]
        rc = hx.register_tensor(f32, (BN, BM))
        ordered = order(lots, BN, DEPTH, DEPTH * steps)
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
        bring(x, (row,), begin * form.block, sx)
        products([rc], lots, ordered, sx, DEPTH, form)
        hx.copy(rc, sums)
        hx.cluster_sync()
        total = over_cluster(sums, 0, BN, rank * wide, wide, SPLIT)
        hx.cluster_sync()
        gc = hx.global_view(c[row + rank * wide :, column:], ((BN, wide), (1, n)))
        hx.copy(hx.cast(total, dtype), gc)

    return few
