"""grouped_matmul(a, b, bounds): rows of a, each by the matrix of the expert that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm.configs import GroupedConfig
from hexcute_kernels.gemm.grouped import grouped_gemm
from hexcute_kernels.operator import Launch, Operator, Problem, Run, Steps, Variant
from hexcute_kernels.parts.groups import Rows, most_tiles, place
from hexcute_kernels.tables import Row, Table
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "grouped_matmul"


@dataclass(frozen=True, kw_only=True)
class Grouped(Problem):
    """m rows of n results, each a sum over k, of `experts` matrices; about `share` rows each."""

    m: int
    n: int
    k: int
    dtype: hx.DType
    experts: int
    share: int
    batch: int | None = None


GROUPED: Table[GroupedConfig] = Table(
    rows={
        "h200": (
            Row(GroupedConfig(64, 256, 64, 4, 1), {"share": 64}),
            Row(GroupedConfig(128, 256, 64, 3, 2)),
        ),
    },
    more=(
        GroupedConfig(64, 128, 64, 8, 1),
        GroupedConfig(128, 128, 64, 5, 2),
        GroupedConfig(128, 256, 64, 3, 2, CLUSTER_N=2),
    ),
)
"""`share` is how many rows an expert has on average."""


def describe(a: torch.Tensor, b: torch.Tensor, bounds: torch.Tensor) -> Grouped:
    """The products that a call asks for. Raises LaunchError."""
    dtype = dtype_of(NAME, (hx.f16, hx.bf16), a=a, b=b)
    dtype_of(NAME, (hx.i32,), bounds=bounds)
    what = "a (m, k), b (experts, n, k) and bounds (experts + 1)"
    check_rank(NAME, 2, what, a=a)
    check_rank(NAME, 3, what, b=b)
    check_rank(NAME, 1, what, bounds=bounds)
    check_contiguous(NAME, a=a, b=b, bounds=bounds)
    (m, k), (experts, n, _) = a.shape, b.shape
    if (b.shape[-1], bounds.shape[0]) != (k, experts + 1):
        told = f"a {tuple(a.shape)}, b {tuple(b.shape)}, bounds {tuple(bounds.shape)}"
        raise LaunchError(f"{NAME} takes {what}, got {told}")
    return Grouped(m=m, n=n, k=k, dtype=dtype, experts=experts, share=-(-m // max(experts, 1)))


def fits(p: Grouped) -> str | None:
    """Whether TMA can move operands and results."""
    if not p.aligned:
        return "TMA takes tensors that start at a multiple of 16 bytes"
    if p.n % 8 or p.k % 8:
        return f"n and k are multiples of 8, not {p.n} and {p.k}"
    return None


def launch(p: Grouped, config: GroupedConfig) -> Steps | Run:
    """The launches of a call: tiles are placed on the GPU, and multiplied."""
    if 0 in (p.m, p.n, p.k, p.experts):
        return lambda *args: args[-1].zero_()
    # Room for all tiles: a multiple of four, so that rows of the table are whole 16 bytes.
    most = -(-most_tiles(p.m, p.experts, config.BM, True) // 4) * 4
    table, used = "work0", "work1"
    return Steps(
        (Output((4, most), hx.i32), Output((2,), hx.i32)),
        (
            Launch(place(p.experts, False, True), Rows(config.BM), ("bounds", table, used, p.m)),
            Launch(grouped_gemm(p.dtype), config, ("a", "b", table, used, "out")),
        ),
    )


grouped_matmul = Operator(
    "grouped_matmul(Tensor a, Tensor b, Tensor bounds) -> Tensor",
    describe=describe,
    outputs=lambda p: Output((p.m, p.n), p.dtype),
    variants=(Variant("wgmma", ("wgmma", "tma", "clusters"), GROUPED, launch, fits),),
    doc="""`a[i] @ b[e].T` for each row i of expert e, whose numbers of rows are on the device.

    Nothing waits for the GPU, so a CUDA graph may hold it.

    a: (m, k), rows sorted by expert, and b: (experts, n, k), of float16 or bfloat16, contiguous.
    bounds: (experts + 1) in int32: expert e has rows bounds[e] to bounds[e + 1], from 0 to m, of
    any number, none too.

    Gives (m, n), row-major; rows of no expert are not written, and hold anything. Variant: "wgmma",
    on Hopper.
    """,
)
