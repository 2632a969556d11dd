"""`python -m hexcute_core explain|source|ptx FILE:KERNEL --target sm_90 --set BM=128`."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from hexcute_core.driver import CompiledKernel, Kernel
from hexcute_core.errors import HexcuteError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hexcute_core", description="Compile a kernel and show what came of it."
    )
    parser.add_argument("what", choices=("explain", "source", "ptx", "sass"))
    parser.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file and a name in it")
    parser.add_argument("--target", default="sm_90", help="sm_80, sm_86, sm_89 or sm_90")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="NAME=VALUE",
        help="a compile-time constant; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--unaligned", action="store_true", help="rely on no alignment of pointers and rows"
    )
    parser.add_argument("--all", action="store_true", help="list every rejected candidate")
    return parser


def _load(spec: str) -> Kernel:
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if not name or not path.is_file():
        raise HexcuteError(f"{spec!r} does not name a kernel in a file", fix="write FILE.py:KERNEL")
    loader = importlib.util.spec_from_file_location(path.stem, path)
    if loader is None or loader.loader is None:
        raise HexcuteError(f"{file} is not a Python file", fix="write FILE.py:KERNEL")
    module = importlib.util.module_from_spec(loader)
    # Annotations written as strings are resolved in the module, which must be findable.
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    loader.loader.exec_module(module)
    found = getattr(module, name, None)
    if not isinstance(found, Kernel):
        kernels = [n for n, v in vars(module).items() if isinstance(v, Kernel)]
        raise HexcuteError(
            f"{file} has no kernel called {name!r}", fix=f"use one of {', '.join(kernels) or '-'}"
        )
    return found


def _settings(pairs: Sequence[str]) -> dict[str, object]:
    out: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise HexcuteError(f"--set {pair}: expected NAME=VALUE")
        try:
            out[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            out[name] = text
    return out


def _show(what: str, compiled: CompiledKernel, everything: bool) -> str:
    if what == "explain":
        return compiled.explain(None if everything else 12)
    return {"source": compiled.source, "ptx": compiled.ptx, "sass": compiled.sass}[what]()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; errors of the user's go to stderr with exit status 1."""
    options = _parser().parse_args(arguments)
    try:
        found = _load(options.kernel)
        constants = _settings(options.settings)
        compiled = found.compile(options.target, aligned=not options.unaligned, constants=constants)
        print(_show(options.what, compiled, options.all))
    except HexcuteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
