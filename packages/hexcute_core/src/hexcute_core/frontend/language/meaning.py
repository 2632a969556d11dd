"""What `==`, `//`, `%`, `/` and hash mean on a scalar in code of an author that Python itself runs.

While a kernel is traced they build what they would build in the kernel. Outside there is no program
to build into and no number to compare: they are refused, but for parts of compiled programs, whose
equality is that of expressions.
"""

from __future__ import annotations

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.functions.symbols import Symbol
from hexcute_core.frontend.language.builder import tracing
from hexcute_core.frontend.language.elementwise import ARITHMETIC
from hexcute_core.scalar import ScalarBase, binary
from hexcute_core.scalar.author import MEANING
from hexcute_core.scalar.expr import BinaryOp
from hexcute_core.scalar.visit import walk


def _refused(what: str) -> FrontendError:
    return FrontendError(
        f"{what}, whose value is known only when the program runs",
        fix="do it in a kernel or in a function that it calls; a symbol's name is `m.name`",
    )


def _is_authors(value: object) -> bool:
    """Whether an expression is of symbols, as authors write it, and not part of a program."""
    return isinstance(value, ScalarBase) and any(
        isinstance(node, Symbol)
        for node in walk(value)  # type: ignore[arg-type]
    )


def _equal(a: object, b: object) -> object:
    if b is None or isinstance(b, (str, type)):
        return False
    if tracing() is not None:
        return ARITHMETIC["eq"](a, b)
    if _is_authors(a) or _is_authors(b) or not isinstance(b, ScalarBase):
        raise _refused(f"`{a} == {b}` compares a run-time value")
    return type(a) is type(b) and vars(a) == vars(b)


def _differ(a: object, b: object) -> object:
    if b is None or isinstance(b, (str, type)):
        return True
    if tracing() is not None:
        return ARITHMETIC["ne"](a, b)
    return not _equal(a, b)


def _hash(a: object) -> None:
    if tracing() is not None or _is_authors(a):
        raise _refused(
            f"the hash of `{a}`, as for a set, a dict or a cache, is of a run-time value"
        )


def _division(op: BinaryOp) -> None:
    def apply(a: object, b: object) -> object:
        if tracing() is not None:
            return ARITHMETIC[op](a, b)
        if _is_authors(a) or _is_authors(b):
            raise _refused(f"`{a}` is divided by `{b}` outside a kernel: a run-time value")
        return binary(op, a, b)

    MEANING[op] = apply


MEANING["eq"], MEANING["ne"], MEANING["hash"] = _equal, _differ, _hash
_division("div")
_division("floordiv")
_division("mod")
