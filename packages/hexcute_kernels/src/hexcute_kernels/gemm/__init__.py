"""Products of matrices: the operators, and the kernels they choose among."""

from hexcute_kernels.gemm.operators import matmul

__all__ = ["matmul"]
