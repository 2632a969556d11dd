"""Where a step over several GPUs goes: each rank's computing, exchanging and idle time, and the
kernels of a short window on both ranks' common clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from hexcute_bench.figures.style import LOOKS, figure, look, save
from hexcute_bench.report.data import raw

SUITE, STEP, OURS = "rank_timeline", "step", "hexcute"
PARTS = {"computing": LOOKS["hexcute"].colour, "exchanging": LOOKS["fa4"].colour, "idle": "#CCCCCC"}
NUMBERS = ("batch", "rank", "start_us", "us", *(f"{part}_us" for part in PARTS))


def rank_timeline(results: Path, folder: Path) -> list[Path]:
    """A panel of whole steps, a bar for each model, system, batch and rank; below it one of each
    model's window with the fewest sequences, of ours."""
    rows = raw(results, SUITE)
    if rows.empty:
        return []
    for name in NUMBERS:
        rows[name] = pd.to_numeric(rows[name])
    steps = rows[rows["name"] == STEP].drop_duplicates(
        ["key", "system", "rank"], keep="last"
    )
    models = list(dict.fromkeys(steps["model"]))
    heights = [0.2 + 0.14 * len(steps)] + [0.55] * len(models)
    drawing, grid = figure(
        0.8 + sum(heights) + 0.3 * len(models), rows=len(heights), height_ratios=heights
    )
    _steps(grid[0, 0], steps)
    for axes, model in zip(grid[1:, 0], models):
        of = rows[(rows["model"] == model) & (rows["system"] == OURS) & (rows["name"] != STEP)]
        fewest = of["batch"].min()
        _window(axes, of[of["batch"] == fewest])
        sequences = "one sequence" if fewest == 1 else f"{fewest:.0f} sequences"
        axes.set_title(f"{model}, {sequences}, a part of a step", loc="left", pad=2)
    handles = [_patch(colour) for colour in PARTS.values()]
    drawing.legend(handles, PARTS, loc="outside upper center", ncols=len(PARTS))
    return save(drawing, folder, SUITE)


def _steps(axes: Any, steps: pd.DataFrame) -> None:
    names = [
        f"{row.model}, {look(row.system).label}, {row.batch:.0f}, rank {row.rank:.0f}"
        for row in steps.itertuples()
    ]
    begin = pd.Series(0.0, index=steps.index)
    for part, colour in PARTS.items():
        length = steps[f"{part}_us"] * 1e-3
        axes.barh(range(len(names)), length, left=begin, color=colour, linewidth=0)
        begin = begin + length
    axes.set_yticks(range(len(names)), names, fontsize=4.5)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds of a step", labelpad=1)


def _window(axes: Any, launches: pd.DataFrame) -> None:
    """The launches of the last run of this key."""
    last = launches[launches["key"] == launches["key"].iloc[-1]]
    for rank, mine in last.groupby("rank"):
        for part in ("computing", "exchanging"):
            exchanges = mine["name"].str.startswith("nccl")
            shown = mine[exchanges == (part == "exchanging")]
            bars = list(zip(shown["start_us"], shown["us"]))
            axes.broken_barh(bars, (rank - 0.4, 0.8), color=PARTS[part], linewidth=0)
    ranks = sorted(set(last["rank"]))
    axes.set_yticks(ranks, [f"rank {rank:.0f}" for rank in ranks])
    axes.invert_yaxis()
    axes.set_xlabel("microseconds", labelpad=1)


def _patch(colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=colour, linewidth=0)
