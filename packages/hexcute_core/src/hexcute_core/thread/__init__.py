"""Thread programs: what one thread does, registers and addresses made explicit."""

from hexcute_core.thread.ir import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Operand,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    Stmt,
    ThreadParam,
    ThreadProgram,
    While,
)
from hexcute_core.thread.prims import PRIMS, PrimSpec, prim
from hexcute_core.thread.printer import show_program
from hexcute_core.thread.verify import verify

__all__ = [
    "Assign", "DeclareArray", "For", "GlobalPtr", "If", "Operand", "PRIMS", "Prim", "PrimSpec",
    "Regs", "SetElement", "SharedPtr", "Stmt", "ThreadParam", "ThreadProgram", "While", "prim",
    "show_program", "verify",
]  # fmt: skip
