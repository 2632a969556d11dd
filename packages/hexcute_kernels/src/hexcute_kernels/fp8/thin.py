"""c = (sa a) (sb b)^T, blockwise scaled e4m3, where a has few rows: the time is that of reading b.

    c[i, j] = sum over parts of k, each a sum over blocks g of k:
              sb[j // 128, g]  sa[g, i]  sum over g's 128 of b[j, .] a[i, .]

b's rows are the Tensor Core's rows, so a tile may be as narrow as 8 rows of a. The SPLITS blocks of
a cluster take a part of k each, so that all multiprocessors read; promotion is that of
`blockwise.py`.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f8e4m3, f32
from hexcute_kernels.fp8.blockwise import BLOCK, LINE, groups, k, m, n, scale_type
from hexcute_kernels.fp8.blockwise import columns as scale_rows
from hexcute_kernels.parts.operands import k_tiles
from hexcute_kernels.parts.split import part_of, summed


@cache
def thin_blockwise_gemm(out: hx.DType, scale_major: str = "m") -> hx.Kernel:
    """The kernel for results of type `out`; its parameters are those of `blockwise_gemm`, its
    constants those of `ThinBlockwiseConfig`."""
    sa_type = scale_type(scale_major)

    @hx.kernel
    def thin_fp8_gemm(
        a: f8e4m3[m, k],
        b: f8e4m3[n, k],
        sa: sa_type,
        sb: f32[scale_rows, groups],
        c: out[m, n],
        *,
        BM: int = 16,
        BN: int = 128,
        STAGES: int = 8,
        CONSUMERS: int = 2,
        SPLITS: int = 1,
        EARLY: bool = False,
    ):
        assert BLOCK % BN == 0, "a tile's rows of b share one scale: BN divides 128"
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        hx.attrs.cuda.cluster_dim = SPLITS
        hx.attrs.cuda.grid_dim = SPLITS * hx.cdiv(m, BM), hx.cdiv(n, BN)
        bm, bn = hx.blockIdx.x // SPLITS * BM, hx.blockIdx.y * BN
        tiles_k = hx.cdiv(k, BLOCK)
        first, count = part_of(tiles_k, SPLITS)
        s_a = hx.shared_tensor(f8e4m3, (BM, BLOCK, STAGES))
        s_b = hx.shared_tensor(f8e4m3, (BN, BLOCK, STAGES))
        # Boxes of TMA have 16 bytes and more, and come to multiples of 128.
        deep, wide = (1, max(BM, 32)) if scale_major == "m" else (4, BM)
        s_s = hx.shared_tensor(f32, (deep, wide, STAGES))
        s_w = hx.shared_tensor(f32, (1, LINE, STAGES))
        sums = hx.shared_tensor(f32, (BN, BM))
        pipe = hx.pipeline(STAGES)
        if EARLY:
            # The barriers of this launch are ready when the one ahead ends; nothing is read before.
            hx.primitive("griddepcontrol.wait")
            hx.primitive("griddepcontrol.launch")

        with hx.warp_groups_producer():
            ga = hx.global_view(a[bm:, :], ((BM, BLOCK, tiles_k), (k, 1, BLOCK)))
            gb = hx.global_view(b[bn:, :], ((BN, BLOCK, tiles_k), (k, 1, BLOCK)))
            if scale_major == "m":
                gs = hx.global_view(sa[:, bm:], ((1, wide, tiles_k), (m, 1, m)))
            else:
                lines = hx.cdiv(tiles_k, deep)
                gs = hx.global_view(sa[bm:, :], ((deep, wide, lines), (1, groups, deep)))
            gw = k_tiles(sb, "k", bn // BLOCK, 1, LINE)
            for i in range(count):
                with pipe.produce() as s:
                    hx.copy(gb[:, :, first + i], s_b[:, :, s], hint="evict_first")
                    hx.copy(ga[:, :, first + i], s_a[:, :, s], hint="evict_last")
                    hx.copy(gs[:, :, (first + i) // deep], s_s[:, :, s])
                    hx.copy(gw[:, :, (first + i) // LINE], s_w[:, :, s])

        with hx.warp_groups_consumer(CONSUMERS):
            rc, rt = hx.register_tensor(f32, (BN, BM)), hx.register_tensor(f32, (BN, BM))
            ra, scales = hx.register_tensor(f32, (1, BM)), hx.register_tensor(f32, (1, BM))
            rb = hx.register_tensor(f32, (1, 1))
            for tile in rc, rt, ra:
                hx.fill(tile, 0.0)
            for i in range(count):
                s = pipe.wait()
                hx.copy(s_w[:, hx.ds((first + i) % LINE, 1), s], rb)
                hx.copy(s_s[hx.ds((first + i) % deep, 1), :BM, s], scales)
                # The block before: this one's scales arrive under it.
                rc += rt * ra
                hx.copy(scales * rb, ra)
                hx.gemm(rt, s_b[:, :, s], s_a[:, :, s], asynchronous=True, accumulate=False)
                hx.wait_gemm(0)
                pipe.release()
            rc += rt * ra
            hx.copy(rc, sums)

        total, start = summed(sums, SPLITS)
        place = c[bm:, bn + start :]
        hx.copy(hx.cast(total, out), hx.global_view(place, (total.shape, (1, n))))

    return thin_fp8_gemm
