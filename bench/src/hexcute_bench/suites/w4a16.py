"""Dense products of f16 rows and weights of four bits, eleven row counts of four layers."""

from __future__ import annotations

from hexcute_bench.cases.w4a16 import W4A16Case, w4a16_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.humming import HummingDense
from hexcute_bench.peers.w4a16 import HexcuteDense, Machete, MarlinDense, tuned_dense
from hexcute_bench.shape import Shape

LAYERS = ((28672, 8192), (8192, 28672), (14336, 4096), (4096, 4096))
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096)
SHAPES = tuple(Shape.of(m=m, n=n, k=k) for n, k in LAYERS for m in ROWS)


def regime(shape: Shape) -> str:
    """Few rows are bound by the weights' bytes."""
    return "M<=16" if shape["m"] <= 16 else "M>=32"


W4A16 = KernelSuite(
    name="w4a16",
    title="FP16 x UINT4 GEMM",
    operator="w4a16_matmul",
    baseline="humming",
    shapes=SHAPES,
    quick=tuple(shape for shape in SHAPES if shape["m"] in (1, 64, 4096)),
    peers=(HexcuteDense(), tuned_dense(), HummingDense(), Machete(), MarlinDense()),
    case=W4A16Case,
    work=w4a16_work,
    regime=regime,
    note="not in the paper, which has experts alone",
)
