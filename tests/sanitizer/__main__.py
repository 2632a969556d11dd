"""`python tests/sanitizer memcheck|racecheck|synccheck|initcheck --out FILE`: every GPU test under
a tool of compute-sanitizer.

Tests are dealt into shards, and workers, a process each, take shards from one queue until none is
left or the time is over; what has not run is said, and a later run with the same `--done` goes on
from there. Kernels come from the cache where it has them, so a run of the tests beforehand makes it
much shorter.

What racecheck reports of programs that are right is told apart by `reasons.py`, from the machine
code that the tests launched; `patterns.cu` has such programs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from logs import Outcome, kinds, read  # noqa: E402
from reasons import explained, launched  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
_LAST_START = 25.0
_POLL = 0.3


def command(tool: str) -> list[str]:
    """One worker's process. Errors of the driver's calls that the runtime handles, as a launch of
    no blocks, are no reports. Whatever is found is shown: what a limit hides looks like nothing."""
    sanitizer = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no"]
    sanitizer += ["--error-exitcode", "0", "--print-limit", "100000", "--launch-timeout", "120"]
    tests = ["-m", "pytest", "-v", "-p", "shard", "-p", "no:cacheprovider", "-n", "0"]
    return [*sanitizer, sys.executable, *tests, "-m", "gpu and not fuzz"]


def images(logs: Path) -> Path:
    """Where the machine code of what ran is kept."""
    folder = logs / "images"
    folder.mkdir(exist_ok=True)
    return folder


def run(options: argparse.Namespace, shards: int, logs: Path) -> list[int]:
    """Runs all shards, their output in `logs`; which of them did not end in time."""
    end, workers = time.monotonic() + options.seconds, options.workers
    waiting, running, ended = list(range(shards)), {}, set()
    while waiting or running:
        while waiting and len(running) < workers and time.monotonic() < end - _LAST_START:
            shard = waiting.pop(0)
            env = dict(os.environ, SHARD=f"{shard}/{shards}", PYTHONUNBUFFERED="1")
            env |= {"CUDA_VISIBLE_DEVICES": str(shard % options.gpus), "DONE": str(options.done)}
            env["IMAGES"] = str(images(logs))
            env["PYTHONPATH"] = f"{HERE}:{env.get('PYTHONPATH', '')}"
            with (logs / str(shard)).open("w") as log:
                running[shard] = subprocess.Popen(
                    command(options.tool), stdout=log, stderr=subprocess.STDOUT, env=env,
                    start_new_session=True,
                )  # fmt: skip
        if not running:
            break
        time.sleep(_POLL)
        for shard, process in list(running.items()):
            if process.poll() is not None:
                ended.add(shard)
                del running[shard]
            elif time.monotonic() > end:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                del running[shard]
    return [shard for shard in range(shards) if shard not in ended]


def main() -> int:
    """Prints how many tests ran and what was reported; 1 where something is not explained, a test
    failed, or not all ran."""
    parser = argparse.ArgumentParser(prog="python tests/sanitizer", description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("--out", type=Path, required=True, help="the reports, test by test")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shards", type=int, help="else two per worker")
    parser.add_argument("--seconds", type=float, default=3600.0, help="when to stop")
    parser.add_argument("--gpus", type=int, default=1, help="shards go to them in turn")
    parser.add_argument(
        "--done", type=Path, default=Path(os.devnull),
        help="names of tests, one a line, that are left out; what ends is added",
    )  # fmt: skip
    parser.add_argument("--logs", type=Path, help="a folder to keep logs and machine code in")
    options = parser.parse_args()
    shards = options.shards or 2 * options.workers
    options.done.open("a").close()
    outcome = Outcome()
    whys: list[str | None] = []
    with tempfile.TemporaryDirectory() as folder:
        logs = options.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        left = run(options, shards, logs)
        for log in sorted(path for path in logs.iterdir() if path.is_file()):
            with log.open(errors="replace") as lines:
                outcome.add(read(lines))
        known = launched(images(logs))
        whys = [explained(test, lines, known) for test, lines in outcome.reports]
    with options.out.open("w", encoding="utf-8") as out:
        for (test, lines), why in zip(outcome.reports, whys):
            out.write(f"{test}\n" + "".join(f"    {line}\n" for line in lines))
            out.write(f"    {why or 'not explained'}\n")
    with options.done.open("a", encoding="utf-8") as done:
        done.writelines(f"{test}\n" for names in outcome.tests.values() for test in names)
    counts = ", ".join(f"{len(names)} {verdict}" for verdict, names in outcome.tests.items())
    print(f"{options.tool}: {counts}; {len(left)} of {shards} shards did not end")
    if outcome.alone:
        print(f"{outcome.alone} processes ran without the tool, and do not count")
    for test in outcome.tests.get("failed", []):
        print(f"failed: {test}")
    open_ones = [report for report, why in zip(outcome.reports, whys) if why is None]
    print(f"{len(whys)} reports, {len(open_ones)} not explained")
    for kind, count in kinds(open_ones).items():
        print(f"{count} x {kind}")
    for why, count in Counter(why for why in whys if why is not None).items():
        print(f"{count} explained, {why}")
    return 1 if left or open_ones or outcome.alone or outcome.tests.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
