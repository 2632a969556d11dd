"""The command line: list, run, figures, table, report."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hexcute_bench import suites
from hexcute_bench.errors import BenchError, DeviceLost
from hexcute_bench.interface import KernelSuite, Settings, Suite, TableSuite
from hexcute_bench.report.places import FIGURES, RESULTS
from hexcute_bench.runner import Order, SuiteRun, missing_kernel
from hexcute_bench.timing import CudaClock
from hexcute_core.commands import Command, unread
from hexcute_core.pip import installing

# What a restarted run inherits: how often it was, and the clock's reading to stop at.
_RESTARTS, _UNTIL = "HEXCUTE_BENCH_RESTARTS", "HEXCUTE_BENCH_UNTIL"
MOST_RESTARTS = 6


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m hexcute_bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="suites, their shapes and peers, and what is there")
    run = commands.add_parser("run", help="measure suites; goes on where an earlier run stopped")
    run.add_argument("suites", nargs="+", metavar="SUITE", help="names of `list`, or `all`")
    run.add_argument("--out", type=Path, required=True, help="folder of the CSV files")
    run.add_argument("--peers", nargs="+", default=[], help="only these systems (baseline kept)")
    run.add_argument("--shapes", nargs="+", default=[], metavar="COND", help="e.g. m>=2048,n=4096")
    run.add_argument("--keys", nargs="+", default=[], help="of a table: how its keys begin")
    run.add_argument("--ranks", type=int, default=1, help="GPUs of a model, under torchrun")
    run.add_argument(
        "--spread", nargs="?", const="exchange", default="", choices=("exchange", "sum"),
        help="experts by number, not by width; their tokens travel, or sums do",
    )  # fmt: skip
    run.add_argument("--quick", action="store_true", help="few shapes, fewer rounds")
    run.add_argument(
        "--protocol", choices=("graph", "host"), default="graph",
        help="graph: device time; host: each launch waited for, as the paper measured",
    )  # fmt: skip
    run.add_argument("--seconds", type=float, default=float("inf"), help="begin no shape after")
    run.add_argument("--rounds", type=int, help="samples of each system")
    run.add_argument("--replay-us", type=float, help="work in a sample, microseconds")
    run.add_argument("--pause-s", type=float, help="rest before a sample, seconds")
    figures = commands.add_parser("figures", help="draw every figure from the CSV files")
    _results(figures)
    figures.add_argument("--figures", type=Path, default=FIGURES, help="folder of the figures")
    figures.add_argument("--check", action="store_true", help="only compare with those there")
    table = commands.add_parser("table", help="the summary as Markdown, CSV and LaTeX")
    _results(table)
    table.add_argument("--figures", type=Path, default=FIGURES, help="folder of the tables")
    table.add_argument("--check", action="store_true", help="only compare with those there")
    report = commands.add_parser("report", help="every shape of every suite as Markdown")
    _results(report)
    report.add_argument("suites", nargs="*", help="only these suites")
    return top


def _results(command: argparse.ArgumentParser) -> None:
    command.add_argument("--results", type=Path, default=RESULTS, help="folder of the CSV files")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when all that was asked for is there, 1 where a check finds a difference, 2 on a
    wrong argument, 3 when the device was lost or time ran out: the same command goes on."""
    options = parser().parse_args(arguments)
    try:
        status = _COMMANDS[options.command](options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return unread()
    except DeviceLost as error:
        print(error, file=sys.stderr)
        return _again(sys.argv[1:] if arguments is None else arguments)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _again(arguments: Sequence[str]) -> int:
    """Goes on in a fresh process, as only that can use the device; gives up after a few."""
    begun = int(os.environ.get(_RESTARTS, "0"))
    if begun >= MOST_RESTARTS:
        return 3
    os.environ[_RESTARTS] = str(begun + 1)
    os.execv(sys.executable, [sys.executable, "-m", "hexcute_bench", *arguments])


def _list(options: argparse.Namespace) -> int:
    for suite in suites.ALL:
        state = missing_kernel(suite) or "ready"
        print(f"{suite.name:22} {suite.title}\n{'':22} {_contents(suite)}; {state}")
        if suite.note:
            print(f"{'':22} {suite.note}")
    return 0


def _contents(suite: Suite) -> str:
    if isinstance(suite, KernelSuite):
        return f"{len(suite.shapes)} shapes x {', '.join(suite.systems())}"
    return f"{len(suite.keys(False))} rows"


def _run(options: argparse.Namespace) -> int:
    chosen = suites.find(options.suites)
    given = {n: getattr(options, n) for n in ("rounds", "replay_us", "pause_s", "ranks", "spread")}
    asked = {name: value for name, value in given.items() if value is not None}
    settings = replace(Settings.of(options.quick, options.protocol), **asked)
    until = os.environ.setdefault(_UNTIL, str(time.monotonic() + options.seconds))
    seconds = float(until) - time.monotonic()
    if options.ranks > 1 and seconds < float("inf"):
        raise BenchError("ranks do not run out of time together; leave out --seconds, name --keys")
    filters, keys = tuple(options.shapes), tuple(options.keys)
    out = _of_rank(options.out, options.ranks, chosen)
    order = Order(out, settings, tuple(options.peers), filters, keys, seconds)
    run = SuiteRun(order, CudaClock)
    complete = True
    for suite in chosen:
        why = missing_kernel(suite)
        if why and not options.peers:
            print(f"{suite.name}: skipped, {why} (name --peers to measure the peers alone)")
            continue
        complete &= run.go(suite)
    return 0 if complete else 3


def _of_rank(out: Path, ranks: int, chosen: Sequence[Suite]) -> Path:
    """Where a rank writes: what is measured on all of them alike is asked for of the first one.
    Raises BenchError where ranks are not those that were started, or a suite is of one GPU."""
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks != started:
        raise BenchError(
            f"--ranks {ranks} in one of {started} processes; start it as torchrun "
            f"--nproc-per-node {ranks} -m hexcute_bench run end_to_end --ranks {ranks} --out DIR"
        )
    single = [each.name for each in chosen if not (isinstance(each, TableSuite) and each.several)]
    if ranks > 1 and single:
        raise BenchError(f"{single[0]} is of one GPU; end_to_end and rank_timeline take --ranks")
    rank = int(os.environ.get("RANK", "0"))
    return out / f"rank{rank}" if rank else out


def _drawing() -> None:
    """Raises `BenchError` where what figures and tables need is not installed."""
    for name in ("pandas", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            raise BenchError(f"{name} is not installed; {installing('pandas matplotlib')}")


def _figures(options: argparse.Namespace) -> int:
    _drawing()
    from hexcute_bench.figures import catalog

    if options.check:
        found = catalog.differences(options.results, options.figures)
        print("\n".join(found) or "every figure is as the results give it")
        return 1 if found else 0
    for path in catalog.draw(options.results, options.figures):
        print(path)
    return 0


def _table(options: argparse.Namespace) -> int:
    _drawing()
    from hexcute_bench.report.tables import differences, write

    if options.check:
        found = differences(options.results, options.figures)
        print("\n".join(found) or "every table is as the results give it")
        return 1 if found else 0
    for path in write(options.results, options.figures):
        print(path)
    return 0


def _report(options: argparse.Namespace) -> int:
    _drawing()
    from hexcute_bench.report.shapes import report

    chosen = suites.find(options.suites or ["all"])
    kernels = [suite for suite in chosen if isinstance(suite, KernelSuite)]
    print(report(kernels, options.results))
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list, "run": _run, "figures": _figures, "table": _table, "report": _report,
}  # fmt: skip


def _words(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="...", help="list, run, figures, table, report"
    )


BENCH = Command(
    "bench", "Measure kernels beside their peers, and draw what came of it.", _words,
    lambda options, tell: main(options.words),
)  # fmt: skip
