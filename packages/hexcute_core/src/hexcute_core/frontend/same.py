"""Whether what a watch has found is still there, as one expression of Python: `module["name"] is
found and ...`. A loop over what was found would take several times as long, at every launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from types import CellType, FunctionType
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Names:
    """These names of a namespace, such as a module's."""

    names: tuple[str, ...]

    def __call__(self, namespace: Mapping[str, object]) -> list[object]:
        return [namespace[name] for name in self.names]


OWN = ("__code__", "__defaults__", "__kwdefaults__")


def own(fn: FunctionType) -> list[object]:
    """What a function has of its own and may be given anew: code, defaults, attributes."""
    return [*(getattr(fn, name) for name in OWN), *vars(fn).values()]


def contents(cells: Sequence[CellType]) -> list[object]:
    """What captured variables hold."""
    return [cell.cell_contents for cell in cells]


def items(mapping: Mapping[object, object]) -> list[object]:
    """The keys of a dict, in their order, and what it holds."""
    return [*mapping, *mapping.values()]


Check: TypeAlias = tuple[Callable[[Any], Sequence[object]], Any, tuple[object, ...]]
"""A reader, what it reads, and the objects it found: they are to be the same ones."""


def same(check: Check) -> bool:
    """Whether a reader finds the same objects again."""
    read, holder, found = check
    now = read(holder)
    return len(now) == len(found) and all(map(is_, now, found))


def comparison(
    checks: Sequence[Check], absent: Sequence[tuple[Mapping[str, object], set[str]]]
) -> Callable[[], bool]:
    """Whether all checks hold, and no namespace has one of the names that are `absent` from it.

    What it gives raises KeyError or ValueError for a name or a captured variable that is no more.
    """
    given: dict[str, object] = {"same": same}
    terms: list[str] = []

    def name(value: object) -> str:
        given[f"x{len(given)}"] = value
        return f"x{len(given) - 1}"

    for check in checks:
        read, holder, found = check
        if isinstance(read, Names):
            at = name(holder)
            places = [f"{at}[{key!r}]" for key in read.names]
        elif read is own and not vars(holder):
            at = name(holder)
            places = [f"{at}.{key}" for key in OWN]
            terms.append(f"not {at}.__dict__")
        elif read is contents:
            places = [f"{name(cell)}.cell_contents" for cell in holder]
        elif read is items and all(type(key) is str for key in holder):
            at = name(holder)
            places, found = [f"{at}[{key!r}]" for key in holder], found[len(holder) :]
            terms.append(f"[*{at}] == {[*holder]!r}")
        else:
            places = []
            terms.append(f"same({name(check)})")
        terms += [f"{place} is {name(value)}" for place, value in zip(places, found)]
    terms += [
        f"{name(frozenset(names))}.isdisjoint({name(namespace)})"
        for namespace, names in absent
        if names
    ]
    # As defaults, what is compared is as quick to reach as a local variable.
    text = f"def holds({', '.join(f'{key}={key}' for key in given)}):\n"
    text += f"    return {' and '.join(terms) or 'True'}\n"
    exec(compile(text, "<what a kernel was traced with>", "exec"), given)
    found_by: Callable[[], bool] = given["holds"]  # type: ignore[assignment]
    return found_by
