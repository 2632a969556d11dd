"""matmul(a, b) = a b^T: wgmma fed by TMA where GPU and operands allow it, else mma.sync."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm.configs import MMA, WGMMA
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm
from hexcute_kernels.operator import Launch, Operator, Problem, Variant
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_rank, dtype_of, order_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16)


@dataclass(frozen=True, kw_only=True)
class Product(Problem):
    """m x n results, each a sum over k; operands of `dtype`, whose `a_major` ("k" or "m") and
    `b_major` ("k" or "n") index is contiguous."""

    m: int
    n: int
    k: int
    dtype: hx.DType
    a_major: str
    b_major: str


def product(a: torch.Tensor, b: torch.Tensor) -> Product:
    """The product that a call asks for. Raises LaunchError."""
    dtype = dtype_of("matmul", DTYPES, a=a, b=b)
    check_rank("matmul", 2, "a (m, k) and b (n, k)", a=a, b=b)
    (m, k), n = a.shape, b.shape[0]
    if b.shape[1] != k:
        raise LaunchError(
            f"matmul takes a (m, k) and b (n, k), got {tuple(a.shape)} and {tuple(b.shape)}",
            fix="pass b transposed, as torch.nn.functional.linear takes its weight",
        )
    a_major, b_major = order_of("matmul", "a", a, "m", "k"), order_of("matmul", "b", b, "n", "k")
    return Product(m=m, n=n, k=k, dtype=dtype, a_major=a_major, b_major=b_major)


def tma_fits(p: Product) -> str | None:
    """Whether TMA can move operands and result: from 16 bytes on, in rows of whole 16 bytes."""
    if not p.aligned:
        return "TMA takes tensors that start at a multiple of 16 bytes"
    line = 128 // p.dtype.bits
    rows = {"a": p.k if p.a_major == "k" else p.m, "b": p.k if p.b_major == "k" else p.n}
    odd = [name for name, length in {**rows, "the result": p.n}.items() if length % line]
    return f"TMA takes rows of whole 16 bytes; not those of {' and '.join(odd)}" if odd else None


def launch(make: Callable[..., hx.Kernel]) -> Callable[[Product, Config], Launch]:
    """From a family of kernels by type and orders, the launch of a product by one of them."""

    def of(p: Product, config: Config) -> Launch:
        turned = {name for name, major in (("a", p.a_major), ("b", p.b_major)) if major != "k"}
        kernel = make(p.dtype, p.a_major, p.b_major)
        return Launch(kernel, config, ("a", "b", "out"), frozenset(turned))

    return of


matmul = Operator(
    "matmul(Tensor a, Tensor b) -> Tensor",
    describe=product,
    outputs=lambda p: Output((p.m, p.n), p.dtype),
    variants=(
        Variant("wgmma", ("wgmma", "tma"), WGMMA, launch(warp_specialized_gemm), tma_fits),
        Variant("mma", ("mma.sync",), MMA, launch(pipelined_gemm)),
    ),
    doc="""`a @ b.T` for `a` (m, k) and `b` (n, k), accumulated in float32, rounded once.

    a, b: float16 or bfloat16 on one GPU, of one type, each row-major or the transpose of a
    row-major tensor (so all four operand orders, without a copy).

    Gives (m, n), row-major. Variants: "wgmma" on an H100 where TMA can read the operands (rows of
    whole 16 bytes that start at one), "mma" everywhere.
    """,
)
