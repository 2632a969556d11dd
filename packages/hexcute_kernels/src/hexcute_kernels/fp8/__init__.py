"""Products of FP8 matrices: the operator, and its kernel."""

from hexcute_kernels.fp8.operators import fp8_blockwise_matmul

__all__ = ["fp8_blockwise_matmul"]
