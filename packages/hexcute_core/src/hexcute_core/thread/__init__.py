"""Thread programs: what one thread does, registers and addresses made explicit."""

from hexcute_core.thread.ir import (
    Activity,
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Interval,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    Regs,
    RemotePtr,
    Say,
    SetElement,
    SharedPtr,
    Stamp,
    Stamps,
    Stmt,
    TensorMap,
    ThreadParam,
    ThreadProgram,
    While,
)
from hexcute_core.thread.prims import PRIMS, prim
from hexcute_core.thread.printer import show_program
from hexcute_core.thread.spec import PrimSpec
from hexcute_core.thread.verify import verify

__all__ = [
    "Activity", "Assign", "DeclareArray", "For", "GlobalPtr", "If", "Interval", "MapRef",
    "MatrixDesc", "Operand", "PRIMS", "Prim", "PrimSpec", "Regs", "RemotePtr", "Say", "SetElement",
    "SharedPtr", "Stamp", "Stamps", "Stmt", "TensorMap", "ThreadParam", "ThreadProgram", "While",
    "prim", "show_program", "verify",
]  # fmt: skip
