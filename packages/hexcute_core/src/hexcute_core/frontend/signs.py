"""a // b and a % b as Python means them, rounding down, on scalars whose own division truncates.

The two agree where a >= 0 and b > 0. A divisor known only at run time is taken to be positive.
Symbols, indices and loop counters are >= 0; a variable is assumed to be while it starts >= 0, and
the trace is repeated without that assumption where an assignment does not bear it out.
"""

from __future__ import annotations

from typing import Literal

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.builder import tracing
from hexcute_core.scalar import Const, Scalar, as_scalar, binary, compare, select


def rounding_down(op: Literal["floordiv", "mod"], a: object, b: object) -> Scalar:
    """`a // b` or `a % b` on integers, with Python's meaning for negative operands."""
    left, right = as_scalar(a), as_scalar(b)
    if left.dtype.is_float or right.dtype.is_float:
        symbol = "//" if op == "floordiv" else "%"
        raise FrontendError(
            f"`{symbol}` on {left.dtype} and {right.dtype}", fix="write hx.floor(x / y) on floats"
        )
    if isinstance(right, Const) and right.value == 0:
        raise FrontendError(f"`{left}` is divided by zero", fix="divide by another number")
    truncated = binary(op, a, b)
    builder = tracing()
    negative = isinstance(right, Const) and right.value < 0
    if builder is None or (builder.non_negative(left) and not negative):
        return truncated
    rest = binary("mod", a, b)
    # A remainder has the sign of the dividend; Python's has that of the divisor.
    wrong = compare("gt" if negative else "lt", rest, 0)
    corrected = binary("sub", truncated, 1) if op == "floordiv" else binary("add", rest, b)
    return select(wrong, corrected, truncated)
