"""Conversions between the float formats, one PTX instruction each; literals of the narrow ones.

| from -> to | by | note |
|---|---|---|
| f16 -> f32 | cvt.f32.f16 | exact |
| bf16 -> f32 | shift left by 16 | exact |
| f32 -> f16, bf16 | cvt.rn | nearest, ties to even |
| f32 -> tf32 | cvt.rna.tf32.f32 | nearest, ties away |
| f32 -> f8 | cvt.rn.satfinite.TYPEx2.f32 | sm_89 and later; beyond the range: the largest |
| two f32 -> two f16, bf16, f8 | cvt.rn.TYPEx2.f32 | the same values |
| f32, f64 -> integers | cvt.rzi | towards zero, saturating, NaN is 0 |
| integers from 0 to 1023 -> f16 | or, sub.f16 | the low bits of 1024 + n, less 1024: exact |
| integers from -512 to 511 -> f16 | add, sub.f16 | the bits of 1536 + n, less 1536: exact |
| i8, u8 and narrower -> f16, bf16 | add, sub.f32, cvt | as many above 1.5 2^23, less that |
| f8 -> f32 | cvt.rn.f16x2.TYPEx2, then cvt.f32.f16 | exact; before sm_89 by its bits |
"""

from __future__ import annotations

import math
import struct
from typing import Any

from hidet.ir import expr as he
from hidet.ir.type import data_type

from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.scope import Scope, call, integer
from hexcute_core.dtypes import DType
from hexcute_core.scalar.numbers import FORMATS, Format, typed

F8_PTX = {"f8e4m3": "e4m3x2", "f8e5m2": "e5m2x2"}


def _convert(name: str, ptx: str, source: str, target: str) -> Instruction:
    return Instruction(name, ptx, (target,), (source,), result=True, volatile=False)


F16_TO_F32 = _convert("hx_f16_to_f32", "cvt.f32.f16 %0, %1;", "uint16", "float32")
F32_TO_F16 = _convert("hx_f32_to_f16", "cvt.rn.f16.f32 %0, %1;", "float32", "uint16")
F32_TO_BF16 = _convert("hx_f32_to_bf16", "cvt.rn.bf16.f32 %0, %1;", "float32", "uint16")
F32_TO_TF32 = _convert("hx_f32_to_tf32", "cvt.rna.tf32.f32 %0, %1;", "float32", "uint32")


def to_f32(scope: Scope, value: Any, dtype: DType) -> Any:
    """The float value `value` of `dtype` (below 64 bits) as f32, exactly."""
    match dtype.name:
        case "f16":
            return scope.instruction(F16_TO_F32, [value])
        case "bf16":
            return call("__uint_as_float", [_shl(_cast(value, "uint32"), 16)])
        case "f8e4m3" | "f8e5m2":
            if scope.has("fp8"):
                pair = f8_pair_to_f16(scope, _cast(value, "uint16"), dtype)
            else:
                pair = raised_f8(scope, _shl(_cast(value, "uint32"), 8), dtype)
            return scope.instruction(F16_TO_F32, [_cast(pair, "uint16")])
        case _:
            return value


def f8_pair_to_f16(scope: Scope, pair: Any, dtype: DType) -> Any:
    """Two 8-bit floats, in 16 bits, as two f16 in a word: sm_89 and later."""
    ptx = f"cvt.rn.f16x2.{F8_PTX[dtype.name]} %0, %1;"
    return scope.instruction(_convert(f"hx_{dtype}_to_f16", ptx, "uint16", "uint32"), [pair])


def raised_f8(scope: Scope, halves: Any, dtype: DType) -> Any:
    """Two 8-bit floats, the upper bytes of halves over zeros, as two f16, where there is no
    instruction: f8e5m2 are the upper bytes of f16; f8e4m3 have one bit less of exponent, of which
    256 makes up for the difference in bias, and a NaN of all ones where f16 has a number."""
    if dtype.name == "f8e5m2":
        return halves
    sign = he.BitwiseAnd(halves, integer(0x80008000, "uint32"))
    rest = he.BitwiseAnd(he.RightShift(halves, integer(1)), integer(0x3F803F80, "uint32"))
    mul = Instruction(
        "hx_mul_f16x2", "mul.rn.f16x2 %0, %1, %2;", ("uint32",), ("uint32", "uint32"), result=True,
        volatile=False,
    )  # fmt: skip
    number = scope.instruction(mul, [he.BitwiseOr(sign, rest), integer(0x5C005C00, "uint32")])
    # One more than all ones is a carry into the sign.
    ones = he.BitwiseAnd(halves, integer(0x7F007F00, "uint32"))
    carry = he.Add(ones, integer(0x01000100, "uint32"))
    nan = he.BitwiseAnd(carry, integer(0x80008000, "uint32"))
    return he.BitwiseOr(number, he.Sub(nan, he.RightShift(nan, integer(15))))


