"""A call that fails is looked at: an argument of another kind than the function takes is a
`LayoutError` that says so. Any other failure is the package's own, and stays what it is.

Nothing is checked in a call that succeeds, so that the check costs it nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from cute_layout.errors import LayoutError

__all__ = ["ANY", "answers"]

Function = TypeVar("Function", bound=Callable[..., Any])
ANY = (object,)
"""What a parameter is that takes things of many kinds."""
_DEEPEST = 100


def answers(*kinds: tuple[type, ...]) -> Callable[[Function], Function]:
    """Says of a function of which classes its positional arguments are; the last kind stands for
    all that follow."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            try:
                return function(*args, **named)
            except LayoutError:
                raise
            except Exception:
                wrong = _misfit(args)
                if wrong is None:
                    raise
            raise LayoutError(f"{function.__qualname__} takes {wrong}") from None

        return call  # type: ignore[return-value]

    def _misfit(args: tuple[Any, ...]) -> str | None:
        for i, arg in enumerate(args):
            kind = kinds[min(i, len(kinds) - 1)]
            if kind is not ANY and not (isinstance(arg, kind) and _fits(arg, kind)):
                expected = " or ".join(k.__name__ for k in kind)
                return f"{expected} as argument {i + 1}, got {type(arg).__name__}"
        return None

    return wrap


def _fits(arg: object, kind: tuple[type, ...], depth: int = 0) -> bool:
    """Whether numbers are numbers, and tuples are made of what the algebra has, at any depth."""
    if isinstance(arg, bool):
        return bool in kind
    if not isinstance(arg, tuple):
        return True
    own = (int, type(None))
    return depth < _DEEPEST and all(
        (isinstance(leaf, tuple)
        and _fits(leaf, kind, depth + 1))
        or (isinstance(leaf, own) and not isinstance(leaf, bool))
        or type(leaf).__module__.startswith("cute_layout")
        for leaf in arg
    )
