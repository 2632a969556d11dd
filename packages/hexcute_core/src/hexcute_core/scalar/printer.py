"""Scalar expressions as text, fully parenthesised where precedence is not obvious."""

from __future__ import annotations

import math

from hexcute_core.scalar.expr import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Element,
    Scalar,
    Select,
    Unary,
    Var,
)
from hexcute_core.scalar.numbers import typed
from hexcute_core.unions import assert_never

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "land": "&&", "lor": "||",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_PREFIX = {"neg": "-", "not": "!", "inv": "~"}


def show(e: Scalar) -> str:
    """One line of text for `e`."""
    return _show(e, outer=True)


def _show(e: Scalar, outer: bool = False) -> str:
    match e:
        case Const():
            return _number(e)
        case Var():
            return e.name
        case Unary():
            prefix = _PREFIX.get(e.op)
            return f"{prefix}{_show(e.a)}" if prefix else f"{e.op}({show(e.a)})"
        case Binary() | Compare():
            symbol = _INFIX.get(e.op)
            if symbol is None:
                return f"{e.op}({show(e.a)}, {show(e.b)})"
            text = f"{_show(e.a)} {symbol} {_show(e.b)}"
            return text if outer else f"({text})"
        case Select():
            return f"select({show(e.cond)}, {show(e.a)}, {show(e.b)})"
        case Cast():
            return f"{e.dtype}({show(e.a)})"
        case Element():
            return f"{e.array}[{', '.join(show(i) for i in e.indices)}]"
        case Call():
            return f"{e.name}({', '.join(show(a) for a in e.args)})"
        case _:
            assert_never(e)


def _number(e: Const) -> str:
    """The fewest digits that mean the same number of its type."""
    if not e.dtype.is_float or not math.isfinite(e.value) or e.dtype.bits == 64:
        return str(e.value)
    for digits in range(1, 10):
        shorter = float(f"{e.value:.{digits}g}")
        if typed(shorter, e.dtype) == e.value:
            return str(shorter)
    return str(e.value)
