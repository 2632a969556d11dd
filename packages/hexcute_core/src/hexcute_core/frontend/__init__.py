"""Frontend: a Python function -> TileProgram; every node keeps its source span."""

from hexcute_core.frontend.fingerprint import fingerprint
from hexcute_core.frontend.signature import (
    REQUIRED,
    Constant,
    KernelDef,
    Parameter,
    ScalarParam,
    TensorParam,
    define,
)
from hexcute_core.frontend.symbols import Symbol, dim, dims
from hexcute_core.frontend.tracing import trace

__all__ = [
    "Constant", "KernelDef", "Parameter", "REQUIRED", "ScalarParam", "Symbol", "TensorParam",
    "define", "dim", "dims", "fingerprint", "trace",
]  # fmt: skip
