"""out[t] = sum over j of c[t * top_k + j]: a token's rows, or parts of k, added up in order.

The sum is in f32 and rounded once, whatever type the rows have.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32

tokens, pairs = hx.dims("tokens pairs")


@cache
def add_up(top_k: int, dtype: hx.DType, result: hx.DType = f16) -> hx.Kernel:
    """The kernel that gives each token the sum of its `top_k` rows, which are of type `dtype`, in
    the order of its choices, rounded to `result`."""
    k, chunk = hx.dim("k"), 512

    @hx.kernel
    def added(c: dtype[pairs, k], out: result[tokens, k]):
        hx.attrs.cuda.grid_dim = tokens, hx.cdiv(k, chunk)
        hx.attrs.cuda.block_dim = 128
        column, token = hx.blockIdx.y * chunk, hx.blockIdx.x
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
        total = hx.register_tensor(f32, (1, chunk))
        hx.fill(total, 0.0)
        for j in hx.static_range(top_k):
            one = hx.register_tensor(dtype, (1, chunk))
            hx.copy(hx.global_view(c[token * top_k + j :, column:], ((1, chunk), (k, 1))), one)
            total += hx.cast(one, f32)
        hx.copy(hx.cast(total, result), hx.global_view(out[token:, column:], ((1, chunk), (k, 1))))

    return added
