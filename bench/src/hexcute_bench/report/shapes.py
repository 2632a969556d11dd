"""The report: for each suite every shape, ours beside the best peer and the paper's ratio, then
what is missing or wrong and where it was measured."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hexcute_bench.interface import KernelSuite
from hexcute_bench.report.data import geometric_mean, missing, paper, timed
from hexcute_bench.report.entries import ENTRIES
from hexcute_bench.shape import Shape


def report(suites: Sequence[KernelSuite], folder: Path) -> str:
    """Markdown of all suites that have results."""
    parts = [_suite(suite, folder) for suite in suites]
    return "\n".join([part for part in parts if part] + [_environments(folder)])


def _suite(suite: KernelSuite, folder: Path) -> str:
    times = timed(folder, suite.name, suite.baseline)
    if times.empty:
        return ""
    entry = next(
        (e for e in ENTRIES if (e.suite, e.baseline) == (suite.name, suite.baseline)), None
    )
    reported = paper(entry.paper, entry.paper_baseline or entry.baseline) if entry else times[:0]
    theirs = reported[reported["system"] == "hexcute"].set_index("shape")["ratio"]
    systems = [name for name in suite.systems() if name in set(times["system"])]
    wide = times.pivot(index="shape", columns="system", values="time_us")
    ratios = times.pivot(index="shape", columns="system", values="ratio")
    both = {"Hexcute": "hexcute", "tuned": "hexcute_tuned"}
    heads = [*systems]
    for label in both:
        heads += [f"{label} / {suite.baseline}", f"{label} / best peer"]
    heads.append("paper")
    lines = [f"## {suite.title} (`{suite.name}`)", "", "Times in microseconds.", ""]
    lines += ["| shape | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    peers = [name for name in systems if not name.startswith("hexcute")]
    shapes = [str(shape) for shape in suite.shapes if str(shape) in wide.index]
    for shape in shapes:
        cells = [_number(wide.at[shape, name], 1) for name in systems]
        best = max((_ratio(ratios, shape, name) for name in peers), default=math.nan)
        for name in both.values():
            ours = _ratio(ratios, shape, name)
            cells += [_number(ours, 2), _number(ours / best, 2)]
        cells.append(_number(theirs.get(shape), 2))
        lines.append(f"| {shape} | " + " | ".join(cells) + " |")
    lines += ["", *_means(suite, times, shapes), *_trouble(suite.name, folder)]
    return "\n".join(lines) + "\n"


def _ratio(ratios: pd.DataFrame, shape: str, system: str) -> float:
    return float(ratios.at[shape, system]) if system in ratios.columns else math.nan


def _number(value: object, digits: int) -> str:
    number = math.nan if value is None else float(value)  # type: ignore[arg-type]
    return "–" if math.isnan(number) else f"{number:.{digits}f}"


def _means(suite: KernelSuite, times: pd.DataFrame, shapes: Sequence[str]) -> list[str]:
    lines = []
    for regime in dict.fromkeys(suite.regime(Shape.parse(shape)) for shape in shapes):
        inside = [shape for shape in shapes if suite.regime(Shape.parse(shape)) == regime]
        here = times[times["shape"].isin(inside) & times["ratio"].notna()]
        means = [
            f"{name} {geometric_mean(group['ratio']):.3f} ({len(group)} shapes)"
            for name, group in here.groupby("system", sort=True)
            if name != suite.baseline
        ]
        if means:
            lines.append(f"- {regime}, geometric means over {suite.baseline}: {', '.join(means)}")
    return lines


def _trouble(suite: str, folder: Path) -> list[str]:
    rows = missing(folder, suite)
    lines = []
    for _, row in rows.iterrows():
        lines.append(f"- {row['status']}: {row['system']} on {row['shape']}: {row['note']}")
    return ["", *lines] if lines else []


def _environments(folder: Path) -> str:
    path = folder / "environment.json"
    if not path.exists():
        return ""
    lines = ["## Measured on", ""]
    for run, entry in json.loads(path.read_text()).items():
        gpu = entry["gpu"].get("name", "no GPU")
        driver = entry["gpu"].get("driver_version", "")
        clocks = "; ".join(_clock(name, seen) for name, seen in entry["suites"].items())
        made = f"commit {entry['commit']}, {entry['date']}"
        lines.append(f"- `{run}`: {gpu}, driver {driver}, {made}; {clocks}")
    return "\n".join(lines) + "\n"


def _clock(suite: str, seen: dict[str, object]) -> str:
    clocks = seen.get("clocks_seen")
    if not isinstance(clocks, dict) or "clocks.sm" not in clocks:
        return suite
    clock = clocks["clocks.sm"]
    return f"{suite} at {clock['min']:.0f} to {clock['max']:.0f} MHz"
