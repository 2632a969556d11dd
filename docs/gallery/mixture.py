"""y[pair[i]] = x[pair[i] // CHOICES] w[expert]^T: a token by each of the experts chosen for it.

Pairs of a token and a choice are sorted by expert, in blocks of BM places, of which those that are
not needed hold -1; `expert` says which one a block is for, -1 where it is nobody's. Rows of x are
gathered and rows of y scattered by their numbers.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

tokens, pairs, places, blocks, experts, n, k = hx.dims("tokens pairs places blocks experts n k")


@hx.kernel
def mixture(
    x: f16[tokens, k], w: f16[experts, n, k], pair: i32[places], expert: i32[blocks],
    y: f16[pairs, n], *, BM: int = 64, BN: int = 64, BK: int = 64, CHOICES: int = 2,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = blocks, hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    block, bn, tiles = hx.blockIdx.x, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    whose = expert[block]
    if whose < 0:
        return
    numbers = hx.register_tensor(i32, (BM,))
    sources, targets = hx.shared_tensor(i32, (BM,)), hx.shared_tensor(i32, (BM,))
    hx.copy(hx.global_view(pair[block * BM :], ((BM,), (1,))), numbers, outside=-1)
    hx.copy(numbers, targets)
    hx.copy(numbers // CHOICES, sources)  # Rounded down, -1 stays -1.
    hx.syncthreads()
    gx = hx.global_view(x, ((BM, BK, tiles), (sources, 1, BK)))
    gw = hx.global_view(w[whose, bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    sx, sw = hx.shared_tensor(f16, (BM, BK)), hx.shared_tensor(f16, (BN, BK))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(tiles):
        rx, rw = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
        hx.copy(gx[:, :, i], sx)
        hx.copy(gw[:, :, i], sw)
        hx.syncthreads()
        hx.copy(sx, rx)
        hx.copy(sw, rw)
        hx.gemm(rc, rx, rw)
        hx.syncthreads()
    hx.copy(hx.cast(rc, f16), hx.global_view(y[:, bn:], ((BM, BN), (targets, 1))))
