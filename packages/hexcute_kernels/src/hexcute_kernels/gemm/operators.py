"""matmul, bmm and linear, which are one product: wgmma fed by TMA where GPU and operands allow it,
by a kernel of its own where the result is thin, else mma.sync.

    matmul   a (m, k), b (n, k)                      a b^T
    bmm      a (batch, m, k), b (batch, n, k)        a b^T of each
    linear   x (..., k), w (n, k), bias (n)          activation(x w^T + bias)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm.configs import MMA, THIN, WGMMA
from hexcute_kernels.gemm.packing import pack, pack_both
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.thin import thin_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm
from hexcute_kernels.operator import (
    Argument,
    Launch,
    Nothing,
    Operator,
    Problem,
    Steps,
    Variant,
)
from hexcute_kernels.parts.epilogue import ACTIVATIONS
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_rank, dtype_of, order_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16)


@dataclass(frozen=True, kw_only=True)
class Product(Problem):
    """m x n results, each a sum over k, of each of a `batch` of matrices; operands of `dtype`,
    whose `a_major` ("k" or "m") and `b_major` ("k" or "n") index is contiguous; a bias of n and an
    activation on top. Where the first operand is no matrix, `lead` are the extents of its rows."""

    m: int
    n: int
    k: int
    dtype: hx.DType
    a_major: str
    b_major: str
    batch: int | None = None
    bias: bool = False
    activation: str | None = None
    lead: tuple[int, ...] | None = None
    UNTUNED: ClassVar[tuple[str, ...]] = ("lead",)

    @property
    def thin(self) -> int:
        """The shorter side of the result."""
        return min(self.m, self.n)

    @property
    def thick(self) -> int:
        """The longer side of the result."""
        return max(self.m, self.n)


THIN_SIDE, SHORT_SIDE, SHORT = 64, 128, 8448
"""Results with a side of at most THIN_SIDE have a kernel of their own; so have those with one of at
most SHORT_SIDE if the other is at most SHORT, for whose tiles of 64 there are multiprocessors."""


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


def tma_fits(p: Product) -> str | None:
    """Whether TMA can move operands and result: from 16 bytes on, in rows of whole 16 bytes."""
    return _unfit(p, **_operand_rows(p), **{"the result": p.n})


def thin_fits(p: Product) -> str | None:
    """Whether the result is thin, and TMA can move the operands."""
    return _not_thin(p) or _unfit(p, **_operand_rows(p))


def _not_thin(p: Product) -> str | None:
    if p.thin > THIN_SIDE and (p.thin > SHORT_SIDE or p.thick > SHORT):
        return (
            f"the result is to have a side of at most {THIN_SIDE}, or of at most {SHORT_SIDE} and "
            f"the other of at most {SHORT}"
        )
    return None


def _operand_rows(p: Product) -> dict[str, int]:
    """How long the rows of the operands are."""
    return {
        "the first operand": p.k if p.a_major == "k" else p.m,
        "the second": p.k if p.b_major == "k" else p.n,
    }


def _unfit(p: Product, **rows: int) -> str | None:
    """Why TMA does not take tensors with `rows`, lengths by what they are of, or None."""
    if not p.aligned:
        return "TMA takes tensors that start at a multiple of 16 bytes"
    line = 128 // p.dtype.bits
    odd = [name for name, length in rows.items() if length % line]
    return f"TMA takes rows of whole 16 bytes; not those of {' and '.join(odd)}" if odd else None


def _launch(
    make: Callable[..., hx.Kernel], left: str, right: str, thin: bool = False
) -> Callable[[Product, Config], Launch]:
    """The launch of a product by a kernel of a family; its operands are the arguments `left` and
    `right`. The kernels for `thin` results take the operand with more rows first."""

    def of(p: Product, config: Config) -> Launch:
        first, second, last = _arguments(p, left, right)
        orders, turned = (p.a_major, p.b_major), thin and p.m < p.n
        if turned:
            # The orders are "k", or any other word for rows that are contiguous.
            first, second, orders = second, first, orders[::-1]
        kernel = make(
            p.dtype, *orders, bias=p.bias, activation=p.activation, batched=p.batch is not None,
            **({"turned": turned} if thin else {}),
        )  # fmt: skip
        return Launch(kernel, config, (first, second, *["bias"] * p.bias, last))

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
            as_it_lies = p.k if majors[side] == "k" else rows
            if p.aligned and p.k == wide and as_it_lies % line == 0:
                continue
            names[side] = f"work{len(work)}"
            flat = rows * math.prod(lead)
            copied = (names[side], _matrix(flat, wide))
            work.append(Output((*lead, rows, wide), p.dtype))
            moved.append((majors[side], (_flat(given, flat, p.k, lead), copied)))
            majors[side] = "k"
        q = replace(p, k=wide, a_major=majors[0], b_major=majors[1], aligned=True)
        last = _launch(make, names[0], names[1], thin)(q, config)
        return Steps(tuple(work), (*_copies(p.dtype, moved), last))

    return of


def _copies(
    dtype: hx.DType, moved: Sequence[tuple[str, tuple[Argument, Argument]]]
) -> tuple[Launch, ...]:
    """One launch that copies none, one or two operands, each of an order, to where it is told."""
    majors = tuple(major for major, _ in moved)
    given = tuple(argument for _, pair in moved for argument in pair)
    if not moved:
        return ()
    kernel = pack(dtype, *majors) if len(moved) == 1 else pack_both(dtype, *majors)
    return (Launch(kernel, Nothing(), given),)


def _matrix(rows: int, columns: int) -> Callable[[Any], Any]:
    return lambda x: x.view(rows, columns)


def _flat(given: Argument, rows: int, columns: int, lead: tuple[int, ...]) -> Argument:
    """An operand as one matrix, also where it is a batch of them."""
    return (str(given), _matrix(rows, columns)) if lead else given


SHALLOWEST, SHALLOW, FEW_SUMS = 16, 128, 1 << 21
"""Results of at most SHALLOWEST multiplications each are sooner done by small blocks that wait for
no barriers; so are those of at most SHALLOW, up to FEW_SUMS of them."""
STORED = 1 << 28
"""Multiplications from which on wgmma pays where TMA cannot store the result."""


def deep(p: Product) -> str | None:
    """Whether there is enough of k for a ring of stages."""
    few = p.k <= SHALLOW and p.m * p.n <= FEW_SUMS
    if (few or p.k <= SHALLOWEST) and p.batch is None:
        return (
            f"k is to be more than {SHALLOWEST}, and more than {SHALLOW} where there are at most "
            f"{FEW_SUMS} results"
        )
    return None


def packs(p: Product) -> str | None:
    """Whether copies of the operands can be made."""
    if p.batch is not None and (p.a_major, p.b_major) != ("k", "k"):
        return "batches are to have rows along k"
    return None


def packed_thin_fits(p: Product) -> str | None:
    """Whether the result is thin, and copies of the operands can be made."""
    return _not_thin(p) or packs(p)


def packing_pays(p: Product) -> str | None:
    """Whether copies of the operands take less time than they save."""
    if _unfit(p, **_operand_rows(p)) is None and p.m * p.n * p.k < STORED:
        return f"nothing needs a copy, and the multiplications are fewer than {STORED}"
    return None


def _arguments(p: Product, left: str, right: str) -> tuple[Argument, Argument, Argument]:
    """Operands and result as kernels take them: row-major, as they lie in memory."""
    turn = attrgetter("mT")
    first: Argument = (left, turn) if p.a_major != "k" else left
    second: Argument = (right, turn) if p.b_major != "k" else right
    if p.lead is None:
        return first, second, "out"
    return (left, lambda x: x.view(p.m, p.k)), second, ("out", lambda c: c.view(p.m, p.n))


def _variants(left: str, right: str) -> tuple[Variant[Product, Any], ...]:
    wgmma, mma = (_launch(make, left, right) for make in (warp_specialized_gemm, pipelined_gemm))
    return (
        Variant(
            "thin", ("wgmma", "tma", "clusters"), THIN,
            _launch(thin_gemm, left, right, thin=True), thin_fits, deep,
        ),
        Variant("wgmma", ("wgmma", "tma"), WGMMA, wgmma, tma_fits, deep),
        Variant(
            "thin_packed", ("wgmma", "tma", "clusters"), THIN,
            _packed(thin_gemm, left, right, thin=True), packed_thin_fits, packing_pays,
        ),
        Variant(
            "wgmma_packed", ("wgmma", "tma"), WGMMA,
            _packed(warp_specialized_gemm, left, right), packs, packing_pays,
        ),
        Variant("mma", ("mma.sync",), MMA, mma),
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
    bytes that start at one), "thin" if m or n is at most 64 or so, else "wgmma"; on Hopper also
    "thin_packed" and "wgmma_packed", the same after copies of the operands that TMA cannot read;
    "mma" everywhere, and first where k is at most 128 and the result small.
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
    activation: "relu", "gelu" (exact, by erf), "silu" or None.

    Gives (..., n), row-major. Variants are those of `matmul`.
    """,
)
