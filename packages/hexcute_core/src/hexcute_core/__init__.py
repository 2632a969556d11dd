"""Hexcute: tile programs in Python; layouts and instructions are worked out by the compiler.

`import hexcute_core as hx` gives the language; `hx.kernel` makes a function a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexcute_core import errors
from hexcute_core.language import *  # noqa: F403
from hexcute_core.language import __all__ as _language

if TYPE_CHECKING:
    from hexcute_core.driver import kernel, preload

__version__ = "0.1.0"
__all__ = [*_language, "errors", "kernel", "preload"]


def __getattr__(name: str) -> object:
    # The driver stands above the language and pulls in the whole compiler: loaded when first used.
    if name in ("kernel", "preload"):
        from hexcute_core import driver

        globals()[name] = getattr(driver, name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
