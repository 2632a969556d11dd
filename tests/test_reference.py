"""The reference has every public name of the three packages, each with a docstring of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from reference_pages import loaded

from hexcute_core import DType
from hexcute_core.arch import arch
from hexcute_core.arch.registry import names


@pytest.fixture(scope="module")
def api() -> ModuleType:
    return loaded("api")


@pytest.fixture(scope="module")
def instructions() -> ModuleType:
    return loaded("instructions")


@pytest.mark.parametrize("name", ["cute_layout", "hexcute_core", "hexcute_kernels"])
def test_every_public_name_is_described(api: ModuleType, name: str) -> None:
    title, modules = api.PAGES[name]
    text = api.page(title, modules)
    assert text.startswith(f"# {name}: ")
    for entry in (entry for module in modules for entry in api.public(module)):
        if isinstance(entry.value, DType):
            assert f"| `{entry.name}` | {entry.value.bits} | {entry.value.kind} |" in text
            continue
        assert f"### `{entry.name}`\n" in text
        assert len(entry.doc.split()) > 2, f"{entry.module}.{entry.name} has no docstring"


def test_every_instruction_of_every_gpu_has_a_row(instructions: ModuleType) -> None:
    text = instructions.page()
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [*names(), "Sources"]
    for part, name in zip(text.split("\n## ")[1:], names()):
        table = arch(name)
        rows = [line for line in part.splitlines() if line.startswith("|") and "---" not in line]
        heads = sum(bool(kind) for kind in (table.copies, table.mmas, table.wgmmas))
        assert len(rows) == len(table.copies) + len(table.mmas) + len(table.wgmmas) + heads
        assert all(f"`{row.name}`" in part for row in (*table.copies, *table.mmas))
        assert ("TMA: " in part) == (table.bulk is not None)


def test_every_family_of_kernels_has_a_section(api: ModuleType) -> None:
    from hexcute_kernels import FAMILIES

    assert set(FAMILIES.values()) == set(api.FAMILIES)
    described = {entry.name for module in api.KERNELS for entry in api.public(module)}
    assert set(FAMILIES) <= described


def test_a_call_shows_types_defaults_and_what_is_public_of_a_class(api: ModuleType) -> None:
    text = api.page(*api.PAGES["hexcute_kernels"])
    assert "matmul(a: Tensor, b: Tensor, *, out=None, variant=None, config=None)" in text
    assert "activation: str | None = None" in text
    core = api.page(*api.PAGES["hexcute_core"])
    assert "#### `CompiledKernel.simulate`" in core and "_request" not in core


@pytest.mark.parametrize("name", ["cute_layout", "hexcute_core", "hexcute_kernels"])
def test_parameters_and_errors_are_told_of(api: ModuleType, name: str) -> None:
    """Each parameter by its name, or in a call that is shown, or by another entry that is named."""
    entries = dict(described(api, name))
    found = ((called, untold(e, entries, (called,))) for called, e in entries.items())
    wrong = {called: left for called, left in found if left}
    assert not wrong
    text = api.page(*api.PAGES[name])
    for entry in entries.values():
        for error in entry.raises:
            assert f"`{error}`" in text


def test_a_parameter_that_nobody_speaks_of_would_be_found(api: ModuleType) -> None:
    def scaled(x: float, factor: float) -> float:
        """Another number than `x`."""
        if factor < 0:
            raise ValueError(factor)
        return x * factor

    entry = api.Entry(__name__, "scaled", scaled)
    assert entry.parameters == ("x", "factor") and entry.raises == ("ValueError",)
    assert untold(entry, {}, ()) == {"factor"}


def untold(entry: Any, entries: dict[str, Any], seen: tuple[str, ...]) -> set[str]:
    left = {p for p in entry.parameters if not re.search(rf"\b{re.escape(p)}\b", entry.doc)}
    if not left or f"{entry.name}(" in entry.doc:
        return set()
    others = [n for n in re.findall(r"`(?:hx\.)?([\w.]+)`", entry.doc) if n in entries]
    found = (
        untold(entries[n], entries, (*seen, n))
        for n in others
        if n not in seen and left <= set(entries[n].parameters)
    )
    return next(found, left)


def described(api: ModuleType, name: str) -> Iterator[tuple[str, Any]]:
    """The entries of a page that have a docstring, by how they are called there."""
    for entry in (entry for module in api.PAGES[name][1] for entry in api.public(module)):
        if not isinstance(entry.value, DType):
            yield entry.name, entry
        if isinstance(entry.value, type) and not issubclass(entry.value, BaseException):
            for method in api.methods(entry.value):
                yield f"{entry.name}.{method.name}", method
