"""Options that several commands take, and their values: NAME=VALUE, blocks, kernels compiled."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Sequence
from pathlib import Path

from hexcute_core.commands.named import named
from hexcute_core.driver import CompiledKernel
from hexcute_core.errors import HexcuteError


def of_kernel(parser: argparse.ArgumentParser, what: str = "a kernel") -> None:
    """What says which kernel is meant, and for what it is compiled."""
    parser.add_argument(
        "kernel", metavar="FILE:KERNEL",
        help=f"{what}, as FILE.py:KERNEL, MODULE:KERNEL or 'MODULE:FACTORY(ARGUMENTS)'",
    )  # fmt: skip
    parser.add_argument("--target", default="sm_90", help="sm_80, sm_86, sm_89 or sm_90")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="NAME=VALUE",
        help="a compile-time constant; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--unaligned", action="store_true", help="rely on no alignment of pointers and rows"
    )


def of_run(parser: argparse.ArgumentParser) -> None:
    """What says for which sizes a kernel runs, and which of its blocks."""
    parser.add_argument(
        "--shape", nargs="+", action="extend", default=[], metavar="NAME=N",
        help="a symbol's or scalar parameter's value; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0,
        help="0: everything asynchronous as late as it may; others draw a schedule",
    )  # fmt: skip
    parser.add_argument(
        "--block", dest="blocks", action="append", default=None, metavar="X,Y,Z",
        help="a block to run instead of the whole grid; may be repeated",
    )  # fmt: skip


def compiled(options: argparse.Namespace) -> CompiledKernel:
    """The kernel that the options of `of_kernel` name. Raises HexcuteError."""
    constants = settings("--set", options.settings)
    aligned = not options.unaligned
    return named(options.kernel).compile(options.target, aligned=aligned, constants=constants)


def settings(option: str, pairs: Sequence[str]) -> dict[str, object]:
    """NAME=VALUE as a dict; what is no literal is a text. Raises HexcuteError."""
    out: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise HexcuteError(f"{option} {pair}: expected NAME=VALUE")
        try:
            out[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            out[name] = text
    return out


def blocks(options: argparse.Namespace) -> list[tuple[int, int, int]] | None:
    """The blocks of `--block`, None where all run. Raises HexcuteError."""
    return [_block(text) for text in options.blocks] if options.blocks else None


def _block(text: str) -> tuple[int, int, int]:
    if not re.fullmatch(r"[0-9]{1,10}(,[0-9]{1,10}){0,2}", text):
        raise HexcuteError(f"--block {text}: expected X, X,Y or X,Y,Z", fix="write --block 0,0,0")
    x, y, z = (*map(int, text.split(",")), 0, 0)[:3]
    return x, y, z


def write(path: str, text: str) -> None:
    """Writes a file that the user named. Raises HexcuteError where it cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise HexcuteError(
            f"{path} cannot be written: {error.strerror}",
            fix="name a file in a folder that is there",
        ) from None
