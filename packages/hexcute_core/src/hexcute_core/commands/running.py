"""A kernel on the CPU, with made-up arrays: `simulate` checks it, `timeline` clocks it."""

from __future__ import annotations

import argparse

from hexcute_core.commands.command import Command, Tell
from hexcute_core.commands.options import blocks, compiled, of_kernel, of_run, settings, write
from hexcute_core.driver.simulation import make_arguments
from hexcute_core.progress import working
from hexcute_core.thread.timeline import Timeline


def _simulate_options(parser: argparse.ArgumentParser) -> None:
    of_kernel(parser)
    of_run(parser)
    parser.add_argument("--schedules", type=int, default=1, help="how many seeds to try")


def _simulate(options: argparse.Namespace, tell: Tell) -> int:
    """Tells findings and counters; 1 where there are findings or the outputs are wrong."""
    with working(f"simulating {options.kernel}"):
        kernel = compiled(options)
        args = make_arguments(kernel.signature, settings("--shape", options.shape), options.seed)
        report = kernel.simulate(
            *args, seed=options.seed, schedules=options.schedules, blocks=blocks(options),
            check=False, compare=True,
        )  # fmt: skip
    tell(report.show().removesuffix("\n"))
    if report.wrong:
        tell(f"\n{', '.join(report.wrong)}: not what the tile program means")
    else:
        tell("\nthe outputs are what the tile program means, bit for bit")
    return 1 if report.wrong or report.findings else 0


def _timeline_options(parser: argparse.ArgumentParser) -> None:
    of_kernel(parser, "a trace that was written before, TRACE.json, or a kernel")
    of_run(parser)
    parser.add_argument("--trace", metavar="FILE", help="where to write the trace")
    parser.add_argument("--picture", metavar="FILE", help="where to draw it, as an SVG")


def _timeline(options: argparse.Namespace, tell: Tell) -> int:
    """Tells when each role did what, and writes trace and picture where they are named."""
    if options.kernel.endswith(".json"):
        timeline = Timeline.load(options.kernel)
    else:
        with working(f"clocking {options.kernel}"):
            kernel = compiled(options)
            shape = settings("--shape", options.shape)
            args = make_arguments(kernel.signature, shape, options.seed)
            timeline = kernel.timeline(*args, blocks=blocks(options))
    tell(timeline.show().removesuffix("\n"))
    for path, text in ((options.trace, timeline.trace), (options.picture, timeline.picture)):
        if path is not None:
            write(path, text())
    return 0


RUNNING = (
    Command("simulate", "Run the kernel on the CPU and report races and wrong results.",
            _simulate_options, _simulate),
    Command("timeline", "Show when each role waits, copies, multiplies and stores, by the clocks "
            "of the cost model.", _timeline_options, _timeline),
)  # fmt: skip
