"""Scalar expressions: a small frozen union shared by tile programs and thread programs."""

from hexcute_core.scalar.build import (
    add,
    binary,
    cast,
    cdiv,
    compare,
    floordiv,
    land,
    maximum,
    minimum,
    mod,
    mul,
    select,
    sub,
    unary,
    xor,
)
from hexcute_core.scalar.expr import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Element,
    Scalar,
    ScalarBase,
    Select,
    Unary,
    Var,
    as_scalar,
)
from hexcute_core.scalar.launch import MULTIPROCESSORS
from hexcute_core.scalar.printer import show
from hexcute_core.scalar.visit import children, free_vars, is_const, rebuild, substitute

__all__ = [
    "MULTIPROCESSORS",
    "Binary", "Call", "Cast", "Compare", "Const", "Element", "Scalar", "ScalarBase", "Select",
    "Unary", "Var", "add", "as_scalar", "binary", "cast", "cdiv", "children", "compare",
    "floordiv", "free_vars", "is_const", "land", "maximum", "minimum", "mod", "mul", "rebuild",
    "select", "show", "sub", "substitute", "unary", "xor",
]  # fmt: skip
