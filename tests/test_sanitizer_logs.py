"""What the runner of compute-sanitizer reads out of a log, and what makes it fail."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "sanitizer"))

from launches import Buffer, Launch, Value, write
from logs import Outcome, kinds, read

LOG = """========= COMPUTE-SANITIZER

launch a1

ended a1

launch b2
========= Error: Race reported between Read access at k+0x13e0
=========     and Write access at k+0xa30 [1792 hazards]
=========     and Write access at k+0xa40 [1792 hazards]
=========
========= Error: Race reported between Read access at k+0x14e0
=========     and Write access at k+0xa30 [8 hazards]

ended b2

launch c3
========= Invalid __global__ read of size 4 bytes
=========     at k+0x20

broken c3: cuCtxSynchronize gave 719
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
========= ERROR SUMMARY: 0 errors
"""


def test_launches_and_reports_of_a_log() -> None:
    outcome = read(LOG.splitlines(keepends=True))
    assert outcome.ended == {"a1", "b2"}
    assert outcome.broken == {"c3": "cuCtxSynchronize gave 719"}
    race = "Error: Race reported between Read access at k"
    assert outcome.reports == [
        ("b2", [f"{race}+0x13e0", "and Write access at k+0xa30 [1792 hazards]",
                "and Write access at k+0xa40 [1792 hazards]"]),
        ("b2", [f"{race}+0x14e0", "and Write access at k+0xa30 [8 hazards]"]),
        ("c3", ["Invalid __global__ read of size 4 bytes", "at k+0x20"]),
    ]  # fmt: skip
    assert kinds(outcome.reports) == {race: 2, "Invalid __global__ read of size 4 bytes": 1}


def test_a_launch_in_which_its_process_ended_is_broken_but_not_one_stopped_for_time() -> None:
    begun = LOG[: LOG.index("ended b2")]
    assert read(begun.splitlines()).broken == {"b2": "its process ended"}
    assert read([*begun.splitlines(), "stopped here"]).broken == {}


def test_a_process_that_the_tool_never_saw() -> None:
    alone = "========= Error: No attachable process found. tool timed-out.\n"
    outcome = read((alone + LOG).splitlines(keepends=True))
    assert (outcome.ended, outcome.reports, outcome.alone) == (set(), [], 1)
    outcome.add(outcome)
    assert outcome.alone == 2


def runner() -> Any:
    place = Path(__file__).parent / "sanitizer" / "__main__.py"
    spec = importlib.util.spec_from_file_location("sanitizer_runner", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


LAUNCH = Launch(
    "k", "digest", "00" * 28, ("", 0), (Value("00" * 8, 0),), (Buffer(4, ((0, 4),)),), "t"
)
TOOL = """#!{python}
import pathlib, sys
at = next(i for i, a in enumerate(sys.argv) if a.endswith("replay.py"))
folder, claims = (pathlib.Path(a) for a in sys.argv[at + 1 : at + 3])
print("========= COMPUTE-SANITIZER")
for path in sorted(folder.glob("*.launch")):
    try:
        (claims / path.stem).touch(exist_ok=False)
    except FileExistsError:
        continue
    print(f"\\nlaunch {{path.stem}}")
    {during}
    print(f"\\nended {{path.stem}}")
print("\\nno launch is left for this worker")
"""


def kept(place: Path) -> Any:
    """The runner, and beside it two launches of a test."""
    folder = place / "kept"
    folder.mkdir()
    for key in ("a1", "b2"):
        write(folder / f"{key}.launch", LAUNCH, [b"1234"])
    (folder / "selected").write_text("t\n")
    (folder / "tests.main").write_text("t\tpassed\n")
    (folder / "launches.main").write_text("t\tk\ta1\nt\tk\tb2\n")
    return runner()


def tool(place: Path, during: str, monkeypatch: pytest.MonkeyPatch, main: Any) -> None:
    """A compute-sanitizer that does this in each launch."""
    program = place / "compute-sanitizer"
    program.write_text(TOOL.format(python=sys.executable, during=during))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(place), prepend=":")
    monkeypatch.setattr(main, "_LAST_START", 0.5)
    monkeypatch.setattr(main, "_POLL", 0.05)


@pytest.mark.parametrize(
    ("during", "said", "fine"),
    [
        ("pass", "2 of 2 launches ran, 0 broke, 0 are left; all launches of 1 tests of 1", True),
        ("print('========= Error: Race reported')", "2 reports, 2 not explained", False),
        ("if path.stem == 'a1': sys.exit(3)", "1 of 2 launches ran, 1 broke, 0 are left", False),
        ("import time; path.stem == 'b2' and time.sleep(60)", "1 of 2 launches ran, 0 broke, 1 are",
         False),
    ],
)  # fmt: skip
def test_a_run_fails_by_what_is_reported_broken_or_left(
    during: str, said: str, fine: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    main, folder = kept(tmp_path), tmp_path / "kept"
    tool(tmp_path, during, monkeypatch, main)
    arguments = ["", str(folder), "racecheck", "--workers", "1", "--seconds", "1.5"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert main.main() == (0 if fine else 1)
    assert said in capsys.readouterr().out
    assert kept_on(folder, main) == ("time" not in during)


FULL = "print('========= Warning: Error buffer overflow. Some records have been dropped')"


@pytest.mark.parametrize(
    ("second", "fine"), [("pass", True), (FULL, False), ("print('========= Error: race')", False)]
)
def test_a_launch_whose_records_were_dropped_runs_again(
    second: str, fine: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, folder = kept(tmp_path), tmp_path / "kept"
    (folder / "digest.cubin").write_bytes(b"code")
    during = f"exec({second!r} if folder.parent.name == 'again' else {FULL!r})"
    tool(tmp_path, during, monkeypatch, main)
    arguments = ["", str(folder), "racecheck", "--workers", "1", "--seconds", "6"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert main.main() == (0 if fine else 1)
    assert sorted(p.stem for p in (folder / "again" / "racecheck").glob("*.launch")) == ["a1", "b2"]


def kept_on(folder: Path, main: Any) -> bool:
    """Whether another run has nothing to do."""
    found: Outcome = main.outcome_of(folder / "logs" / "racecheck")
    return len(found.ended) + len(found.broken) == 2


def test_a_test_that_failed_or_did_not_run_or_was_not_kept_is_said(tmp_path: Path) -> None:
    write(tmp_path / "a1.launch", LAUNCH, [b"1234"])
    (tmp_path / "selected").write_text("t\nu\nv\nw\nx\n")
    (tmp_path / "tests.gw0").write_text("t\tpassed\nu\tskipped\n")
    (tmp_path / "tests.gw1").write_text("v\tfailed\nw\tpassed\n")
    (tmp_path / "launches.gw0").write_text("t\tk\ta1\n")
    (tmp_path / "launches.gw1").write_text("w\tk\tnot kept: captured\n")
    known = runner().recorded(tmp_path)
    assert known.tests == {"t": {"a1"}, "v": set(), "w": set()}
    assert known.missing == [("w", "k", "not kept: captured")]
    assert (known.failed, known.skipped, known.not_run) == (["v"], 1, 1)
