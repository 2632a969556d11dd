"""Seconds to compile over the size of a program: ours solid, NVRTC's dashed, one panel per
group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hexcute_bench.figures.style import figure, save

OURS = ("frontend_s", "synthesis_s", "lowering_s", "backend_s")
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*"


def growth(results: Path, folder: Path) -> list[Path]:
    """Both axes logarithmic; grey is n log n from 20 milliseconds on. Results of the host lie
    beside those of a GPU."""
    path = results.parent / "host" / "growth.csv"
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame()
    rows = rows[rows["status"] == "ok"] if not rows.empty else rows
    if rows.empty:
        return []
    rows = rows.drop_duplicates(["key", "n"], keep="last")
    groups = list(dict.fromkeys(rows["group"]))
    drawing, grid = figure(1.9 * -(-len(groups) // 2), -(-len(groups) // 2), 2)
    for place, group in enumerate(groups):
        axes = grid[place // 2, place % 2]
        _panel(axes, rows[rows["group"] == group])
        axes.set_title(group, fontsize=7)
        if place % 2 == 0:
            axes.set_ylabel("seconds")
    drawing.supxlabel("n; solid: ours, dotted: NVRTC, grey: n log n from 20 ms", fontsize=6.5)
    return save(drawing, folder, "growth")


def _panel(axes: Any, rows: pd.DataFrame) -> None:
    sizes = np.array([1, 64], dtype=float)
    axes.plot(sizes, 0.02 * sizes * np.log2(2 * sizes), color="#BBBBBB", linewidth=3, zorder=0)
    for place, name in enumerate(dict.fromkeys(rows["key"])):
        mine = rows[rows["key"] == name].sort_values("n")
        look = {"color": _COLOURS[place], "marker": _MARKERS[place], "markersize": 2}
        axes.plot(mine["n"], mine[list(OURS)].sum(axis=1), label=name, **look)
        axes.plot(mine["n"], mine["toolchain_s"], linestyle=":", linewidth=0.6,
                  color=_COLOURS[place])  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_ylim(0.01, 40)
    ticks = [n for n in (1, 4, 16, 64, 512) if n <= rows["n"].max()]
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.minorticks_off()
    axes.legend(loc="upper left", fontsize=5, borderpad=0.2, labelspacing=0.2)
