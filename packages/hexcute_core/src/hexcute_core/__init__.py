"""Hexcute: tile programs in Python; layouts and instructions are worked out by the compiler.

`import hexcute_core as hx` gives the language; `hx.kernel` makes a function a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexcute_core import version  # isort: skip  # before the rest is loaded
from hexcute_core import errors
from hexcute_core.dtypes import DType, TensorType
from hexcute_core.errors import (
    CacheWarning,
    HexcuteError,
    HexcuteWarning,
    RearrangeWarning,
    SpillWarning,
)
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.tiles import Tile
from hexcute_core.language import *  # noqa: F403
from hexcute_core.language import __all__ as _language

if TYPE_CHECKING:
    from hexcute_core.driver.bundle import use_bundle, write_bundle
    from hexcute_core.driver.compiled import CompiledKernel
    from hexcute_core.driver.kernel import Kernel, kernel
    from hexcute_core.driver.preload import preload
    from hexcute_core.driver.saved import SavedKernel, load
    from hexcute_core.thread.timeline import Timeline

__version__ = version.VERSION
# The driver stands above the language and pulls in the whole compiler: loaded when first used.
_DRIVER = (
    "CompiledKernel", "Kernel", "SavedKernel", "Timeline", "kernel", "load", "preload",
    "use_bundle", "write_bundle",
)  # fmt: skip
__all__ = [
    *_language, "CacheWarning", "CompiledKernel", "DType", "HexcuteError", "HexcuteWarning",
    "Kernel", "Param", "RearrangeWarning", "SavedKernel", "SpillWarning", "TensorType", "Tile",
    "Timeline", "errors", "kernel", "load", "preload", "use_bundle", "write_bundle",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _DRIVER:
        from hexcute_core import driver

        globals()[name] = getattr(driver, name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_DRIVER})
