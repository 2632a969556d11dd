"""Products of FP8 matrices, dense and grouped, and what makes their operands."""

from hexcute_kernels.fp8.grouped_operators import fp8_grouped_matmul
from hexcute_kernels.fp8.operators import fp8_blockwise_matmul, fp8_rowwise_matmul
from hexcute_kernels.fp8.quantize_operators import quantize_blockwise, quantize_weights

__all__ = [
    "fp8_blockwise_matmul", "fp8_grouped_matmul", "fp8_rowwise_matmul", "quantize_blockwise",
    "quantize_weights",
]  # fmt: skip
