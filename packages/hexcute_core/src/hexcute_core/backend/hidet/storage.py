"""How an element type is held: as a scalar value, in a register array, behind a pointer.

A value of a 16- or 8-bit float is its bits; narrow integers use C's own types, sub-byte ones
32 bits. A register array packs elements below 32 bits into 32-bit words, low element first, so
that the operands of ldmatrix, mma.sync and vector accesses are plain words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hidet.ir.type import data_type

from hexcute_core import dtypes
from hexcute_core.dtypes import DType

_VALUES = {
    "f16": "uint16", "bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8", "f32": "float32",
    "tf32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8", "i16": "int16",
    "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64",
    "bool": "bool",
}  # fmt: skip


def value_type(dtype: DType) -> Any:
    """The Hidet type of a scalar of `dtype`."""
    name = _VALUES.get(dtype.name)
    if name is None:
        name = "uint32" if dtype.kind == "uint" else "int32"
    return data_type(name)


def pointee_type(dtype: DType) -> Any:
    """What a kernel parameter points to: bytes for sub-byte elements."""
    return data_type("uint8") if dtype.bits < 8 else value_type(dtype)


@dataclass(frozen=True)
class Cell:
    """One entry of a register array: its C type, asm constraint and PTX width, and how many
    elements it holds."""

    type_name: str
    constraint: str
    bits: int
    elements: int

    @property
    def type(self) -> Any:
        return data_type(self.type_name)


def cell(dtype: DType) -> Cell:
    """The entry of a register array of `dtype`."""
    if dtype.bits < 32 or dtype == dtypes.tf32:
        return Cell("uint32", "r", 32, 32 // dtype.bits)
    constraint = {"f32": "f", "f64": "d"}.get(dtype.name, "r" if dtype.bits == 32 else "l")
    return Cell(_VALUES[dtype.name], constraint, dtype.bits, 1)
