"""promote(a, b) = the one type in which two operands meet.

| operands | meet in |
|---|---|
| a condition and a number | the number's type |
| an integer and a float | the float's type, rounded as a cast rounds |
| two integers | the type of the two that holds every value of the other |
| two floats | the type of the two that holds every value of the other, else f32 |

Two integers of which neither holds the other's values do not meet: FrontendError.
"""

from __future__ import annotations

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError
from hexcute_core.scalar.numbers import FORMATS, limits


def holds(dtype: DType, other: DType) -> bool:
    """Whether every value of `other` is one of `dtype`; conditions count as 0 and 1."""
    if dtype == other or other.kind == "bool":
        return True
    if dtype.is_float and other.is_float:
        return _holds_floats(dtype, other)
    if dtype.is_float or other.is_float or dtype.kind == "bool":
        return False
    (low, high), (least, greatest) = limits(dtype), limits(other)
    return low <= least and greatest <= high


def _holds_floats(dtype: DType, other: DType) -> bool:
    if dtype.bits == 64 or other.bits == 64:
        return dtype.bits == 64
    a, b = FORMATS[dtype.name], FORMATS[other.name]
    finest = a.least - a.digits <= b.least - b.digits
    return a.digits >= b.digits and finest and a.largest >= b.largest


def promote(a: DType, b: DType) -> DType:
    """The common type of operands of types `a` and `b`; two conditions meet as conditions."""
    if a == b:
        return a
    if holds(a, b):
        return a
    if holds(b, a):
        return b
    if a.is_float and b.is_float:
        return dtypes.f32
    if a.is_float != b.is_float:
        return a if a.is_float else b
    raise FrontendError(
        f"{a} meets {b}, and neither type holds the other's values",
        fix=f"convert one of them: hx.cast(x, {a}) wraps, hx.cast(x, {_wider(a, b)}) keeps them",
    )


def _wider(a: DType, b: DType) -> DType:
    """The narrowest signed type that holds both, i64 where there is none."""
    signed = (dtypes.i2, dtypes.i4, dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64)
    return next((t for t in signed if holds(t, a) and holds(t, b)), dtypes.i64)
