"""softmax(x), rms_norm(x, weight, eps) and layer_norm(x, weight, bias, eps) of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.norms.configs import (
    LAYER_NORM,
    LONG,
    RMS_NORM,
    SOFTMAX,
    C,
    LongConfig,
    NormConfig,
    RowConfig,
    in_turn,
)
from hexcute_kernels.norms.rows import norm_kernel, softmax_kernel
from hexcute_kernels.norms.streamed import long_norm_kernel, long_softmax_kernel
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.tables import Table
from hexcute_kernels.tensors import Output, check_contiguous, dtype_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16, hx.f32)
LONGEST = 16384
"""Elements of a row that a block holds in registers at most."""


@dataclass(frozen=True, kw_only=True)
class Rows(Problem):
    """`rows` rows of `columns` elements; numbers for each column are of type `given`."""

    shape: tuple[int, ...]
    rows: int
    columns: int
    dtype: hx.DType
    given: hx.DType
    weighted: bool = False
    biased: bool = False

    UNTUNED = ("shape",)


def describe(
    name: str, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> Rows:
    """The problem that a call asks for. Raises LaunchError."""
    dtype = dtype_of(name, DTYPES, x=x)
    if x.dim() == 0:
        raise LaunchError(f"{name} takes x (..., columns), got a single number")
    columns = x.shape[-1]
    single = {what: t for what, t in (("weight", weight), ("bias", bias)) if t is not None}
    for what, tensor in single.items():
        if tuple(tensor.shape) != (columns,):
            raise LaunchError(
                f"{name}: {what} is to be {(columns,)} beside x {tuple(x.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
    given = dtype_of(name, (dtype, hx.f32), **single) if single else dtype
    check_contiguous(name, x=x, **single)
    rows = x.numel() // columns if columns else 0
    return Rows(
        shape=tuple(x.shape), rows=rows, columns=columns, dtype=dtype, given=given,
        weighted=weight is not None, biased=bias is not None,
    )  # fmt: skip


def held(problem: Rows) -> str | None:
    """Whether a block can hold rows of the problem."""
    if problem.columns > LONGEST:
        return f"holds rows of up to {LONGEST} elements, got {problem.columns}"
    return None


def launched(
    kernel: hx.Kernel, p: Rows, config: RowConfig | LongConfig, *scalars: Argument
) -> Launch | Run:
    """The launch of `kernel` on a problem by this configuration."""
    if p.rows == 0:
        return lambda *args: None

    def lines(name: str) -> Argument:
        return name, lambda t: t.view(p.rows, p.columns)

    optional = ["weight"] * p.weighted + ["bias"] * p.biased
    return Launch(kernel, config, (lines("x"), *optional, *scalars, lines("out")))


def width(p: Rows) -> tuple[int, bool]:
    """For how many elements of a row a kernel is made, and whether rows are as long: four to eight
    times a power of two, 32 at least, so that rows of many lengths share a kernel, and those of
    the layers of networks have one of their own."""
    step = max(8, (1 << (max(p.columns, 1) - 1).bit_length()) // 8)
    made = max(32, -(-p.columns // step) * step)
    return made, made == p.columns


HOPPER, ANY = ("mma.sync", "clusters"), ("mma.sync",)


def variants(
    table: Table[C],
    hold: Callable[[Rows, C], Launch | Run],
    stream: Callable[[Rows, LongConfig], Launch | Run],
) -> tuple[Variant[Rows, Any], ...]:
    """Those of an operator whose rows a block holds, as `table` says how, or streams."""
    return (
        Variant("held", HOPPER, table, hold, held),
        Variant("streamed", HOPPER, LONG, stream),
        Variant("held_in_turn", ANY, in_turn(table), hold, held),
        Variant("streamed_in_turn", ANY, in_turn(LONG), stream),
    )


def norms(centred: bool) -> tuple[Variant[Rows, Any], ...]:
    """The variants of a norm."""

    def hold(p: Rows, config: NormConfig) -> Launch | Run:
        kernel = norm_kernel(
            p.dtype, *width(p), p.given, centred=centred, weighted=p.weighted, biased=p.biased
        )
        return launched(kernel, p, config, "eps")

    def stream(p: Rows, config: LongConfig) -> Launch | Run:
        kernel = long_norm_kernel(
            p.dtype, p.given, centred=centred, weighted=p.weighted, biased=p.biased
        )
        return launched(kernel, p, config, "eps")

    return variants(LAYER_NORM if centred else RMS_NORM, hold, stream)


ROWS = """x: (..., columns), float16, bfloat16 or float32, row-major; computed in float32."""
VARIANTS = f"""Gives the shape and type of x. Variants: "held", which reads x once, for up to
    {LONGEST} columns; "streamed", which reads it twice; both on Hopper, where their launches begin
    before those ahead have ended; "held_in_turn" and "streamed_in_turn", which wait for those."""
SINGLE = "(columns,), of x's type or float32, on its GPU"

softmax = Operator(
    "softmax(Tensor x) -> Tensor",
    describe=lambda x: describe("softmax", x, None, None),
    outputs=lambda p: Output(p.shape, p.dtype),
    variants=variants(
        SOFTMAX,
        lambda p, c: launched(softmax_kernel(p.dtype, *width(p)), p, c),
        lambda p, c: launched(long_softmax_kernel(p.dtype), p, c),
    ),
    doc=f"""e^x over the sum of e^x, along the last dimension.

    {ROWS}

    {VARIANTS}
    """,
)  # fmt: skip

rms_norm = Operator(
    "rms_norm(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor",
    describe=lambda x, weight, eps: describe("rms_norm", x, weight, None),
    outputs=lambda p: Output(p.shape, p.dtype),
    variants=norms(centred=False),
    doc=f"""x / sqrt(mean of x^2 + eps) * weight, along the last dimension.

    {ROWS}
    weight: {SINGLE}; ones where not given.

    {VARIANTS}
    """,
)

layer_norm = Operator(
    "layer_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor",
    describe=lambda x, weight, bias, eps: describe("layer_norm", x, weight, bias),
    outputs=lambda p: Output(p.shape, p.dtype),
    variants=norms(centred=True),
    doc=f"""(x - mean of x) / sqrt(mean of (x - mean)^2 + eps) * weight + bias, along the last
    dimension.

    {ROWS}
    weight, bias: {SINGLE}; ones and zeros where not given.

    {VARIANTS}
    """,
)
