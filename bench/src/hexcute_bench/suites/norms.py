"""Softmax, RMSNorm and LayerNorm of 8192 rows of three lengths."""

from __future__ import annotations

from hexcute_bench.cases.norms import NormsCase, norms_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.norms import Copy, Torch, TorchCompile, hexcute_norms
from hexcute_bench.shape import Shape

SHAPES = tuple(
    Shape.of({name: 8192, "columns": columns})
    for name in ("softmax", "rms_norm", "layer_norm")
    for columns in (1024, 4096, 8192)
)


def regime(shape: Shape) -> str:
    """Rows that fit a warp's registers, and rows that take a block's."""
    return "columns=1024" if shape["columns"] == 1024 else "columns>=4096"


NORMS = KernelSuite(
    name="norms",
    title="Softmax, RMSNorm and LayerNorm",
    operator="softmax",
    baseline="torch_compile",
    shapes=SHAPES,
    quick=SHAPES[::3],
    peers=(*hexcute_norms(), Torch(), TorchCompile(), Copy()),
    case=NormsCase,
    work=norms_work,
    regime=regime,
)
