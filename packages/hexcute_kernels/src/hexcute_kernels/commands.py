"""`hexcute build` and `hexcute tune`: operators compiled ahead, and their tables measured.

`build` compiles what calls of these shapes launch, into a folder that a process without a compiler
launches from. `tune` times the configurations of an operator for these shapes, writes what it found
to a CSV, and from all of that the table module by which calls choose.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hexcute_core.commands import Command, Tell
from hexcute_core.tuner import Pool
from hexcute_kernels import FAMILIES, tuned
from hexcute_kernels.gpus import gpu_here
from hexcute_kernels.measured import rows_of, table_text, write_csv, write_text
from hexcute_kernels.samples import parse
from hexcute_kernels.shipping import write_bundle
from hexcute_kernels.tuning import tune_operator

_SIZES = "sizes of calls, as m=16/64,n=4096,k=4096,dtype=bfloat16; / combines alternatives"


def _build_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operators", nargs="+", metavar="OPERATOR", help=", ".join(FAMILIES))
    parser.add_argument("--out", required=True, metavar="DIR", help="the bundle's folder")
    parser.add_argument("--gpu", help="the GPU to compile for, as h200; else that of this machine")
    _shapes(parser)


def _tune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", metavar="OPERATOR", help=", ".join(FAMILIES))
    parser.add_argument("--variant", help="of the operator; else the one that a call takes")
    parser.add_argument("--space", action="store_true", help="try more than the table's own")
    parser.add_argument("--top", type=int, default=16, help="how many are timed")
    parser.add_argument("--rounds", type=int, default=9, help="samples each")
    parser.add_argument("--seconds", type=float, default=120.0, help="without an answer, a hang")
    parser.add_argument("--gpus", type=int, help="that time at once; else all that are visible")
    parser.add_argument("--csv", type=Path, help="results; else OPERATOR_GPU.csv")
    parser.add_argument("--table", type=Path, help="the module; else the one that is shipped")
    _shapes(parser)


def _shapes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shapes", nargs="+", required=True, metavar="SIZES", help=_SIZES)
    parser.add_argument("--processes", type=int, help="that compile at once; else one a core")


def _build(options: argparse.Namespace, tell: Tell) -> int:
    calls = dict.fromkeys(options.operators, options.shapes)
    made = write_bundle(options.out, calls, options.gpu, options.processes)
    codes = ", ".join(sorted({entry.code for entry in made.entries}))
    tell(f"{made.path}: {len(made.entries)} kernels for {codes}")
    return 0


def _tune(options: argparse.Namespace, tell: Tell) -> int:
    name = f"{options.operator}_{gpu_here().name}"
    path = options.csv or Path(f"{name}.csv")
    table = options.table or Path(tuned.__file__).with_name(f"{name}.py")
    try:
        _measure(options, path, table, tell)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on from here") from None
    tell(f"results in {path}, the table in {table}")
    return 0


def _measure(options: argparse.Namespace, path: Path, table: Path, tell: Tell) -> None:
    with Pool() as pool:
        for sizes in (sizes for shape in options.shapes for sizes in parse(shape)):
            bench, report = tune_operator(
                options.operator, sizes, variant=options.variant, whole_space=options.space,
                top=options.top, rounds=options.rounds, processes=options.processes,
                gpus=options.gpus, seconds=options.seconds, pool=pool,
            )  # fmt: skip
            # What a stopped run has found stands in the files already.
            rows = write_csv(path, rows_of(bench, report))
            write_text(table, table_text(rows, path.name))
            tell(report.text())


BUILD = Command("build", "Compile what calls launch into a bundle.", _build_options, _build)
TUNE = Command("tune", "Time configurations of an operator and write its table.", _tune_options,
               _tune)  # fmt: skip
