"""Products of matrices: the operators, and the kernels they choose among."""

from hexcute_kernels.gemm.grouped_operator import grouped_matmul
from hexcute_kernels.gemm.operators import bmm, linear, matmul

__all__ = ["bmm", "grouped_matmul", "linear", "matmul"]
