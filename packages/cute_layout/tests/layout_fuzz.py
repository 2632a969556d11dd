"""Seeded random cases for every operation, each checked against function tables.

``python layout_fuzz.py --count 10000 [--seed 0] [operation ...]`` prints one line an operation:
cases, wrong results, rejections, and rejections the exhaustive search could not prove right.
"""

from __future__ import annotations

import argparse
import sys
import time

import fuzz_algebra  # noqa: F401 (registers its cases)
import fuzz_functions  # noqa: F401
import fuzz_models  # noqa: F401
import fuzz_swizzled  # noqa: F401
from fuzz_registry import CASES, Wrong, run

__all__ = ["CASES", "run"]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operations", nargs="*", metavar="operation")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    for name in options.operations or CASES:
        start = time.perf_counter()
        try:
            tally = run(name, options.count, options.seed)
        except Wrong as wrong:
            failed += 1
            print(f"{name:20} WRONG: {wrong}")
            continue
        took = time.perf_counter() - start
        print(
            f"{name:20} {tally.cases} cases, 0 wrong, {tally.rejected} rejected, "
            f"{tally.unproven} unproven, {took:.1f} s"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
