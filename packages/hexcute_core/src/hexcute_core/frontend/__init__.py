"""Frontend: a Python function -> TileProgram; every node keeps its source span."""

from hexcute_core.frontend.functions.signature import (
    REQUIRED,
    Constant,
    KernelDef,
    Parameter,
    ScalarParam,
    TensorParam,
    define,
)
from hexcute_core.frontend.functions.snapshot import snapshot
from hexcute_core.frontend.functions.symbols import Symbol, dim, dims
from hexcute_core.frontend.tracing import trace
from hexcute_core.frontend.watch import Watch

__all__ = [
    "Constant", "KernelDef", "Parameter", "REQUIRED", "ScalarParam", "Symbol", "TensorParam",
    "Watch", "define", "dim", "dims", "snapshot", "trace",
]  # fmt: skip
