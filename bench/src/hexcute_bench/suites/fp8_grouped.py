"""Grouped blockwise FP8 GEMM: DeepSeek's two products of an expert, of 8 experts and of 256."""

from __future__ import annotations

from hexcute_bench.cases.fp8_grouped import Fp8GroupedCase, fp8_grouped_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.fp8_grouped import DeepGemmGrouped, hexcute_fp8_grouped
from hexcute_bench.shape import Shape

LAYERS = ((4096, 7168), (7168, 2048))
GROUPS = ((8, 4096), (8, 512), (256, 256), (256, 128))
SHAPES = tuple(
    Shape.of(experts=experts, rows=rows, n=n, k=k) for experts, rows in GROUPS for n, k in LAYERS
)


def regime(shape: Shape) -> str:
    """A device's share of the experts, or all of them."""
    return f"experts={shape['experts']}"


FP8_GROUPED = KernelSuite(
    name="fp8_grouped",
    title="Grouped blockwise scaled FP8 GEMM",
    operator="fp8_grouped_matmul",
    baseline="deepgemm",
    shapes=SHAPES,
    quick=SHAPES[::3],
    peers=(*hexcute_fp8_grouped(), DeepGemmGrouped()),
    case=Fp8GroupedCase,
    work=fp8_grouped_work,
    regime=regime,
)
