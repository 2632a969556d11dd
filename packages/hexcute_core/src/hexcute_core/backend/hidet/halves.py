"""Two neighbours of 16 bits that are computed alike -> one word, both halves at once.

| both are | by |
|---|---|
| neighbouring elements | the word that holds them |
| one element, or constants | that twice, or both |
| f16 sums, differences, products | add.rn.f16x2, sub.rn.f16x2, mul.rn.f16x2 |
| the same of bf16 | fma.rn.bf16x2 with 1, -1 or -0, which every target has |
| and, or, xor; u16 >> constant | the same of words, what crosses the middle masked out |
| integers from 0 to 1023 as f16, to 127 as bf16 | those of the next row, less 1024 or 128 |
| narrow elements, or bits cut out of a byte, as f16 or bf16 | `widening.py` |
| 1024 + the former as f16, 128 + the latter as bf16 | their bits behind those, no arithmetic |

Every half is what it would be alone, rounding included.
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
from hexcute_core.backend.hidet.scope import Scope, integer
from hexcute_core.backend.hidet.widening import FMA, widen, widened
from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Binary, Cast, Const, Element, Scalar
from hexcute_core.scalar.bounds import bounds
from hexcute_core.scalar.visit import rebuild

_BITS = {"and": he.BitwiseAnd, "or": he.BitwiseOr, "xor": he.BitwiseXor}
_FLOATS = ("add", "sub", "mul")
_BOTH = 0x10001
"""Times 16 bits: these in both halves of a word."""
_BEFORE = {dtypes.f16: 1024, dtypes.bf16: 128}
"""From which power of two to the next the last bit counts ones."""
_WHOLE = 0xFFFF * _BOTH
_AND_OR = Instruction(
    "hx_and_or", "lop3.b32 %0, %1, %2, %3, 0xEA;", ("uint32",), ("uint32",) * 3, result=True,
    volatile=False,
)  # fmt: skip


@dataclass(frozen=True)
class Halves:
    """array[index], array[index + 1] = low, high: values of 16 bits that are `alike`, the index
    even."""

    array: str
    index: Scalar
    low: Scalar
    high: Scalar
    span: SourceSpan | None


def computed(e: Scalar) -> bool:
    """Whether two of `e` may be alike, and computing them at once saves something."""
    if not isinstance(e, (Binary, Cast)):
        return False
    anywhere = _first(e)
    return alike(anywhere, anywhere)


def _first(e: Scalar) -> Scalar:
    """`e` of the first elements of its arrays."""
    if isinstance(e, Element):
        return Element(e.array, tuple(Const(0, dtypes.i32) for _ in e.indices), e.dtype)
    return rebuild(e, _first)


def alike(low: Scalar, high: Scalar) -> bool:
    """Whether one word can hold both, neighbours being neighbours everywhere."""
    if low.dtype != high.dtype or low.dtype.bits != 16:
        return False
    match low, high:
        case Const(), Const():
            return low.dtype in _BEFORE or low.dtype.is_integer
        case Element(), Element():
            return _apart(low, high) is not None
        case Cast(a=a), Cast(a=b):
            if widened(low, high) is not None:
                return True
            before = _BEFORE.get(low.dtype)
            if before is None:
                return False
            n, m = _above(a, before), _above(b, before)
            if n is not None and m is not None:
                return alike(n, m)
            return _is_small(a, before) and _is_small(b, before) and alike(a, b)
        case Binary(), Binary() if low.op == high.op:
            if low.op == "shr":
                by = _count(low)
                shifts = low.dtype == dtypes.u16 and by is not None and by == _count(high)
                return shifts and alike(low.a, high.a)
            known = _FLOATS if low.dtype in _BEFORE else _BITS if low.dtype.is_integer else ()
            same = low.a.dtype == low.b.dtype == low.dtype
            return low.op in known and same and alike(low.a, high.a) and alike(low.b, high.b)
        case _:
            return False


def word(scope: Scope, low: Scalar, high: Scalar) -> Any:
    """The word that holds both; they are `alike`."""
    match low, high:
        case Const(), Const():
            return integer(_bits(low) | _bits(high) << 16, "uint32")
        case Element(), Element():
            return _elements(scope, low, high)
        case Cast(), Cast() if (fields := widened(low, high)) is not None:
            return widen(scope, fields, low.dtype)
        case Cast(), Cast():
            before = _BEFORE[low.dtype]
            top = integer(floats.bits_of(float(before), low.dtype) * _BOTH, "uint32")
            n, m = _above(low.a, before), _above(high.a, before)
            above = n is not None and m is not None
            first, second = low.a if n is None else n, high.a if m is None else m
            bits, mask = _masked(scope, first, second)
            if mask != _WHOLE:
                # (bits & mask) | top: the compiler makes two of what one instruction does.
                bits = scope.instruction(_AND_OR, [bits, integer(mask, "uint32"), top])
            else:
                bits = he.BitwiseOr(bits, top)
            return bits if above else _pair(scope, low.dtype, "sub", bits, top)
        case Binary(op="shr"), Binary():
            shifted, mask = _masked(scope, low, high)
            return he.BitwiseAnd(shifted, integer(mask, "uint32"))
        case Binary(), Binary():
            a, b = word(scope, low.a, high.a), word(scope, low.b, high.b)
            bits = _BITS.get(low.op)
            return _pair(scope, low.dtype, low.op, a, b) if bits is None else bits(a, b)
        case _:
            raise scope.error(f"{low} and {high} are not computed alike")


def _masked(scope: Scope, low: Scalar, high: Scalar) -> tuple[Any, int]:
    """The word of both is the first, as far as the second lets bits through."""
    match low, high:
        case Binary(op="and", b=Const() as b), Binary(op="and", b=Const() as c):
            bits, mask = _masked(scope, low.a, high.a)
            return bits, mask & (_bits(b) | _bits(c) << 16)
        case Binary(op="shr"), Binary():
            by = _count(low) or 0
            shifted = he.RightShift(word(scope, low.a, high.a), integer(by))
            return shifted, (0xFFFF >> by) * _BOTH
        case _:
            return word(scope, low, high), _WHOLE


def _elements(scope: Scope, low: Element, high: Element) -> Any:
    index = low.indices[0]
    if _apart(low, high) == 1:
        half = registers.divided(index, 2)
        if half is not None:
            return registers.entry(scope, low.array, half)
    both = registers.element(scope, low.array, registers.place(scope, index))
    wide = he.Cast(he.Cast(both, data_type("uint16")), data_type("uint32"))
    return he.BitwiseOr(wide, he.LeftShift(wide, integer(16)))


def _apart(low: Element, high: Element) -> int | None:
    """0 for one element, 1 for the two of a word, else None."""
    if low.array != high.array or len(low.indices) != 1 or len(high.indices) != 1:
        return None
    (base, first), (other, second) = (split_constant(e.indices[0]) for e in (low, high))
    if base != other or second - first not in (0, 1):
        return None
    whole = registers.divided(low.indices[0], 2) is not None
    return None if second > first and not whole else second - first


def _count(e: Binary) -> int | None:
    """By how many bits a constant shift goes, where it leaves any."""
    return int(e.b.value) if isinstance(e.b, Const) and 0 <= e.b.value < 16 else None


def _is_small(e: Scalar, before: int) -> bool:
    low, high = bounds(e) if e.dtype.is_integer else (-1, 0)
    return low >= 0 and high < before


def _above(e: Scalar, before: int) -> Scalar | None:
    """n where `e` is `before` + n, and n so small an integer that a float holds it in the low bits
    of that sum."""
    match e:
        case Binary(op="add", a=n, b=Const(value=value)) if value == before:
            return n if n.dtype.is_integer and _is_small(n, before) else None
        case _:
            return None


def _bits(e: Const) -> int:
    return floats.bits_of(float(e.value), e.dtype) if e.dtype.is_float else int(e.value) & 0xFFFF


def _pair(scope: Scope, dtype: DType, op: str, a: Any, b: Any) -> Any:
    if dtype == dtypes.bf16:
        times = {"add": (a, 1.0, b), "sub": (b, -1.0, a), "mul": (a, b, -0.0)}[op]
        words = [_twice(x, dtype) if isinstance(x, float) else x for x in times]
        return scope.instruction(FMA[dtype], words)
    ins = Instruction(
        f"hx_{op}_f16x2", f"{op}.rn.f16x2 %0, %1, %2;", ("uint32",), ("uint32", "uint32"),
        result=True, volatile=False,
    )  # fmt: skip
    return scope.instruction(ins, [a, b])


def _twice(value: float, dtype: DType) -> Any:
    return integer(floats.bits_of(value, dtype) * _BOTH, "uint32")
