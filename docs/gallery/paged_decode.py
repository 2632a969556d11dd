"""o = softmax(scale q k^T) v for one query a sequence, its keys and values in pages of a cache.

Row p of sequence s lies in slot `table[s, p // PAGE] * PAGE + p % PAGE`. A tile of these numbers
gathers keys and values, as many tiles of them as the sequence is long. The query heads that share
a head of keys are the rows of one product; rows beyond them are masked by -1.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

sequences, slots, pages, hq, hk = hx.dims("sequences slots pages hq hk")
LOG2_E = 1.4426950408889634


def paged_decode(D: int, PAGE: int) -> hx.Kernel:
    """The kernel for heads of `D` elements and pages of `PAGE` rows."""

    @hx.kernel
    def paged_decode(
        q: f16[sequences, hq, D], k: f16[slots, hk, D], v: f16[slots, hk, D],
        table: i32[sequences, pages], length: i32[sequences], o: f16[sequences, hq, D],
        scale: f32, *, BM: int = 16, BN: int = 64,
    ) -> None:  # fmt: skip
        hx.attrs.cuda.grid_dim = hk, sequences
        hx.attrs.cuda.block_dim = 32
        assert BN % PAGE == 0, "whole pages a tile"
        head, s, group = hx.blockIdx.x, hx.blockIdx.y, hq // hk
        last = length[s]
        heads, rows = hx.shared_tensor(i32, (BM,)), hx.shared_tensor(i32, (BN,))
        place = hx.iota((BM,), 0)
        hx.copy(hx.where(place < group, place + head * group, -1), heads)
        hx.syncthreads()
        gk = hx.global_view(k[:, head, :], ((BN, D), (rows, 1)))
        gv = hx.global_view(v[:, head, :], ((D, BN), (1, rows)))
        sk, sv = hx.shared_tensor(f16, (BN, D)), hx.shared_tensor(f16, (D, BN))
        rq, ro = hx.register_tensor(f16, (BM, D)), hx.register_tensor(f32, (BM, D))
        top, total = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
        hx.copy(hx.global_view(q[s, :, :], ((BM, D), (heads, 1))), rq)
        hx.fill(ro, 0.0)
        hx.fill(top, -1e30)
        hx.fill(total, 0.0)
        for at in range(0, last, BN):
            page, row = hx.register_tensor(i32, (BN,)), hx.iota((BN,), 0)
            # Every page's number once for each of its rows.
            repeated = ((PAGE, BN // PAGE),), ((0, 1),)
            hx.copy(hx.global_view(table[s, at // PAGE :], repeated), page)
            hx.copy(hx.where(at + row < last, page * PAGE + row % PAGE, -1), rows)
            hx.syncthreads()
            hx.copy(gk, sk)
            hx.copy(gv, sv)
            hx.syncthreads()
            rk, rv = hx.register_tensor(f16, (BN, D)), hx.register_tensor(f16, (D, BN))
            rs = hx.register_tensor(f32, (BM, BN))
            hx.copy(sk, rk)
            hx.copy(sv, rv)
            hx.gemm(rs, rq, rk, accumulate=False)
            rs = hx.where(at + hx.iota((1, BN), 1) < last, rs * (scale * LOG2_E), -1e30)
            higher = hx.maximum(top, hx.max(rs, 1))
            rp, before = hx.exp2(rs - higher), hx.exp2(top - higher)
            total, top = total * before + hx.sum(rp, 1), higher
            ro = ro * before
            hx.gemm(ro, hx.cast(rp, f16), rv)
            hx.syncthreads()
        result = hx.cast(ro / total, f16)
        hx.copy(result, hx.global_view(o[s, :, :], ((BM, D), (heads, 1))))

    return paged_decode
