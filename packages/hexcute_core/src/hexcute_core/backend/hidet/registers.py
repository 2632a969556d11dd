"""Register arrays: one element, or the words that an instruction takes as operands.

Element i of a packed array is bits [i % n * bits, + bits) of word i // n, n = 32 / bits. Where
the pieces of an operand fill whole entries, the entries themselves are the operands; where they
do not, words are gathered before the instruction and scattered after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import data_type

from hexcute_core.backend.hidet.asm import Instruction, vector
from hexcute_core.backend.hidet.scope import RegisterArray, Scope, call, integer
from hexcute_core.backend.hidet.storage import Cell, value_type
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Binary, Const, Scalar, add
from hexcute_core.thread import Regs

Index = Any
"""A Python int where known now, else a hidet expression."""


def element(scope: Scope, name: str, index: Index) -> Any:
    """The value of element `index` of array `name`, in its element type."""
    array = scope.array(name)
    if array.cell.elements == 1:
        entry = _entry(array, index)
        return call("__uint_as_float", [entry]) if array.dtype.name == "tf32" else entry
    word, shift = _split(array.cell, array.dtype, index)
    return _unpack(_shifted(he.RightShift, _entry(array, word), shift), array.dtype)


def entry(scope: Scope, name: str, index: Scalar) -> Any:
    """Entry `index` of array `name`: the word that holds its elements."""
    return _entry(scope.array(name), _index(scope, index))


def place(scope: Scope, index: Scalar) -> Index:
    """`index` as elements are asked for by it."""
    return _index(scope, index)


def set_element(scope: Scope, name: str, index: Index, value: Any) -> Any:
    """The statement `name[index] = value`."""
    array = scope.array(name)
    if array.cell.elements == 1:
        if array.dtype.name == "tf32":
            value = call("__float_as_uint", [value])
        return hs.BufferStoreStmt(array.var, [_expr(index)], value)
    word, shift = _split(array.cell, array.dtype, index)
    return _insert(array, word, shift, _pack(value, array.dtype))


def set_pair(scope: Scope, name: str, index: Scalar, bits: Any) -> Any:
    """The statement that writes elements `index`, which is even, and `index + 1` of a packed
    array, `bits` holding both."""
    array = scope.array(name)
    pair = 2 * array.dtype.bits
    if pair == array.cell.bits:
        half = divided(index, 2)
        if half is not None:
            return hs.BufferStoreStmt(array.var, [_expr(_index(scope, half))], bits)
    word, shift = _split(array.cell, array.dtype, _index(scope, index))
    return _insert(array, word, shift, he.Cast(bits, data_type("uint32")), pair)


@dataclass
class Operand:
    """Entries to pass to an instruction, with what must run before and after it."""

    entries: list[Any]
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)


def operand(scope: Scope, regs: Regs, entry_bits: int, reads: bool, writes: bool) -> Operand:
    """The pieces of `regs`, in order, as entries of `entry_bits` (a word holds fewer)."""
    array = scope.array(regs.array)
    if array.dtype.bits != regs.dtype.bits:
        raise scope.error(
            f"registers of {regs.array} are taken as {regs.dtype}, the array holds {array.dtype}"
        )
    if regs.count * array.dtype.bits < array.cell.bits:
        return _packed(scope, array, regs, regs.count, reads, writes)
    if entry_bits != array.cell.bits:
        raise scope.error(
            f"{regs.array} holds {array.cell.bits}-bit entries, the instruction takes {entry_bits}"
        )
    starts = _aligned_starts(regs, array.cell.elements)
    if starts is None:
        return _packed(scope, array, regs, array.cell.elements, reads, writes)
    return Operand([_entry(array, _index(scope, s)) for s in starts])


def move(scope: Scope, dst: Regs, src: Regs) -> list[Any]:
    """The bits of `src` in `dst`, entry by entry, two words of one to a wide entry of the other."""
    to, of = scope.array(dst.array).cell, scope.array(src.array).cell
    target = operand(scope, dst, to.bits, reads=False, writes=True)
    source = operand(scope, src, of.bits, reads=True, writes=False)
    outs, ins = 1 if to.bits >= of.bits else 2, 1 if of.bits >= to.bits else 2
    name, bits = f"hx_mov_{to.type_name}_{of.type_name}", max(to.bits, of.bits)
    left, right = _named(0, outs), _named(outs, ins)
    ins_ = Instruction(
        name, f"mov.b{bits} {left}, {right};", (to.type_name,) * outs, (of.type_name,) * ins
    )
    moves = [
        hs.EvaluateStmt(
            scope.instruction(
                ins_, [*target.entries[i * outs :][:outs], *source.entries[i * ins :][:ins]]
            )
        )
        for i in range(len(target.entries) // outs)
    ]
    return [*target.before, *source.before, *moves, *target.after]


def _named(first: int, count: int) -> str:
    return vector(first, count) if count > 1 else f"%{first}"


def _aligned_starts(regs: Regs, elements: int) -> list[Scalar] | None:
    """Index of every entry that the pieces cover, None unless they certainly fill entries."""
    base = divided(regs.offset, elements)
    if base is None or regs.width % elements or any(p % elements for p in regs.pieces):
        return None
    return [
        add(base, (piece + i) // elements)
        for piece in regs.pieces
        for i in range(0, regs.width, elements)
    ]


def divided(e: Scalar, by: int) -> Scalar | None:
    """e / by where `e` is certainly a multiple of `by`."""
    if by == 1:
        return e
    if isinstance(e, Const):
        return Const(int(e.value) // by, e.dtype) if e.value % by == 0 else None
    if isinstance(e, Binary) and e.op == "mul":
        for known, other in ((e.a, e.b), (e.b, e.a)):
            part = divided(known, by)
            if part is not None:
                return other * part
    if isinstance(e, Binary) and e.op in ("add", "sub"):
        left, right = divided(e.a, by), divided(e.b, by)
        if left is not None and right is not None:
            return left + right if e.op == "add" else left - right
    return None


def _packed(
    scope: Scope, array: RegisterArray, regs: Regs, per_word: int, reads: bool, writes: bool
) -> Operand:
    """Words of `per_word` elements each, gathered and scattered element by element."""
    result = Operand([])
    places = [add(regs.offset, p + i) for p in regs.pieces for i in range(regs.width)]
    for start in range(0, len(places), per_word):
        word = he.Var("word", data_type("uint32"))
        gathered: Any = integer(0, "uint32")
        for lane, place in enumerate(places[start : start + per_word]):
            shift = lane * array.dtype.bits
            source, amount = _split(array.cell, array.dtype, _index(scope, place))
            mask = integer((1 << array.dtype.bits) - 1, "uint32")
            bits = _shifted(he.RightShift, _entry(array, source), amount)
            part = _shifted(he.LeftShift, he.BitwiseAnd(bits, mask), shift)
            gathered = part if lane == 0 else he.BitwiseOr(gathered, part)
            if writes:
                value = he.BitwiseAnd(_shifted(he.RightShift, word, shift), mask)
                result.after.append(_insert(array, source, amount, value))
        result.before.append(hs.DeclareStmt(word, gathered if reads else None))
        result.entries.append(word)
    return result


def _index(scope: Scope, e: Scalar) -> Index:
    # scalars.py reads elements through this module; imported when the first index is built.
    from hexcute_core.backend.hidet.scalars import index_of

    return index_of(scope, e)


def _expr(index: Index) -> Any:
    return integer(index) if isinstance(index, int) else index


def _entry(array: RegisterArray, index: Index) -> Any:
    return he.TensorElement(array.var, (_expr(index),))


def _split(cell: Cell, dtype: DType, index: Index) -> tuple[Index, Index]:
    """Word and bit position of element `index`."""
    if cell.elements == 1:
        return index, 0
    if isinstance(index, int):
        return index // cell.elements, index % cell.elements * dtype.bits
    log2 = cell.elements.bit_length() - 1
    lane = he.BitwiseAnd(index, integer(cell.elements - 1))
    return he.RightShift(index, integer(log2)), he.Multiply(lane, integer(dtype.bits))


def _shifted(node: Any, value: Any, amount: Index) -> Any:
    return value if isinstance(amount, int) and amount == 0 else node(value, _expr(amount))


def _insert(
    array: RegisterArray, word: Index, shift: Index, bits: Any, width: int | None = None
) -> Any:
    """The statement that replaces `width` bits of a word, those of one element by default."""
    if array.cell.elements == 1:
        return hs.BufferStoreStmt(array.var, [_expr(word)], bits)
    mask = (1 << (width or array.dtype.bits)) - 1
    if isinstance(shift, int):
        kept: Any = integer(~(mask << shift) & 0xFFFFFFFF, "uint32")
    else:
        kept = he.BitwiseNot(he.LeftShift(integer(mask, "uint32"), shift))
    rest = he.BitwiseAnd(_entry(array, word), kept)
    value = he.BitwiseOr(rest, _shifted(he.LeftShift, bits, shift))
    return hs.BufferStoreStmt(array.var, [_expr(word)], value)


def _pack(value: Any, dtype: DType) -> Any:
    """The bits of a value as an unsigned word, zero above the element's width."""
    if dtype.bits >= 8 and dtype.kind == "int":
        # Through the unsigned type of the same width, so that the sign does not spread.
        value = he.Cast(value, data_type(f"uint{dtype.bits}"))
    word = he.Cast(value, data_type("uint32"))
    if dtype.bits < 8:
        return he.BitwiseAnd(word, integer((1 << dtype.bits) - 1, "uint32"))
    return word


def _unpack(word: Any, dtype: DType) -> Any:
    """The element in the low bits of `word`, in its element type."""
    if dtype.kind == "bool":
        return he.NotEqual(he.BitwiseAnd(word, integer(0xFF, "uint32")), integer(0, "uint32"))
    if dtype.bits >= 8:
        return he.Cast(word, value_type(dtype))
    if dtype.kind == "uint":
        return he.BitwiseAnd(word, integer((1 << dtype.bits) - 1, "uint32"))
    up = he.Cast(he.LeftShift(word, integer(32 - dtype.bits)), data_type("int32"))
    return he.RightShift(up, integer(32 - dtype.bits))
