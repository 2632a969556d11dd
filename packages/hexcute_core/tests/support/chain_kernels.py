"""Chains of gemms in which the first result, in registers, is an operand of the second."""

import hexcute_core as hx
from hexcute_core import f16, f32

rows, n, d = hx.dims("rows n d")

NEVER = -1e30
"""A score whose exponential is zero beside that of any other."""


@hx.kernel(cache=False)
def attention(
    q: f16[rows, d],
    k: f16[n, d],
    v: f16[n, d],
    o: f16[rows, d],
    scale: f32,
    *,
    D: int = 64,
    KEYS: int = 64,
    STAGES: int = 2,
):
    """o = softmax(scale q k^T / log2(e)) v for d = D, over tiles of KEYS keys: `top` and `total`
    are the maximum and the sum so far, by which what has been summed is corrected."""
    hx.attrs.cuda.grid_dim = hx.cdiv(rows, 128)
    at, tiles = hx.blockIdx.x * 128, hx.cdiv(n, KEYS)
    gq = hx.global_view(q[at:, :], ((128, D), (d, 1)))
    gk = hx.global_view(k, ((KEYS, D, tiles), (d, 1, KEYS * d)))
    gv = hx.global_view(v, ((D, KEYS, tiles), (1, d, KEYS * d)))
    sq, so = hx.shared_tensor(f16, (128, D)), hx.shared_tensor(f16, (128, D))
    sk, sv = hx.shared_tensor(f16, (KEYS, D, STAGES)), hx.shared_tensor(f16, (D, KEYS, STAGES))
    once, keys, values = hx.pipeline(1), hx.pipeline(STAGES), hx.pipeline(STAGES)
    with hx.warp_groups_producer(registers=40):
        with once.produce():
            hx.copy(gq, sq)
        for i in range(tiles):
            with keys.produce() as s:
                hx.copy(gk[:, :, i], sk[:, :, s])
            with values.produce() as s:
                hx.copy(gv[:, :, i], sv[:, :, s])
    with hx.warp_groups_consumer(2, registers=232):
        ro = hx.register_tensor(f32, (128, D))
        top, total = hx.register_tensor(f32, (128, 1)), hx.register_tensor(f32, (128, 1))
        hx.fill(ro, 0.0)
        hx.fill(top, NEVER)
        hx.fill(total, 0.0)
        once.wait()
        for i in range(tiles):
            rs = hx.register_tensor(f32, (128, KEYS))
            with keys.consume() as s:
                hx.gemm(rs, sq, sk[:, :, s], accumulate=False)
            if (i + 1) * KEYS > n:
                for r, j in hx.elements(rs):
                    if i * KEYS + j >= n:
                        rs[r, j] = NEVER
            new = hx.maximum(top, hx.max(rs, 1))
            shrink = hx.exp2((top - new) * scale)
            rp = hx.exp2((rs - new) * scale)
            total = total * shrink + hx.sum(rp, 1)
            ro *= shrink
            top = new
            with values.consume() as s:
                hx.gemm(ro, hx.cast(rp, f16), sv[:, :, s])
        once.release()
        hx.copy(hx.cast(ro / total, f16), so)
        hx.sync_role()
        hx.copy(so, hx.global_view(o[at:, :], ((128, D), (d, 1))))
