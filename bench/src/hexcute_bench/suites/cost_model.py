"""Accuracy of the cost model: on 16 GEMM shapes, the chosen layouts beside forced ones."""

from __future__ import annotations

from hexcute_bench.cases.gemm import GemmCase, gemm_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.forced import CHOSEN, FORCED, ForcedLayout
from hexcute_bench.suites.gemm import SHAPES as GEMM_SHAPES
from hexcute_bench.suites.gemm import regime

SHAPES = tuple(shape for shape in GEMM_SHAPES if shape["m"] >= 2048)

COST_MODEL = KernelSuite(
    name="cost_model",
    title="Layouts the cost model chose beside layouts it did not",
    operator="matmul",
    baseline=CHOSEN,
    shapes=SHAPES,
    quick=SHAPES[3:4],
    peers=tuple(ForcedLayout(name, only) for name, only in {CHOSEN: {}, **FORCED}.items()),
    case=GemmCase,
    work=gemm_work,
    regime=regime,
)
