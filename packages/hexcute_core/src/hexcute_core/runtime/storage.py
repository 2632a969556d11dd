"""How a value of each element type is held: by torch, by numpy, and in a kernel's parameters.

Elements of fewer than 8 bits have no type of their own there: whole words of a row hold them, the
first in the lowest bits of the first byte, and a row of n words has n * (32 or 8) / bits elements.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Storage:
    """Names of the torch dtype and of the numpy dtypes that hold an element type."""

    torch: str
    numpy: tuple[str, ...]
    packed: tuple[tuple[str, int], ...] = ()
    """For types narrower than a byte: the words that may hold them, and the elements of one."""


TENSOR_STORAGE: dict[str, Storage] = {
    "f16": Storage("float16", ("float16",)),
    "bf16": Storage("bfloat16", ("bfloat16",)),
    "f32": Storage("float32", ("float32",)),
    "tf32": Storage("float32", ("float32",)),
    "f64": Storage("float64", ("float64",)),
    "f8e4m3": Storage("float8_e4m3fn", ("float8_e4m3fn",)),
    "f8e5m2": Storage("float8_e5m2", ("float8_e5m2",)),
    "i8": Storage("int8", ("int8",)),
    "u8": Storage("uint8", ("uint8",)),
    "i16": Storage("int16", ("int16",)),
    "u16": Storage("uint16", ("uint16",)),
    "i32": Storage("int32", ("int32",)),
    "u32": Storage("uint32", ("uint32",)),
    "i64": Storage("int64", ("int64",)),
    "u64": Storage("uint64", ("uint64",)),
    "bool": Storage("bool", ("bool",)),
    **{
        f"{kind}{bits}": Storage(
            "uint8", ("uint8", "int32"), (("uint8", 8 // bits), ("int32", 32 // bits))
        )
        for bits in (4, 2, 1)
        for kind in "iu"
    },
}

SCALAR_CODES: dict[str, str] = {
    "f16": "e",
    "f32": "f",
    "f64": "d",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "bool": "?",
}
"""Codes of `struct`; bf16 and tf32 numbers have none and travel as f32."""
