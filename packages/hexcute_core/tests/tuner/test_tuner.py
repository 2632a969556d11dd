"""The tuner with a scripted clock and real processes: whatever a configuration does, it is the only
one lost; a run that ends early goes on where it was."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_bench import Scripted

from hexcute_core.tuner import Pool, Progress, Space, TunerError, tune
from hexcute_core.tuner.journal import Journal, path_of

GOOD = [{"us": 3}, {"us": 1}, {"us": 2}]


def asked(bench: Scripted) -> Counter[str]:
    """How often each question was asked, of which configuration."""
    lines = Path(bench.log).read_text().splitlines() if Path(bench.log).exists() else []
    return Counter(line.rsplit(" ", 1)[0].strip() for line in lines)


@pytest.fixture
def bench(tmp_path: Path) -> Scripted:
    return Scripted(str(tmp_path / "log"))


def run(bench: Scripted, configs: Any, tmp_path: Path, **how: Any) -> Any:
    how = {"processes": 1, "rounds": 3, "seconds": 30.0, **how}
    return tune(bench, configs, root=tmp_path / "cache", **how)


def test_the_fastest_of_the_best_few_wins(bench: Scripted, tmp_path: Path) -> None:
    slow_model = {"us": 0.5, "clocks": 9.0}
    report = run(bench, [*GOOD, slow_model, {"us": 2.5, "clocks": 1.5}], tmp_path, top=3)
    assert report.best.config == {"us": 1} and report.best.us == 1.0
    assert [o.config["us"] for o in report.outcomes] == [1, 2, 2.5, 3, 0.5]
    assert [o.status for o in report.outcomes] == ["timed"] * 3 + ["ranked"] * 2
    assert report.outcomes[0].samples == (1.0,) * 3
    counts = asked(bench)
    assert counts["clocks 3"] == 1 and counts["build 3"] == counts["prepare 0.5"] == 0
    assert counts["build 1"] == counts["prepare 1"] == 1 and counts["sample 1"] == 3


def test_samples_are_taken_in_turns_every_other_round_backwards(
    bench: Scripted, tmp_path: Path
) -> None:
    run(bench, GOOD, tmp_path, rounds=4)
    lines = [line.split() for line in Path(bench.log).read_text().splitlines()]
    order = [line[1] for line in lines if line[0] == "sample"]
    assert order == ["1", "2", "3", "3", "2", "1"] * 2


FAULTS = {
    "hang": ("hung", "no answer in 3 s"),
    "abort": ("died", "SIGABRT"),
    "exit": ("died", "exit status 3"),
    "raise": ("refused", "so it was written"),
    "wreck": ("died", "OSError: an illegal address"),
    "nothing": ("refused", "KeyError"),
}


@pytest.mark.parametrize(
    ("fault", "when"),
    [
        *((fault, "sample") for fault in FAULTS),
        *((fault, "prepare") for fault in ("hang", "abort", "wreck", "raise")),
        *((fault, "build") for fault in ("hang", "exit", "raise")),
        *((fault, "clocks") for fault in ("hang", "abort", "nothing")),
    ],
)
def test_a_fault_of_one_costs_that_one_only(
    bench: Scripted, tmp_path: Path, fault: str, when: str
) -> None:
    bad = {"us": 0.1, "does": f"{fault} {when}"}
    report = run(bench, [*GOOD, bad], tmp_path, seconds=3.0 if fault == "hang" else 30.0)
    assert [o.config["us"] for o in report.outcomes] == [1, 2, 3, 0.1]
    assert all(len(o.samples) == 3 for o in report.outcomes[:3])
    status, reason = FAULTS[fault]
    assert report.outcomes[-1].status == status and reason in report.outcomes[-1].reason
    # It is not tried again.
    before = asked(bench)
    assert run(bench, [*GOOD, bad], tmp_path) == report and asked(bench) == before


@pytest.mark.parametrize("fault", ["exit sample", "raise prepare", ""])
def test_several_gpus_find_what_one_finds(
    bench: Scripted, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hexcute_core.tuner.tuning.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    configs = [{"us": us} for us in (4, 2, 8, 3, 16)] + [{"us": 5, "does": fault}] * bool(fault)
    one = run(bench, configs, tmp_path, gpus=1)
    other = replace(bench, log=str(tmp_path / "both"), version="2", slower=1.25)
    both = run(other, configs, tmp_path, gpus=2)
    assert [o.config for o in both.outcomes] == [o.config for o in one.outcomes]
    assert [o.samples for o in both.outcomes] == [o.samples for o in one.outcomes]
    assert [o.status for o in both.outcomes] == [o.status for o in one.outcomes]
    # The reference is timed by both, the others by one of them: in turns, as they are ranked.
    by: dict[str, set[str]] = {}
    for line in Path(other.log).read_text().splitlines():
        what, us, *_, process = line.split()
        if what == "sample" and us != "5":
            by.setdefault(us, set()).add(process)
    # One that died was replaced.
    assert len(by["2"]) == 2 + (fault == "exit sample")
    if not fault:
        assert by["3"] == by["8"] and by["4"] == by["16"] and by["3"].isdisjoint(by["4"])


def test_more_gpus_than_there_are(bench: Scripted, tmp_path: Path) -> None:
    with pytest.raises(TunerError, match="gpus is 9, there are 1"):
        run(bench, GOOD, tmp_path, gpus=9)


def test_one_that_cannot_be_built_makes_room_for_the_next(bench: Scripted, tmp_path: Path) -> None:
    bad = {"us": 0.1, "does": "raise build"}
    report = run(bench, [bad, *GOOD], tmp_path, top=2, processes=2)
    assert [o.status for o in report.outcomes] == ["timed", "timed", "ranked", "refused"]
    assert [o.config["us"] for o in report.outcomes] == [1, 2, 3, 0.1]


def test_one_that_fails_when_it_is_timed_makes_no_room(bench: Scripted, tmp_path: Path) -> None:
    bad = [{"us": 0.1, "does": "raise prepare"}, {"us": 0.2, "does": "exit sample"}]
    report = run(bench, [*bad, *GOOD], tmp_path, top=4)
    assert [o.status for o in report.outcomes] == ["timed", "timed", "ranked", "refused", "died"]
    before = asked(bench)
    assert run(bench, [*bad, *GOOD], tmp_path, top=4) == report and asked(bench) == before


def test_where_nothing_can_be_timed_the_reasons_are_told(bench: Scripted, tmp_path: Path) -> None:
    bad = [{"us": n, "does": "raise prepare"} for n in range(2)]
    words = {"us": 7, "does": "words sample"}
    with pytest.raises(TunerError, match="no configuration could be timed") as caught:
        _ = run(bench, [*bad, words], tmp_path).best
    assert "us=1 does='raise prepare': so it was written" in caught.value.message
    assert "its microseconds are 'fast', expected a number" in caught.value.message


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Started in the background of a script, a process ignores interrupts, until it is told."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_goes_on_where_it_was(bench: Scripted, tmp_path: Path) -> None:
    stops = {"us": 1.5, "does": "interrupt sample"}
    with pytest.raises(KeyboardInterrupt):
        run(bench, [*GOOD, stops], tmp_path)
    before = asked(bench)
    assert before["sample 1"] == 1 and before["prepare 1"] == 1
    report = run(bench, GOOD, tmp_path)
    after = asked(bench) - before
    assert set(after) == {f"{what} {us}" for what in ("prepare", "sample") for us in (1, 2, 3)}
    assert after["sample 1"] == 3 and report.best.us == 1.0


def processes(bench: Scripted) -> set[str]:
    """Those that were asked anything."""
    return {line.split()[-1] for line in Path(bench.log).read_text().splitlines()}


def test_a_pool_keeps_processes_that_are_well_for_the_next_task(tmp_path: Path) -> None:
    first, second = (Scripted(str(tmp_path / name)) for name in ("a", "b"))
    with Pool() as pool:
        run(first, GOOD, tmp_path, pool=pool)
        run(replace(second, version="2"), GOOD, tmp_path, pool=pool)
        assert processes(first) == processes(second) and len(processes(first)) == 1
        exits = [*GOOD, {"us": 9, "does": "exit sample"}]
        third = Scripted(str(tmp_path / "c"), version="3")
        assert len(run(third, exits, tmp_path, pool=pool).best.samples) == 3
        assert len(processes(third)) == 2 and all(map(_runs, processes(third) - processes(first)))
    assert not any(map(_runs, processes(first) | processes(third)))


KILLED = """
import sys
from pathlib import Path
from scripted_bench import Scripted
from hexcute_core.tuner import tune
log, root = sys.argv[1:]
tune(Scripted(log, pause=0.05), [{"us": n} for n in (3, 1, 2)], processes=1, rounds=40,
     root=Path(root))
