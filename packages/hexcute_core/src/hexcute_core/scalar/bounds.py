"""bounds(e) = numbers l <= e <= u that hold at run time, wrapping included.

What could leave its type on the way is bounded by the type alone. Built-in indices and the
variables in `known` are the only names with bounds of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hexcute_core.scalar.expr import Binary, Cast, Compare, Const, Scalar, Select, Var
from hexcute_core.scalar.numbers import limits

Bounds: TypeAlias = tuple[int, int]
_THREADS, _INDEX = (0, 1023), (0, 2**31 - 2)
_BUILT_IN = {
    "threadIdx": _THREADS, "blockIdx": _INDEX, "blockDim": (1, 1024), "gridDim": (1, 2**31 - 1),
}  # fmt: skip


def built_in(name: str) -> Bounds | None:
    """Bounds of threadIdx.x and its kin, None for another name."""
    base, dot, _ = name.partition(".")
    return _BUILT_IN.get(base) if dot else None


def bounds(e: Scalar, known: Mapping[str, Bounds] | None = None) -> Bounds:
    """Bounds of an integer or a condition."""
    low, high = limits(e.dtype)
    found = _inner(e, known or {})
    if found is None or found[0] < low or found[1] > high:
        return low, high
    return found


def non_negative(e: Scalar, known: Mapping[str, Bounds] | None = None) -> bool:
    """Whether an integer is certainly >= 0."""
    return bounds(e, known)[0] >= 0


def stays_inside(e: Scalar, known: Mapping[str, Bounds] | None = None) -> bool:
    """Whether `e` certainly stays inside its type, wrapping nothing at its own operation."""
    low, high = limits(e.dtype)
    found = _inner(e, known or {})
    return found is not None and low <= found[0] and found[1] <= high


def _inner(e: Scalar, known: Mapping[str, Bounds]) -> Bounds | None:
    """Bounds before wrapping, None where only the type bounds `e`."""
    match e:
        case Const():
            return int(e.value), int(e.value)
        case Var():
            return known.get(e.name) or built_in(e.name)
        case Compare():
            return 0, 1
        case Select():
            (a, b), (c, d) = bounds(e.a, known), bounds(e.b, known)
            return min(a, c), max(b, d)
        case Cast():
            return None if e.a.dtype.is_float else bounds(e.a, known)
        case Binary():
            return _binary(e, bounds(e.a, known), bounds(e.b, known))
        case _:
            return None


def _binary(e: Binary, first: Bounds, second: Bounds) -> Bounds | None:
    (a, b), (c, d) = first, second
    match e.op:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case "mul":
            ends = (a * c, a * d, b * c, b * d)
            return min(ends), max(ends)
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "shl" if c == d and 0 <= c < e.dtype.bits:
            return a << c, b << c
        case "shr" if c == d and 0 <= c < e.dtype.bits:
            return a >> c, b >> c
        case "and" if a >= 0 or c >= 0:
            # A number that is not negative clears the sign and every bit that it lacks.
            return 0, min(b if a >= 0 else d, d if c >= 0 else b)
        case "or" | "xor" if a >= 0 and c >= 0:
            return 0, (1 << max(b, d).bit_length()) - 1
        case "floordiv" if c > 0:
            return min(a // c, a // d), max(b // c, b // d)
        case "cdiv" if c > 0:
            return min(-(-a // c), -(-a // d)), max(-(-b // c), -(-b // d))
        case "mod" if c > 0:
            return 0, min(d - 1, b) if a >= 0 else d - 1
        case _:
            return None
