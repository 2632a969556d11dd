"""typed(value, dtype) = the number that a value of `dtype` is: what a constant of that type holds.

Integers wrap (two's complement); floats round to nearest, ties to even (tf32: away from zero),
and overflow to infinity, 8-bit ones to their largest number. A float becomes an integer towards
zero, saturating, and NaN becomes 0. Types of fewer than 32 bits, and tf32, are reached through f32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from hexcute_core import dtypes
from hexcute_core.dtypes import DType

Number: TypeAlias = "int | float | bool"


@dataclass(frozen=True)
class Format:
    """A binary float: digits of the significand, exponent of the least normal number, the largest
    finite number, and whether what lies beyond becomes that instead of infinity."""

    digits: int
    least: int
    largest: float
    saturates: bool = False


_F32_LARGEST = (2 - 2.0**-23) * 2.0**127
FORMATS = {
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, (2 - 2.0**-7) * 2.0**127),
    "f32": Format(24, -126, _F32_LARGEST),
    "tf32": Format(11, -126, (2 - 2.0**-10) * 2.0**127),
    "f8e4m3": Format(4, -6, 448.0, saturates=True),
    "f8e5m2": Format(3, -14, 57344.0, saturates=True),
}


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type; 0 and 1 of a condition."""
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def fits(value: int, dtype: DType) -> bool:
    """Whether the integer type `dtype` has `value`."""
    low, high = limits(dtype)
    return low <= value <= high


def wrap(value: int, dtype: DType) -> int:
    """`value` modulo 2^bits, as the integer type `dtype` reads it."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def typed(value: Number, dtype: DType) -> Number:
    """`value` rounded, wrapped or saturated to `dtype`, once."""
    if dtype.kind == "bool":
        return value != 0
    if dtype.is_float:
        return _rounded(value, dtype)
    if isinstance(value, float):
        return _truncated(value, dtype)
    return wrap(int(value), dtype)


def converted(value: Number, source: DType, target: DType) -> Number:
    """A `value` of type `source` as one of `target`, by way of f32 where the machine goes so."""
    narrow = target.is_float and (target.bits < 32 or target == dtypes.tf32)
    if narrow and source.bits >= 32 and source != dtypes.f32:
        value = typed(value, dtypes.f32)
    return typed(value, target)


def _truncated(value: float, dtype: DType) -> int:
    if math.isnan(value):
        return 0
    low, high = limits(dtype)
    return low if value <= low else high if value >= high else int(value)


def _rounded(value: Number, dtype: DType) -> float:
    if isinstance(value, float) and (dtype.bits == 64 or math.isnan(value) or value == 0):
        return value
    format_ = FORMATS.get(dtype.name)
    if format_ is None:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    beyond = format_.largest if format_.saturates else math.inf
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(beyond, value)
    exact = abs(Fraction(value))
    if not exact:
        return 0.0
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, format_.least) - format_.digits + 1)
    steps = exact / step
    whole = math.floor(steps + Fraction(1, 2)) if dtype == dtypes.tf32 else round(steps)
    size = whole * step
    rounded = float(size) if size <= format_.largest else beyond
    return -rounded if value < 0 else rounded
