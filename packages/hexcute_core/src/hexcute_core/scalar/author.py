"""Who compares: for the compiler `==` on scalar nodes is equality of expressions, for an author it
compares numbers that are not known yet.

The two are told apart by the innermost Python function that is not the standard library's: it
belongs to the compiler, or it does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

COMPILER = ("hexcute_core", "cute_layout")

MEANING: dict[str, Callable[..., object]] = {}
"""What an author's operators mean on a scalar, by name; filled by the frontend."""


def call_as_author(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Calls what may be written in C as if the author's own code called it."""
    return function(*args, **kwargs)


def asked_by_author(depth: int = 2) -> bool:
    """Whether an operator was used in code that is not the compiler's, `depth` frames up."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        whose = _WHOSE.get(module)
        if whose is None:
            whose = _WHOSE[module] = _whose(module)
        if whose == "compiler":
            return frame.f_code is _AS_AUTHOR
        if whose == "author":
            return True
        frame = frame.f_back
    return False


def _whose(module: str) -> str:
    top = module.partition(".")[0]
    if top in COMPILER:
        return "compiler"
    return "library" if top in sys.stdlib_module_names else "author"


_WHOSE: dict[str, str] = {}
_AS_AUTHOR = call_as_author.__code__
