"""What each switch of the attention kernel gains: the time without it over the time with it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from hexcute_bench.figures.style import LOOKS, figure, save

MASKS = ("no", "yes")
_MARKERS = {1024: "^", 4096: "o"}


def switches(results: Path, folder: Path) -> list[Path]:
    """A panel for each mask, a line for each switch, widths by colour, lengths by marker, of rows
    (switch, d, causal, heads, s, without_us, with_us)."""
    path = results / "attention_switches.csv"
    if not path.exists():
        return []
    rows = pd.read_csv(path)
    rows = rows.assign(gain=rows["without_us"] / rows["with_us"])
    names = list(dict.fromkeys(rows["switch"]))
    colours = {64: LOOKS["hexcute"].colour, 128: LOOKS["cublas"].colour}
    drawing, grid = figure(0.8 + 0.3 * len(names), columns=len(MASKS), sharey=True)
    for axes, mask in zip(grid[0], MASKS):
        for (d, s), part in rows[rows["causal"] == mask].groupby(["d", "s"]):
            places = [names.index(name) + (0.15 if d == 64 else -0.15) for name in part["switch"]]
            axes.plot(
                part["gain"], places, linestyle="", color=colours[d], marker=_MARKERS[s],
                markeredgewidth=0.5, markeredgecolor="#333333", label=f"d = {d}, S = {s}",
            )  # fmt: skip
        axes.axvline(1.0, color="#333333", linewidth=0.6)
        axes.set_yticks(range(len(names)), names)
        axes.set_title("causal" if mask == "yes" else "no mask")
    grid[0, 0].invert_yaxis()
    drawing.supxlabel("time without it over time with it", fontsize=7)
    handles = dict(zip(*reversed(grid[0, 0].get_legend_handles_labels())))
    drawing.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=2)
    return save(drawing, folder, "attention_switches")
