"""Watch: what the functions of a kernel can reach by name, so that a call can tell what changed.

Every name in the bytecode of a function, and every text in it, is looked up where it would be
found: among the function's globals and captured variables, in modules of the author's, in classes
of the author's. What is found that way is followed in turn. A change is another object under a
name, or another content of a list, dict, array or object.

What a function computes from elsewhere (files, the environment, names put together at run time) is
not seen here. That costs a stale result in this process at most: what goes to the disk is filed
under the program that was traced.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace

from hexcute_core.dtypes import DType, TensorType
from hexcute_core.frontend.functions.authors import is_author_code
from hexcute_core.frontend.functions.snapshot import attributes, is_array, snapshot
from hexcute_core.frontend.language.device import DeviceFunction
from hexcute_core.frontend.same import Check, Names, comparison, contents, items, own
from hexcute_core.scalar import ScalarBase

_FIXED = frozenset({bool, int, float, complex, str, bytes, type(None), range, DType, TensorType})
_CONTAINERS = (tuple, list, dict, set, frozenset)
# Code that names one of these may read any name of a module.
_OPEN = frozenset({
    "__dict__", "__import__", "attrgetter", "dir", "eval", "exec", "getattr", "getmembers",
    "globals", "import_module", "methodcaller", "vars",
})  # fmt: skip


class Watch:
    """What `roots`, functions and values, reach as it is now."""

    def __init__(self, *roots: object) -> None:
        # What exec ran in a dict of its own has none.
        modules = (r.__module__ or "" for r in roots if isinstance(r, FunctionType))
        self._package = next(modules, "").split(".", 1)[0]
        self._named: dict[int, tuple[Mapping[str, object], dict[str, object]]] = {}
        # Built-in names, which a global of that name would hide.
        self._absent: dict[int, tuple[Mapping[str, object], set[str]]] = {}
        self._cells: list[CellType] = []
        self._checks: list[Check] = []
        self._arrays: list[tuple[object, object]] = []
        # What code met so far speaks of; a module is asked for those names and no others.
        self._spoken: set[str] = set()
        self._modules: list[Mapping[str, object]] = []
        self._seen: dict[int, object] = {}
        self._waiting: list[object] = [*roots]
        while self._waiting:
            self._drain()
            for namespace in self._modules:
                self._members(namespace)
        self._checks += [
            (Names(tuple(names)), namespace, tuple(names.values()))
            for namespace, names in self._named.values()
        ]
        self._checks.append((contents, self._cells, tuple(contents(self._cells))))

    def holds(self) -> bool:
        """Whether all of it is still so."""
        try:
            if not self._compared():
                return False
        except (KeyError, ValueError):
            # A name or a captured variable that is no more.
            return False
        return not self._arrays or all(snapshot(array) == before for array, before in self._arrays)

    @functools.cached_property
    def _compared(self) -> Callable[[], bool]:
        return comparison(self._checks, [*self._absent.values()])

    def _drain(self) -> None:
        while self._waiting:
            value = self._waiting.pop()
            if self._is_new(value):
                # Held, or another object could take its id.
                self._seen[id(value)] = value
                self._follow(value)

    def _is_new(self, value: object) -> bool:
        return type(value) not in _FIXED and id(value) not in self._seen

    def _follow(self, value: object) -> None:
        wait = self._waiting.extend
        match value:
            case DeviceFunction():
                wait((value.fn,))
            case FunctionType():
                if is_author_code(value, self._package):
                    self._function(value)
            case MethodType():
                wait((value.__func__, value.__self__))
            case ModuleType():
                if is_author_code(value, self._package):
                    self._modules.append(vars(value))
                    self._members(vars(value))
            case type():
                for cls in value.__mro__:
                    if is_author_code(cls, self._package):
                        self._class(cls)
            case functools.partial():
                wait((value.func, value.args, value.keywords))
            case property():
                wait((value.fget, value.fset))
            case staticmethod() | classmethod():
                wait((value.__func__,))
            case functools.cached_property():
                wait((value.func,))
            case ScalarBase():
                return
            case _:
                self._object(value)

    def _object(self, value: object) -> None:
        wait = self._waiting.extend
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            # A function behind a cache or another decorator in C.
            wait((wrapped,))
            return
        if is_array(value):
            self._arrays.append((value, snapshot(value)))
            return
        plain = type(value) in _CONTAINERS
        if not plain and not self._is_readable(value):
            return
        if isinstance(value, dict):
            self._checks.append((items, value, tuple(items(value))))
        elif isinstance(value, (list, set)):
            self._checks.append((list, value, tuple(value)))
        if isinstance(value, _CONTAINERS):
            wait([*value, *(value.values() if isinstance(value, dict) else ())])
        if not plain:
            held = _attributes(value)
            self._checks.append((_attributes, value, tuple(held)))
            wait([*held, type(value)])

    def _is_readable(self, value: object) -> bool:
        kind = type(value)
        known = is_dataclass(kind) or isinstance(value, (SimpleNamespace, *_CONTAINERS))
        return known or is_author_code(kind, self._package)

    def _class(self, cls: type) -> None:
        namespace = vars(cls)
        for name in [*namespace]:
            if not name.startswith("__") or callable(namespace[name]):
                self._name(namespace, name)

    def _members(self, namespace: Mapping[str, object]) -> None:
        """The names of a module that some code speaks of, or all that may be read."""
        open_ended = not self._spoken.isdisjoint(_OPEN)
        for name in [*namespace] if open_ended else self._spoken & namespace.keys():
            if not name.startswith("__"):
                self._name(namespace, name)

    def _name(self, namespace: Mapping[str, object], name: str) -> None:
        self._named.setdefault(id(namespace), (namespace, {}))[1][name] = namespace[name]
        if self._is_new(namespace[name]):
            self._waiting.append(namespace[name])

    def _function(self, fn: FunctionType) -> None:
        names = frozenset(_names(fn.__code__))
        self._spoken |= names
        if names & _OPEN:
            self._modules.append(fn.__globals__)
        hidden = self._absent.setdefault(id(fn.__globals__), (fn.__globals__, set()))[1]
        package = fn.__globals__.get("__package__") or ""
        for name in names:
            if name in fn.__globals__:
                self._name(fn.__globals__, name)
                continue
            if name in vars(builtins):
                hidden.add(name)
            # It may be a module that the function imports, perhaps from its own package.
            self._waiting += [sys.modules.get(name), sys.modules.get(f"{package}.{name}")]
        for cell in fn.__closure__ or ():
            try:
                self._waiting.append(cell.cell_contents)
            except ValueError:
                continue
            self._cells.append(cell)
        self._checks.append((own, fn, tuple(own(fn))))
        self._waiting += [*(fn.__defaults__ or ()), fn.__kwdefaults__, *vars(fn).values()]


def _attributes(value: object) -> list[object]:
    return [held for _, held in attributes(value)]


def _names(code: CodeType) -> Iterator[str]:
    """What code speaks of: names of variables, attributes and modules, and texts."""
    yield from code.co_names
    for constant in code.co_consts:
        yield from _texts(constant)


def _texts(constant: object) -> Iterator[str]:
    match constant:
        case str():
            yield constant
        case tuple() | frozenset():
            for item in constant:
                yield from _texts(item)
        case CodeType():
            yield from _names(constant)
