"""quantize_blockwise(x) and quantize_weights(w): e4m3 numbers and a float32 scale a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8.blockwise import BLOCK
from hexcute_kernels.fp8.configs import QUANTIZE, QUANTIZE_WEIGHTS, QuantizeConfig
from hexcute_kernels.fp8.quantize import quantize
from hexcute_kernels.operator import Launch, Operator, Problem, Run, Variant
from hexcute_kernels.tables import Table
from hexcute_kernels.tensors import Output, check_contiguous, dtype_of

if TYPE_CHECKING:
    import torch

TYPES = (hx.bf16, hx.f16, hx.f32)


@dataclass(frozen=True, kw_only=True)
class Quantization(Problem):
    """`batch` matrices (None: one) of m x k numbers of type `dtype`, a scale for `high` rows and
    128 columns, a power of two or not, scales along "m" or "k" side by side."""

    m: int
    k: int
    batch: int | None
    dtype: hx.DType
    high: int
    power_of_two: bool
    scale_major: str

    @property
    def n(self) -> int:
        """Columns."""
        return self.k

    @property
    def scales(self) -> tuple[int, int]:
        """How many scales there are along m and k."""
        return -(-self.m // self.high), -(-self.k // BLOCK)


def _described(
    name: str, what: str, high: int, x: torch.Tensor, power_of_two: bool, scale_major: str
) -> Quantization:
    dtype = dtype_of(name, TYPES, **{what: x})
    if x.dim() not in (2, 3):
        raise LaunchError(f"{name} takes {what} (m, k) or (batch, m, k); got {tuple(x.shape)}")
    check_contiguous(name, **{what: x})
    if scale_major not in ("m", "k"):
        raise LaunchError(f"{name}: scale_major is 'm' or 'k', got {scale_major!r}")
    m, k = x.shape[-2:]
    return Quantization(
        m=m, k=k, batch=x.shape[0] if x.dim() == 3 else None, dtype=dtype, high=high,
        power_of_two=power_of_two, scale_major=scale_major,
    )  # fmt: skip


def describe(x: torch.Tensor, scale_major: str, power_of_two: bool) -> Quantization:
    """The activations that a call gives. Raises LaunchError."""
    return _described("quantize_blockwise", "x", 1, x, power_of_two, scale_major)


def describe_weights(w: torch.Tensor, power_of_two: bool) -> Quantization:
    """The weights that a call gives. Raises LaunchError."""
    return _described("quantize_weights", "w", BLOCK, w, power_of_two, "k")


def outputs(p: Quantization) -> tuple[Output, Output]:
    """The numbers and their scales."""
    first = () if p.batch is None else (p.batch,)
    turned = (*range(len(first)), len(first) + 1, len(first))
    order = turned if p.scale_major == "m" else None
    return Output((*first, p.m, p.k), hx.f8e4m3), Output((*first, *p.scales), hx.f32, order)


def stacked(t: torch.Tensor) -> torch.Tensor:
    """A stack of matrices, of one where t is one."""
    return t if t.dim() == 3 else t.unsqueeze(0)


def turned(t: torch.Tensor) -> torch.Tensor:
    """The same of scales whose rows lie side by side, as they lie in memory."""
    return stacked(t).mT


def launch(p: Quantization, config: QuantizeConfig) -> Launch | Run:
    """The launch by this configuration."""
    if p.m == 0 or p.k == 0 or p.batch == 0:
        return lambda *args: None
    kernel = quantize(p.dtype, p.high, p.power_of_two, p.scale_major)
    scales: Callable[[torch.Tensor], torch.Tensor] = turned if p.scale_major == "m" else stacked
    return Launch(
        kernel,
        config,
        (("x" if p.high == 1 else "w", stacked), ("out0", stacked), ("out1", scales)),
    )


MOST = 65535
"""Matrices in a stack: blocks along an axis of a grid that is not the first."""


def fits(p: Quantization) -> str | None:
    """Whether a grid has room for the stack."""
    return None if (p.batch or 1) <= MOST else f"a stack has at most {MOST} matrices, not {p.batch}"


def _variants(table: Table[QuantizeConfig]) -> tuple[Variant[Quantization, QuantizeConfig], ...]:
    return (Variant("one_pass", ("fp8",), table, launch, fits),)


quantize_blockwise = Operator(
    'quantize_blockwise(Tensor x, str scale_major="m", bool power_of_two=False) '
    "-> (Tensor, Tensor)",
    describe=describe,
    outputs=outputs,
    variants=_variants(QUANTIZE),
    doc="""x as e4m3 numbers and a float32 scale for every row and 128 columns: what
    `fp8_blockwise_matmul` and `fp8_grouped_matmul` take for activations.

    x: (m, k) or (batch, m, k) in float16, bfloat16 or float32, row-major.
    scale_major: "m", the scales of neighbouring rows lie side by side, which the products read
    quickest, or "k", row-major.
    power_of_two: scales are rounded up to powers of two, so that no number changes by its scale.

    Gives q like x in float8_e4m3fn, and s (.., m, k / 128), the last block perhaps short: s is the
    largest |x| of a block / 448, at least 2^-126, and q is x / s to the nearest, both up to units
    in the last place of float32: a quotient in the middle of two numbers becomes one or the other,
    not always the even one. NaN stays NaN and counts for no scale. An infinity becomes 448 with an
    infinite scale, so that sums with it are infinite or no number.
    Variant: "one_pass", from sm_89 on.
    """,
)

quantize_weights = Operator(
    "quantize_weights(Tensor w, bool power_of_two=False) -> (Tensor, Tensor)",
    describe=describe_weights,
    outputs=outputs,
    variants=_variants(QUANTIZE_WEIGHTS),
    doc="""w as e4m3 numbers and a float32 scale for every 128 x 128 block: what
    `fp8_blockwise_matmul` takes for weights, and `fp8_grouped_matmul` for a stack of them.

    w: (n, k) or (experts, n, k) in float16, bfloat16 or float32, row-major. power_of_two, numbers,
    scales and variant are `quantize_blockwise`'s.

    Gives q like w in float8_e4m3fn, and s (.., n / 128, k / 128), row-major, the last blocks
    perhaps short.
    """,
)
