"""A kernel by its name: FILE.py:KERNEL, MODULE:KERNEL or, where a function makes it,
MODULE:FACTORY(f16, "k", turned=True), whose arguments are literals, dtypes or names of the module.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import hexcute_core
from hexcute_core.driver import Kernel
from hexcute_core.dtypes import DType
from hexcute_core.errors import HexcuteError

_FIX = "write FILE.py:KERNEL, MODULE:KERNEL or MODULE:FACTORY(ARGUMENTS)"


def named(spec: str) -> Kernel:
    """The kernel that a text names. Raises HexcuteError where there is none."""
    head, bracket, rest = spec.partition("(")
    place, _, name = head.rpartition(":")
    if not name or not place:
        raise HexcuteError(f"{spec!r} does not name a kernel in a file or a module", fix=_FIX)
    module = _module(place)
    found = getattr(module, name, None)
    if bracket:
        found = _made(module, name, found, f"{name}({rest}")
    if not isinstance(found, Kernel):
        kernels = [n for n, v in vars(module).items() if isinstance(v, Kernel)]
        fix = f"use one of {', '.join(kernels)}" if kernels else _FIX
        if callable(found) and not bracket:
            fix = f"call what makes a kernel, as in '{place}:{name}()'"
        raise HexcuteError(f"{place} has no kernel called {name!r}", fix=fix)
    return found


def _module(place: str) -> ModuleType:
    path = Path(place)
    if path.is_file():
        loader = importlib.util.spec_from_file_location(path.stem, path)
        if loader is None or loader.loader is None:
            raise HexcuteError(f"{place} is not a Python file", fix=_FIX)
        module = importlib.util.module_from_spec(loader)
        # Annotations written as strings are resolved in the module, which must be findable.
        sys.modules[path.stem] = module
        sys.path.insert(0, str(path.parent))
        loader.loader.exec_module(module)
        return module
    if path.suffix == ".py" or not all(part.isidentifier() for part in place.split(".")):
        raise HexcuteError(f"there is no file {place}", fix=_FIX)
    try:
        return importlib.import_module(place)
    except ImportError as error:
        raise HexcuteError(f"{place} cannot be imported: {error}", fix=_FIX) from error


def _made(module: ModuleType, name: str, factory: object, text: str) -> object:
    """What `factory` returns for the arguments of the call `text`."""
    if not callable(factory):
        raise HexcuteError(f"{module.__name__} has no function called {name!r}", fix=_FIX)
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise HexcuteError(f"{text} is not the call of a function", fix=_FIX)
    positional = [_argument(module, node) for node in call.args]
    named = {word.arg or "": _argument(module, word.value) for word in call.keywords}
    try:
        made: object = factory(*positional, **named)
    except TypeError as error:
        raise HexcuteError(f"{text}: {error}", fix=f"see help({module.__name__}.{name})") from error
    return made


def _argument(module: ModuleType, node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        for home in (module, hexcute_core):
            value: object = getattr(home, node.id, None)
            if value is not None and (home is module or isinstance(value, DType)):
                return value
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise HexcuteError(
            f"{ast.unparse(node)} is no argument that can be written here",
            fix="use numbers, texts, True, False, None, dtypes or names of the module",
        ) from None
    return value
