"""@hx.device: a function of the kernel language, traced anew at every call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.language.builder import current

P = ParamSpec("P")
R = TypeVar("R")


class DeviceFunction(Generic[P, R]):
    """A function inlined where a kernel calls it; it may emit statements and return a value."""

    def __init__(self, fn: Callable[P, R]) -> None:
        assert isinstance(fn, FunctionType), "`device` has looked"
        self.fn = fn
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        builder = current(f"the device function `{self.fn.__name__}`")
        if builder.inline is None:
            raise builder.error(f"`{self.fn.__name__}` cannot be called here")
        result: Any = builder.inline(self.fn, args, kwargs)
        return result  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<device function {self.fn.__qualname__}>"


def device(fn: Callable[P, R]) -> DeviceFunction[P, R]:
    """Decorates `fn`, a function of the kernel language that kernels may call. Raises FrontendError
    where it is no plain function."""
    if not isinstance(fn, FunctionType):
        raise FrontendError(
            f"@hx.device decorates plain functions, got {type(fn).__name__}", fix="use a `def`"
        )
    return DeviceFunction(fn)
