"""What the language means by its operators, on lists of Python numbers, one a lane.

Written from docs/language.md, and apart from the compiler's folding and from the simulator. The
values of a float type are Python floats that the type has, those of an integer type Python ints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

Number = Any
Cells = list[Number]

CELLS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "boolean": np.bool_,
}  # fmt: skip
FLOATS = ("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64")
SUB_BYTE = ("i1", "u1", "i2", "u2", "i4", "u4")
INTEGERS = (*SUB_BYTE, "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0}
# Of two floats the one that has all values of the other; f32 where neither has.
CONTAINED = {
    "f8e4m3": {"f16", "bf16", "f32", "f64"}, "f8e5m2": {"f16", "bf16", "f32", "f64"},
    "f16": {"f32", "f64"}, "bf16": {"f32", "f64"}, "f32": {"f64"}, "f64": set(),
}  # fmt: skip


def bits(t: str) -> int:
    """The width of an integer type."""
    return int(t[1:])


def span(t: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if t == "boolean":
        return 0, 1
    return (0, 2 ** bits(t) - 1) if t[0] == "u" else (-(2 ** (bits(t) - 1)), 2 ** (bits(t) - 1) - 1)


def wrapped(x: int, t: str) -> int:
    """x modulo 2^bits."""
    low, high = span(t)
    return (x - low) % (high - low + 1) + low


def rounded(cells: Sequence[Number], t: str) -> Cells:
    """Numbers rounded to a float type, by way of f32 to one narrower than it."""
    with np.errstate(all="ignore"):
        if t == "f64":
            return [float(x) for x in cells]
        if all(isinstance(x, int) for x in cells):
            wide = np.uint64 if any(x >= 2**63 for x in cells) else np.int64
            single = np.array(cells, wide).astype(np.float32)
        else:
            single = np.array([float(x) for x in cells], np.float64).astype(np.float32)
        if t in LARGEST:
            single = np.clip(single, -LARGEST[t], LARGEST[t])
        return [float(x) for x in single.astype(CELLS[t])]


def converted(cells: Sequence[Number], t: str) -> Cells:
    """Numbers of any type as numbers of type `t`."""
    if t == "boolean":
        return [bool(x != 0) for x in cells]
    if t in FLOATS:
        return rounded([int(x) if isinstance(x, bool) else x for x in cells], t)
    return [_integer(x, t) for x in cells]


def _integer(x: Number, t: str) -> int:
    if not isinstance(x, float):
        return wrapped(int(x), t)
    low, high = span(t)
    if math.isnan(x):
        return 0
    return low if x <= low else high if x >= high else int(x)


def meeting(a: str, b: str) -> str | None:
    """The type in which two types meet, None where they do not."""
    if a == b or b == "boolean":
        return a
    if a == "boolean":
        return b
    if a in FLOATS and b in FLOATS:
        return b if b in CONTAINED[a] else a if a in CONTAINED[b] else "f32"
    if a in FLOATS or b in FLOATS:
        return a if a in FLOATS else b
    (c, d), (e, f) = span(a), span(b)
    return a if c <= e and f <= d else b if e <= c and d <= f else None


def shifted(left: bool, x: int, n: int, t: str) -> int:
    """x << n or x >> n; a count outside the width moves every bit out."""
    n = n if 0 <= n < bits(t) else bits(t)
    return wrapped(x << n if left else x >> n, t)


def _pick(larger: bool, x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return y if math.isnan(x) else x
    if x == y:
        # Only zeros of two signs differ.
        return x if (math.copysign(1, x) > 0) == larger else y
    return max(x, y) if larger else min(x, y)


_WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
    "//": lambda x, y: x // y, "%": lambda x, y: x % y, "hx.cdiv": lambda x, y: -(-x // y),
    "hx.minimum": min, "hx.maximum": max, "**": lambda x, y: x**y,
}  # fmt: skip
_REAL: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y, "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip


def calculated(op: str, a: Cells, b: Cells, t: str) -> Cells:
    """`a op b` of cells of type `t`."""
    if t not in FLOATS:
        return [wrapped(_WHOLE[op](x, y), t) for x, y in zip(a, b)]
    if op in ("hx.minimum", "hx.maximum"):
        return [_pick(op == "hx.maximum", x, y) for x, y in zip(a, b)]
    with np.errstate(all="ignore"):
        if op == "**":
            return _power(a, int(b[0]), t)
        # Of two f32 a sum or product in f64 rounds to f32 as the exact one does.
        return rounded(_REAL[op](np.array(a, np.float64), np.array(b, np.float64)), t)


def _power(a: Cells, n: int, t: str) -> Cells:
    wide = "f64" if t == "f64" else "f32"
    total = a
    for _ in range(n - 1):
        total = rounded(np.array(total) * np.array(a), wide)
    return rounded(total, t)


_erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos, "erf": _erf,
}  # fmt: skip
EXACT_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"floor": np.floor, "ceil": np.ceil}
# Of the value, and beside it: 2 + 1.2 abs(x) units in the last place of f32 for abs(x) <= 64, and
# one more unit of a narrower type, which the last rounding may move.
ERRORS = {
    "f8e4m3": 2.0**-3, "f8e5m2": 2.0**-2, "f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2e-5,
    "f64": 1e-13,
}  # fmt: skip


def close(got: Cells, wanted: Cells, error: float) -> bool:
    """Whether cells are the same numbers, or within `error` of them where it is not 0."""
    for x, y in zip(got, wanted, strict=True):
        if isinstance(y, float) and (math.isnan(x) or math.isnan(y)):
            if not (math.isnan(x) and math.isnan(y)):
                return False
        elif error:
            if x != y and not abs(x - y) <= error * abs(y) + min(error, 1e-6):
                return False
        elif x != y or (isinstance(y, float) and math.copysign(1, x) != math.copysign(1, y)):
            return False
    return True
