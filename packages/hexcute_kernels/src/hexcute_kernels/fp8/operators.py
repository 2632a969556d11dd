"""fp8_blockwise_matmul and fp8_rowwise_matmul(a, b, a_scale, b_scale): e4m3 operands, a scale for
every 128 of k, or for every row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8.blockwise import BLOCK, blockwise_gemm
from hexcute_kernels.fp8.configs import BLOCKWISE, THIN_BLOCKWISE, BlockwiseConfig
from hexcute_kernels.fp8.thin import thin_blockwise_gemm
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of, order_of

if TYPE_CHECKING:
    import torch

NEEDS = ("wgmma", "tma", "fp8", "clusters")
OUT = {"bfloat16": hx.bf16, "float16": hx.f16, "float32": hx.f32}


@dataclass(frozen=True, kw_only=True)
class Blockwise(Problem):
    """m x n results of type `out`, each a sum over k; a's scales lie along "m" or along "k"."""

    m: int
    n: int
    k: int
    out: hx.DType
    scale_major: str
    batch: int | None = None

    @property
    def out_bits(self) -> int:
        """Bits of a result: wide ones leave less shared memory to the operands."""
        return self.out.bits


def describe(
    a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, out_dtype: str
) -> Blockwise:
    """The product that a call asks for. Raises LaunchError."""
    name = "fp8_blockwise_matmul"
    dtype_of(name, (hx.f8e4m3,), a=a, b=b)
    dtype_of(name, (hx.f32,), a_scale=a_scale, b_scale=b_scale)
    what = "a (m, k), b (n, k), a_scale (m, k / 128) and b_scale (n / 128, k / 128)"
    check_rank(name, 2, what, a=a, b=b, a_scale=a_scale, b_scale=b_scale)
    check_contiguous(name, a=a, b=b, b_scale=b_scale)
    (m, k), n = a.shape, b.shape[0]
    groups, columns = -(-k // BLOCK), -(-n // BLOCK)
    shapes = (tuple(b.shape), tuple(a_scale.shape), tuple(b_scale.shape))
    if shapes != ((n, k), (m, groups), (columns, groups)):
        raise LaunchError(
            f"{name} takes {what}, blocks rounded up; got a {(m, k)}, b {shapes[0]}, a_scale "
            f"{shapes[1]} and b_scale {shapes[2]}"
        )
    if out_dtype not in OUT:
        raise LaunchError(f"{name}: out_dtype is {', '.join(OUT)}, got {out_dtype!r}")
    major = "k" if order_of(name, "a_scale", a_scale, "m", "k") == "k" else "m"
    return Blockwise(m=m, n=n, k=k, out=OUT[out_dtype], scale_major=major)


def fits(p: Blockwise) -> str | None:
    """Whether TMA can move operands and result."""
    if not p.aligned:
        return "TMA takes tensors that start at a multiple of 16 bytes"
    if p.k % 16 or p.n % 16:
        return f"n and k are multiples of 16, not {p.n} and {p.k}"
    return None


NARROW = {32: None, 64: 16896, 128: 5120}
"""Products of at most so many rows of a, with at most so many of b, have a kernel of their own."""


def thin_fits(p: Blockwise) -> str | None:
    """Whether there are few rows, and TMA can move operands."""
    if all(p.m > few or (most is not None and p.n > most) for few, most in NARROW.items()):
        limits = (f"{few} where b has at most {most}" for few, most in NARROW.items() if most)
        return f"a is to have at most {next(iter(NARROW))} rows, or {', or '.join(limits)}"
    return fits(p)


def _launch(
    make: Callable[[hx.DType, str], hx.Kernel],
) -> Callable[[Blockwise, Config], Launch | Run]:
    """The launch of a product by a kernel of a family."""

    def of(p: Blockwise, config: Config) -> Launch | Run:
        if p.m == 0 or p.n == 0 or p.k == 0:
            return lambda *args: args[-1].zero_()
        scale: Argument = ("a_scale", attrgetter("mT")) if p.scale_major == "m" else "a_scale"
        kernel = make(p.out, p.scale_major)
        return Launch(kernel, config, ("a", "b", scale, "b_scale", "out"))

    return of


fp8_blockwise_matmul = Operator(
    "fp8_blockwise_matmul(Tensor a, Tensor b, Tensor a_scale, Tensor b_scale, "
    'str out_dtype="bfloat16") -> Tensor',
    describe=describe,
    outputs=lambda p: Output((p.m, p.n), p.out),
    variants=(
        Variant(
            "thin", NEEDS, THIN_BLOCKWISE, _launch(thin_blockwise_gemm), thin_fits,
        ),
        Variant("wgmma", NEEDS, BLOCKWISE, _launch(blockwise_gemm), fits),
    ),
    doc="""(a_scale a) (b_scale b)^T: each block of 128 of k is multiplied by its two scales and
    added in float32.

    a: (m, k), b: (n, k), float8_e4m3fn on one GPU, row-major, n and k multiples of 16.
    a_scale: (m, k / 128) in float32, a scale for each row and 128 columns; quickest where its
    columns are contiguous, as `a_scale.t().contiguous().t()`.
    b_scale: (n / 128, k / 128) in float32, row-major, a scale for each 128 x 128 block. The last
    blocks may be short.
    out_dtype: "bfloat16", "float16" or "float32".

    Gives (m, n), row-major. Variants, on Hopper: "thin" where m and n are small, "wgmma".
    """,
)


def describe_rows(
    a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, out_dtype: str
) -> Blockwise:
    """The product that a call asks for. Raises LaunchError."""
    name = "fp8_rowwise_matmul"
    dtype_of(name, (hx.f8e4m3,), a=a, b=b)
    dtype_of(name, (hx.f32,), a_scale=a_scale, b_scale=b_scale)
    what = "a (m, k), b (n, k), a_scale (m, 1) and b_scale (n, 1)"
    check_rank(name, 2, what, a=a, b=b, a_scale=a_scale, b_scale=b_scale)
    check_contiguous(name, a=a, b=b, a_scale=a_scale, b_scale=b_scale)
    (m, k), n = a.shape, b.shape[0]
    shapes = (tuple(b.shape), tuple(a_scale.shape), tuple(b_scale.shape))
    if shapes != ((n, k), (m, 1), (n, 1)):
        raise LaunchError(
            f"{name} takes {what}; got a {(m, k)}, b {shapes[0]}, a_scale {shapes[1]} and b_scale "
            f"{shapes[2]}"
        )
    if out_dtype not in OUT:
        raise LaunchError(f"{name}: out_dtype is {', '.join(OUT)}, got {out_dtype!r}")
    return Blockwise(m=m, n=n, k=k, out=OUT[out_dtype], scale_major="m")


def launch_rows(p: Blockwise, config: BlockwiseConfig) -> Launch | Run:
    """The launch of a product whose rows have scales."""
    if p.m == 0 or p.n == 0 or p.k == 0:
        return lambda *args: args[-1].zero_()
    flat = methodcaller("view", -1)
    arguments = ("a", "b", ("a_scale", flat), ("b_scale", flat), "out")
    return Launch(blockwise_gemm(p.out, by_rows=True), config, arguments)


fp8_rowwise_matmul = Operator(
    "fp8_rowwise_matmul(Tensor a, Tensor b, Tensor a_scale, Tensor b_scale, "
    'str out_dtype="bfloat16") -> Tensor',
    describe=describe_rows,
    outputs=lambda p: Output((p.m, p.n), p.out),
    variants=(Variant("wgmma", NEEDS, BLOCKWISE, launch_rows, fits),),
    doc="""a_scale a b^T b_scale: a scale for each row of a and of b, a token and a channel, applied
    in float32 to a sum that is promoted to float32 every 128 of k.

    a: (m, k), b: (n, k), float8_e4m3fn on one GPU, row-major, n and k multiples of 16.
    a_scale: (m, 1), b_scale: (n, 1), float32. out_dtype: "bfloat16", "float16" or "float32".

    Gives (m, n), row-major. Variant: "wgmma", on Hopper.
    """,
)
