"""Whoever makes a difference between kinds of statements refuses a kind that it does not know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import throwaway


def outcomes(root: Path) -> dict[str, str]:
    """What came of every call of `throwaway_calls.py` with the sources under `root`."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("throwaway_calls.py"))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, root.glob("packages/*/src")))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def passed_over(found: dict[str, str]) -> set[str]:
    """The calls that did not refuse their kind."""
    refused = "TypeError: a closed union met an unknown member"
    return {name for name, what in found.items() if not what.startswith(refused)}


def test_a_kind_that_is_not_known_is_refused_everywhere(tmp_path: Path) -> None:
    root = throwaway.copied(tmp_path, told=True)
    assert passed_over(outcomes(root)) == set()


HIDDEN = {
    "compute_cost.py": "compute_clocks op",
    "propagate.py": "rules op",
    "proof/check.py": "check op",
}


def test_a_default_that_hides_a_kind_is_noticed(tmp_path: Path) -> None:
    """With the errors taken away that end the matches of some files, their calls end in nothing."""
    root = throwaway.copied(tmp_path, told=True)
    for name in HIDDEN:
        file = root / "packages/hexcute_core/src/hexcute_core/synthesis" / name
        throwaway.swap(file, {"            assert_never(op)\n": "            return []\n"})
    assert set(HIDDEN.values()) <= passed_over(outcomes(root))


def test_a_new_tile_operation_takes_twelve_source_files() -> None:
    """Those that CONTRIBUTING.md lists, and one of its own in lowering; `python tests/throwaway.py`
    asks mypy whether it names any other."""
    assert len(throwaway.listed()) == 11
