"""What came of a kernel: `explain`, `page`, `source`, `ptx`, `sass`."""

from __future__ import annotations

import argparse

from hexcute_core.commands.command import Command, Tell
from hexcute_core.commands.options import blocks, compiled, of_kernel, of_run, settings, write
from hexcute_core.driver import CompiledKernel
from hexcute_core.driver.simulation import make_arguments
from hexcute_core.errors import MissingDependency
from hexcute_core.progress import working
from hexcute_core.thread.timeline import Timeline

_SHOWN = 12


def _explain_options(parser: argparse.ArgumentParser) -> None:
    of_kernel(parser)
    parser.add_argument("--all", action="store_true", help="list every rejected candidate")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def _explain(options: argparse.Namespace, tell: Tell) -> int:
    listed = None if options.all else _SHOWN
    with working(f"compiling {options.kernel}"):
        text = compiled(options).explain(listed, form="json" if options.json else "text")
    tell(text)
    return 0


def _page_options(parser: argparse.ArgumentParser) -> None:
    of_kernel(parser)
    of_run(parser)
    parser.add_argument("--trace", metavar="TRACE.json", help="a timeline to show, as it was saved")
    parser.add_argument("--out", metavar="FILE", help="where to write it; else NAME.html")


def _page(options: argparse.Namespace, tell: Tell) -> int:
    """Writes the page, with the timeline that is named, or of the run that `--shape` asks for, and
    without machine code where it cannot be compiled, which the page says."""
    kernel = compiled(options)
    path = options.out or f"{kernel.signature.kernel}.html"
    timeline = None
    if options.trace is not None:
        timeline = Timeline.load(options.trace)
    elif options.shape:
        args = make_arguments(kernel.signature, settings("--shape", options.shape), options.seed)
        with working(f"clocking {options.kernel}"):
            timeline = kernel.timeline(*args, blocks=blocks(options))
    with working(f"compiling {options.kernel}"):
        try:
            text = kernel.explain(form="html", machine=True, timeline=timeline)
        except MissingDependency:
            text = kernel.explain(form="html", timeline=timeline)
    write(path, text)
    tell(path)
    return 0


def _text(name: str, help: str) -> Command:
    def run(options: argparse.Namespace, tell: Tell) -> int:
        with working(f"compiling {options.kernel}"):
            kernel: CompiledKernel = compiled(options)
            text = {"source": kernel.source, "ptx": kernel.ptx, "sass": kernel.sass}[name]()
        tell(text)
        return 0

    return Command(name, help, of_kernel, run)


SHOWING = (
    Command("explain", "Show what was chosen, what it costs, and what lost.", _explain_options,
            _explain),
    Command("page", "Write what explain shows as a page for a browser.", _page_options, _page),
    _text("source", "Print the CUDA source."),
    _text("ptx", "Print the PTX."),
    _text("sass", "Print the machine code."),
)  # fmt: skip
