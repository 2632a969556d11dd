"""Launch grid = f(scalars, symbols): kept as JSON, compiled once to a Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hexcute_core.dtypes import BY_NAME
from hexcute_core.errors import HexcuteError
from hexcute_core.scalar import Binary, Cast, Compare, Const, Scalar, Select, Unary, Var, show

Json = Any
GridFunction = Callable[[Sequence[Any]], tuple[int, int, int]]

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "pow": "**", "shl": "<<",
    "shr": ">>", "and": "&", "or": "|", "xor": "^", "land": "and", "lor": "or", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


def encode(e: Scalar) -> Json:
    """A grid expression as JSON. Raises HexcuteError for nodes a grid cannot have."""
    match e:
        case Const():
            return {"const": e.value, "dtype": e.dtype.name}
        case Var():
            return {"var": e.name, "dtype": e.dtype.name}
        case Binary():
            return {"binary": e.op, "args": [encode(e.a), encode(e.b)], "dtype": e.dtype.name}
        case Compare():
            return {"compare": e.op, "args": [encode(e.a), encode(e.b)]}
        case Select():
            parts = [encode(e.cond), encode(e.a), encode(e.b)]
            return {"select": parts, "dtype": e.dtype.name}
        case Cast():
            return {"cast": encode(e.a), "dtype": e.dtype.name}
        case Unary(op="neg"):
            return {"neg": encode(e.a), "dtype": e.dtype.name}
        case _:
            raise HexcuteError(
                f"the grid expression `{show(e)}` cannot be computed on the host",
                fix="use integer arithmetic on symbols and scalars in attrs.cuda.grid_dim",
            )


def computable(e: Scalar) -> bool:
    """Whether a launch can compute `e`."""
    try:
        encode(e)
    except HexcuteError:
        return False
    return True


def decode(node: Json) -> Scalar:
    """The expression that `encode` wrote, which anything else does not survive: whoever reads a
    file encodes it again and compares."""
    if "const" in node:
        if not isinstance(node["const"], (bool, int, float)):
            raise HexcuteError(f"a grid's constant is a number, not {node['const']!r}")
        return Const(node["const"], BY_NAME[node["dtype"]])
    if "var" in node:
        return Var(node["var"], BY_NAME[node["dtype"]])
    if "binary" in node:
        a, b = (decode(x) for x in node["args"])
        return Binary(node["binary"], a, b, BY_NAME[node["dtype"]])
    if "compare" in node:
        a, b = (decode(x) for x in node["args"])
        return Compare(node["compare"], a, b)
    if "select" in node:
        cond, a, b = (decode(x) for x in node["select"])
        return Select(cond, a, b, BY_NAME[node["dtype"]])
    if "neg" in node:
        return Unary("neg", decode(node["neg"]), BY_NAME[node["dtype"]])
    return Cast(decode(node["cast"]), BY_NAME[node["dtype"]])


def _python(e: Scalar, place: dict[str, str]) -> str:
    """Python source; names come from `place` alone, never from the user's text."""
    match e:
        case Const():
            return repr(e.value)
        case Var():
            return place[e.name]
        case Binary(op="cdiv"):
            return f"(-(-{_python(e.a, place)} // {_python(e.b, place)}))"
        case Binary(op="min" | "max"):
            return f"{e.op}({_python(e.a, place)}, {_python(e.b, place)})"
        case Binary() | Compare() if e.op in _INFIX:
            return f"({_python(e.a, place)} {_INFIX[e.op]} {_python(e.b, place)})"
        case Select():
            a, b = _python(e.a, place), _python(e.b, place)
            return f"({a} if {_python(e.cond, place)} else {b})"
        case Cast():
            return f"int({_python(e.a, place)})"
        case Unary(op="neg"):
            return f"(-{_python(e.a, place)})"
        case _:
            raise HexcuteError(f"the grid expression `{show(e)}` cannot be computed on the host")


def grid_function(grid: Sequence[Scalar], names: Sequence[str]) -> GridFunction:
    """values -> (x, y, z); `names[i]` is the kernel parameter whose value is `values[i]`."""
    place = {name: f"v[{i}]" for i, name in enumerate(names)}
    body = ", ".join(_python(e, place) for e in grid)
    function: GridFunction = eval(f"lambda v: ({body})", {"min": min, "max": max})
    return function


def number_function(e: Scalar, names: Sequence[str]) -> Callable[[Sequence[Any]], int]:
    """values -> the number that `e` is; `names` as for `grid_function`."""
    place = {name: f"v[{i}]" for i, name in enumerate(names)}
    function: Callable[[Sequence[Any]], int] = eval(
        f"lambda v: {_python(e, place)}", {"min": min, "max": max}
    )
    return function
