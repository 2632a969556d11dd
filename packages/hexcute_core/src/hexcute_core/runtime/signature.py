"""What a kernel is called with: Python's arguments in order, and the kernel's own parameters.

    call:    params, in the order the author wrote them
    kernel:  a pointer for each tensor, then the scalars, then the symbols, each group in order

A symbol is an extent that the tensors' shapes bind: every place it is named must agree.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hexcute_core.dtypes import BY_NAME, boolean
from hexcute_core.errors import LaunchError, SourceSpan
from hexcute_core.runtime.storage import SCALAR_CODES, TENSOR_STORAGE
from hexcute_core.scalar.numbers import FORMATS, limits

ALIGNMENT = 16
"""Bytes of the widest access: what pointers and extents are specialised on."""


@dataclass(frozen=True)
class TensorParam:
    """A tensor of `shape`, whose extents are integers or names of symbols, and so are its
    `strides`, in elements; a row-major tensor has none."""

    name: str
    dtype_name: str
    shape: tuple[int | str, ...]
    strides: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        pairs = [f"{extent}:{stride}" for extent, stride in zip(self.shape, self.strides)]
        return f"{self.dtype_name}[{', '.join(pairs or map(str, self.shape))}]"

    @property
    def inner(self) -> tuple[int | str, ...]:
        """The extents along which a thread may move several elements at once: the last one of a
        row-major tensor, else those with a stride of 1."""
        if not self.strides:
            return self.shape[-1:]
        return tuple(e for e, stride in zip(self.shape, self.strides) if stride == 1)


@dataclass(frozen=True)
class ScalarParam:
    """A number given by value: a Python int or float at the call."""

    name: str
    dtype_name: str

    def __str__(self) -> str:
        return self.dtype_name


@dataclass(frozen=True)
class SymbolParam:
    """An extent or a stride passed to the kernel as an integer of type i32 or i64; the kernel's
    author promises that it is a multiple of `multiple_of`."""

    name: str
    dtype_name: str = "i32"
    multiple_of: int = 1


ParamSpec: TypeAlias = TensorParam | ScalarParam


@dataclass(frozen=True)
class Signature:
    """A kernel's parameters. `span` is where the author defined it, shown by launch errors.

    Raises `LaunchError` for a dtype that cannot be passed or a symbol that no shape binds.
    """

    kernel: str
    params: tuple[ParamSpec, ...]
    symbols: tuple[SymbolParam, ...] = ()
    span: SourceSpan | None = None

    def __post_init__(self) -> None:
        for tensor in self.tensors:
            self._expect(tensor.name, tensor.dtype_name, TENSOR_STORAGE, "a tensor")
        for scalar in self.scalars:
            self._expect(scalar.name, scalar.dtype_name, SCALAR_CODES, "a number")
        bound = {e for tensor in self.tensors for e in (*tensor.shape, *tensor.strides)}
        for symbol in self.symbols:
            self._expect(symbol.name, symbol.dtype_name, ("i32", "i64"), "a symbol")
            if symbol.name not in bound:
                raise LaunchError(
                    f"{self.kernel}: no tensor's shape names the symbol {symbol.name!r}",
                    self.span,
                    fix="pass it as a scalar parameter",
                )

    def _expect(
        self, name: str, dtype: str, allowed: Mapping[str, object] | tuple[str, ...], what: str
    ) -> None:
        if dtype not in allowed:
            raise LaunchError(
                f"{self.kernel}: {what} of type {dtype} cannot be passed as {name!r}; "
                f"expected one of {', '.join(allowed)}",
                self.span,
            )

    @property
    def tensors(self) -> tuple[TensorParam, ...]:
        return tuple(param for param in self.params if isinstance(param, TensorParam))

    @property
    def strided(self) -> tuple[TensorParam, ...]:
        """The tensors with strides of their own."""
        return tuple(tensor for tensor in self.tensors if tensor.strides)

    @property
    def scalars(self) -> tuple[ScalarParam, ...]:
        return tuple(param for param in self.params if isinstance(param, ScalarParam))

    @property
    def value_codes(self) -> tuple[str, ...]:
        """The `struct` code of each kernel parameter, in the kernel's order."""
        numbers = [s.dtype_name for s in self.scalars] + [s.dtype_name for s in self.symbols]
        return ("Q",) * len(self.tensors) + tuple(SCALAR_CODES[name] for name in numbers)

    @property
    def value_names(self) -> tuple[str, ...]:
        """The name of each kernel parameter, in the kernel's order."""
        groups = (self.tensors, self.scalars, self.symbols)
        return tuple(param.name for group in groups for param in group)


def number_limits(dtype_name: str) -> tuple[int | float, int | float]:
    """The least and the greatest finite number that is passed as a scalar of this type."""
    dtype = BY_NAME[dtype_name]
    if not dtype.is_float:
        return limits(dtype)
    largest = FORMATS[dtype_name].largest if dtype_name in FORMATS else sys.float_info.max
    return -largest, largest


def packed_divisors(signature: Signature) -> dict[str, int]:
    """For each symbol that is the last extent of a packed tensor, the elements of a byte: rows are
    whole bytes, whatever a call passes."""
    divisors: dict[str, int] = {}
    for tensor in signature.tensors:
        bits = BY_NAME[tensor.dtype_name].bits
        last = tensor.shape[-1]
        if bits < 8 and isinstance(last, str):
            divisors[last] = max(8 // bits, divisors.get(last, 1))
    return divisors


def default_divisors(signature: Signature) -> dict[str, int]:
    """For each symbol that is the extent of a tensor's rows, or a stride, the elements in 16 bytes,
    at most.

    These are the numbers that decide whether rows start aligned. With tensors of several
    widths the narrowest type counts, so that one bit promises 16 bytes to all of them. A mask
    beside other tensors is held element by element as they are, and asks for no more than they do.
    """
    divisors: dict[str, int] = {}
    # Masks come last.
    for tensor in sorted(signature.tensors, key=lambda tensor: tensor.dtype_name == boolean.name):
        for extent in (*tensor.inner, *tensor.strides):
            if isinstance(extent, str):
                elements = ALIGNMENT * 8 // BY_NAME[tensor.dtype_name].bits
                known = divisors.get(extent, 1)
                beside = tensor.dtype_name == boolean.name and extent in divisors
                divisors[extent] = known if beside else max(elements, known)
    return {s.name: divisors[s.name] for s in signature.symbols if s.name in divisors}
