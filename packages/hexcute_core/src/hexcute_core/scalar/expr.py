"""Scalar = Const | Var | Unary | Binary | Compare | Select | Cast | Element | Call.

Nodes are values: to the compiler `==` is structural equality. Arithmetic operators build new nodes
through `scalar.build`, which folds constants. To an author of kernels a node is a number not known
yet: operators mean what Python means, or are refused (`scalar.author`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, Union

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError, HexcuteError
from hexcute_core.scalar.author import MEANING, asked_by_author
from hexcute_core.scalar.numbers import fits, limits, typed

UnaryOp = Literal[
    "neg", "not", "inv", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp",
    "tanh", "sin", "cos", "erf", "floor", "ceil", "isnan",
]  # fmt: skip
BinaryOp = Literal[
    "add", "sub", "mul", "div", "floordiv", "cdiv", "mod", "min", "max", "pow",
    "and", "or", "xor", "shl", "shr", "land", "lor",
]  # fmt: skip
CompareOp = Literal["lt", "le", "gt", "ge", "eq", "ne"]


_Node = TypeVar("_Node", bound="ScalarBase")


class ScalarBase:
    """Operators of every scalar node; each returns a folded node of the same union."""

    __slots__ = ()
    dtype: DType

    def __add__(self, other: object) -> Scalar:
        return _binary("add", self, other)

    def __radd__(self, other: object) -> Scalar:
        return _binary("add", other, self)

    def __sub__(self, other: object) -> Scalar:
        return _binary("sub", self, other)

    def __rsub__(self, other: object) -> Scalar:
        return _binary("sub", other, self)

    def __mul__(self, other: object) -> Scalar:
        return _binary("mul", self, other)

    def __rmul__(self, other: object) -> Scalar:
        return _binary("mul", other, self)

    def __truediv__(self, other: object) -> Scalar:
        return _division("div", self, other)

    def __rtruediv__(self, other: object) -> Scalar:
        return _division("div", other, self)

    def __floordiv__(self, other: object) -> Scalar:
        return _division("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Scalar:
        return _division("floordiv", other, self)

    def __mod__(self, other: object) -> Scalar:
        return _division("mod", self, other)

    def __rmod__(self, other: object) -> Scalar:
        return _division("mod", other, self)

    def __pow__(self, other: object) -> Scalar:
        return _binary("pow", self, other)

    def __and__(self, other: object) -> Scalar:
        return _binary("and", self, other)

    def __rand__(self, other: object) -> Scalar:
        return _binary("and", other, self)

    def __or__(self, other: object) -> Scalar:
        return _binary("or", self, other)

    def __ror__(self, other: object) -> Scalar:
        return _binary("or", other, self)

    def __xor__(self, other: object) -> Scalar:
        return _binary("xor", self, other)

    def __rxor__(self, other: object) -> Scalar:
        return _binary("xor", other, self)

    def __lshift__(self, other: object) -> Scalar:
        return _binary("shl", self, other)

    def __rlshift__(self, other: object) -> Scalar:
        return _binary("shl", other, self)

    def __rshift__(self, other: object) -> Scalar:
        return _binary("shr", self, other)

    def __rrshift__(self, other: object) -> Scalar:
        return _binary("shr", other, self)

    def __neg__(self) -> Scalar:
        return _unary("neg", self)

    def __abs__(self) -> Scalar:
        return _unary("abs", self)

    def __invert__(self) -> Scalar:
        return _unary("inv", self)

    def __lt__(self, other: object) -> Scalar:
        return _compare("lt", self, other)

    def __le__(self, other: object) -> Scalar:
        return _compare("le", self, other)

    def __gt__(self, other: object) -> Scalar:
        return _compare("gt", self, other)

    def __ge__(self, other: object) -> Scalar:
        return _compare("ge", self, other)

    def __bool__(self) -> bool:
        if isinstance(self, Const):
            return bool(self.value)
        raise FrontendError(
            f"the run-time value `{self}` was used as a Python truth value",
            fix="use it in an `if` or `while` of the kernel itself, or hx.select(cond, a, b)",
        )

    def __int__(self) -> int:
        raise _unknown(self, "an int of Python's")

    def __float__(self) -> float:
        raise _unknown(self, "a float of Python's")

    def __index__(self) -> int:
        raise _unknown(self, "an index of Python's")

    def __round__(self, digits: object = None) -> int:
        raise _unknown(self, "an int of Python's")

    def __divmod__(self, other: object) -> tuple[Scalar, Scalar]:
        return _division("floordiv", self, other), _division("mod", self, other)

    def __rdivmod__(self, other: object) -> tuple[Scalar, Scalar]:
        return _division("floordiv", other, self), _division("mod", other, self)

    def __rpow__(self, other: object) -> Scalar:
        return _binary("pow", other, self)

    def __iter__(self) -> Iterator[object]:
        raise _unknown(self, "something to go through")

    def __array__(self, *args: object) -> object:
        raise _unknown(self, "an element of an array of numpy's")

    def __str__(self) -> str:
        from hexcute_core.scalar.printer import show

        return show(self)  # type: ignore[arg-type]


def _compares(node: type[_Node]) -> type[_Node]:
    """A node's equality and hash are the compiler's alone."""
    same, number = node.__eq__, node.__hash__

    def __eq__(self: object, other: object) -> object:
        if self is other:
            return True
        return MEANING["eq"](self, other) if asked_by_author() else same(self, other)

    def __ne__(self: object, other: object) -> object:
        if self is other:
            return False
        if asked_by_author():
            return MEANING["ne"](self, other)
        equal = same(self, other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self: object) -> int:
        if asked_by_author():
            MEANING["hash"](self)
        return number(self)

    node.__eq__, node.__ne__, node.__hash__ = __eq__, __ne__, __hash__  # type: ignore[assignment]
    return node


@_compares
@dataclass(frozen=True)
class Const(ScalarBase):
    """A number that a value of `dtype` can be; `scalar.numbers.typed` makes one so."""

    value: int | float | bool
    dtype: DType


@_compares
@dataclass(frozen=True)
class Var(ScalarBase):
    """A named value: a symbol, a loop variable, a local, or a built-in such as threadIdx.x."""

    name: str
    dtype: DType = dtypes.i32


@_compares
@dataclass(frozen=True)
class Unary(ScalarBase):
    op: UnaryOp
    a: Scalar
    dtype: DType


@_compares
@dataclass(frozen=True)
class Binary(ScalarBase):
    """`floordiv` and `mod` round down like Python's, `cdiv` is the quotient rounded up."""

    op: BinaryOp
    a: Scalar
    b: Scalar
    dtype: DType


