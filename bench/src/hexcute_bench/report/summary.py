"""The summary: geometric means per regime, ours and the peers over each operator's baseline,
beside what the paper reports for the same shapes, and the lines of code."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hexcute_bench.report.data import facts, geometric_mean, paper, timed
from hexcute_bench.shape import Shape


@dataclass(frozen=True)
class Entry:
    """One operator of the summary: a suite seen against one baseline.

    `ours` and `triton` name the systems of ours and of Triton's best; `paper` is the paper's
    data and row of Table II, and `paper_baseline` what it is called there.
    """

    title: str
    suite: str
    baseline: str
    regime: Callable[[Shape], str]
    ours: str = "hexcute"
    triton: tuple[str, ...] = ("triton",)
    paper: str = ""
    paper_baseline: str = ""


COLUMNS = (
    "operator", "regime", "shapes", "measured", "baseline", "hexcute", "tuned", "best", "triton",
    "paper_hexcute", "paper_triton", "loc_hexcute", "loc_triton", "paper_loc_cuda",
    "paper_loc_triton", "paper_loc_hexcute",
)  # fmt: skip


def rows(entry: Entry, folder: Path, code: dict[tuple[str, str], int]) -> list[dict[str, object]]:
    """A row a regime: means over the shapes on which both sides are measured."""
    times = timed(folder, entry.suite, entry.baseline)
    reported = paper(entry.paper, entry.paper_baseline or entry.baseline)
    shapes = list(dict.fromkeys([*times["shape"], *reported["shape"]]))
    regimes = list(dict.fromkeys(entry.regime(Shape.parse(shape)) for shape in shapes))
    found: list[dict[str, object]] = []
    table2 = facts("summary").set_index("suite")
    for name in regimes:
        inside = [shape for shape in shapes if entry.regime(Shape.parse(shape)) == name]
        both = (entry.ours, f"{entry.ours}_tuned")
        row: dict[str, object] = {
            "operator": entry.title,
            "regime": name,
            "shapes": len(inside),
            "measured": int(_inside(times, inside, both)["shape"].nunique()),
            "baseline": entry.baseline,
            "hexcute": _mean(times, inside, both[:1]),
            "tuned": _mean(times, inside, both[1:]),
            "best": _best_peer(times, inside, entry),
            "triton": _mean(times, inside, entry.triton),
            "paper_hexcute": _mean(reported, inside, ("hexcute",)),
            "paper_triton": _mean(reported, inside, ("triton",)),
            "loc_hexcute": code.get((entry.suite, entry.ours), ""),
            "loc_triton": code.get((entry.suite, "triton"), ""),
        }
        if entry.paper in table2.index:
            for key in ("cuda", "triton", "hexcute"):
                row[f"paper_loc_{key}"] = int(table2.loc[entry.paper, f"loc_{key}"])
        found.append(row)
    return found


def _mean(times: pd.DataFrame, shapes: list[str], systems: tuple[str, ...]) -> float:
    """Geometric mean of the best of these systems on each shape that has one."""
    chosen = _inside(times, shapes, systems)
    return geometric_mean(chosen.groupby("shape")["ratio"].max())


def _inside(times: pd.DataFrame, shapes: list[str], systems: tuple[str, ...]) -> pd.DataFrame:
    """The rows of these shapes and systems that have a ratio."""
    chosen = times[times["shape"].isin(shapes) & times["system"].isin(systems)]
    return chosen[chosen["ratio"].notna()]


def _best_peer(times: pd.DataFrame, shapes: list[str], entry: Entry) -> float:
    """Ours, tuned where that is measured, over the fastest peer of each shape, on the shapes that
    ours has: peers are tuned too."""
    inside = times[times["shape"].isin(shapes) & times["ratio"].notna()]
    tuned = inside[inside["system"] == f"{entry.ours}_tuned"]
    called = inside[inside["system"] == entry.ours]
    ours = (called if tuned.empty else tuned).set_index("shape")["ratio"]
    rest = inside[~inside["system"].str.startswith("hexcute")]
    best = rest.groupby("shape")["ratio"].max()
    return geometric_mean((ours / best).dropna()) if len(ours) else math.nan


def summary(
    entries: tuple[Entry, ...], folder: Path, code: dict[tuple[str, str], int]
) -> pd.DataFrame:
    """All operators under each other."""
    found = [row for entry in entries for row in rows(entry, folder, code)]
    return pd.DataFrame(found, columns=list(COLUMNS))


_HEADINGS = {
    "operator": "Operator", "regime": "Regime", "shapes": "Shapes", "measured": "Measured",
    "baseline": "Baseline",
    "of": "Measured",
    "hexcute": "As called", "tuned": "Tuned", "best": "Over best peer",
    "triton": "Triton",
    "paper_hexcute": "In the paper", "paper_triton": "Triton in the paper",
    "loc_hexcute": "LoC Hexcute", "loc_triton": "LoC Triton", "paper_loc_cuda": "Paper LoC CUDA",
    "paper_loc_triton": "Paper LoC Triton", "paper_loc_hexcute": "Paper LoC Hexcute",
}  # fmt: skip


def _cell(value: object) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        return f"{value:.0f}" if value == round(value) and value > 5 else f"{value:.2f}"
    return str(value) if value not in ("", None) else "–"


_SPEED = (
    "operator", "regime", "of", "baseline", "hexcute", "tuned", "best", "paper_hexcute",
)  # fmt: skip
_BESIDE = (
    "operator", "regime", "triton", "paper_triton", "loc_hexcute", "loc_triton",
    "paper_loc_hexcute", "paper_loc_triton", "paper_loc_cuda",
)  # fmt: skip


def as_markdown(frame: pd.DataFrame) -> str:
    """Two pipe tables that fit a page: ours over the baseline and over the best peer, beside what
    the paper reports; and Triton's, with lines of code. Ratios are baseline time over a system's,
    higher is better."""
    measured = frame["measured"].astype(str) + " of " + frame["shapes"].astype(str)
    whole = frame.assign(of=measured)
    return "\n".join(_table(whole[list(columns)]) for columns in (_SPEED, _BESIDE))


def _table(frame: pd.DataFrame) -> str:
    lines = ["| " + " | ".join(_HEADINGS[name] for name in frame.columns) + " |"]
    lines.append("|" + "---|" * len(frame.columns))
    for _, row in frame.iterrows():
        lines.append("| " + " | ".join(_cell(value) for value in row) + " |")
    return "\n".join(lines) + "\n"


def as_csv(frame: pd.DataFrame) -> str:
    """The numbers with four digits; empty where nothing is measured."""
    return str(frame.to_csv(index=False, float_format="%.4g", lineterminator="\n"))


def as_latex(frame: pd.DataFrame) -> str:
    """A tabular that needs no package."""
    escape = str.maketrans({"_": r"\_", "%": r"\%", "&": r"\&", "–": "--", "≥": r"$\ge$"})
    lines = [r"\begin{tabular}{" + "llrrl" + "r" * (len(frame.columns) - 5) + "}", r"\hline"]
    lines.append(" & ".join(_HEADINGS[name].translate(escape) for name in frame.columns) + r" \\")
    lines.append(r"\hline")
    for _, row in frame.iterrows():
        cells = (_cell(value).translate(escape) for value in row)
        lines.append(" & ".join(cells).replace(">=", r"$\ge$").replace("<=", r"$\le$") + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"
