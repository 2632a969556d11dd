"""The parameters that all GEMM kernels have: a (m, k), b (n, k), a bias (n) and c (m, n)."""

from __future__ import annotations

from typing import NamedTuple

import hexcute_core as hx
from hexcute_kernels.parts.operands import operand_type

m, n, k = hx.dims("m n k")
batch = hx.dim("batch")
ROOM = 226 * 1024
"""Bytes of shared memory that a block of Hopper may have, without what barriers take."""


class Types(NamedTuple):
    """Types of a kernel's parameters; a bias of None is none."""

    a: hx.TensorType
    b: hx.TensorType
    bias: hx.TensorType | None
    c: hx.TensorType


def types(
    dtype: hx.DType,
    out: hx.DType,
    a_major: str,
    b_major: str,
    bias: bool,
    batched: bool,
    turned: bool = False,
    depth: object = k,
) -> Types:
    """Operands of `dtype` in these orders, a bias and a result of `out`; `batched`, all but the
    bias have an extent of the batch in front. `turned`, the result is c[n, m], and the bias of m:
    it goes along the result's last index. `depth` is the extent that sums run over."""
    of = batch if batched else None
    return Types(
        operand_type(dtype, m, depth, a_major, of),
        operand_type(dtype, n, depth, b_major, of),
        out[m if turned else n] if bias else None,
        operand_type(out, m, n, "n" if turned else "k", of),
    )
