"""Blockwise scaled FP8 GEMM: seven layer sizes times five row counts."""

from __future__ import annotations

from hexcute_bench.cases.fp8 import BLOCK, Fp8Case, fp8_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers import triton
from hexcute_bench.peers.fp8 import CublasLtFp8, CutlassFp8, DeepGemm, hexcute_fp8
from hexcute_bench.shape import Shape
from hexcute_bench.suites.gemm import ROWS, regime

LAYERS = (
    (2048, 7168), (24576, 1536), (32768, 512), (4096, 7168), (7168, 2048), (4096, 16384),
    (4096, 4096),
)  # fmt: skip
SHAPES = tuple(Shape.of(m=m, n=n, k=k) for m in ROWS for n, k in LAYERS)

FP8_BLOCKWISE = KernelSuite(
    name="fp8_blockwise",
    title="Blockwise scaled FP8 GEMM",
    operator="fp8_blockwise_matmul",
    baseline="deepgemm",
    shapes=SHAPES,
    quick=tuple(shape for shape in SHAPES if shape["m"] in (64, 4096) and shape["n"] == 4096),
    peers=(*hexcute_fp8(), CutlassFp8(), DeepGemm(), CublasLtFp8(), triton.blockwise(BLOCK)),
    case=Fp8Case,
    work=fp8_work,
    regime=regime,
)
