"""exact(e) = what a grid expression comes to in whole numbers of any size, as on the host."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from hexcute_core.errors import HexcuteError
from hexcute_core.scalar.expr import Binary, Cast, Compare, Const, Scalar, Select, Unary, Var
from hexcute_core.scalar.printer import show

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
    "floordiv": operator.floordiv, "cdiv": lambda a, b: -(-a // b), "mod": operator.mod,
    "shl": operator.lshift, "shr": operator.rshift, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "pow": operator.pow,
    "land": lambda a, b: bool(a and b), "lor": lambda a, b: bool(a or b),
}  # fmt: skip


def exact(e: Scalar, values: Mapping[str, Any]) -> int:
    """`e` for the variables' `values`. Raises HexcuteError for what a grid cannot have."""
    match e:
        case Const():
            return int(e.value)
        case Var():
            return int(values[e.name])
        case Cast():
            return exact(e.a, values)
        case Unary(op="neg"):
            return -exact(e.a, values)
        case Select():
            return exact(e.a if exact(e.cond, values) else e.b, values)
        case Binary() | Compare() if e.op in _OPERATORS:
            a, b = exact(e.a, values), exact(e.b, values)
            if e.op in ("floordiv", "cdiv", "mod") and b == 0:
                raise HexcuteError(
                    f"the grid expression `{show(e)}` divides by zero", fix="pass another number"
                )
            return int(_OPERATORS[e.op](a, b))
        case _:
            raise HexcuteError(f"the grid expression `{show(e)}` cannot be computed on the host")
