"""Symbol = a named run-time extent; one name means one number in all parameters of a kernel."""

from __future__ import annotations

from hexcute_core import dtypes
from hexcute_core.errors import FrontendError
from hexcute_core.scalar import Var
from hexcute_core.scalar.author import MEANING, asked_by_author


class Symbol(Var):
    """A named extent (i32), promised to be a multiple of `multiple_of` at every launch.

    A symbol is a scalar node, so `m * 2` and `hx.cdiv(m, 64)` are scalar expressions. It equals
    the plain variable of its name.
    """

    multiple_of: int

    def __init__(self, name: str, multiple_of: int = 1) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise FrontendError(
                f"a symbol needs an identifier as its name, got {name!r}",
                fix='write hx.dim("k") or hx.dims("m n k")',
            )
        if isinstance(multiple_of, bool) or not isinstance(multiple_of, int) or multiple_of < 1:
            raise FrontendError(
                f"multiple_of of symbol `{name}` must be a positive int, got {multiple_of!r}",
                fix=f'write hx.dim("{name}", multiple_of=8)',
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "dtype", dtypes.i32)
        object.__setattr__(self, "multiple_of", multiple_of)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if asked_by_author():
            return MEANING["eq"](self, other)  # type: ignore[return-value]
        if not isinstance(other, Var):
            return NotImplemented
        return self.name == other.name and self.dtype == other.dtype

    __hash__ = Var.__hash__

    def __repr__(self) -> str:
        promise = "" if self.multiple_of == 1 else f", multiple_of={self.multiple_of}"
        return f"Symbol({self.name!r}{promise})"


def dim(name: str, multiple_of: int = 1) -> Symbol:
    """The symbol called `name`; `multiple_of` promises a divisor of its value."""
    return Symbol(name, multiple_of)


def dims(names: str) -> tuple[Symbol, ...]:
    """`dims("m n k")`: one symbol per word; words are separated by spaces or commas."""
    if not isinstance(names, str) or not names.replace(",", " ").split():
        raise FrontendError(
            f"dims expects names in one string, got {names!r}", fix='write hx.dims("m n k")'
        )
    return tuple(Symbol(name) for name in names.replace(",", " ").split())
