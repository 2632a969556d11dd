"""matmul, bmm and linear, which are one product: wgmma fed by TMA where GPU and operands allow it,
by a kernel of its own where the results are thin or few, else mma.sync.

    matmul   a (m, k), b (n, k)                      a b^T
    bmm      a (batch, m, k), b (batch, n, k)        a b^T of each
    linear   x (..., k), w (n, k), bias (n)          activation(x w^T + bias)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm.candidates import DOTS, MMA, STAGED, THIN, WGMMA
from hexcute_kernels.gemm.choice import few, packs, pays
from hexcute_kernels.gemm.dots import dots
from hexcute_kernels.gemm.packing import pack, pack_both
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.product import Product, lies_well, operands_fit, tma_fits
from hexcute_kernels.gemm.staged import staged_gemm
from hexcute_kernels.gemm.thin import thin_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm
from hexcute_kernels.operator import (
    Argument,
    Launch,
    Nothing,
    Operator,
    Steps,
    Variant,
)
from hexcute_kernels.parts.epilogue import ACTIVATIONS
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_rank, dtype_of, order_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16)


def _product(operator: str, rank: int, **operands: torch.Tensor) -> Product:
    """The product of two matrices or two batches of them, of that rank. Raises LaunchError."""
    (left, a), (right, b) = operands.items()
    dtype = dtype_of(operator, DTYPES, **operands)
    batch = "batch, " * (rank - 2)
    check_rank(operator, rank, f"{left} ({batch}m, k) and {right} ({batch}n, k)", **operands)
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-1]:
        raise LaunchError(
            f"{operator} takes {left} ({batch}m, k) and {right} ({batch}n, k), got "
            f"{tuple(a.shape)} and {tuple(b.shape)}",
            fix=f"pass {right} transposed, as torch.nn.functional.linear takes its weight",
        )
    return Product(
        m=a.shape[-2],
        n=b.shape[-2],
        k=a.shape[-1],
        dtype=dtype,
        a_major=order_of(operator, left, a, "m", "k"),
        b_major=order_of(operator, right, b, "n", "k"),
        batch=a.shape[0] if rank == 3 else None,
    )


def _matmul(a: torch.Tensor, b: torch.Tensor) -> Product:
    return _product("matmul", 2, a=a, b=b)


def _bmm(a: torch.Tensor, b: torch.Tensor) -> Product:
    return _product("bmm", 3, a=a, b=b)


def _linear(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, activation: str | None
) -> Product:
    if activation not in ACTIVATIONS:
        known = ", ".join(repr(name) for name in ACTIVATIONS)
        raise LaunchError(f"linear has no activation {activation!r}", fix=f"use one of {known}")
    if x.dim() == 0:
        raise LaunchError("linear takes x (..., k) and w (n, k), got x without an extent")
    p = _product("linear", 2, x=x if x.dim() == 2 else _rows(x), w=w)
    if bias is not None:
        dtype_of("linear", DTYPES, x=x, bias=bias)
        if bias.shape != (p.n,) or not bias.is_contiguous():
            raise LaunchError(
                f"linear takes a contiguous bias of shape ({p.n},), got {tuple(bias.shape)} with "
                f"strides {bias.stride()}"
            )
    lead = None if x.dim() == 2 else tuple(x.shape[:-1])
    return replace(p, bias=bias is not None, activation=activation, lead=lead)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """`x` as a matrix of rows. Raises LaunchError where it would have to be copied."""
    if not x.is_contiguous():
        raise LaunchError(
            f"linear: x of shape {tuple(x.shape)} and strides {x.stride()} is not row-major",
            fix="pass x.contiguous()",
        )
    return x.view(math.prod(x.shape[:-1]), x.shape[-1])


def _result(p: Product) -> Output:
    rows = (p.m,) if p.lead is None else p.lead
    return Output((*rows, p.n) if p.batch is None else (p.batch, *rows, p.n), p.dtype)


def _launch(
    make: Callable[..., hx.Kernel], left: str, right: str, thin: bool = False, row: bool = False
) -> Callable[[Product, Config], Launch]:
    """The launch of a product by a kernel of a family; its operands are the arguments `left` and
    `right`. The kernels for `thin` results take the operand with more rows first, or where a
    configuration says FLAT the other. A bias that TMA can read goes to a kernel as a `row`."""

    def of(p: Product, config: Config) -> Launch:
        first, second, last = _arguments(p, left, right)
        flat = getattr(config, "FLAT", False)
        orders, turned = (p.a_major, p.b_major), thin and (p.m < p.n) != flat
        if turned:
            # The orders are "k", or any other word for rows that are contiguous.
            first, second, orders = second, first, orders[::-1]
        kernel = make(
            p.dtype, *orders, bias=p.bias, activation=p.activation, batched=p.batch is not None,
            **({"turned": turned} if thin else {}), **({"row": True} if row else {}),
        )  # fmt: skip
        bias: Argument = ("bias", _matrix(1, p.n)) if row else "bias"
        return Launch(kernel, config, (first, second, *[bias] * p.bias, last))

    return of


def _staged(left: str, right: str) -> Callable[[Product, Config], Launch]:
    """The same by the kernel that takes rows of any length."""

    def of(p: Product, config: Config) -> Launch:
        return _launch(partial(staged_gemm, run=_promised(p)), left, right)(p, config)

    return of


def _dots(left: str, right: str) -> Callable[[Product, Config], Launch]:
    """The same by dot products; the operand with more rows comes first."""

    def of(p: Product, config: Config) -> Launch:
        def make(dtype: hx.DType, *orders: str, **how: Any) -> hx.Kernel:
            return dots(dtype, run=_promised(p), **how)

        return _launch(make, left, right, thin=True)(p, config)

    return of


def _packed(
    make: Callable[..., hx.Kernel], left: str, right: str, thin: bool = False
) -> Callable[[Product, Config], Steps]:
    """The same launch after copies, into rows of whole 16 bytes, of the operands that TMA cannot
    read as they lie."""

    def of(p: Product, config: Config) -> Steps:
        line = 128 // p.dtype.bits
        wide = -(-p.k // line) * line
        first, second, _ = _arguments(p, left, right)
        lead = () if p.batch is None else (p.batch,)
        work: list[Output] = []
        moved: list[tuple[str, tuple[Argument, Argument]]] = []
        names, majors = [left, right], [p.a_major, p.b_major]
        for side, (given, rows) in enumerate(((first, p.m), (second, p.n))):
            if lies_well(p, majors[side], rows):
                continue
            names[side] = f"work{len(work)}"
            flat = rows * math.prod(lead)
            copied = (names[side], _matrix(flat, wide))
            work.append(Output((*lead, rows, wide), p.dtype))
            moved.append((majors[side], (_flat(given, flat, p.k, lead), copied)))
            majors[side] = "k"
        q = replace(p, k=wide, a_major=majors[0], b_major=majors[1], aligned=True)
        last = _launch(make, names[0], names[1], thin)(q, config)
        return Steps(tuple(work), (*_copies(p, moved), last))

    return of


def _promised(p: Product) -> int:
    """What k is said to be a multiple of. Where it is one of a line, the compiler sees it; where a
    tensor starts in between, nothing is gained."""
    run = math.gcd(p.k, 128 // p.dtype.bits)
    return run if p.aligned and run < 128 // p.dtype.bits else 1


def _copies(
    p: Product, moved: Sequence[tuple[str, tuple[Argument, Argument]]]
) -> tuple[Launch, ...]:
    """One launch that copies none, one or two operands, each of an order, to where it is told."""
    majors = tuple(major for major, _ in moved)
    given = tuple(argument for _, pair in moved for argument in pair)
    if not moved:
        return ()
    make = pack if len(moved) == 1 else pack_both
    kernel = make(p.dtype, *majors, run=_promised(p))
    return (Launch(kernel, Nothing(), given),)


def _matrix(rows: int, columns: int) -> Callable[[Any], Any]:
    return lambda x: x.view(rows, columns)


def _flat(given: Argument, rows: int, columns: int, lead: tuple[int, ...]) -> Argument:
    """An operand as one matrix, also where it is a batch of them."""
    return (str(given), _matrix(rows, columns)) if lead else given


def _arguments(p: Product, left: str, right: str) -> tuple[Argument, Argument, Argument]:
    """Operands and result as kernels take them: row-major, as they lie in memory."""
    turn = attrgetter("mT")
    first: Argument = (left, turn) if p.a_major != "k" else left
    second: Argument = (right, turn) if p.b_major != "k" else right
    if p.lead is None:
        return first, second, "out"
    return (left, lambda x: x.view(p.m, p.k)), second, ("out", lambda c: c.view(p.m, p.n))


def _variants(left: str, right: str) -> tuple[Variant[Product, Any], ...]:
    hopper = ("wgmma", "tma", "clusters")
    thin, wide = (thin_gemm, left, right, True), (warp_specialized_gemm, left, right)
    return (
        Variant("thin", hopper, THIN, _launch(*thin), operands_fit, pays("thin")),
        Variant("wgmma", hopper, WGMMA, _launch(*wide, row=True), tma_fits, pays("wgmma")),
        Variant("thin_packed", hopper, THIN, _packed(*thin), packs, pays("thin_packed")),
        Variant("wgmma_packed", hopper, WGMMA, _packed(*wide), packs, pays("wgmma_packed")),
        Variant("dots", hopper, DOTS, _dots(left, right), few, pays("dots")),
        Variant("staged", hopper, STAGED, _staged(left, right)),
        Variant("mma", ("mma.sync",), MMA, _launch(pipelined_gemm, left, right)),
    )


matmul = Operator(
    "matmul(Tensor a, Tensor b) -> Tensor",
    describe=_matmul,
    outputs=_result,
    variants=_variants("a", "b"),
    doc="""`a @ b.T` for `a` (m, k) and `b` (n, k), accumulated in float32, rounded once.

    a, b: float16 or bfloat16 on one GPU, of one type, each row-major or the transpose of a
    row-major tensor (so all four operand orders, without a copy).

    Gives (m, n), row-major. Variants: on Hopper, where TMA can read the operands (rows of whole 16
    bytes that start at one), "thin" if the result is thin or few, else "wgmma"; "thin_packed" and
    "wgmma_packed", the same after copies of the operands that TMA cannot read; "staged", which
    takes rows of any length, for small products; the quickest by the cost model. "mma" everywhere.
    """,
)

bmm = Operator(
    "bmm(Tensor a, Tensor b) -> Tensor",
    describe=_bmm,
    outputs=_result,
    variants=_variants("a", "b"),
    doc="""`a @ b.mT` for `a` (batch, m, k) and `b` (batch, n, k), in one launch.

    Types, orders of the matrices and variants are those of `matmul`. Gives (batch, m, n).
    """,
)

linear = Operator(
    "linear(Tensor x, Tensor w, Tensor? bias=None, str? activation=None) -> Tensor",
    describe=_linear,
    outputs=_result,
    variants=_variants("x", "w"),
    doc="""`activation(x @ w.T + bias)` for `x` (..., k) and `w` (n, k): one launch, rounded once.

    x, w: as the operands of `matmul`; x of more than two dimensions is row-major.
    bias: (n,), of their type, or None.
    activation: "relu", "gelu" (the exact one, to 2^-14 of itself or 2^-25), "silu" or None.

    Gives (..., n), row-major. Variants are those of `matmul`.
    """,
)
