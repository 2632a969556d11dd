"""`python -m cute_layout draw "((2,2),8):((1,16),2)"`: the algebra from a shell.

`draw` writes a picture, `playground` a page for a browser; every other word is a function of
layouts, which prints what it gives: `python -m cute_layout composition "(4,8):(8,1)" "8:2"`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cute_layout as cl
from cute_layout.errors import LayoutError
from cute_layout.playground import playground

UNREAD = 141
"""What shells give for a program whose output is not read any more."""
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "coalesce": (1, cl.coalesce),
    "right_inverse": (1, cl.right_inverse),
    "left_inverse": (1, cl.left_inverse),
    "inverse": (1, cl.inverse),
    "composition": (2, cl.composition),
    "logical_divide": (2, cl.logical_divide),
    "zipped_divide": (2, cl.zipped_divide),
    "logical_product": (2, cl.logical_product),
    "blocked_product": (2, cl.blocked_product),
    "raked_product": (2, cl.raked_product),
}
"""Functions of so many layouts that give a layout."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cute_layout", description=cl.__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    draw = commands.add_parser("draw", help="draw a layout, or with --tile who holds what")
    draw.add_argument("layout", metavar="LAYOUT", help="as (4,8):(8,1) or Sw<2,0,3> o 0 o ...")
    draw.add_argument("--tile", metavar="M,N", help="LAYOUT gives (thread, value) -> this tile")
    draw.add_argument("--format", choices=("svg", "ascii", "latex"), help="else by --out, or ascii")
    draw.add_argument("--out", metavar="FILE", help="where to write it, instead of printing it")
    page = commands.add_parser("playground", help="write a page on which layouts are composed")
    page.add_argument("--out", metavar="FILE", default="playground.html", help="where to write it")
    for name, (count, function) in FUNCTIONS.items():
        summary = (function.__doc__ or "").strip().split("\n")[0]
        one = commands.add_parser(name, help=summary.replace("%", "%%"))
        one.add_argument("layouts", metavar="LAYOUT", nargs=count)
    return parser


def _picture(options: argparse.Namespace) -> str:
    layout: Any = cl.parse(options.layout)
    if options.tile is not None:
        layout = cl.TVLayout(layout, cl.Layout.parse(options.tile).shape)
    suffix = Path(options.out or "").suffix
    format = options.format or {".svg": "svg", ".tex": "latex"}.get(suffix, "ascii")
    return cl.draw(layout, format)


def _told(options: argparse.Namespace) -> str | None:
    """What the command prints; None where it wrote a file and has no more to say."""
    if options.command == "playground":
        Path(options.out).write_text(playground(), encoding="utf-8")
        return str(options.out)
    if options.command != "draw":
        _, function = FUNCTIONS[options.command]
        return str(function(*map(cl.parse, options.layouts)))
    picture = _picture(options)
    if options.out is None:
        return picture
    Path(options.out).write_text(picture, encoding="utf-8")
    return None


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line; a refusal of the algebra goes to stderr with exit status 1."""
    options = _parser().parse_args(words)
    try:
        told = _told(options)
        if told is not None:
            print(told, flush=True)
    except BrokenPipeError:
        # Nobody reads on, as behind `head`; what is left would be tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (LayoutError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
