"""The largest numbers of every row and where they stand, the first of equal ones first.

As many times as there are columns of results the maximum is taken, and then taken out.
"""

import hexcute_core as hx
from hexcute_core import f32, i32

m, n, best = hx.dims("m n best")
LOWEST = -3e38


@hx.kernel
def top_k(
    x: f32[m, n], value: f32[m, best], index: i32[m, best], *, BM: int = 4, BN: int = 256
) -> None:
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 128
    bm = hx.blockIdx.x * BM
    hx.device_assert(n <= BN, "BN is shorter than a row")
    r = hx.register_tensor(f32, (BM, BN))
    hx.copy(hx.global_view(x[bm:, :], ((BM, BN), (n, 1))), r, outside=LOWEST)
    columns = hx.iota((BM, BN), 1)
    for place in range(best):
        top = hx.max(r, 1)
        at = hx.argmax(r, 1)
        hx.copy(top, hx.global_view(value[bm:, place:], ((BM, 1), (best, 1))))
        hx.copy(at, hx.global_view(index[bm:, place:], ((BM, 1), (best, 1))))
        r = hx.where(columns == at, LOWEST, r)
