"""FP8 quantization of activations: few rows and many of two hidden sizes."""

from __future__ import annotations

from hexcute_bench.cases.fp8_quantize import Fp8QuantizeCase, fp8_quantize_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.fp8_quantize import (
    Copy,
    TorchQuantize,
    VllmQuantize,
    hexcute_fp8_quantize,
)
from hexcute_bench.shape import Shape

SHAPES = tuple(Shape.of(m=m, k=k) for m in (64, 1024, 8192) for k in (7168, 2048))


def regime(shape: Shape) -> str:
    """A launch's latency, or the bandwidth of memory."""
    return "m=64" if shape["m"] == 64 else "m>=1024"


FP8_QUANTIZE = KernelSuite(
    name="fp8_quantize",
    title="FP8 quantization of rows by 128 columns",
    operator="quantize_blockwise",
    baseline="copy",
    shapes=SHAPES,
    quick=SHAPES[::2],
    peers=(*hexcute_fp8_quantize(), VllmQuantize(), TorchQuantize(), Copy()),
    case=Fp8QuantizeCase,
    work=fp8_quantize_work,
    regime=regime,
)
