"""A kind of operation and a kind of statement with a body that nobody knows, in a copy of the
sources: who has to be told of them?

`python tests/throwaway.py` asks mypy and fails where a function of `ASKED` is not named: one that
passes over what it does not know. `test_throwaway.py` asks the copy at run time.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE = ROOT / "packages/hexcute_core/src/hexcute_core"
KINDS = '''
@dataclass(frozen=True)
class Throwaway:
    """dst[x] = something of src[x]."""

    id: int
    dst: TileRef
    src: TileRef
    span: SourceSpan


@dataclass(frozen=True)
class Again:
    """`body` once more where `cond` holds."""

    cond: Scalar
    body: tuple[Stmt, ...]
    span: SourceSpan


'''

ASKED = {
    "Throwaway": """
        lowering/lower.py:_rule
        lowering/lower.py:_scratch
        simulator/oracle/interpreter.py:_BlockRun._operation
        synthesis/proof/check.py:_operation
        synthesis/compute_cost.py:compute_clocks
        synthesis/explain/explanation.py:_operation
        synthesis/propagate.py:_rules
        synthesis/solution.py:subject
        synthesis/timeline.py:_Walk._needs
        tile/printer.py:_Printer.statement
        tile/targets.py:_moves
        tile/verify.py:_Checker.statement
        tile/visit.py:_own_scalars
        tile/visit.py:operands
        tile/visit.py:results
        tile/visit.py:with_operands
    """,
    "Again": """
        frontend/language/builder.py:Builder.emit
        frontend/laws/pending.py:_Flow.enter
        frontend/laws/role_laws.py:_enter
        lowering/arena.py:_filling
        lowering/arena.py:_within
        lowering/lower.py:_rule
        tile/teams.py:inner_team
        lowering/stores.py:Stores._inside
        lowering/stores.py:Stores.settled_by
        simulator/oracle/interpreter.py:_BlockRun._statement
        synthesis/graph.py:_enter
        synthesis/multicast.py:_enter
        synthesis/timeline.py:_Walk.statement
        tile/printer.py:_Printer.statement
        tile/remote.py:_enter
        tile/verify.py:_Checker.statement
        tile/visit.py:_around
        tile/visit.py:bodies
        tile/visit.py:scalars
        tile/visit.py:variables
    """,
}
"""The functions that make a difference between kinds, by the kind that they are asked about."""


def copied(folder: Path, told: bool = False, union: str = "TileOp") -> Path:
    """The sources with the two kinds in their unions, the operation in `union`; where `told`,
    tile/visit.py knows what they say of themselves, and nobody else does. Returns the root of the
    copy."""
    for sources in (ROOT / "packages").glob("*/src"):
        shutil.copytree(sources, folder / sources.relative_to(ROOT))
    shutil.copy(ROOT / "pyproject.toml", folder)
    tile = folder / CORE.relative_to(ROOT) / "tile"
    swap(tile / "ir.py", {
        "Computation: TypeAlias = ": f"{KINDS.lstrip()}Computation: TypeAlias = ",
        f"{union}: TypeAlias = ": f"{union}: TypeAlias = Throwaway | ",
        "Control: TypeAlias = ": "Control: TypeAlias = Again | ",
    })  # fmt: skip
    if told:
        swap(tile / "visit.py", {
            "CastTile()": "CastTile() | Throwaway()",
            "While()": "While() | Again()",
            "    TileOp,\n": "    TileOp,\n    Throwaway,\n    Again,\n",
        })  # fmt: skip
    return folder


def swap(file: Path, parts: dict[str, str]) -> None:
    """Each part of a file replaced by another; it has to be there."""
    text = file.read_text()
    for old, new in parts.items():
        assert old in text, f"{file.name} has no {old!r}"
        text = text.replace(old, new)
    file.write_text(text)


def asked(root: Path) -> dict[str, set[str]]:
    """The functions, as "folder/file.py:function", of which mypy says that they do not know a
    kind, by the name of the kind."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(root / "c")]
    command += [str(sources.relative_to(root)) for sources in sorted(root.glob("packages/*/src"))]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    found: dict[str, set[str]] = {kind: set() for kind in ASKED}
    for line in told.stdout.splitlines():
        match = re.match(r"(.+?\.py):(\d+): error: .*\"assert_never\" has incompatible type (.+)",
                         line)  # fmt: skip
        for kind in ASKED if match else ():
            if match is not None and re.search(rf"\b{kind}\b", match[3]):
                file = root / match[1]
                place = file.relative_to(root / CORE.relative_to(ROOT))
                found[kind].add(f"{place}:{function_at(file, int(match[2]))}")
    return found


def function_at(file: Path, line: int) -> str:
    """The function, with its class, that a line stands in."""
    names, body = [], ast.parse(file.read_text()).body
    while inner := [
        node
        for node in body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        and node.lineno <= line <= (node.end_lineno or 0)
    ]:
        names.append(inner[0].name)
        body = inner[0].body
    return ".".join(names)


def listed() -> set[str]:
    """The source files that CONTRIBUTING.md lists for a tile operation."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("### A tile operation\n")[2].partition("\n### ")[0]
    return {name for name in re.findall(r"`([\w/]+\.py)`", section) if (CORE / name).exists()}


def main() -> None:
    """Exits with what mypy did not name, or what it names that CONTRIBUTING.md does not list."""
    with tempfile.TemporaryDirectory() as folder:
        found = asked(copied(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        computes = asked(copied(Path(folder), union="Computation"))["Throwaway"]
    if unlisted := {place.partition(":")[0] for place in computes} - listed():
        sys.exit(f"CONTRIBUTING.md does not list {', '.join(sorted(unlisted))}")
    missing = [f"{p} of {kind}" for kind in ASKED for p in ASKED[kind].split()
               if p not in found[kind]]  # fmt: skip
    if missing:
        sys.exit("mypy does not ask " + "; ".join(missing))


if __name__ == "__main__":
    main()
