"""Whose code is it: the author's of a kernel, or a library's?"""

from __future__ import annotations

import sys
from types import ModuleType

COMPILER = frozenset({"hexcute_core", "cute_layout"})


def is_author_code(value: object, package: str = "") -> bool:
    """Whether a function, class or module is a kernel author's: neither the standard library's,
    nor this compiler's, nor an installed package's other than `package`."""
    named = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(named, str):
        return False
    top = named.split(".", 1)[0]
    if top in (package, "__main__"):
        return True
    if top in COMPILER or top in sys.stdlib_module_names:
        return False
    code = getattr(value, "__code__", None)
    module = value if isinstance(value, ModuleType) else sys.modules.get(named)
    file = code.co_filename if code is not None else getattr(module, "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file
