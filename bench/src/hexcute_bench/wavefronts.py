"""The simulator's wavefronts and sectors beside the profiler's, one kernel of one warp per layout.

    python -m hexcute_bench.wavefronts --out bench/results/wavefronts.csv

needs an NVIDIA GPU, torch, and Nsight Compute (`ncu`); it leaves the clocks alone. With `--clocks`
it needs no profiler: the cycles that many accesses of a pattern take, over their number, come
close to the wavefronts of one. `--list` prints what the simulator counts, and needs no GPU.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hexcute_bench import environment
from hexcute_bench.access_clocks import cycles_per_access
from hexcute_bench.errors import BenchError
from hexcute_bench.warp_accesses import PATTERNS, WORDS, Pattern

METRICS = {
    "shared_ld": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_st": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "global_ld": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_st": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}
COLUMNS = (
    "pattern", "kind", "bytes_a_lane", "method",
    *(f"{who}_{what}" for what in METRICS for who in ("simulated", "measured")),
    "cycles_an_access", "equal", "gpu", "driver", "versions", "commit", "date", "run",
)  # fmt: skip
CYCLE_TOLERANCE = 0.25
"""How far cycles an access may be from wavefronts: a fraction of them, and of one cycle."""


def launch_all(patterns: Sequence[Pattern]) -> None:
    """Launches every pattern's kernel once; the profiler watches."""
    import torch

    from hexcute_core.backend import emit
    from hexcute_core.runtime import (
        KernelImage,
        LoadedKernel,
        Signature,
        TensorParam,
        device_target,
    )
    from hexcute_core.toolchain import compile_cubin

    target = device_target()
    x = torch.arange(WORDS, dtype=torch.int32, device="cuda").view(torch.uint32)
    y = torch.zeros(WORDS, dtype=torch.int32, device="cuda").view(torch.uint32)
    for pattern in patterns:
        program = pattern.program()
        source = emit(program, target)
        cubin = compile_cubin(source.text, target)
        signature = Signature(
            program.name, tuple(TensorParam(n, "u32", (WORDS,)) for n in ("x", "y"))
        )
        image = KernelImage(
            source.entry, cubin.cubin, cubin.arch, program.shared_bytes, (32, 1, 1), signature
        )
        LoadedKernel(image).launch((1, 1, 1), x, y)
    torch.cuda.synchronize()


def profile(patterns: Sequence[Pattern]) -> dict[str, dict[str, int]]:
    """The profiler's counts by kernel name.

    Raises BenchError where there is no profiler, or it may not read the counters.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise BenchError("ncu is not on the PATH: install Nsight Compute, or pass --clocks")
    command = [
        ncu, "--clock-control", "none", "--metrics", ",".join(METRICS.values()), "--csv",
        "--page", "raw", "--print-units", "base", "--kernel-name-base", "demangled",
        "--kernel-name", "regex:wf_", sys.executable, "-m", "hexcute_bench.wavefronts", "--launch",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"ncu failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return read_profile(done.stdout, [p.kernel_name for p in patterns])


def read_profile(text: str, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """The counts by kernel name from ncu's CSV of raw pages.

    Raises BenchError where a kernel or a count is missing.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        name = next((n for n in names if _names(row.get("Kernel Name") or "", n)), None)
        if name is None:
            continue
        try:
            found[name] = {
                what: int(float(row[metric].replace(",", ""))) for what, metric in METRICS.items()
            }
        except (KeyError, ValueError) as error:
            raise BenchError(f"ncu's row of {name} lacks a count: {error}") from None
    missing = [name for name in names if name not in found]
    if missing:
        raise BenchError(f"ncu did not report {', '.join(missing)}:\n{text[-2000:]}")
    return found


def _names(reported: str, name: str) -> bool:
    """Whether the profiler's kernel name is ours: a prefix and an argument list may be around."""
    found = re.search(r"wf_\w+", reported)
    return found is not None and found.group() == name


def compare(pattern: Pattern, measured: Mapping[str, int]) -> dict[str, Any]:
    """One row: both counts and whether they agree."""
    expected = pattern.expected()
    row: dict[str, Any] = {
        "pattern": pattern.name,
        "kind": pattern.kind,
        "bytes_a_lane": pattern.size,
        "method": "ncu",
        "equal": all(expected[what] == measured[what] for what in METRICS),
    }
    for what in METRICS:
        row[f"simulated_{what}"], row[f"measured_{what}"] = expected[what], measured[what]
    return row


def compare_cycles(pattern: Pattern, cycles: float) -> dict[str, Any]:
    """One row: wavefronts of the access alone beside the cycles it takes."""
    wavefronts = pattern.access_wavefronts()
    near = abs(cycles - wavefronts) <= CYCLE_TOLERANCE * (wavefronts + 1)
    what = "shared_st" if pattern.kind == "store" else "shared_ld"
    return {
        "pattern": pattern.name,
        "kind": pattern.kind,
        "bytes_a_lane": pattern.size,
        "method": "clock",
        f"simulated_{what}": wavefronts,
        "cycles_an_access": f"{cycles:.2f}",
        "equal": near,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where a count differs or nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m hexcute_bench.wavefronts")
    parser.add_argument("--out", type=Path, default=Path("bench/results/wavefronts.csv"))
    parser.add_argument("--clocks", action="store_true", help="measure cycles, without ncu")
    parser.add_argument("--list", action="store_true", help="print the simulator's counts")
    parser.add_argument("--launch", action="store_true", help="launch the kernels, for ncu")
    options = parser.parse_args(arguments)
    try:
        if options.list:
            for pattern in PATTERNS:
                print(pattern.name, *(f"{k}={v}" for k, v in pattern.expected().items()))
            return 0
        if options.launch:
            launch_all(PATTERNS)
            return 0
        return _measure(options.out, options.clocks)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _measure(out: Path, clocks: bool) -> int:
    seen = environment.look()
    if clocks:
        shared = [p for p in PATTERNS if p.kind != "global"]
        rows = [compare_cycles(p, cycles) for p, cycles in zip(shared, cycles_per_access(shared))]
    else:
        counts = profile(PATTERNS)
        rows = [compare(p, counts[p.kernel_name]) for p in PATTERNS]
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows({**row, **seen.columns()} for row in rows)
    for row in rows:
        told = {k: v for k, v in row.items() if k not in ("kind", "bytes_a_lane", "method")}
        print("  ".join(f"{k}={v}" for k, v in told.items()))
    wrong = [row["pattern"] for row in rows if not row["equal"]]
    print(f"{len(rows) - len(wrong)} of {len(rows)} agree", *wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
