"""Values that only a launch knows, as variables of the grid's expression."""

from __future__ import annotations

from hexcute_core.dtypes import i32
from hexcute_core.scalar.expr import Var

MULTIPROCESSORS = Var("gpu.multiprocessors", i32)
"""Multiprocessors of the GPU that runs the kernel."""

BUILT_INS = tuple(
    f"{base}.{axis}" for base in ("threadIdx", "blockIdx", "gridDim") for axis in "xyz"
)
"""Names that tile programs have without declaring them; a block's extent is not among them."""
