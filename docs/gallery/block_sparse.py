"""c = a b^T, where only some blocks of a are stored: those of block row r are `values[i]` for i
from `starts[r]` to `starts[r + 1]`, and `column[i]` says where block i stands.

How long the loop is, and which tile of b it needs, are numbers from memory.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

stored, edges, m, n, k = hx.dims("stored edges m n k")


def block_sparse(BM: int, BK: int) -> hx.Kernel:
    """The kernel for blocks of `BM` x `BK`."""

    @hx.kernel
    def block_sparse(
        values: f16[stored, BM, BK], starts: i32[edges], column: i32[stored], b: f16[n, k],
        c: f16[m, n], *, BN: int = 64,
    ) -> None:  # fmt: skip
        hx.attrs.cuda.grid_dim = edges - 1, hx.cdiv(n, BN)
        hx.attrs.cuda.block_dim = 128
        r, bn = hx.blockIdx.x, hx.blockIdx.y * BN
        rc = hx.register_tensor(f32, (BM, BN))
        hx.fill(rc, 0.0)
        for i in range(starts[r], starts[r + 1]):
            ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
            hx.copy(hx.global_view(values[i, :, :], ((BM, BK), (BK, 1))), ra)
            hx.copy(hx.global_view(b[bn:, column[i] * BK :], ((BN, BK), (k, 1))), rb)
            hx.gemm(rc, ra, rb)
        result = hx.cast(rc, f16)
        hx.copy(result, hx.global_view(c[r * BM :, bn:], ((BM, BN), (n, 1))))

    return block_sparse
