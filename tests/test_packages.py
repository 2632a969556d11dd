"""The packages as installed: versions that agree, imports that are quick and load no more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = sorted(path.parent for path in (ROOT / "packages").glob("*/pyproject.toml"))
IMPORT_LIMIT_MS = {"cute_layout": 30, "hexcute_core": 300, "hexcute_kernels": 30}
TIMED_IMPORT = """
import sys, time
start = time.process_time()
import {package}
print((time.process_time() - start) * 1e3)
print(*sorted(name for name in sys.modules if "." not in name))
"""


def declared(folder: Path, key: str) -> str:
    """A string of the project table; Python 3.10 has no TOML reader."""
    text = (folder / "pyproject.toml").read_text()
    found = re.search(rf'^{key} = "([^"]+)"$', text, re.MULTILINE)
    assert found is not None, f"{folder.name}: no {key}"
    return found.group(1)


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_the_version_is_the_changelogs_newest(folder: Path) -> None:
    newest = re.search(r"^## (\S+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest.group(1) == declared(folder, "version")
    assert (folder / "README.md").read_text().startswith("# ")
    assert declared(folder, "name").replace("-", "_") == folder.name


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_each_package_runs_on_the_same_pythons_and_is_typed(folder: Path) -> None:
    assert declared(folder, "requires-python") == ">=3.10"
    assert (folder / "src" / folder.name / "py.typed").is_file()


@pytest.mark.parametrize("folder", [*PACKAGES, ROOT / "bench"], ids=lambda path: path.name)
def test_each_package_carries_and_declares_the_licence(folder: Path) -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert (folder / "LICENSE").read_text() == text
    project = (folder / "pyproject.toml").read_text()
    assert declared(folder, "license") == "Apache-2.0"
    assert '\nlicense-files = ["LICENSE"]\n' in project


def test_the_workspace_has_its_three_packages() -> None:
    names = [folder.name for folder in PACKAGES]
    assert names == ["cute_layout", "hexcute_core", "hexcute_kernels"]


def test_constraints_are_pins_without_an_address() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.match(r"^[A-Za-z0-9_.-]+==[0-9][^ ]*( ;.*)?$", pin)] == []
    assert not any("://" in line or line.startswith("-") for line in lines)


def timed_import(package: str, bytecode: Path) -> tuple[float, set[str]]:
    """Milliseconds of the processor for the import beyond the interpreter's start, and what is
    loaded after it. Modules are compiled once, into `bytecode`, as an installer does."""
    writes = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONPYCACHEPREFIX": str(bytecode)}
    done = subprocess.run(
        [sys.executable, "-c", TIMED_IMPORT.format(package=package)],
        env={**writes, **paths},
        capture_output=True,
        text=True,
        check=True,
    )
    took, loaded = done.stdout.splitlines()
    return float(took), set(loaded.split())


@pytest.mark.parametrize("package", IMPORT_LIMIT_MS)
def test_importing_is_quick_and_loads_nothing_costly(package: str, tmp_path: Path) -> None:
    runs = [timed_import(package, tmp_path) for _ in range(5)]
    loaded = runs[0][1]
    assert not loaded & {"hidet", "torch", "cuda", "triton", "hypothesis"}
    if package == "cute_layout":
        assert not loaded & {"numpy", "hexcute_core"}
    assert min(took for took, _ in runs) < IMPORT_LIMIT_MS[package]
