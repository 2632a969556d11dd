"""`python tests/sanitizer FOLDER [TOOL...]`: the launches that the GPU tests made, each again under
memcheck, racecheck, synccheck and initcheck of compute-sanitizer, or those named.

    RECORD=FOLDER PYTHONPATH=tests/sanitizer:... pytest -p record -m gpu      keeps the launches

runs before, or at the same time. A launch runs in memory of its own (see replay.py), so that the
tools see our kernels and nothing of torch's, and memory ends where the tensor did. Workers, a
process each, take launches until none is left or the time is over; what has not run is said, and
the next call on the folder goes on from there. So does a call on another folder into whose
logs/TOOL the logs of this one were put: what ended by them does not run once more.

Launches of which a tool dropped records run once more, so that it drops none (see again.py).

What racecheck reports of programs that are right is told apart by `reasons.py`, from the machine
code that was launched; `patterns.cu` has such programs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from again import AGAIN, full, merged, prepare  # noqa: E402
from launches import Launch, head  # noqa: E402
from logs import Outcome, kinds, read  # noqa: E402
from reasons import Report, reasons  # noqa: E402
from replay import FEW, FINISHED  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
MOST_SHOWN = "1000000000"
_LAST_START = 10.0
_POLL = 0.3
_PATIENCE = 90.0
"""Seconds that one launch may take."""
_MOST_EMPTY = 3
"""Workers of a tool that may end without a launch before it is given up."""
_HAZARDS = {"NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS": "10000000"}


def command(tool: str, *arguments: str) -> list[str]:
    """One worker's process. Whatever is found is shown: what a limit hides looks like nothing, and
    a process that has come to it shows nothing of its later launches."""
    sanitizer = ["compute-sanitizer", "--tool", tool, "--show-backtrace", "no"]
    sanitizer += ["--error-exitcode", "0", "--print-limit", MOST_SHOWN, "--launch-timeout", "120"]
    return [*sanitizer, sys.executable, str(HERE / "replay.py"), *arguments]


def outcome_of(logs: Path) -> Outcome:
    """What all processes of a tool wrote so far."""
    found = Outcome()
    for log in sorted(logs.iterdir()):
        with log.open(errors="replace") as lines:
            found.add(read(lines))
    return found


def run(folder: Path, tools: list[str], workers: int, end: float) -> None:
    """Lets the workers run what is left until the time `end`, their output in FOLDER/logs/TOOL. A
    worker that ends with launches left is followed by another."""
    waiting, running, empty = list(tools), {}, Counter[str]()
    started = 0
    for tool in tools:
        claims, logs = folder / "claims" / tool, folder / "logs" / tool
        claims.mkdir(parents=True, exist_ok=True)
        logs.mkdir(parents=True, exist_ok=True)
        before = outcome_of(logs)
        for claim in claims.iterdir():
            claim.unlink()
        for key in before.ended | before.broken.keys():
            (claims / key).touch()
    while waiting or running:
        while waiting and len(running) < workers and time.time() < end - _LAST_START:
            tool, started = waiting[started % len(waiting)], started + 1
            log = folder / "logs" / tool / f"{int(end)}.{started}"
            arguments = (str(folder), str(folder / "claims" / tool), str(end))
            arguments += (FEW,) * (tool == "racecheck")
            with log.open("w") as out:
                process = subprocess.Popen(
                    command(tool, *arguments), stdout=out, stderr=subprocess.STDOUT,
                    env=os.environ | _HAZARDS, start_new_session=True,
                )  # fmt: skip
            running[process] = tool, log
        if not running:
            break
        time.sleep(_POLL)
        for process, (tool, log) in list(running.items()):
            text = log.read_text(errors="replace")
            if process.poll() is not None:
                del running[process]
                empty[tool] += "\nlaunch " not in text
                if tool in waiting and (FINISHED in text or empty[tool] >= _MOST_EMPTY):
                    waiting.remove(tool)
            elif time.time() > end or (
                text.rfind("\nlaunch ") > text.rfind("\nended ")
                and time.time() - log.stat().st_mtime > _PATIENCE
            ):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                del running[process]
                with log.open("a") as out:
                    out.write("\nstopped here\n")


def run_dropped(folder: Path, tools: list[str], workers: int, end: float) -> None:
    """Runs the launches once more of which a tool has dropped records so far."""
    for tool in sorted(set(tools) & set(AGAIN)):
        logs = folder / "logs" / tool
        dropped = full(outcome_of(logs)) if logs.exists() else set()
        if dropped:
            place = prepare(folder, tool, dropped, workers)
            run(place, [tool], workers, end)


@dataclass
class Recorded:
    """Launches by key, the keys of each test that ran, and what was not kept, and why."""

    launches: dict[str, Launch]
    tests: dict[str, set[str]]
    missing: list[tuple[str, str, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    not_run: int = 0


def recorded(folder: Path) -> Recorded:
    """What the plugin wrote."""
    out = Recorded({path.stem: head(path) for path in folder.glob("*.launch")}, {})
    for notes in sorted(folder.glob("tests.*")):
        for line in notes.read_text(encoding="utf-8").splitlines():
            test, outcome = line.split("\t")
            match outcome:
                case "skipped":
                    out.skipped += 1
                case _:
                    out.tests.setdefault(test, set())
                    out.failed += [test] if outcome == "failed" else []
    for notes in sorted(folder.glob("launches.*")):
        for line in notes.read_text(encoding="utf-8").splitlines():
            test, kernel, key = line.split("\t")
            if test in out.tests and key in out.launches:
                out.tests[test].add(key)
            elif key not in out.launches:
                out.missing.append((test, kernel, key))
    selected = (folder / "selected").read_text(encoding="utf-8").splitlines()
    out.not_run = len(selected) - len(out.tests) - out.skipped
    return out


def _report(key: str, lines: list[str], known: Recorded, folder: Path) -> Report:
    launch = known.launches[key]
    return Report(tuple(lines), launch.kernel, folder / f"{launch.image}.cubin")


def say(tool: str, found: Outcome, known: Recorded, folder: Path, workers: int) -> bool:
    """Prints what a tool found and writes it to FOLDER/TOOL.txt; whether all is in order."""
    of_known = [n for n, (key, _) in enumerate(found.reports) if key in known.launches]
    reports = [_report(*found.reports[n], known, folder) for n in of_known]
    whys = dict(zip(of_known, reasons(reports, workers), strict=True))
    with (folder / f"{tool}.txt").open("w", encoding="utf-8") as out:
        for number, (key, lines) in enumerate(found.reports):
            launch = known.launches.get(key)
            about = f"{key} {launch.image} {launch.test}" if launch is not None else "no launch"
            out.write(f"{about}\n" + "".join(f"    {line}\n" for line in lines))
            out.write(f"    {whys.get(number) or 'not explained'}\n")
    left = known.launches.keys() - found.ended - found.broken.keys()
    covered = sum(keys <= found.ended for keys in known.tests.values())
    print(
        f"{tool}: {len(found.ended)} of {len(known.launches)} launches ran, {len(found.broken)} "
        f"broke, {len(left)} are left; all launches of {covered} tests of {len(known.tests)}"
    )
    if found.cut:
        print(f"{len(found.cut)} of them with one cluster alone, behind another of their code")
    for key, why in found.broken.items():
        launch = known.launches.get(key)
        print(f"broken: {key} {launch.kernel if launch else ''} {why}")
    if found.alone:
        print(f"{found.alone} processes ran without the tool, and do not count")
    open_ones = [report for n, report in enumerate(found.reports) if whys.get(n) is None]
    print(f"{len(found.reports)} reports, {len(open_ones)} not explained")
    for kind, count in kinds(open_ones).items():
        print(f"{count} x {kind}")
    for why, count in Counter(why for why in whys.values() if why is not None).items():
        print(f"{count} explained, {why}")
    return not (open_ones or left or found.broken or found.alone)


def main() -> int:
    """1 where something is not explained, a test failed, or not all was kept and ran."""
    parser = argparse.ArgumentParser(prog="python tests/sanitizer", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the plugin `record` kept the launches")
    parser.add_argument("tools", nargs="*", choices=[*TOOLS, []], metavar="TOOL")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="when to stop")
    options = parser.parse_args()
    tools = list(options.tools or TOOLS)
    end = time.time() + options.seconds
    run_dropped(options.folder, tools, options.workers, end)
    run(options.folder, tools, options.workers, end)
    run_dropped(options.folder, tools, options.workers, end)
    known = recorded(options.folder)
    print(
        f"recorded: {len(known.tests)} tests, {len(known.launches)} launches that differ; "
        f"{known.skipped} tests skipped, {known.not_run} not run"
    )
    for test in known.failed:
        print(f"failed: {test}")
    for why, count in Counter(why for _, _, why in known.missing).items():
        print(f"{count} launches {why}")
    fine = not (known.failed or known.missing or known.not_run)
    for tool in tools:
        found = outcome_of(options.folder / "logs" / tool)
        if (second := options.folder / "again" / tool / "logs" / tool).exists():
            found = merged(found, outcome_of(second))
        fine &= say(tool, found, known, options.folder, options.workers)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
