"""Hexcute: tile programs in Python; layouts and instructions are worked out by the compiler.

`import hexcute_core as hx` gives the language; `hx.kernel` makes a function a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexcute_core import errors
from hexcute_core.language import *  # noqa: F403
from hexcute_core.language import __all__ as _language

if TYPE_CHECKING:
    from hexcute_core.driver import kernel

__version__ = "0.1.0"
__all__ = [*_language, "errors", "kernel"]


def __getattr__(name: str) -> object:
    # The driver stands above the language and pulls in the whole compiler: loaded when first used.
    if name == "kernel":
        from hexcute_core.driver import kernel

        globals()["kernel"] = kernel
        return kernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
