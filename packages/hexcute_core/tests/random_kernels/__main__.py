"""`python -m random_kernels 1000`: runs so many random kernels and writes what became of them.

Run it in the tests' folder with the packages on the path. A kernel that fails is made small and
printed as it can be pasted; the exit status counts those that do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

from random_kernels.kernels import random_kernel
from random_kernels.log import Row, log
from random_kernels.running import attempt
from random_kernels.shrinking import shrunk


def row(seed: int) -> Row:
    """The line of one seed."""
    kernel = random_kernel(seed)
    return Row(seed, kernel.target, kernel.kinds, attempt(kernel))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m random_kernels", description=__doc__)
    parser.add_argument("count", type=int, help="how many kernels")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--log", type=Path, help="write the summary there")
    parser.add_argument("--shrink", type=int, default=3, help="how many that fail to make small")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    started, rows = time.perf_counter(), []
    with multiprocessing.Pool(options.workers) as pool:
        for found in pool.imap_unordered(row, seeds, chunksize=8):
            rows.append(found)
            if found.outcome.fault:
                print(found.text(), flush=True)
    rows.sort(key=lambda r: r.seed)
    text = log(rows, seeds)
    print(text)
    print(f"{time.perf_counter() - started:.0f} seconds on {options.workers} processes")
    if options.log is not None:
        options.log.write_text(text)
    failed = [r for r in rows if r.outcome.fault]
    for found in failed[: options.shrink]:
        small = shrunk(random_kernel(found.seed), found.outcome)
        print(f"\n# seed {found.seed}, {small.target}, {small.sizes}\n{small.text}")
    return min(len(failed), 99)


if __name__ == "__main__":
    sys.exit(main())
