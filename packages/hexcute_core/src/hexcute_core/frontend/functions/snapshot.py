"""snapshot(x) == snapshot(y) only where a trace cannot tell x from y.

`==` of Python is too coarse for that: 1, True and 1.0 are equal, as are 0.0 and -0.0, and an
object says what it likes. Numbers count by type and bits, arrays by every element, containers and
objects of the author by all they hold; functions, classes, modules and objects of libraries by
which of them they are.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from hexcute_core.dtypes import DType
from hexcute_core.frontend.functions.authors import is_author_code

_ATOMS = frozenset({bool, int, str, bytes, type(None), type(Ellipsis), range, DType})
_WHICH = (type, FunctionType, BuiltinFunctionType, ModuleType, enum.Enum)


class Same:
    """Equal to itself alone, by which object it holds; holding it keeps its identity its own."""

    __slots__ = ("held",)

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def snapshot(value: object) -> object:
    """`value` as it is now, as something that hashes."""
    kind = type(value)
    return (kind, value) if kind in _ATOMS else _shot(value, ())


def _shot(value: object, around: tuple[int, ...]) -> object:
    kind = type(value)
    if kind in _ATOMS:
        return (kind, value)
    if isinstance(value, _WHICH):
        return Same(value)
    if id(value) in around:
        return ("again", len(around) - around.index(id(value)))
    inside = (*around, id(value))

    def each(items: object) -> tuple[object, ...]:
        return tuple(_shot(item, inside) for item in items)  # type: ignore[attr-defined]

    match value:
        case _ if is_array(value):
            return _array(value, inside)
        case float():
            # A subclass may hold more than its number.
            return (kind, float(value).hex(), *_state(value, inside))
        case tuple() | list():
            return (kind, each(value), *_state(value, inside))
        case set() | frozenset():
            return (kind, frozenset(each(value)), *_state(value, inside))
        case dict():
            # In order: a trace that iterates sees it.
            return (kind, each(value), each(value.values()), *_state(value, inside))
        case MethodType():
            return (kind, Same(value.__func__), _shot(value.__self__, inside))
        case functools.partial():
            return (kind, each((value.func, value.args, value.keywords)))
        case int() | str() | bytes() | complex():
            return (kind, repr(value), *_state(value, inside))
        case slice():
            return (kind, each((value.start, value.stop, value.step)))
    if has_state(value):
        return (kind, *_state(value, inside))
    # What a library's object depends on is the library's to know.
    return Same(value)


def has_state(value: object) -> bool:
    """Whether `value` is an object that is what its attributes are."""
    kind = type(value)
    if isinstance(value, _WHICH):
        return False
    return dataclasses.is_dataclass(kind) or kind is SimpleNamespace or is_author_code(kind)


def is_array(value: object) -> bool:
    """Whether `value` is an array or a scalar of numpy's, which importing us does not load."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _array(value: Any, inside: tuple[int, ...]) -> object:
    mask = getattr(value, "mask", None)
    if mask is not None:
        # A masked array is its numbers and its mask; what is masked is filled to be written down.
        return (type(value), _array(value.data, inside), mask.tobytes())
    held = value.tobytes()
    if value.dtype.hasobject:
        held = tuple(_shot(item, inside) for item in value.ravel().tolist())
    return (type(value), value.dtype.str, value.shape, held)


def _state(value: object, inside: tuple[int, ...]) -> tuple[object, ...]:
    return tuple((name, _shot(held, inside)) for name, held in attributes(value))


def attributes(value: object) -> Iterator[tuple[str, object]]:
    """What an object holds by name, in its dictionary and its slots."""
    yield from dict(getattr(value, "__dict__", {})).items()
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__weakref__", "__dict__") and hasattr(value, slot):
                yield slot, getattr(value, slot)
