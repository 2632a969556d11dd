"""fp8_grouped_matmul(a, b, a_scale, b_scale, bounds): the weights of an expert for its rows."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8.blockwise import BLOCK, blockwise_gemm
from hexcute_kernels.fp8.configs import GROUPED, BlockwiseConfig
from hexcute_kernels.fp8.operators import NEEDS, OUT, Blockwise, fits
from hexcute_kernels.operator import Argument, Launch, Operator, Run, Steps, Variant
from hexcute_kernels.parts.groups import Rows, most_tiles, place
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of, order_of

if TYPE_CHECKING:
    import torch

NAME = "fp8_grouped_matmul"


@dataclass(frozen=True, kw_only=True)
class Grouped(Blockwise):
    """Products of `experts` matrices with rows of one a, or, where `batch` is not None, with the
    first rows of a matrix each of m; `share` rows of an expert are expected."""

    experts: int
    share: int

    def most(self, high: int) -> int:
        """Room for all tiles of `high` rows: a multiple of four, since a kernel whose tables have
        no whole 16 bytes a row would be another one."""
        tiles = self.experts * -(-self.m // high)
        if self.batch is None:
            tiles = most_tiles(self.m, self.experts, high)
        return -(-tiles // 4) * 4


def describe(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    bounds: torch.Tensor,
    out_dtype: str,
    expected: int | None,
) -> Grouped:
    """The products that a call asks for. Raises LaunchError."""
    dtype_of(NAME, (hx.f8e4m3,), a=a, b=b)
    dtype_of(NAME, (hx.f32,), a_scale=a_scale, b_scale=b_scale)
    dtype_of(NAME, (hx.i32,), bounds=bounds)
    what = (
        "a (m, k) and bounds (experts + 1), or a (experts, m, k) and bounds (experts), with b "
        "(experts, n, k), a_scale (.., m, k / 128) and b_scale (experts, n / 128, k / 128)"
    )
    check_rank(NAME, 3 if a.dim() == 3 else 2, what, a=a, a_scale=a_scale)
    check_rank(NAME, 3, what, b=b, b_scale=b_scale)
    check_rank(NAME, 1, what, bounds=bounds)
    check_contiguous(NAME, a=a, b=b, b_scale=b_scale, bounds=bounds)
    (m, k), (experts, n, _) = a.shape[-2:], b.shape
    groups, columns = -(-k // BLOCK), -(-n // BLOCK)
    first = (experts,) if a.dim() == 3 else ()
    shapes = tuple(tuple(t.shape) for t in (a, b, a_scale, b_scale, bounds))
    if shapes != (
        (*first, m, k), (experts, n, k), (*first, m, groups), (experts, columns, groups),
        (experts if first else experts + 1,),
    ):  # fmt: skip
        names = ("a", "b", "a_scale", "b_scale", "bounds")
        told = ", ".join(f"{name} {shape}" for name, shape in zip(names, shapes, strict=True))
        raise LaunchError(f"{NAME} takes {what}, blocks rounded up; got {told}")
    if out_dtype not in OUT:
        raise LaunchError(f"{NAME}: out_dtype is {', '.join(OUT)}, got {out_dtype!r}")
    if expected is not None and expected < 0:
        raise LaunchError(f"{NAME}: expected is a number of rows, got {expected}")
    share = m if first else -(-m // max(experts, 1))
    return Grouped(
        m=m, n=n, k=k, out=OUT[out_dtype], batch=experts if first else None, experts=experts,
        scale_major="k" if order_of(NAME, "a_scale", a_scale, "m", "k") == "k" else "m",
        share=share if expected is None else expected,
    )  # fmt: skip


def launch(p: Grouped, config: BlockwiseConfig) -> Steps | Run:
    """The launches of a call: tiles are placed on the GPU, and multiplied."""
    if 0 in (p.m, p.n, p.k, p.experts):
        return lambda *args: args[-1].zero_()
    counted = p.batch is not None
    work = Output((4, p.most(config.BM)), hx.i32), Output((1,), hx.i32)
    scale: Argument = ("a_scale", attrgetter("mT")) if p.scale_major == "m" else "a_scale"
    table, used = "work0", "work1"
    bounds = ("bounds", table, used, p.m)
    kernel = blockwise_gemm(p.out, p.scale_major, grouped_by="matrices" if counted else "rows")
    return Steps(
        work,
        (
            Launch(place(p.experts, counted), Rows(config.BM), bounds),
            Launch(kernel, config, ("a", "b", scale, "b_scale", table, used, "out")),
        ),
    )


def outputs(p: Grouped) -> Output:
    """A row for each of a's."""
    first = () if p.batch is None else (p.batch,)
    return Output((*first, p.m, p.n), p.out)


fp8_grouped_matmul = Operator(
    "fp8_grouped_matmul(Tensor a, Tensor b, Tensor a_scale, Tensor b_scale, Tensor bounds, "
    'str out_dtype="bfloat16", int? expected=None) -> Tensor',
    describe=describe,
    outputs=outputs,
    variants=(Variant("wgmma", NEEDS, GROUPED, launch, fits),),
    doc="""The products of a mixture of experts: `fp8_blockwise_matmul` of each expert's rows and
    its weights, whose numbers of rows are on the device. Nothing waits for the GPU, so a CUDA graph
    may hold it.

    b: (experts, n, k) and b_scale: (experts, n / 128, k / 128), as `quantize_weights` gives them.
    Contiguous: a (m, k), rows sorted by expert, and bounds (experts + 1) in int32: expert e has
    rows bounds[e] to bounds[e + 1], from 0 to m, of any number, none too.
    Masked: a (experts, m, k), and bounds (experts) in int32: expert e has its first bounds[e] rows.
    a_scale: (m, k / 128) or (experts, m, k / 128), as `quantize_blockwise` gives them.
    out_dtype: "bfloat16", "float16" or "float32". expected: about how many rows an expert has,
    where that is known, for the choice of a configuration; nothing else depends on it.

    Gives (m, n) or (experts, m, n), row-major; rows of no expert are not written, and hold
    anything. Variant: "wgmma", on Hopper.
    """,
)
