"""What a call runs: the function behind a partial, a method, a cache or an object that is called.

Functions are traced, so that their operators mean in them what they mean in a kernel. Python itself
runs a function only where nothing of run time can come into it: no argument holds such a value, and
no name in its code leads to the language.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace

from hexcute_core.dtypes import DType, TensorType
from hexcute_core.frontend.functions.authors import COMPILER, is_author_code
from hexcute_core.frontend.functions.snapshot import attributes
from hexcute_core.frontend.language.device import DeviceFunction
from hexcute_core.frontend.language.tiles import TileValue
from hexcute_core.scalar import ScalarBase

# Modules of the language whose functions take Python numbers as well, and then do no more than
# Python would.
_OF_NUMBERS = frozenset({
    "hexcute_core.dtypes", "hexcute_core.frontend.functions.symbols",
    "hexcute_core.frontend.language.elementwise", "hexcute_core.scalar.build",
})  # fmt: skip


def behind(
    callee: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[object, tuple[object, ...], dict[str, object]]:
    """The function that a call of `callee` runs, with the arguments that it gets; `callee` itself
    where that is no Python function."""
    while True:
        match callee:
            case DeviceFunction():
                callee = callee.fn
            case functools.partial():
                args, kwargs = (*callee.args, *args), {**callee.keywords, **kwargs}
                callee = callee.func
            case MethodType():
                args, callee = (callee.__self__, *args), callee.__func__
            case staticmethod():
                callee = callee.__func__
            case functools._lru_cache_wrapper():
                # Each call is traced: what a cache keeps is the trace of another place.
                callee = callee.__wrapped__
            case FunctionType() | type():
                return callee, args, kwargs
            case _:
                method = inspect.getattr_static(type(callee), "__call__", None)
                if not isinstance(method, (FunctionType, DeviceFunction)) or not callable(callee):
                    return callee, args, kwargs
                args, callee = (callee, *args), method


def of_run_time(*values: object) -> bool:
    """Whether `values` hold anything of run time: scalars, tiles, what else the language makes, or
    functions that lead to it."""
    seen: dict[int, object] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, (ScalarBase, TileValue, DeviceFunction)):
            return True
        if isinstance(value, (bool, int, float, str, DType, TensorType)) or id(value) in seen:
            continue
        seen[id(value)] = value
        if type(value).__module__.startswith("hexcute_core.frontend"):
            return True
        match value:
            case tuple() | list() | set() | frozenset():
                waiting += value
            case dict():
                waiting += [*value, *value.values()]
            case FunctionType():
                if leads_to_language(value):
                    return True
            case MethodType():
                waiting += [value.__func__, value.__self__]
            case functools.partial():
                waiting += [value.func, value.args, value.keywords]
            case functools._lru_cache_wrapper():
                waiting.append(value.__wrapped__)
            case type() | ModuleType():
                continue
            case _ if is_author_code(type(value)) or isinstance(value, SimpleNamespace):
                waiting += [held for _, held in attributes(value)]
    return False


def leads_to_language(fn: FunctionType) -> bool:
    """Whether a name in the code of `fn`, or of a function that it names, leads to the language."""
    seen: dict[int, object] = {}
    waiting: list[object] = [fn]
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen[id(here)] = here
        if isinstance(here, (DeviceFunction, ScalarBase, TileValue)):
            return True
        if isinstance(here, FunctionType):
            module = here.__module__ or ""
            if module.split(".", 1)[0] in COMPILER:
                if module not in _OF_NUMBERS:
                    return True
                continue
            if is_author_code(here) or here is fn:
                waiting += _named(here)
        elif isinstance(here, type):
            if is_author_code(here):
                waiting += [m for m in vars(here).values() if isinstance(m, FunctionType)]
        elif isinstance(here, (functools.partial, MethodType)):
            inner, args, kwargs = behind(here, (), {})
            waiting += [inner, *args, *kwargs.values()]
        elif isinstance(here, functools._lru_cache_wrapper):
            waiting.append(here.__wrapped__)
        elif isinstance(here, (tuple, list)):
            waiting += here
        elif isinstance(here, dict):
            waiting += here.values()
        elif type(here).__module__ == "hexcute_core.frontend.language.launch":
            return True
    return False


def _named(fn: FunctionType) -> Iterator[object]:
    """What the names in the code of `fn` stand for, and those attributes of modules it may read."""
    names = frozenset(_names(fn.__code__))
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    yield from fn.__defaults__ or ()
    for name in names & fn.__globals__.keys():
        value = fn.__globals__[name]
        if isinstance(value, ModuleType):
            if is_author_code(value) or value.__name__.split(".", 1)[0] in COMPILER:
                yield from (vars(value)[inner] for inner in names & vars(value).keys())
        else:
            yield value


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
