"""What takes a tensor says of which shape and type, and what gives a measure says in which unit."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from reference_pages import loaded

from hexcute_kernels.operator import Operator

SHAPE = r"(?:\([^()]*\)|\[[^\[\]]*\]|`\w+(?:\([^()]*\))?`|those of|(?:of|in) that shape|the same)"
TYPE = re.compile(
    r"\b(?:float(?:32|16|8_e4m3fn)|bfloat16|u?int(?:8|32|64)|e4m3|of these"
    r"|(?:their|its|\w+'s) type)\b"
)
REFERS = re.compile(r"`(\w+)")
UNIT = re.compile(
    r"\b(?:clocks?|seconds?|microseconds|us|ns|bytes?|bits?|elements?|wavefronts?|instructions?"
    r"|threads?|fraction|share|ratio|number|part)\b"
)


@pytest.fixture(scope="module")
def api() -> ModuleType:
    return loaded("api")


def entries(api: ModuleType) -> Iterator[tuple[str, Any]]:
    """Everything that is public, by module and name, with what is public of classes."""
    for _, modules in api.PAGES.values():
        for entry in (entry for module in modules for entry in api.public(module)):
            yield f"{entry.module}.{entry.name}", entry
            if isinstance(entry.value, type) and not issubclass(entry.value, BaseException):
                for method in api.methods(entry.value):
                    yield f"{entry.module}.{entry.name}.{method.name}", method


def tensors(value: object) -> list[str]:
    """The tensors of torch that it takes, by name."""
    if isinstance(value, Operator):
        return [p.name for p in value.schema.parameters if p.kind == "Tensor"]
    if not inspect.isfunction(value):
        return []
    given = inspect.signature(value).parameters.values()
    return [p.name for p in given if "torch.Tensor" in str(p.annotation)]


def unsaid(name: str, doc: str, known: dict[str, str]) -> str | None:
    """What a docstring does not say of this tensor, or what is named there does not: its shape
    stands behind its name, its type in the same paragraph."""
    texts = [p for p in doc.split("\n\n") if re.search(rf"\b{name}\b[^.]*{SHAPE}", p)]
    if not texts:
        return "shape"
    others = (known.get(other, "") for other in REFERS.findall(doc))
    return None if any(TYPE.search(said) for said in (*texts, *others)) else "type"


def test_every_tensor_has_a_shape_and_a_type(api: ModuleType) -> None:
    found = dict(entries(api))
    known = {entry.name: entry.doc for entry in found.values()}
    takes = {called: tensors(entry.value) for called, entry in found.items()}
    assert sum(map(len, takes.values())) > 100
    wrong = [
        (called, name, left)
        for called, names in takes.items()
        for name in names
        if (left := unsaid(name, found[called].doc, known))
    ]
    assert wrong == []


def test_every_operator_says_what_it_gives(api: ModuleType) -> None:
    operators = [entry for _, entry in entries(api) if isinstance(entry.value, Operator)]
    assert len(operators) > 20
    gives = re.compile(rf"\bGives\b[^.]*(?:{SHAPE}|shape)")
    assert [e.name for e in operators if not gives.search(e.doc)] == []


def measures(value: object) -> bool:
    """Whether it gives a number that may be of a unit, or has such fields."""
    if inspect.isfunction(value):
        return str(inspect.signature(value).return_annotation) in ("float", "float | None")
    if isinstance(value, type) and dataclasses.is_dataclass(value):
        public = (f for f in dataclasses.fields(value) if not f.name.startswith("_"))
        return any(str(f.type).startswith("float") for f in public)
    return False


def test_every_measure_has_a_unit(api: ModuleType) -> None:
    found = [(called, entry.doc) for called, entry in entries(api) if measures(entry.value)]
    assert found
    assert [called for called, doc in found if not UNIT.search(doc)] == []


def test_what_is_not_said_would_be_found() -> None:
    known = {"pack": "q: uint8 [..., k, n]"}
    assert unsaid("x", "Doubles x, of float16.", known) == "shape"
    assert unsaid("x", "x: (m, k), row-major.\n\nOf float16.", known) == "type"
    assert unsaid("x", "x: (m, k), float16.", known) is None
    assert unsaid("w", "w: what `pack` gives.", known) is None