def from_f32(scope: Scope, value: Any, dtype: DType) -> Any:
    """The f32 `value` rounded to the float type `dtype` (below 64 bits)."""
    match dtype.name:
        case "f16":
            return scope.instruction(F32_TO_F16, [value])
        case "bf16":
            return scope.instruction(F32_TO_BF16, [value])
        case "tf32":
            return call("__uint_as_float", [scope.instruction(F32_TO_TF32, [value])])
        case "f8e4m3" | "f8e5m2":
            _need_sm89(scope, dtype)
            kind = F8_PTX[dtype.name]
            narrow = Instruction(
                f"hx_f32_to_{dtype.name}",
                f"cvt.rn.satfinite.{kind}.f32 %0, %1, %2;",
                ("uint16",),
                ("float32", "float32"),
                result=True,
                volatile=False,
            )
            zero = he.Constant(0.0, data_type("float32"))
            return _cast(scope.instruction(narrow, [zero, value]), "uint8")
        case _:
            return value


def small_to_f16(scope: Scope, value: Any, signed: bool = False) -> Any:
    """An integer from 0 to 1023, or from -512 to 511, as f16: between 1024 and 2048 a step of one
    is one of the last bit, so that no unit for conversions, which are few, takes part."""
    thousand = integer(0x6600 if signed else 0x6400, "uint16")
    sub = Instruction(
        "hx_sub_f16", "sub.rn.f16 %0, %1, %2;", ("uint16",), ("uint16", "uint16"), result=True,
        volatile=False,
    )  # fmt: skip
    put = he.Add if signed else he.BitwiseOr
    bits = _cast(put(_cast(value, "uint16"), thousand), "uint16")
    return scope.instruction(sub, [bits, thousand])


def byte_to_f32(value: Any) -> Any:
    """An integer of at most 8 bits as f32, by its place among the numbers above 2^23."""
    bits = he.Add(_cast(value, "int32"), integer(0x4B400000))
    number = call("__uint_as_float", [_cast(bits, "uint32")])
    return he.Sub(number, he.Constant(12582912.0, data_type("float32")))


def to_integer(scope: Scope, value: Any, source: DType, target: DType) -> Any:
    """The f32 or f64 `value` as an integer of 32 or 64 bits."""
    kind = f"{'s' if target.kind == 'int' else 'u'}{target.bits}"
    ctype_name = f"{target.kind}{target.bits}"
    wide = source.bits == 64
    ins = _convert(
        f"hx_f{source.bits}_to_{target}", f"cvt.rzi.{kind}.f{source.bits} %0, %1;",
        "float64" if wide else "float32", ctype_name,
    )  # fmt: skip
    number = scope.instruction(ins, [value])
    if not wide and target.bits == 32:
        return number
    # With 64 bits on either side the instruction makes the least number of NaN.
    return he.IfThenElse(he.Equal(value, value), number, integer(0, ctype_name))


def pair_from_f32(scope: Scope, low: Any, high: Any, dtype: DType) -> Any:
    """Two f32 values rounded to a narrow float type: one in each half of the result's bits."""
    if dtype.bits == 16:
        name, ptx, word = f"hx_f32_to_{dtype}x2", f"cvt.rn.{dtype}x2.f32", "uint32"
    else:
        _need_sm89(scope, dtype)
        name, word = f"hx_f32_to_{dtype}x2", "uint16"
        ptx = f"cvt.rn.satfinite.{F8_PTX[dtype.name]}.f32"
    ins = Instruction(
        name, f"{ptx} %0, %1, %2;", (word,), ("float32", "float32"), result=True, volatile=False
    )
    return scope.instruction(ins, [high, low])


def literal(scope: Scope, value: float, dtype: DType) -> Any:
    """The constant `value` in `dtype`, rounded to nearest, ties to even."""
    value = float(typed(value, dtype))
    match dtype.name:
        case "f16":
            return integer(f16_bits(value), "uint16")
        case "bf16":
            return integer(bf16_bits(value), "uint16")
        case "f8e4m3" | "f8e5m2":
            return integer(_f8_bits(value, FORMATS[dtype.name]), "uint8")
        case _:
            return he.Constant(value, data_type("float64" if dtype.bits == 64 else "float32"))


def _need_sm89(scope: Scope, dtype: DType) -> None:
    if not scope.has("fp8"):
        raise scope.error(
            f"{scope.arch} has no conversion from wider floats to {dtype}",
            fix="compile for sm_89 or later, or keep the tensor in f16 or bf16",
        )


def bits_of(value: float, dtype: DType) -> int:
    """The bits of a number rounded to f16 or bf16."""
    value = float(typed(value, dtype))
    return f16_bits(value) if dtype.name == "f16" else bf16_bits(value)


def f16_bits(value: float) -> int:
    """The bits of a number that f16 has."""
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


def bf16_bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16


def _f8_bits(value: float, format_: Format) -> int:
    fraction = format_.digits - 1
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return sign | 0x7F
    exponent = max(math.frexp(value)[1] - 1, format_.least) if value else format_.least
    # Below the least normal number the exponent's field is 0, as that of the number 1 step less.
    steps = int(math.ldexp(abs(value), fraction - exponent))
    return sign | (steps + ((exponent - format_.least) << fraction))


def _cast(value: Any, type_name: str) -> Any:
    return he.Cast(value, data_type(type_name))


def _shl(value: Any, amount: int) -> Any:
    return he.LeftShift(value, integer(amount))
