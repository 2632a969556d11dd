"""A Triton kernel of three tensors and three sizes, for comparing launch times."""

import triton
import triton.language as tl


@triton.jit
def nothing(a, b, c, m, n, k, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(c + lanes, tl.load(a + lanes) + tl.load(b + lanes), mask=lanes < m)