@_compares
@dataclass(frozen=True)
class Compare(ScalarBase):
    op: CompareOp
    a: Scalar
    b: Scalar
    dtype: DType = dtypes.boolean


@_compares
@dataclass(frozen=True)
class Select(ScalarBase):
    cond: Scalar
    a: Scalar
    b: Scalar
    dtype: DType


@_compares
@dataclass(frozen=True)
class Cast(ScalarBase):
    a: Scalar
    dtype: DType


@_compares
@dataclass(frozen=True)
class Element(ScalarBase):
    """One element of a named array.

    In a tile program `indices` are tile coordinates of a register tensor (inside `ForElements`);
    in a thread program there is one index into a per-thread register array.
    """

    array: str
    indices: tuple[Scalar, ...]
    dtype: DType


@_compares
@dataclass(frozen=True)
class Call(ScalarBase):
    """A call by name: `shfl.xor`, `shfl.idx`, or a primitive of the code generator."""

    name: str
    args: tuple[Scalar, ...]
    dtype: DType


Scalar: TypeAlias = Union[Const, Var, Unary, Binary, Compare, Select, Cast, Element, Call]


MOST_BITS = 1024
"""Of an integer that some float type holds, rounded."""


def as_scalar(value: object, dtype: DType | None = None) -> Scalar:
    """A Python number or a scalar node as a scalar node; ints become i32 (i64 past 2^31).

    Raises FrontendError for anything else, and for an integer that `dtype` does not have.
    """
    if isinstance(value, ScalarBase):
        return value  # type: ignore[return-value]
    if isinstance(value, bool):
        return Const(value, dtype or dtypes.boolean)
    if isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise FrontendError(
                f"an integer of {value.bit_length()} bits is beyond all numbers that a GPU has",
                fix='write float("inf") where infinity is meant',
            )
        if dtype is None:
            dtype = dtypes.i32 if -(2**31) <= value < 2**31 else dtypes.i64
        if not dtype.is_float and not fits(value, dtype):
            raise FrontendError(
                f"{dtype} has no number {value}: it goes from {limits(dtype)[0]} to "
                f"{limits(dtype)[1]}",
                fix=f"convert the other operand to a wider type, or write hx.cast({value}, "
                f"{dtype}), which wraps",
            )
        return Const(typed(value, dtype), dtype)
    if isinstance(value, float):
        dtype = dtype or dtypes.f32
        return Const(typed(value, dtype), dtype)
    raise FrontendError(
        f"expected a number or a scalar expression, got {type(value).__name__}: {value!r}",
        fix="pass an int, a float, a symbol or a scalar of the kernel",
    )


def _unknown(value: object, wanted: str) -> HexcuteError:
    return FrontendError(
        f"the run-time value `{value}` was used as {wanted}",
        fix="use it in the operators and loops of a kernel; convert by hx.cast(x, i32)",
    )


def _division(op: BinaryOp, a: object, b: object) -> Scalar:
    if asked_by_author(3):
        return MEANING[op](a, b)  # type: ignore[return-value]
    return _binary(op, a, b)


# build.py needs the nodes above, so operators reach it when they run.
def _binary(op: BinaryOp, a: object, b: object) -> Scalar:
    from hexcute_core.scalar.build import binary

    return binary(op, a, b)


def _unary(op: UnaryOp, a: object) -> Scalar:
    from hexcute_core.scalar.build import unary

    return unary(op, a)


def _compare(op: CompareOp, a: object, b: object) -> Scalar:
    from hexcute_core.scalar.build import compare

    return compare(op, a, b)
