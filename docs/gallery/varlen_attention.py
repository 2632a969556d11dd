"""o = softmax(scale q k^T) v for sequences of any lengths, packed one behind the other.

Sequence s has the rows from start[s] to start[s + 1], numbers that blocks read from memory: they
say where tiles begin, how far a block's loop goes, and which blocks have nothing to do. Behind a
sequence's last row lies the next one: keys there weigh nothing, and results go to rows by number,
those of -1 nowhere.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

rows, ends, hq, hk = hx.dims("rows ends hq hk")
LOG2_E = 1.4426950408889634


def varlen_attention(D: int, causal: bool) -> hx.Kernel:
    """The kernel for heads of `D` elements; no sequence is longer than `longest`."""

    @hx.kernel
    def varlen_attention(
        q: f16[rows, hq, D], k: f16[rows, hk, D], v: f16[rows, hk, D], start: i32[ends],
        o: f16[rows, hq, D], scale: f32, longest: i32, *, BM: int = 64, BN: int = 64,
    ) -> None:  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(longest, BM), hq, ends - 1
        hx.attrs.cuda.block_dim = 128
        bm, head, shared_head = hx.blockIdx.x * BM, hx.blockIdx.y, hx.blockIdx.y // (hq // hk)
        first, length = start[hx.blockIdx.z], start[hx.blockIdx.z + 1] - start[hx.blockIdx.z]
        if bm < length:
            last = hx.minimum(length, bm + BM) if causal else length
            tiles, place = hx.cdiv(last, BN), bm + hx.iota((BM, 1), 0)
            kept = ((BN, D, tiles), (hk * D, 1, BN * hk * D))
            gk = hx.global_view(k[first:, shared_head, :], kept)
            turned = ((D, BN, tiles), (1, hk * D, BN * hk * D))
            gv = hx.global_view(v[first:, shared_head, :], turned)
            tk, tv = hx.shared_tensor(f16, (BN, D)), hx.shared_tensor(f16, (D, BN))
            rq, ro = hx.register_tensor(f16, (BM, D)), hx.register_tensor(f32, (BM, D))
            top, total = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
            hx.copy(hx.global_view(q[first + bm :, head, :], ((BM, D), (hq * D, 1))), rq)
            hx.fill(ro, 0.0)
            hx.fill(top, -1e30)
            hx.fill(total, 0.0)
            for i in range(tiles):
                hx.copy(gk[:, :, i], tk)
                hx.copy(gv[:, :, i], tv)
                hx.syncthreads()
                rk, rv = hx.register_tensor(f16, (BN, D)), hx.register_tensor(f16, (D, BN))
                rs = hx.register_tensor(f32, (BM, BN))
                hx.copy(tk, rk)
                hx.copy(tv, rv)
                hx.gemm(rs, rq, rk, warps=(4, 1), accumulate=False)
                at = i * BN + hx.iota((1, BN), 1)
                rs = hx.where(at < last, rs * (scale * LOG2_E), -1e30)
                if causal:
                    rs = hx.where(at <= place, rs, -1e30)
                higher = hx.maximum(top, hx.max(rs, 1))
                rp, before = hx.exp2(rs - higher), hx.exp2(top - higher)
                total, top = total * before + hx.sum(rp, 1), higher
                ro = ro * before
                hx.gemm(ro, hx.cast(rp, f16), rv, warps=(4, 1))
                hx.syncthreads()
            named, row = hx.shared_tensor(i32, (BM,)), bm + hx.iota((BM,), 0)
            hx.copy(hx.where(row < length, first + row, -1), named)
            hx.syncthreads()
            result = hx.cast(ro / total, f16)
            hx.copy(result, hx.global_view(o[:, head, :], ((BM, D), (named, 1))))

    return varlen_attention
