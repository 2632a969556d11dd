"""c = (sa a) (sb b)^T of e4m3 operands with a scale for every 128 columns, promoted in float32.

    c[i, j] = sum over blocks g of k:  sa[g, i] sb[j // 128, g]  sum over g's 128 of a[i, .] b[j, .]

One warp group loads by TMA; the others multiply a block of k into a temporary of their own, free
its slot, and add it, scaled, to the result in float32: the Tensor Core's sums of FP8 keep too few
bits for a long k. One group adds while another multiplies. Where PORTIONS is 2, a group takes its
rows in two portions, one after the other, through one temporary. The blocks' scales come with the
operands, so that no group waits for one at the start of a tile.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f8e4m3, f32
from hexcute_kernels.parts.schedule import grouped

m, n, k, groups, columns = hx.dims("m n k groups columns")

BLOCK = 128
"""Elements of k, and columns of b, that share a scale."""
PRODUCER = {1: 40, 2: 40, 3: 32}
CONSUMER = {1: 232, 2: 232, 3: 160}
"""Registers a thread keeps, by the number of groups that multiply."""


def scale_type(scale_major: str) -> hx.TensorType:
    """The type of a's scales: sa[groups, m] where `scale_major` is "m", else sa[m, groups]."""
    return f32[groups, m] if scale_major == "m" else f32[m, groups]


@hx.device
def multiply(rt, a, b):
    """Issues rt = a b^T."""
    hx.gemm(rt, a, b, asynchronous=True, accumulate=False)


@cache
def blockwise_gemm(out: hx.DType, scale_major: str = "m") -> hx.Kernel:
    """The kernel for results of type `out`.

    a[m, k] and b[n, k], both K-major; sa[groups, m] where `scale_major` is "m", else sa[m, groups];
    sb[columns, groups], where groups and columns are k and n in blocks of 128, the last perhaps
    short. Its constants: tile BM x BN, where BN divides 128, STAGES, CONSUMERS warp groups,
    PORTIONS of a group's rows, GROUP rows of tiles together; TURNS: the groups issue their products
    in turns, and each stores its rows by itself.
    """
    sa_type = scale_type(scale_major)

    @hx.kernel
    def fp8_gemm(
        a: f8e4m3[m, k],
        b: f8e4m3[n, k],
        sa: sa_type,
        sb: f32[columns, groups],
        c: out[m, n],
        *,
        BM: int = 128,
        BN: int = 128,
        STAGES: int = 5,
        CONSUMERS: int = 2,
        PORTIONS: int = 1,
        GROUP: int = 8,
        TURNS: bool = False,
    ):
        assert BLOCK % BN == 0, "a tile's columns share one scale: BN divides 128"
        tiles_m, tiles_n, tiles_k = hx.cdiv(m, BM), hx.cdiv(n, BN), hx.cdiv(k, BLOCK)
        tiles = tiles_m * tiles_n
        teams = CONSUMERS if TURNS else 1
        own = BM // teams
        high = own // PORTIONS
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        s_a = hx.shared_tensor(f8e4m3, (BM, BLOCK, STAGES))
        s_b = hx.shared_tensor(f8e4m3, (BN, BLOCK, STAGES))
        s_s = hx.shared_tensor(f32, (BM, 1, STAGES))
        s_w = hx.shared_tensor(f32, (1, 1, STAGES))
        pipe = hx.pipeline(STAGES)
        if teams > 1:
            order = hx.turns(teams)

        with hx.warp_groups_producer(registers=PRODUCER[CONSUMERS]):
            for tile in hx.persistent(tiles):
                bm, bn = grouped(tile, tiles_m, tiles_n, GROUP, BM, BN)
                ga = hx.global_view(a[bm:, :], ((BM, BLOCK, tiles_k), (k, 1, BLOCK)))
                gb = hx.global_view(b[bn:, :], ((BN, BLOCK, tiles_k), (k, 1, BLOCK)))
                if scale_major == "m":
                    gs = hx.global_view(sa[:, bm:], ((BM, 1, tiles_k), (1, m, m)))
                else:
                    gs = hx.global_view(sa[bm:, :], ((BM, 1, tiles_k), (groups, 1, 1)))
                gsb = hx.global_view(sb[bn // BLOCK :, :], ((1, 1, tiles_k), (groups, 1, 1)))
                for i in range(tiles_k):
                    with pipe.produce() as s:
                        hx.copy(ga[:, :, i], s_a[:, :, s])
                        hx.copy(gb[:, :, i], s_b[:, :, s])
                        hx.copy(gs[:, :, i], s_s[:, :, s])
                        hx.copy(gsb[:, :, i], s_w[:, :, s])

        for me in hx.static_range(teams):
            s_c = hx.shared_tensor(out, (own, BN))
            with hx.warp_groups_consumer(CONSUMERS // teams, registers=CONSUMER[CONSUMERS]):
                for tile in hx.persistent(tiles):
                    bm, bn = grouped(tile, tiles_m, tiles_n, GROUP, BM, BN)
                    rc = hx.register_tensor(f32, (high, BN, PORTIONS))
                    for p in hx.static_range(PORTIONS):
                        hx.fill(rc[:, :, p], 0.0)
                    for _ in range(tiles_k):
                        s = pipe.wait()
                        rb = hx.register_tensor(f32, (1, 1))
                        hx.copy(s_w[:, :, s], rb)
                        # One for all portions: two would not fit beside the result.
                        rt = hx.register_tensor(f32, (high, BN))
                        for p in hx.static_range(PORTIONS):
                            start = me * own + p * high
                            lines = slice(start, start + high)
                            ra = hx.register_tensor(f32, (high, 1))
                            # Before the products: they would wait for what stands among them.
                            hx.copy(s_s[lines, :, s], ra)
                            ra *= rb
                            if teams > 1:
                                with order.turn(me):
                                    multiply(rt, s_a[lines, :, s], s_b[:, :, s])
                            else:
                                multiply(rt, s_a[lines, :, s], s_b[:, :, s])
                            hx.wait_gemm(0)
                            if p == PORTIONS - 1:
                                pipe.release()
                            rc[:, :, p] += rt * ra
                    hx.sync_role()  # The last tile has left s_c.
                    for p in hx.static_range(PORTIONS):
                        hx.copy(hx.cast(rc[:, :, p], out), s_c[p * high : (p + 1) * high, :])
                    hx.sync_role()
                    gc = hx.global_view(c[bm + me * own :, bn:], ((own, BN), (n, 1)))
                    hx.copy(s_c, gc)

    return fp8_gemm
