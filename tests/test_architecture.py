"""ARCHITECTURE.md has a table of every folder with more than ten files, and names what exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
SECTION = "## The files of every large folder\n"
LARGE = 10
"""Files above which a folder has a table."""
TESTS = ROOT / "packages/hexcute_core/tests"


def job(file: Path) -> str:
    """The first sentence of a module's docstring, which says its job; a formula below it is not
    part of it."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    first = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z\d`)\]\"'])\.(?= [A-Z`])", first)[0]
    return sentence.rstrip(".:").replace("|", "\\|")


def large_folders() -> dict[str, list[Path]]:
    """The source folders with more than ten files, with those files."""
    found: dict[str, list[Path]] = {}
    for sources in (*ROOT.glob("packages/*/src"), ROOT / "bench/src"):
        for file in sorted(sources.rglob("*.py")):
            found.setdefault(file.parent.relative_to(ROOT).as_posix(), []).append(file)
    return {folder: files for folder, files in sorted(found.items()) if len(files) > LARGE}


def tables() -> str:
    parts = [SECTION]
    for folder, files in large_folders().items():
        package, _, inner = folder.partition("/src/")
        shown = inner if package != "bench" else folder
        rows = [f"| `{file.name}` | {job(file)} |" for file in files if file.stem != "__init__"]
        parts.append("\n".join((f"\n### `{shown}/`\n", "| file | does |", "|---|---|", *rows, "")))
    return "".join(parts)


def listed(tables_of_files: str) -> list[str]:
    """Folders and files, in order, without what is said of them."""
    return re.findall(r"^(?:### |\| )`[^`]*`", tables_of_files, re.MULTILINE)


def test_the_tables_of_files_are_the_tree(update_goldens: bool) -> None:
    """`--update-goldens` writes them: a row is a file and the first sentence of its docstring."""
    before, _, now = PAGE.read_text(encoding="utf-8").partition(SECTION)
    if update_goldens and SECTION + now != tables():
        PAGE.write_text(before + tables(), encoding="utf-8")
        return
    assert listed(now) == listed(tables()), "--update-goldens writes the tables"


def test_the_files_that_the_page_names_exist() -> None:
    """Files are named by their path, or by the end of it; those with a star stand for several."""
    text = PAGE.read_text(encoding="utf-8").partition(SECTION)[0]
    named = set(re.findall(r"`([\w./*]+\.(?:py|md|txt))`", text))
    tree = [p.relative_to(ROOT) for folder in ("packages", "bench", "tests", "docs")
            for p in (ROOT / folder).rglob("*.*")]  # fmt: skip
    known = {path.parts[-n:] for path in tree for n in range(1, len(path.parts) + 1)}
    missing = [name for name in sorted(named) if "*" not in name
               and tuple(name.split("/")) not in known]  # fmt: skip
    assert len(named) > 40 and missing == []


def test_every_folder_of_sources_says_what_it_is_for() -> None:
    sources = list(ROOT.glob("packages/*/src/**/*.py"))
    folders = {file.parent for file in sources}
    assert [f for f in sorted(folders) if not job(f / "__init__.py")] == []


@pytest.mark.parametrize("kind", ["test", "helper"])
def test_tests_of_the_compiler_stand_in_folders_by_stage(kind: str) -> None:
    """A test stands with its stage, or in `whole`; what several tests use stands in `support`."""
    if kind == "test":
        assert [p.name for p in TESTS.glob("*.py")] == ["conftest.py"]
        assert not list((TESTS / "support").glob("test_*.py"))
        return
    apart = {"support", "attack", "random_kernels"}
    stages = [p for p in TESTS.iterdir() if p.is_dir() and p.name not in apart]
    assert [f for p in stages for f in p.glob("*.py") if not f.name.startswith("test_")] == []
