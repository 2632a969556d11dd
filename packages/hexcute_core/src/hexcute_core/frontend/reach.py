"""What a function's text can reach by name: globals, captured variables, attributes of modules."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

from hexcute_core.frontend.frame import captured
from hexcute_core.frontend.source import function_source

_COMPILER = frozenset({"hexcute_core", "cute_layout"})


def reachable(fn: FunctionType) -> Iterator[tuple[str, object]]:
    """Each outside name (or `module.attribute` chain) in the text of `fn` and what it stands for.

    Built-ins are left out; a name that stands for nothing yet is skipped.
    """
    names = {**fn.__globals__, **captured(fn)}
    found: dict[str, object] = {}
    inner: set[int] = set()
    for node in ast.walk(function_source(fn).node):
        if not isinstance(node, (ast.Name, ast.Attribute)) or id(node) in inner:
            continue
        chain = _chain(node, inner)
        if chain is None or chain[0] not in names:
            continue
        name, value = chain[0], names[chain[0]]
        for attribute in chain[1:]:
            if not isinstance(value, ModuleType) or not hasattr(value, attribute):
                break
            name, value = f"{name}.{attribute}", getattr(value, attribute)
        found[name] = value
    yield from sorted(found.items(), key=lambda item: item[0])


def _chain(node: ast.Name | ast.Attribute, inner: set[int]) -> tuple[str, ...] | None:
    """`a.b.c` as ("a", "b", "c"); its parts are added to `inner`."""
    parts: list[str] = []
    here: ast.expr = node
    while isinstance(here, ast.Attribute):
        parts.append(here.attr)
        here = here.value
        inner.add(id(here))
    if not isinstance(here, ast.Name):
        return None
    return (here.id, *reversed(parts))


def is_user_code(value: object, root: FunctionType) -> bool:
    """Whether `value` is code of the kernel's author: neither the standard library, nor this
    compiler, nor an installed package other than the one `root` belongs to."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return False
    package = module.split(".", 1)[0]
    if package == (root.__module__ or "").split(".", 1)[0]:
        return True
    if package in _COMPILER or package in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    code = getattr(value, "__code__", None)
    file = file if code is None else code.co_filename
    return "site-packages" not in file and "dist-packages" not in file
