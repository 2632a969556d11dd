"""fingerprint: a hash of everything a trace can depend on besides its arguments.

It covers the kernel's text, the text of every user function it reaches by name, recursively, the
defaults of their parameters, and the values of the globals and captured variables they use.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import inspect
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from hexcute_core.dtypes import DType, TensorType
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.device import DeviceFunction
from hexcute_core.frontend.reach import is_user_code, reachable
from hexcute_core.frontend.signature import KernelDef
from hexcute_core.frontend.source import function_source
from hexcute_core.frontend.symbols import Symbol

_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def fingerprint(kernel: KernelDef) -> str:
    """A hex digest; equal digests mean equal traces for equal constants and promises."""
    digest = hashlib.sha256()
    walker = _Walker(kernel.fn)
    parts = [walker.text(kernel.fn)]
    parts += [f"param {p.name} {p.dtype} {getattr(p, 'extents', '')}" for p in kernel.params]
    for part in parts + walker.drain():
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class _Walker:
    """Describes values; functions and classes are numbered where met and described once."""

    def __init__(self, root: FunctionType) -> None:
        self._root = root
        self._numbers: dict[int, int] = {}
        self._waiting: list[FunctionType | type] = []
        self._open: set[int] = set()
        # Numbered objects must stay alive, or a new one could take an old one's id.
        self._kept: list[object] = []

    def drain(self) -> list[str]:
        """Descriptions of everything met, until nothing new is met."""
        parts: list[str] = []
        while self._waiting:
            met = self._waiting.pop(0)
            parts.append(self._class(met) if isinstance(met, type) else self.function(met))
        return parts

    def function(self, fn: FunctionType) -> str:
        """Text, defaults and outside names of a function."""
        try:
            text = function_source(fn).text
            names = [f"{name} = {self.text(value)}" for name, value in reachable(fn)]
        except FrontendError:
            code = fn.__code__
            text = f"{code.co_code.hex()} {code.co_consts!r} {code.co_names!r}"
            names = [
                f"{name} = {self.text(fn.__globals__[name])}"
                for name in code.co_names
                if name in fn.__globals__
            ]
        defaults = self.text((fn.__defaults__, fn.__kwdefaults__))
        return "\n".join([text, defaults, *names])

    def _class(self, cls: type) -> str:
        try:
            text = inspect.getsource(cls)
        except (OSError, TypeError):
            text = cls.__qualname__
        members = [
            f"{name} = {self.text(value)}"
            for name, value in sorted(vars(cls).items())
            if not (name.startswith("__") and name.endswith("__"))
            or isinstance(value, FunctionType)
        ]
        return "\n".join([text, *(self.text(base) for base in cls.__bases__), *members])

    def _number(self, value: FunctionType | type) -> str:
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._numbers)
            self._kept.append(value)
            self._waiting.append(value)
        return f"#{self._numbers[id(value)]}"

    def text(self, value: object) -> str:
        """One value, independent of addresses and of hash order."""
        match value:
            case DeviceFunction():
                return f"device {self._number(value.fn)}"
            case FunctionType() | type():
                if is_user_code(value, self._root):
                    return f"user {self._number(value)}"
                return f"{value.__module__}.{value.__qualname__} {_version(value.__module__)}"
            case ModuleType():
                return f"module {value.__name__} {_version(value.__name__)}"
            case BuiltinFunctionType():
                return f"builtin {value.__module__}.{value.__qualname__}"
            case DType():
                return f"dtype {value.name}"
            case Symbol():
                return repr(value)
            case enum.Enum():
                return f"enum {self.text(type(value))}.{value.name}"
        if isinstance(value, _ATOMS):
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._open:
            return "cycle"
        self._open.add(id(value))
        try:
            return self._compound(value)
        finally:
            self._open.discard(id(value))

    def _compound(self, value: object) -> str:
        kind = type(value).__qualname__
        match value:
            case tuple() | list():
                return f"{kind} [{', '.join(self.text(item) for item in value)}]"
            case set() | frozenset():
                return f"{kind} {{{', '.join(sorted(self.text(item) for item in value))}}}"
            case dict():
                items = (f"{self.text(k)}: {self.text(v)}" for k, v in value.items())
                return f"{kind} {{{', '.join(items)}}}"
            case range() | slice():
                return repr(value)
            case MethodType():
                return f"method {self.text(value.__func__)} of {self.text(value.__self__)}"
            case functools.partial():
                return f"partial {self.text((value.func, value.args, value.keywords))}"
            case TensorType():
                return f"tensor {self.text((value.dtype, value.extents))}"
        if dataclasses.is_dataclass(value):
            state = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
            return f"{self.text(type(value))} {self.text(state)}"
        state = dict(getattr(value, "__dict__", {}))
        for cls in type(value).__mro__:
            for slot in _slots(cls):
                if hasattr(value, slot):
                    state[slot] = getattr(value, slot)
        shown = repr(value)
        known = "" if " at 0x" in shown else shown
        return f"{self.text(type(value))} {self.text(state)} {known}"


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(s for s in slots if s != "__weakref__")


def _version(module: str | None) -> str:
    """The version of the package a library object comes from, where the package names it."""
    package = sys.modules.get((module or "").split(".", 1)[0])
    return str(getattr(package, "__version__", ""))
