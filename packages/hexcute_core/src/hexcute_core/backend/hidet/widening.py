"""Two fields of at most 8 bits, in any registers -> one word of both as f16 or bf16, exactly.

    v = (M + v 2^s) 2^-s - M 2^-s,    M = 1024 in f16, 128 in bf16

The last bits of M count ones, so v's bits, s places up, are put behind those of M; a sign is turned
into an offset by flipping it. `prmt` brings the bytes of both to where they are wanted, whatever
registers hold them, `lop3` cuts v out and puts M before it, one `fma` takes M off. The arch table
`conversions.py` says which ways there are, and what they cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hidet.ir import expr as he
from hidet.ir.type import data_type

from hexcute_core import dtypes
from hexcute_core.backend.hidet import floats, registers
from hexcute_core.backend.hidet.accesses import split_constant
from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.scope import Scope, call, integer
from hexcute_core.backend.hidet.storage import cell
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Binary, Cast, Const, Element, Scalar, add

_WORDS = ("uint32", "uint32", "uint32")


def _pure(name: str, ptx: str, inputs: tuple[str, ...] = _WORDS) -> Instruction:
    return Instruction(name, ptx, ("uint32",), inputs, result=True, volatile=False)


_PRMT = _pure("hx_prmt", "prmt.b32 %0, %1, %2, %3;")
_AND_XOR = _pure("hx_and_xor", "lop3.b32 %0, %1, %2, %3, 0x6A;")
FMA = {
    dtypes.f16: _pure("hx_fma_f16x2", "fma.rn.f16x2 %0, %1, %2, %3;"),
    dtypes.bf16: _pure("hx_fma_bf16x2", "fma.rn.bf16x2 %0, %1, %2, %3;"),
}
_SUB_F16 = _pure("hx_sub_f16x2", "sub.rn.f16x2 %0, %1, %2;", _WORDS[:2])
_MUL_F16 = _pure("hx_mul_f16x2", "mul.rn.f16x2 %0, %1, %2;", _WORDS[:2])
_BEFORE = {dtypes.f16: (1024, 8), dtypes.bf16: (128, 7)}
"""M, and up to which bit of a byte v may lie behind it."""
_TOP = 0x4B000000
"""2^23 in f32, whose last bit counts ones."""


@dataclass(frozen=True)
class Field:
    """`bits` bits from bit `at` on of word `word` of an array; they lie in one byte."""

    array: str
    word: Scalar
    at: int
    bits: int
    dtype: DType
    """Of the element, or an unsigned integer of which these bits were cut out."""

    @property
    def byte(self) -> int:
        return self.at // 8

    @property
    def shift(self) -> int:
        """How far up its byte the field begins."""
        return self.at % 8

    @property
    def signed(self) -> bool:
        return self.dtype.kind == "int"


def widened(low: Scalar, high: Scalar) -> tuple[Field, Field] | None:
    """The fields of which `low` and `high` are the same conversion, None where they are none."""
    match low, high:
        case Cast(a=a, dtype=dtype), Cast(a=b, dtype=other) if dtype == other and dtype in _BEFORE:
            first, second = _field(a), _field(b)
            if first is None or second is None:
                return None
            alike = (first.bits, first.dtype) == (second.bits, second.dtype)
            return (first, second) if alike else None
        case _:
            return None


def _field(e: Scalar) -> Field | None:
    """Which bits of which register `e` is."""
    match e:
        case Element(indices=(index,), dtype=dtype) if dtype.bits <= 8 and dtype.kind != "bool":
            return _element(e.array, index, dtype, 0, dtype.bits)
        case Binary(op="and", a=a, b=Const(value=mask)) if _is_mask(int(mask)):
            found = _shifted(a)
            if found is None:
                return None
            element, shift = found
            width = int(mask).bit_length()
            if shift + width > element.dtype.bits or shift % 8 + width > 8:
                return None
            unsigned = dtypes.BY_NAME[f"u{element.dtype.bits}"]
            return _element(element.array, element.indices[0], unsigned, shift, width)
        case _:
            return None


def _shifted(e: Scalar) -> tuple[Element, int] | None:
    """An integer of a register, and by how many bits it is moved down."""
    match e:
        case Element(indices=(_,), dtype=dtype) if dtype.is_integer and dtype.bits in (8, 32):
            return e, 0
        case Binary(op="shr", a=Element(indices=(_,), dtype=dtype) as a, b=Const(value=by)) if (
            dtype.is_integer and dtype.bits in (8, 32) and 0 <= by < dtype.bits
        ):
            return a, int(by)
        case _:
            return None


def _is_mask(value: int) -> bool:
    return 0 < value < 256 and value & (value + 1) == 0


def _element(array: str, index: Scalar, dtype: DType, shift: int, bits: int) -> Field | None:
    base, constant = split_constant(index)
    n = cell(dtype).elements
    word = registers.divided(base, n)
    if word is None:
        return None
    at = constant % n * dtype.bits + shift
    return Field(array, add(word, constant // n), at, bits, dtype)


def widen(scope: Scope, fields: tuple[Field, Field], target: DType) -> Any:
    """The word that holds both fields as `target`, f16 or bf16, the first in its low half."""
    first = fields[0]
    if first.dtype.is_float:
        return _floats(scope, fields, target)
    if first.bits < 8:
        return _behind(scope, fields, target)
    return _bytes_f16(scope, fields) if target == dtypes.f16 else _bytes_bf16(scope, fields)


def _behind(scope: Scope, fields: tuple[Field, Field], target: DType) -> Any:
    before, room = _BEFORE[target]
    moved = [f.shift if f.shift + f.bits > room else 0 for f in fields]
    shifts = [f.shift - by for f, by in zip(fields, moved)]
    bytes_ = _bytes(scope, fields, moved)
    bits, offset = fields[0].bits, 1 << (fields[0].bits - 1) if fields[0].signed else 0
    mask = _both(((1 << bits) - 1) << s for s in shifts)
    top = _both(floats.bits_of(before, target) ^ (offset << s) for s in shifts)
    value = scope.instruction(_AND_XOR, [bytes_, _word(mask), _word(top)])
    less = [before / (1 << s) + offset for s in shifts]
    if target == dtypes.f16 and not any(shifts):
        last = _word(_both(floats.bits_of(x, target) for x in less))
        return scope.instruction(_SUB_F16, [value, last])
    scale = _both(floats.bits_of(1 / (1 << s), target) for s in shifts)
    back = _both(floats.bits_of(-x, target) for x in less)
    return scope.instruction(FMA[target], [value, _word(scale), _word(back)])


def _bytes_f16(scope: Scope, fields: tuple[Field, Field]) -> Any:
    first, second = fields
    signed = first.signed
    less = _word(_both([floats.bits_of(1024 + 128 * signed, dtypes.f16)] * 2))
    if _held(first) == _held(second):
        word = _flipped(scope, first)
        order = first.byte | 4 << 4 | second.byte << 8 | 4 << 12
        value = _permute(scope, word, _word(0x64), order)
    else:
        top = 0x64006400 ^ (0x00800080 if signed else 0)
        bytes_ = _bytes(scope, fields, [0, 0])
        value = scope.instruction(_AND_XOR, [bytes_, _word(0x00FF00FF), _word(top)])
    return scope.instruction(_SUB_F16, [value, less])


def _bytes_bf16(scope: Scope, fields: tuple[Field, Field]) -> Any:
    less = he.Constant(float((1 << 23) + 128 * fields[0].signed), data_type("float32"))
    halves = []
    for f in fields:
        bits = _permute(scope, _flipped(scope, f), _word(_TOP), f.byte | 4 << 4 | 5 << 8 | 7 << 12)
        number = he.Sub(call("__uint_as_float", [bits]), less)
        halves.append(call("__float_as_uint", [number]))
    return _permute(scope, halves[0], halves[1], 0x7632)


def _flipped(scope: Scope, f: Field) -> Any:
    """The word of a byte, numbers counted from the least."""
    word = _entry(scope, f)
    return he.BitwiseXor(word, _word(0x80808080)) if f.signed else word


def _floats(scope: Scope, fields: tuple[Field, Field], target: DType) -> Any:
    dtype = fields[0].dtype
    if scope.has("fp8"):
        both = floats.f8_pair_to_f16(scope, _neighbours(scope, fields), dtype)
    else:
        both = floats.raised_f8(scope, _upper(scope, fields), dtype)
    if target == dtypes.f16:
        return both
    low, high = (
        floats.to_f32(scope, he.Cast(half, data_type("uint16")), dtypes.f16)
        for half in (both, he.RightShift(both, integer(16)))
    )
    return floats.pair_from_f32(scope, low, high, dtypes.bf16)


def _neighbours(scope: Scope, fields: tuple[Field, Field]) -> Any:
    """Two bytes as 16 bits."""
    first, second = fields
    same = _held(first) == _held(second)
    if same and first.byte % 2 == 0 and second.byte == first.byte + 1:
        word = _entry(scope, first)
        word = he.RightShift(word, integer(16)) if first.byte else word
    else:
        order = first.byte | (second.byte + (0 if same else 4)) << 4
        word = _permute(scope, _entry(scope, first), _entry(scope, second), order)
    return he.Cast(word, data_type("uint16"))


def _upper(scope: Scope, fields: tuple[Field, Field]) -> Any:
    """Two bytes as the upper ones of halves, zeros below them."""
    first, second = fields
    if _held(first) == _held(second):
        order = 4 | first.byte << 4 | 4 << 8 | second.byte << 12
        return _permute(scope, _entry(scope, first), _word(0), order)
    order = first.byte << 4 | (4 + second.byte) << 12
    both = _permute(scope, _entry(scope, first), _entry(scope, second), order)
    return he.BitwiseAnd(both, _word(0xFF00FF00))


def _bytes(scope: Scope, fields: tuple[Field, Field], moved: list[int]) -> Any:
    """The bytes of both fields as the lower ones of halves, with anything above them, after each
    field's word was moved down by so many bits."""
    first, second = fields
    one, two = (
        he.RightShift(_entry(scope, f), integer(by)) if by else _entry(scope, f)
        for f, by in zip(fields, moved)
    )
    same = _held(first) == _held(second) and moved[0] == moved[1]
    if same and (first.byte, second.byte) == (0, 2):
        return one
    other = second.byte + (0 if same else 4)
    return _permute(scope, one, two, first.byte * 0x11 | other * 0x1100)


def _permute(scope: Scope, a: Any, b: Any, order: int) -> Any:
    """Bytes of `a` (0 to 3) and `b` (4 to 7), one a digit of `order`."""
    return scope.instruction(_PRMT, [a, b, _word(order)])


def _held(f: Field) -> tuple[str, Scalar]:
    return f.array, f.word


def _entry(scope: Scope, f: Field) -> Any:
    word = registers.entry(scope, f.array, f.word)
    return word if cell(f.dtype).type_name == "uint32" else he.Cast(word, data_type("uint32"))


def _both(halves: Any) -> int:
    low, high = halves
    return int(low) | int(high) << 16


def _word(value: int) -> Any:
    return integer(value, "uint32")
