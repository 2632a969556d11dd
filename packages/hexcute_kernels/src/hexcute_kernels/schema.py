"""A schema's text -> its parameters: `matmul(Tensor a, Tensor b, float scale=1.0) -> Tensor`.

The text is torch's own language for schemas; what is read here is what a call needs before torch
is loaded: names, which parameters are tensors, which may be left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_core.errors import LaunchError

_SCHEMA = re.compile(r"^(\w+)\((.*)\) -> (.+)$", re.DOTALL)
_PARAMETER = re.compile(r"^(\w+)(?:\(\w+(!)?\))?(\?)? (\w+)(?:=(.+))?$")
_PYTHON: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
}
_KINDS = ("Tensor", *_PYTHON)


@dataclass(frozen=True)
class Parameter:
    """One parameter: its kind ("Tensor", "int", "float", "bool" or "str"), whether it may be None,
    its default where it has one, and whether calls write to it, `Tensor(a!)`."""

    name: str
    kind: str
    optional: bool
    has_default: bool
    default: Any = None
    written: bool = False


@dataclass(frozen=True)
class Schema:
    """An operator's name, parameters and number of results; `text` is what torch reads."""

    name: str
    parameters: tuple[Parameter, ...]
    results: int
    text: str

    def bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call in the parameters' order, defaults filled in.

        Raises LaunchError for one that is missing, given twice or unknown.
        """
        names = [p.name for p in self.parameters]
        expected = f"{self.name} takes {', '.join(names)}"
        if len(args) > len(names):
            raise LaunchError(f"{expected}; got {len(args)} arguments", fix="pass out= by name")
        given = dict(zip(names, args))
        for name, value in named.items():
            if name not in names:
                raise LaunchError(f"{expected}, out, variant and config; got {name!r}")
            if name in given:
                raise LaunchError(f"{self.name}: {name} is given twice")
            given[name] = value
        missing = [p.name for p in self.parameters if p.name not in given and not p.has_default]
        if missing:
            raise LaunchError(f"{expected}; {', '.join(missing)} not given")
        return tuple(given.get(p.name, p.default) for p in self.parameters)

    def check_numbers(self, args: Sequence[Any]) -> None:
        """That arguments which are no tensors are of their kinds. Raises LaunchError."""
        for parameter, value in zip(self.parameters, args, strict=True):
            kinds = _PYTHON.get(parameter.kind)
            if kinds is None or (value is None and parameter.optional):
                continue
            # A bool is an int to Python, and no number here.
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                or_none = " or None" if parameter.optional else ""
                raise LaunchError(
                    f"{self.name}: {parameter.name} is to be {parameter.kind}{or_none}, "
                    f"got {value!r}"
                )


def parse(text: str) -> Schema:
    """Reads a schema. Raises LaunchError for a text or a kind of parameter that is not known."""
    whole = _SCHEMA.match(text)
    if whole is None:
        raise LaunchError(f"expected a schema `name(Tensor a, ...) -> Tensor`, got {text!r}")
    name, inside, returns = whole.groups()
    parameters = tuple(_parameter(part.strip(), text) for part in inside.split(","))
    return Schema(name, parameters, returns.count("Tensor"), text)


def _parameter(text: str, schema: str) -> Parameter:
    found = _PARAMETER.match(text)
    if found is None or found.group(1) not in _KINDS:
        raise LaunchError(
            f"the parameter {text!r} of {schema!r} is not read here",
            fix=f"write one of {', '.join(_KINDS)}, each perhaps with ?, a name and a default",
        )
    kind, written, optional, name, default = found.groups()
    value = None if default is None else ast.literal_eval(default)
    return Parameter(
        name, kind, optional is not None, default is not None, value, written is not None
    )
