"""Speed-up of 100 tokens over each baseline, a panel for each model, and what the paper reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from hexcute_bench.figures.style import PAPER, figure, look, save
from hexcute_bench.report.data import facts, geometric_mean, raw
from hexcute_bench.rows import OK

SUITE, OURS = "end_to_end", "hexcute"
TITLES = {"deepseek": "DeepSeek-R1-AWQ", "jamba": "Jamba-mini-1.7", "qwen": "Qwen3-32B-FP8"}
ONE_OF_EIGHT = "deepseek"
"""The model of which each GPU has an eighth; of others all GPUs have the whole together."""
PAPERS = {
    "deepseek": "e2e_deepseek_r1_awq_avg",
    "jamba": "e2e_jamba_mini_1_7_avg",
    "qwen": "e2e_qwen3_32b_max",
}
"""The paper's number beside each model: a mean, of Qwen the best."""
HATCHES = ("", "//", "xx", "..")

_BESIDE = 3
"""So many bars of a load have room for numbers that lie; those of more stand."""


def speedups(results: Path) -> pd.DataFrame:
    """A row for each key measured: model, baseline, batch, prompt, GPUs and how a model is cut, and
    the baseline's latency over ours, both of one run."""
    rows = raw(results, SUITE)
    columns = ["model", "baseline", "batch", "prompt", "ranks", "ratio"]
    if rows.empty:
        return pd.DataFrame(columns=columns)
    rows = rows[rows["status"] == OK].drop_duplicates(["key", "system"], keep="last").copy()
    for name in ("batch", "prompt", "latency_ms"):
        rows[name] = pd.to_numeric(rows[name])
    ours = rows[rows["system"] == OURS].set_index("key")["latency_ms"]
    theirs = rows[rows["system"] != OURS].copy()
    theirs["ratio"] = theirs["latency_ms"] / theirs["key"].map(ours)
    return theirs[theirs["ratio"].notna()][columns].reset_index(drop=True)


def end_to_end(results: Path, folder: Path) -> list[Path]:
    """Bars of every batch; the geometric mean of each baseline's in the legend."""
    found = speedups(results)
    models = [model for model in TITLES if model in set(found["model"])]
    if not models:
        return []
    drawing, grid = figure(0.4 + 1.4 * len(models), rows=len(models))
    claims = facts("claims").set_index("what")["value"]
    for axes, model in zip(grid[:, 0], models):
        rows = found[found["model"] == model]
        _panel(axes, rows, float(claims[PAPERS[model]]))
        axes.set_title(title(model, str(rows["ranks"].iloc[0])), loc="left", pad=2)
    grid[-1, 0].set_xlabel("sequences x tokens of a prompt")
    drawing.supylabel("speed-up of 100 tokens", fontsize=7)
    return save(drawing, folder, SUITE)


def title(model: str, ranks: str) -> str:
    """A model's name, and over how many GPUs it was cut and how, as the rows say."""
    count, _, how = ranks.partition(", ")
    gpus = f"{count} GPU" + "s" * (count != "1")
    part = f"{gpus} of eight" if model == ONE_OF_EIGHT else gpus * (count != "1")
    name = f"{TITLES[model]}, {part}" if part else TITLES[model]
    return f"{name}\n{how}" if how else name


def _panel(axes: Any, rows: pd.DataFrame, reported: float) -> None:
    rows = rows.assign(load=list(zip(rows["batch"], rows["prompt"])))
    loads = sorted(set(rows["load"]), key=lambda load: (load[1], load[0]))
    baselines = list(dict.fromkeys(rows["baseline"]))
    width = 0.8 / len(baselines)
    upright = len(baselines) > _BESIDE
    axes.axhline(1.0, color="#333333", linewidth=0.8)
    axes.axhline(reported, color=PAPER.colour, linestyle=":", label=f"paper ({reported:.2f}x)")
    for place, baseline in enumerate(baselines):
        mine = rows[rows["baseline"] == baseline]
        style = look(baseline)
        middle = [loads.index(load) + (place + 0.5) * width - 0.4 for load in mine["load"]]
        label = f"{style.label} ({geometric_mean(mine['ratio']):.2f}x)"
        bars = axes.bar(
            middle, mine["ratio"], width, color=style.colour, label=label,
            hatch=HATCHES[place % len(HATCHES)], edgecolor="white", linewidth=0.3,
        )  # fmt: skip
        # On white, where a number comes to lie on a line.
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        turned = 90 if upright else 0
        axes.bar_label(bars, fmt="%.2f", fontsize=5, padding=1, bbox=box, rotation=turned)
    axes.set_xticks(range(len(loads)), [f"{batch}\nx {prompt}" for batch, prompt in loads])
    room = 1.25 if upright else 1.15
    axes.set_ylim(0.0, max(1.25, reported, float(rows["ratio"].max())) * room)
    axes.locator_params(axis="y", nbins=4)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=5.5)
