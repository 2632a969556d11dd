"""Element types: a name, a width in bits and a kind; `f16[m, k]` annotates a tensor parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class DType:
    """An element type of `bits` bits. Subscripting with extents gives a tensor annotation."""

    name: str
    bits: int
    kind: Kind

    def __getitem__(self, extents: Any) -> TensorType:
        """`f16[m, k]`: a row-major tensor whose extents are ints or named symbols;
        `f16[m:s, k:1]`: one with strides of its own, each behind its extent."""
        return TensorType(self, extents if isinstance(extents, tuple) else (extents,))

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TensorType:
    """A parameter annotation: element type and extents, as slices where strides are given."""

    dtype: DType
    extents: tuple[Any, ...]


f16 = DType("f16", 16, "float")
bf16 = DType("bf16", 16, "float")
f32 = DType("f32", 32, "float")
tf32 = DType("tf32", 32, "float")
f64 = DType("f64", 64, "float")
f8e4m3 = DType("f8e4m3", 8, "float")
f8e5m2 = DType("f8e5m2", 8, "float")
i8 = DType("i8", 8, "int")
u8 = DType("u8", 8, "uint")
i16 = DType("i16", 16, "int")
u16 = DType("u16", 16, "uint")
i32 = DType("i32", 32, "int")
u32 = DType("u32", 32, "uint")
i64 = DType("i64", 64, "int")
u64 = DType("u64", 64, "uint")
i4 = DType("i4", 4, "int")
u4 = DType("u4", 4, "uint")
i2 = DType("i2", 2, "int")
u2 = DType("u2", 2, "uint")
i1 = DType("i1", 1, "int")
u1 = DType("u1", 1, "uint")
boolean = DType("bool", 8, "bool")

ALL: tuple[DType, ...] = (
    f16, bf16, f32, tf32, f64, f8e4m3, f8e5m2, i8, u8, i16, u16, i32, u32, i64, u64,
    i4, u4, i2, u2, i1, u1, boolean,
)  # fmt: skip
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}


def accumulator(dtype: DType) -> DType:
    """The type that values of `dtype` are combined in: 32 bits where they have fewer."""
    if dtype.bits >= 32:
        return dtype
    return f32 if dtype.is_float else i32
