"""The lists of files in CONTRIBUTING.md: what they name exists, and what there is, they name.

Where a thing of a kind goes is traced by one of the kind: a word that only its files say.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ROOT / "packages/hexcute_core/src/hexcute_core"
TRACED = {
    "A scalar function": r"\berf\b",
    "An element type": r"\bf8e4m3\b",
    "A GPU": r"\"sm_86\"",
    "An instruction": r"[\"' ]stmatrix",
}
"""The section of a kind, and how files are found that one of the kind is in."""
ELSEWHERE = {
    "An element type": {
        # Measured, and written by the microbenchmarks; and how rows are found among these.
        "arch/timings_sm90.py", "arch/timings.py",
    },
    "An instruction": {
        # These say it in words, of a kind of access or of a feature.
        "arch/features.py", "synthesis/copies.py",
    },
}  # fmt: skip


def section(name: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition(f"### {name}\n")[2].partition("\n### ")[0]


def named(text: str) -> set[str]:
    """Files and folders in backticks, but for those of an operator's own folder."""
    found = set(re.findall(r"`([\w./]+(?:\.py|\.md|\.toml|/))`", text))
    return found - {"__init__.py", "configs.py", "operators.py"}


def test_the_files_that_it_names_exist() -> None:
    files = named((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(files) > 50
    assert [n for n in sorted(files) if not (ROOT / n).exists() and not (CORE / n).exists()] == []


@pytest.mark.parametrize("kind", TRACED)
def test_a_list_names_every_file_that_one_of_the_kind_is_in(kind: str) -> None:
    files = {
        path.relative_to(CORE).as_posix()
        for path in CORE.rglob("*.py")
        if re.search(TRACED[kind], path.read_text(encoding="utf-8"))
    }
    assert files and files - named(section(kind)) - ELSEWHERE.get(kind, set()) == set()
