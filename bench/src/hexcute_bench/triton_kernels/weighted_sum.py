"""out[token] = sum over j of gates[token, j] x[token * top_k + j], summed in float32."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _kernel(x, gates, out, n, top_k: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * block + tl.arange(0, block)
    total = tl.zeros([block], tl.float32)
    for j in range(top_k):
        part = tl.load(x + (row * top_k + j) * n + column, mask=column < n)
        total += part.to(tl.float32) * tl.load(gates + row * top_k + j)
    tl.store(out + row * n + column, total.to(out.dtype.element_ty), mask=column < n)


def weighted_sum(x: Any, gates: Any, out: Any) -> None:
    """x [tokens*top_k,n] and gates [tokens,top_k] to out [tokens,n]."""
    tokens, top_k = gates.shape
    n = out.shape[1]
    _kernel[(tokens, triton.cdiv(n, _BLOCK))](x, gates, out, n, top_k, _BLOCK)
