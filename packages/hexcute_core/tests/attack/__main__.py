"""`python -m attack`: all parts in full, or those that are named; writes what became of them.

Run it in the tests' folder with the packages on the path. The exit status counts the faults.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from pathlib import Path

from attack import cache, inputs, planted, schedules, stale
from attack.explained import explained
from attack.kernels import PLANTED
from attack.verdict import Verdict, log

PARTS = ("cache", "stale", "planted", "inputs", "schedules")
SCHEDULES, INPUTS, CACHE, EDITS = 67, 10_000, 1_000, 1_000
SHARES = 20

Job = tuple[str, str, int]


def jobs(part: str) -> list[Job]:
    """What one process does at a time."""
    match part:
        case "planted" | "schedules":
            return [(part, kernel.name, 0) for kernel in PLANTED]
        case "inputs":
            return [(part, "", share) for share in range(SHARES)]
        case _:
            return [(part, "", 0)]


def work(job: Job) -> list[Verdict]:
    """The verdicts of one job."""
    warnings.simplefilter("ignore")
    part, name, share = job
    match part:
        case "cache":
            return list(cache.attack(CACHE))
        case "stale":
            return list(stale.attack(EDITS))
        case "planted":
            return list(planted.attack(name))
        case "inputs":
            return list(inputs.attack(range(share, INPUTS, SHARES)))
        case _:
            return list(schedules.attack(name, range(SCHEDULES)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, if none is named")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--log", type=Path, help="write the summary there")
    options = parser.parse_args()
    chosen = [part for part in PARTS if part in (options.parts or PARTS)]
    started = time.perf_counter()
    found: dict[str, list[Verdict]] = {part: [] for part in chosen}
    with multiprocessing.Pool(options.workers) as pool:
        for verdicts in pool.imap_unordered(work, [job for part in chosen for job in jobs(part)]):
            found[verdicts[0].part] += verdicts
    for verdicts in found.values():
        verdicts.sort(key=lambda verdict: (verdict.kind, verdict.detail))
    text = log(found, explained)
    print(text)
    print(f"{time.perf_counter() - started:.0f} seconds on {options.workers} processes")
    if options.log is not None:
        options.log.write_text(text)
    return min(99, sum(not verdict.good for verdicts in found.values() for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
