"""Measures the timing rows of the GPU at hand, or writes a table's data module from them.

    python -m hexcute_bench.microbench --out bench/results/h100
    python -m hexcute_bench.microbench --table bench/results/h100/microbench.csv

The first needs an NVIDIA GPU and torch, writes `microbench.csv` and `environment.json` in the
folder, and leaves the clocks alone. The second prints the module, or writes it to `--out`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hexcute_bench import environment
from hexcute_bench.errors import BenchError
from hexcute_bench.microbench import record, supervise, table
from hexcute_bench.microbench.catalog import rows
from hexcute_bench.microbench.device import build_all
from hexcute_bench.microbench.worker import CLOCK, Job
from hexcute_core.errors import HexcuteError
from hexcute_core.runtime import device_target

NAME = "microbench.csv"
CLOCK_ROW = "fma.f32"


def measure(out: Path, only: str, seconds: float) -> int:
    """Measures and writes; 1 where a row has no result."""
    target = device_target()
    chosen = [r for r in rows(int(target.removeprefix("sm_"))) if re.search(only, r.name)]
    probes = [
        (row.name, quantity, probe)
        for row in chosen
        for quantity, probe in (("issue", row.issue), ("latency", row.latency))
        if probe is not None
    ]
    clocked = next(r.latency for r in rows() if r.name == CLOCK_ROW)
    if not probes or clocked is None:
        raise BenchError(f"no row matches {only!r}")
    all_probes = [(CLOCK, CLOCK, clocked), *probes]
    begun = time.monotonic()
    images = build_all([probe for _, _, probe in all_probes], target)
    built = time.monotonic()
    print(f"{len(images)} kernels built in {built - begun:.1f} s")
    jobs: list[Job] = [
        (name, quantity, probe, image)
        for (name, quantity, probe), image in zip(all_probes, images, strict=True)
    ]
    results = supervise.run(jobs, seconds)
    seen = environment.look()
    mhz = next((f"{r['clocks']:.0f}" for r in results if r["name"] == CLOCK and "clocks" in r), "")
    about = {k: v for k, v in seen.columns().items() if k in record.COLUMNS}
    found = record.records(chosen, results, {**about, "sm_clock_mhz": mhz})
    record.write(out / NAME, found)
    took = time.monotonic() - built
    failed = [r for r in results if "failed" in r]
    environment.write(out, seen, "microbench", {
        "rows": len(found), "seconds": round(took, 1), "sm_clock_mhz": mhz,
        "failed": {f"{r['name']} {r['quantity']}": r["failed"] for r in failed},
    })  # fmt: skip
    for row in found:
        issue, latency = row.get("issue", "-"), row.get("latency", "-")
        print(f"{row['name']:38} {issue:>9} {latency:>9}  {row['fit_error']}")
    print(f"{len(found)} of {len(chosen)} rows, measured in {took:.1f} s at {mhz} MHz")
    for result in failed:
        print(f"failed: {result['name']} {result['quantity']}: {result['failed']}")
    return 1 if failed else 0


def write_table(path: Path, arch: str, out: Path | None) -> None:
    """The data module of `arch` from the CSV at `path`."""
    here = path.resolve()
    root = next((p for p in here.parents if (p / "bench").is_dir()), here.parent)
    made = table.text(record.read(path), arch, here.relative_to(root).as_posix())
    if out is None:
        print(made, end="")
    else:
        out.write_text(made, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 1 where something could not be measured, 2 on a wrong argument."""
    parser = argparse.ArgumentParser(
        prog="python -m hexcute_bench.microbench", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="folder of the results, or the module to write")
    parser.add_argument("--only", default="", help="rows whose name this pattern is found in")
    parser.add_argument("--seconds", type=float, default=120.0, help="end measuring after")
    parser.add_argument("--table", type=Path, metavar="CSV", help="print the data module")
    parser.add_argument("--arch", default="sm_90", help="the table that the rows are for")
    options = parser.parse_args(arguments)
    try:
        if options.table is not None:
            write_table(options.table, options.arch, options.out)
            return 0
        if options.out is None:
            raise BenchError("name a folder with --out")
        return measure(options.out, options.only, options.seconds)
    except (BenchError, HexcuteError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
