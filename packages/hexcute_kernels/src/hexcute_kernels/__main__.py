"""`python -m hexcute_kernels build OPERATOR... --shapes m=64,n=4096,k=4096 --out DIR`.

Compiles what calls of these shapes launch, and writes it to a folder that a process without a
compiler launches from.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hexcute_core.errors import HexcuteError
from hexcute_kernels import FAMILIES
from hexcute_kernels.shipping import write_bundle


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hexcute_kernels", description="Compile operators ahead of their calls."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="compile what calls launch into a bundle")
    build.add_argument("operators", nargs="+", metavar="OPERATOR", help=", ".join(FAMILIES))
    build.add_argument("--out", required=True, metavar="DIR", help="the bundle's folder")
    build.add_argument(
        "--shapes", nargs="+", required=True, metavar="SIZES",
        help="sizes of calls, as m=16/64,n=4096,k=4096,dtype=bfloat16; / combines alternatives",
    )  # fmt: skip
    build.add_argument("--gpu", help="the GPU to compile for, as h200; else that of this machine")
    build.add_argument("--processes", type=int, help="how many compile at once; else one a core")
    return parser


def _build(options: argparse.Namespace) -> None:
    calls = dict.fromkeys(options.operators, options.shapes)
    made = write_bundle(options.out, calls, options.gpu, options.processes)
    codes = ", ".join(sorted({entry.code for entry in made.entries}))
    print(f"{made.path}: {len(made.entries)} kernels for {codes}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; errors of the user's go to stderr with exit status 1."""
    options = _parser().parse_args(arguments)
    try:
        _build(options)
    except HexcuteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
