"""The lists of files in CONTRIBUTING.md: what they name exists, and what there is, they name.

Where a thing of a kind goes is traced by one of the kind: a word that only its files say.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ROOT / "packages/hexcute_core/src/hexcute_core"
KERNELS = ROOT / "packages/hexcute_kernels/src/hexcute_kernels"
BENCH = ROOT / "bench/src/hexcute_bench"
TRACED = {
    "A scalar function": (CORE, r"\berf\b"),
    "An element type": (CORE, r"\bf8e4m3\b"),
    "A GPU": (CORE, r"\"sm_86\""),
    "An instruction": (CORE, r"[\"' ]stmatrix"),
    "A finding of the simulator": (CORE, r"\"missing fence\""),
    "A swizzle cost": (CORE, r"synthesis\.conflicts\b|\bswizzle_wavefronts\b"),
    "A warning": (CORE, r"\bSpillWarning\b"),
    "An operator": (KERNELS, r"\bcausal_conv1d_update\b"),
    "A suite of the bench": (BENCH, r"\bfp8_grouped\b|\bFp8Grouped\w*"),
}
"""The section of a kind, where it is at home, and how files are found that one of it is in."""
ELSEWHERE = {
    "An element type": {
        # Measured, and written by the microbenchmarks; and how rows are found among these.
        "arch/timings_sm90.py", "arch/timings.py",
    },
    "An instruction": {
        # These say it in words, of a kind of access or of a feature.
        "arch/features.py", "synthesis/copies.py",
    },
    "A finding of the simulator": {
        # The rules that are broken: where they stand is said in words.
        "simulator/instructions/mbarrier.py", "simulator/instructions/wgmma.py",
        "simulator/memory/buffers.py", "simulator/memory/shared.py",
    },
    "An operator": {
        # Engines that call it, each by a table of its own.
        "integrations/transformers/mamba.py", "integrations/vllm/mamba.py",
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
    home, pattern = TRACED[kind]
    text = section(kind)
    listed, ends = named(text), tuple(re.findall(r"`(\w+\.py)`", text))
    files = [p for p in home.rglob("*.py") if re.search(pattern, p.read_text(encoding="utf-8"))]
    left = {path.relative_to(home).as_posix() for path in files} - ELSEWHERE.get(kind, set())
    assert files and [name for name in sorted(left) if not known(home / name, listed, ends)] == []


def known(path: Path, listed: set[str], ends: tuple[str, ...]) -> bool:
    """Whether a list names the file, from the root or the compiler's folder, a folder that it is
    in, or the end of its name."""
    roots = (root for root in (ROOT, CORE) if path.is_relative_to(root))
    names = {path.relative_to(root).as_posix() for root in roots}
    folders = {f"{parent}/" for name in names for parent in map(str, Path(name).parents)}
    return bool((names | folders) & listed) or path.name.endswith(ends)
