"""`python -m hexcute_kernels build|tune OPERATOR --shapes m=64,n=4096,k=4096 ...`

`build` compiles what calls of these shapes launch, into a folder that a process without a compiler
launches from. `tune` times the configurations of an operator for these shapes, writes what it found
to a CSV, and from all of that the table module by which calls choose.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hexcute_core.errors import HexcuteError
from hexcute_core.tuner import Pool
from hexcute_kernels import FAMILIES, tuned
from hexcute_kernels.gpus import gpu_here
from hexcute_kernels.measured import rows_of, table_text, write_csv, write_text
from hexcute_kernels.samples import parse
from hexcute_kernels.shipping import write_bundle
from hexcute_kernels.tuning import tune_operator

_SIZES = "sizes of calls, as m=16/64,n=4096,k=4096,dtype=bfloat16; / combines alternatives"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hexcute_kernels", description="Compile operators ahead, or tune them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="compile what calls launch into a bundle")
    build.add_argument("operators", nargs="+", metavar="OPERATOR", help=", ".join(FAMILIES))
    build.add_argument("--out", required=True, metavar="DIR", help="the bundle's folder")
    build.add_argument("--gpu", help="the GPU to compile for, as h200; else that of this machine")
    tune = commands.add_parser("tune", help="time configurations and write the table")
    tune.add_argument("operator", metavar="OPERATOR", help=", ".join(FAMILIES))
    tune.add_argument("--variant", help="of the operator; else the one that a call takes")
    tune.add_argument("--space", action="store_true", help="try more than the table's own")
    tune.add_argument("--top", type=int, default=16, help="how many are timed")
    tune.add_argument("--rounds", type=int, default=9, help="samples each")
    tune.add_argument("--seconds", type=float, default=120.0, help="without an answer, a hang")
    tune.add_argument("--csv", type=Path, help="results; else OPERATOR_GPU.csv")
    tune.add_argument("--table", type=Path, help="the module; else the one that is shipped")
    for command in (build, tune):
        command.add_argument("--shapes", nargs="+", required=True, metavar="SIZES", help=_SIZES)
        command.add_argument("--processes", type=int, help="that compile at once; else one a core")
    return parser


def _build(options: argparse.Namespace) -> None:
    calls = dict.fromkeys(options.operators, options.shapes)
    made = write_bundle(options.out, calls, options.gpu, options.processes)
    codes = ", ".join(sorted({entry.code for entry in made.entries}))
    print(f"{made.path}: {len(made.entries)} kernels for {codes}")


def _tune(options: argparse.Namespace) -> None:
    name = f"{options.operator}_{gpu_here().name}"
    path = options.csv or Path(f"{name}.csv")
    table = options.table or Path(tuned.__file__).with_name(f"{name}.py")
    with Pool() as pool:
        for sizes in (sizes for shape in options.shapes for sizes in parse(shape)):
            bench, report = tune_operator(
                options.operator, sizes, variant=options.variant, whole_space=options.space,
                top=options.top, rounds=options.rounds, processes=options.processes,
                seconds=options.seconds, pool=pool,
            )  # fmt: skip
            # What a stopped run has found stands in the files already.
            rows = write_csv(path, rows_of(bench, report))
            write_text(table, table_text(rows, path.name))
            print(report.text())
    print(f"results in {path}, the table in {table}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; errors of the user's go to stderr with exit status 1."""
    options = _parser().parse_args(arguments)
    try:
        {"build": _build, "tune": _tune}[options.command](options)
    except HexcuteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
