"""bits(value, dtype): how every element type is stored, converted and laid out in bytes.

Arrays hold one element a cell in the numpy type of `storage`; types of fewer than 8 bits sit in
8-bit cells and are packed, element 0 in the lowest bits, when they go to memory. `tf32` is held
as the float32 it occupies in a register.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexcute_core.dtypes import DType
from hexcute_core.errors import MissingDependency
from hexcute_core.pip import installing

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = "int | bool | np.generic[Any] | Array"
"""One value for all lanes (a Python int or bool, or a numpy float), or an array of one per lane."""

_NATIVE = {
    "f16": "float16", "f32": "float32", "tf32": "float32", "f64": "float64",
    "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16",
    "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64",
    "i4": "int8", "i2": "int8", "i1": "int8", "u4": "uint8", "u2": "uint8", "u1": "uint8",
    "bool": "bool",
}  # fmt: skip
_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
_BY_F32 = ("f16", "bf16", "tf32", "f8e4m3", "f8e5m2")
_SATURATES = {"f8e4m3": 448.0, "f8e5m2": 57344.0}


@cache
def storage(dtype: DType) -> np.dtype[Any]:
    """The numpy type of one cell."""
    native = _NATIVE.get(dtype.name)
    if native is not None:
        return np.dtype(native)
    try:
        import ml_dtypes
    except ImportError:
        raise MissingDependency(
            f"simulating {dtype} needs the package ml_dtypes", fix=installing("ml_dtypes")
        ) from None
    cell: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype.name]))
    return cell


def wrap_int(value: int, dtype: DType) -> int:
    """A Python integer reduced to what `dtype` holds (two's complement)."""
    mask = (1 << dtype.bits) - 1
    value &= mask
    if dtype.kind == "int" and value >> (dtype.bits - 1):
        value -= mask + 1
    return value


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and the largest integer that `dtype` holds."""
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def wrap_cells(cells: Array, dtype: DType) -> Array:
    """8-bit cells reduced to the `dtype.bits` low bits of a type narrower than a byte."""
    if dtype.bits >= 8:
        return cells
    places = cells.dtype.type(8 - dtype.bits)
    wrapped: Array = np.right_shift(np.left_shift(cells, places), places)
    return wrapped


def broadcast(value: Value, dtype: DType, lanes: int) -> Array:
    """`value` as an array of `lanes` cells."""
    if isinstance(value, np.ndarray):
        return value
    return np.full(lanes, value, dtype=storage(dtype))


def round_tf32(value: Array) -> Array:
    """float32 rounded to tf32's 10-bit mantissa, ties away from zero, as `cvt.rna.tf32` does."""
    bits = np.asarray(value, dtype=np.float32).view(np.uint32)
    exponent = bits & np.uint32(0x7F800000)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(exponent == 0x7F800000, bits, rounded).astype(np.uint32).view(np.float32)


def truncate_tf32(value: Array) -> Array:
    """What a Tensor Core sees of a float32 register: the low 13 bits are ignored."""
    bits = np.ascontiguousarray(value, dtype=np.float32).view(np.uint32)
    seen: Array = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return seen


def convert(value: Value, source: DType, target: DType) -> Value:
    """`value` of type `source` as `target`.

    To a float: round to nearest even (tf32: ties away; 8-bit floats saturate), from f64 and wide
    integers to less than f32 by way of f32. Float to integer: towards zero, saturating, NaN to 0.
    Integer to integer: the low bits. To bool: not equal to 0.
    """
    if isinstance(value, (int, bool)):
        return _convert_int(int(value), target)
    if target.kind == "bool":
        truth: Value = value != 0
        return truth
    if target.is_float:
        return _to_float(value, target)
    if source.is_float:
        return _float_to_int(value, target)
    return wrap_cells(np.asarray(value).astype(storage(target)), target)


def _convert_int(value: int, target: DType) -> Value:
    if target.kind == "bool":
        return bool(value)
    if target.is_float:
        wide = np.int64 if value < 2**63 else np.uint64
        return _to_float(np.asarray(value, dtype=wide)[()], target)
    return wrap_int(value, target)


def _to_float(value: np.generic[Any] | Array, target: DType) -> Value:
    if target.name in _BY_F32 and value.dtype != storage(target):
        value = value.astype(np.float32)
    limit = _SATURATES.get(target.name)
    if limit is not None:
        value = np.clip(value, -limit, limit)
    result: Value = value.astype(storage(target))
    if target.name == "f32" and value.dtype.itemsize == 1:
        # Widening an 8-bit float gives the machine's one NaN, whatever the sign or payload.
        nan = np.uint32(0x7FFFFFFF).view(np.float32)
        result = np.where(np.isnan(result), nan, result)[()]
    if target.name == "tf32":
        rounded = round_tf32(np.asarray(result))
        result = rounded if isinstance(result, np.ndarray) else rounded[()]
    return result


def _float_to_int(value: np.generic[Any] | Array, target: DType) -> Value:
    low = -(1 << (target.bits - 1)) if target.kind == "int" else 0
    high = (1 << (target.bits - (target.kind == "int"))) - 1
    exact = np.nan_to_num(np.trunc(np.asarray(value, dtype=np.float64)), nan=0.0)
    if not isinstance(value, np.ndarray):
        return min(max(int(np.clip(exact, -1e30, 1e30)[()]), low), high)
    # float64 cannot hold every 64-bit limit: the ends are set by comparison.
    inside = (exact > low) & (exact < high)
    cells = np.where(inside, exact, 0.0).astype(storage(target))
    cells = np.where(exact <= low, storage(target).type(low), cells)
    return np.where(exact >= high, storage(target).type(high), cells).astype(storage(target))


def to_bytes(cells: Array, dtype: DType) -> Array:
    """Cells [n, k] as bytes [n, k * bits / 8]."""
    if dtype.bits >= 8:
        return np.ascontiguousarray(cells).view(np.uint8).reshape(len(cells), -1)
    per_byte = 8 // dtype.bits
    low = cells.view(np.uint8).reshape(len(cells), -1, per_byte) & np.uint8((1 << dtype.bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(dtype.bits)
    packed: Array = np.bitwise_or.reduce(low << shifts, axis=2)
    return packed


def from_bytes(raw: Array, dtype: DType) -> Array:
    """Bytes [n, m] as cells [n, m * 8 / bits]."""
    if dtype.bits >= 8:
        return np.ascontiguousarray(raw).view(storage(dtype)).reshape(len(raw), -1)
    per_byte = 8 // dtype.bits
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(dtype.bits)
    cells = (raw[:, :, None] >> shifts).astype(np.uint8).view(storage(dtype))
    return wrap_cells(cells.reshape(len(raw), -1), dtype)