"""


def test_a_killed_run_leaves_no_process_and_goes_on_with_its_rounds(tmp_path: Path) -> None:
    bench, root = Scripted(str(tmp_path / "log"), pause=0.05), tmp_path / "cache"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", KILLED, bench.log, str(root)], env=env)
    path = path_of(bench.task, root)
    assert path is not None
    ends = time.monotonic() + 60
    while time.monotonic() < ends and not (path.exists() and b"round" in path.read_bytes()):
        time.sleep(0.02)
    # A second run of the same meanwhile is told of it.
    with pytest.raises(TunerError, match="another process tunes scripted for m=1"):
        tune(bench, GOOD, root=root)
    process.send_signal(signal.SIGKILL)
    process.wait()
    workers = processes(bench)
    ends = time.monotonic() + 10
    while time.monotonic() < ends and any(_runs(worker) for worker in workers):
        time.sleep(0.02)
    assert not any(_runs(worker) for worker in workers)
    rounds = path.read_bytes().count(b"round")
    with path.open("ab") as file:
        file.write(b'{"round": {"us=3": 3')
    before = asked(bench)
    report = tune(replace(bench, pause=0.0), GOOD, processes=1, rounds=40, root=root)
    after = asked(bench) - before
    assert after["sample 1"] == 40 - rounds and after["clocks 1"] == after["build 1"] == 0
    assert report.best.config == {"us": 1} and len(report.best.samples) == 40


def _runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_results_are_of_a_version_and_a_problem(bench: Scripted, tmp_path: Path) -> None:
    run(bench, GOOD, tmp_path)
    before = asked(bench)
    run(replace(bench, version="2"), GOOD, tmp_path)
    assert (asked(bench) - before)["sample 1"] == 3
    paths = sorted(path.parent for path in (tmp_path / "cache").rglob("*.jsonl"))
    assert paths == [tmp_path / "cache" / "tuned" / "no_gpu" / "scripted"] * 2


def test_more_rounds_and_more_configurations_go_on_or_begin_again(
    bench: Scripted, tmp_path: Path
) -> None:
    run(bench, GOOD, tmp_path, rounds=2)
    assert len(run(bench, GOOD, tmp_path, rounds=5).best.samples) == 5
    assert asked(bench)["sample 1"] == 5
    report = run(bench, [*GOOD, {"us": 0.5}], tmp_path, rounds=3)
    assert [len(o.samples) for o in report.outcomes] == [3] * 4 and report.best.us == 0.5
    assert run(bench, [*GOOD, {"us": 0.5}], tmp_path, rounds=3) == report


@pytest.mark.parametrize(
    "lines",
    [
        [b"x"], [b"[]"], [b'{"task": {}}'], [None, b"{}"], [None, b'{"config": 3, "built": true}'],
        [None, b'{"config": "c", "clocks": "fast"}'], [None, b'{"round": {"c": Infinity}}'],
        [None, b'{"round": {"c": null}}'], [None, b"[" * 9999],
    ],
)  # fmt: skip
def test_a_file_that_is_no_journal_is_refused(
    bench: Scripted, tmp_path: Path, lines: list[bytes | None]
) -> None:
    run(bench, GOOD, tmp_path)
    path = path_of(bench.task, tmp_path / "cache")
    assert path is not None
    head = path.read_bytes().splitlines()[0]
    path.write_bytes(b"".join((line or head) + b"\n" for line in lines))
    with pytest.raises(TunerError, match="no journal of this tuning run") as caught:
        run(bench, GOOD, tmp_path)
    assert caught.value.fix == "remove the file"
    path.unlink()
    assert run(bench, GOOD, tmp_path).best.us == 1.0


def test_a_journal_is_closed_where_it_cannot_be(bench: Scripted, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TunerError, match="results cannot be kept"):
        Journal(bench.task, tmp_path / "file" / "a.jsonl")
    with Journal(bench.task, None) as journal:
        journal.note(config="c", clocks=1.0)
        assert journal.known.clocks == {"c": 1.0}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_to_terminals_alone(bench: Scripted, tmp_path: Path) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    run(bench, GOOD, tmp_path, progress=Progress(terminal))
    shown = terminal.getvalue()
    for words in ("ranking  [########................] 1/3 us=", "checking", "3/3 us=3", "timing"):
        assert words in shown
    assert shown.endswith("\r\x1b[K")
    run(replace(bench, version="2"), GOOD, tmp_path, progress=Progress(pipe))
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"configs": []}, "there are no configurations"),
        ({"top": 0}, "top is 0, expected a number from 1 on"),
        ({"rounds": 1.5}, "rounds is 1.5"),
        ({"processes": True}, "processes is True"),
    ],
)
def test_what_cannot_be_tuned(
    bench: Scripted, tmp_path: Path, how: dict[str, Any], words: str
) -> None:
    with pytest.raises(TunerError, match=words):
        run(bench, how.pop("configs", GOOD), tmp_path, **how)


def test_a_bench_that_no_process_can_have(tmp_path: Path) -> None:
    class Local(Scripted):
        pass

    with pytest.raises(TunerError, match="cannot be handed to another process"):
        run(Local(str(tmp_path / "log")), GOOD, tmp_path)


def test_a_process_that_does_not_come_up(
    bench: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "__module__", "gone")
    monkeypatch.setitem(sys.modules, "gone", sys.modules["scripted_bench"])
    with pytest.raises(TunerError, match=r"does not come up: ModuleNotFoundError: .*'gone'"):
        run(bench, GOOD, tmp_path)


def test_a_space_is_what_its_constraints_leave() -> None:
    space = Space({"BM": (64, 128), "S": (2, 3)}, (lambda c: c["BM"] * c["S"] < 300,))
    assert list(space) == [{"BM": 64, "S": 2}, {"BM": 64, "S": 3}, {"BM": 128, "S": 2}]
    for constants, words in (
        ({"BM": ()}, "has no values for 'BM'"),
        ({"BM": "64"}, "has no values for 'BM'"),
        ({"BM": (64, 64)}, "has a value twice for 'BM'"),
    ):
        with pytest.raises(TunerError, match=words):
            Space(constants)


def test_journals_are_lines_of_json(bench: Scripted, tmp_path: Path) -> None:
    run(bench, GOOD, tmp_path)
    (path,) = (tmp_path / "cache").rglob("*.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert events[0]["task"]["bucket"] == "m=1" and {"config": "us=1", "clocks": 1.0} in events
    assert path.stat().st_mode & 0o777 == 0o600
