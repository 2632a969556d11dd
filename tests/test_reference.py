"""The reference has every public name of the three packages, each with a docstring of its own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hexcute_core import DType

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def api() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api", ROOT / "docs" / "api.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses find their module there.
    sys.modules["api"] = module
    spec.loader.exec_module(module)
    return module


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
