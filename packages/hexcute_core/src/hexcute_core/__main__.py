"""`python -m hexcute_core explain|source|ptx|sass FILE:KERNEL --target sm_90 --set BM=128`.

`simulate` in their place runs the kernel on the CPU: it needs the sizes too, as in
`--shape m=256 k=512`, and makes up the arrays; `timeline` does the same by the clocks of the cost
model, shows when each role did what, writes the trace that `--trace` names and draws the picture
that `--picture` names. In place of a kernel it takes a trace that was written before.
`python -m hexcute_core cache` shows what is kept on disk, and with `--clear` removes it.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from hexcute_core.driver import CompiledKernel, Kernel, eviction
from hexcute_core.driver.cache import Cache
from hexcute_core.driver.simulation import make_arguments
from hexcute_core.errors import HexcuteError
from hexcute_core.thread.timeline import Timeline


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hexcute_core", description="Compile a kernel and show what came of it."
    )
    shown = ("explain", "source", "ptx", "sass", "simulate", "timeline")
    parser.add_argument("what", choices=shown)
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
    running = parser.add_argument_group("simulate, timeline")
    running.add_argument(
        "--shape", nargs="+", action="extend", default=[], metavar="NAME=N",
        help="a symbol's or scalar parameter's value; may be repeated",
    )  # fmt: skip
    running.add_argument(
        "--seed", type=int, default=0,
        help="0: everything asynchronous as late as it may; others draw a schedule",
    )  # fmt: skip
    running.add_argument("--schedules", type=int, default=1, help="how many seeds to try")
    running.add_argument(
        "--block", dest="blocks", action="append", default=None, metavar="X,Y,Z",
        help="a block to run instead of the whole grid; may be repeated",
    )  # fmt: skip
    running.add_argument("--trace", metavar="FILE", help="timeline: where to write the trace")
    running.add_argument("--picture", metavar="FILE", help="timeline: where to draw it, as an SVG")
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


def _settings(option: str, pairs: Sequence[str]) -> dict[str, object]:
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


def _show(what: str, compiled: CompiledKernel, everything: bool) -> str:
    if what == "explain":
        return compiled.explain(None if everything else 12)
    return {"source": compiled.source, "ptx": compiled.ptx, "sass": compiled.sass}[what]()


def _timeline(timeline: Timeline, options: argparse.Namespace) -> int:
    """Prints when each role did what, and writes trace and picture where they are named."""
    print(timeline.show(), end="")
    for path, text in ((options.trace, timeline.trace), (options.picture, timeline.picture)):
        try:
            if path is not None:
                Path(path).write_text(text(), encoding="utf-8")
        except OSError as error:
            raise HexcuteError(
                f"{path} cannot be written: {error.strerror}",
                fix="name a file in a folder that is there",
            ) from None
    return 0


def _simulate(compiled: CompiledKernel, options: argparse.Namespace) -> int:
    """Prints findings and counters; 1 where there are findings or the outputs are wrong."""
    args = make_arguments(compiled.signature, _settings("--shape", options.shape), options.seed)
    blocks = [_block(text) for text in options.blocks] if options.blocks else None
    report = compiled.simulate(
        *args, seed=options.seed, schedules=options.schedules, blocks=blocks, check=False,
        compare=True,
    )  # fmt: skip
    print(report.show(), end="")
    if report.wrong:
        print(f"\n{', '.join(report.wrong)}: not what the tile program means")
    else:
        print("\nthe outputs are what the tile program means, bit for bit")
    return 1 if report.wrong or report.findings else 0


def _block(text: str) -> tuple[int, int, int]:
    if not re.fullmatch(r"[0-9]{1,10}(,[0-9]{1,10}){0,2}", text):
        raise HexcuteError(f"--block {text}: expected X, X,Y or X,Y,Z", fix="write --block 0,0,0")
    x, y, z = (*map(int, text.split(",")), 0, 0)[:3]
    return x, y, z


def _cache(arguments: Sequence[str]) -> int:
    """Shows the cache's folder, entries and limit, or clears it."""
    parser = argparse.ArgumentParser(
        prog="python -m hexcute_core cache", description=_cache.__doc__
    )
    parser.add_argument("--clear", action="store_true", help="remove all entries")
    clear = parser.parse_args(arguments).clear
    cache = Cache()
    if cache.root is None:
        print("no home folder: nothing is kept; set HEXCUTE_CACHE_DIR to a folder of your own")
    elif clear:
        print(f"{cache.root}: {eviction.clear(cache.root)} entries removed")
    else:
        entries = eviction.kept(cache.root)
        taken = sum(entry.bytes for entry in entries)
        print(f"{cache.root}: {len(entries)} entries, {taken} of {cache.limit} bytes")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; errors of the user's go to stderr with exit status 1."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["cache"]:
        return _cache(words[1:])
    options = _parser().parse_args(words)
    try:
        if options.what == "timeline" and options.kernel.endswith(".json"):
            return _timeline(Timeline.load(options.kernel), options)
        found = _load(options.kernel)
        constants = _settings("--set", options.settings)
        compiled = found.compile(options.target, aligned=not options.unaligned, constants=constants)
        if options.what == "simulate":
            return _simulate(compiled, options)
        if options.what == "timeline":
            sizes = _settings("--shape", options.shape)
            args = make_arguments(compiled.signature, sizes, options.seed)
            blocks = [_block(text) for text in options.blocks] if options.blocks else None
            return _timeline(compiled.timeline(*args, blocks=blocks), options)
        print(_show(options.what, compiled, options.all))
    except HexcuteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
