"""Figures over token counts: latency of the MoE layer, and what the ablations cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from hexcute_bench.figures.style import PAPER, Look, figure, look, save
from hexcute_bench.report.data import geometric_mean, paper, timed
from hexcute_bench.shape import Shape

SUITE, BASELINE = "moe", "marlin"
SYSTEMS = (
    "hexcute", "hexcute_tuned", "humming", "marlin", "marlin_092", "marlin_082", "vllm_triton",
    "vllm_triton_tuned",
)  # fmt: skip
CHOSEN = "chosen"
ABLATIONS = ("hexcute_triton_dataflow", "hexcute_triton_smem")


def _tokens(times: pd.DataFrame, system: str) -> pd.Series:
    """Microseconds by token count, few tokens first."""
    chosen = times[times["system"] == system]
    counts = [Shape.parse(shape)["tokens"] for shape in chosen["shape"]]
    return pd.Series(list(chosen["time_us"]), index=counts, dtype=float).sort_index()


def _token_axis(axes: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlabel("tokens")
    counts = (1, 4, 16, 64, 256, 1024, 4096, 16384)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()


def _plot(axes: Any, line: pd.Series, style: Look, **more: Any) -> None:
    axes.plot(
        line.index, line.to_numpy(), color=style.colour, marker=style.marker, label=style.label,
        markeredgewidth=0.5, markeredgecolor="#333333", **more,
    )  # fmt: skip


def moe(results: Path, folder: Path) -> list[Path]:
    """Latency over tokens, both axes logarithmic."""
    times = timed(results, SUITE, BASELINE)
    if times.empty:
        return []
    drawing, grid = figure(2.6)
    axes = grid[0, 0]
    for system in SYSTEMS:
        line = _tokens(times, system)
        if len(line):
            _plot(axes, line, look(system))
    _token_axis(axes)
    axes.set_yscale("log")
    axes.set_ylabel("two GEMMs and SiLU, us")
    drawing.legend(loc="outside upper center", ncols=2, columnspacing=1.0)
    return save(drawing, folder, "moe")


def ablation(results: Path, folder: Path) -> list[Path]:
    """Time of each ablated kernel over that of ours; the paper's beside it, dotted."""
    times = timed(results, SUITE, BASELINE)
    ours = _tokens(times, "hexcute")
    lines = {system: _tokens(times, system) for system in ABLATIONS}
    if not len(ours) or not any(len(line) for line in lines.values()):
        return []
    drawing, grid = figure(2.3)
    axes = grid[0, 0]
    axes.axhline(1.0, color=look("hexcute").colour, label=look("hexcute").label)
    reported = paper(SUITE, "hexcute")
    theirs = _tokens(reported, "hexcute")
    for system in ABLATIONS:
        line = (lines[system] / ours).dropna()
        if len(line):
            style = look(system)
            mean = geometric_mean(line)
            label = f"{style.label} ({mean:.2f}x)"
            _plot(axes, line, Look(label, style.colour, style.marker))
        dotted = (_tokens(reported, system) / theirs).dropna()
        axes.plot(
            dotted.index, dotted.to_numpy(), color=look(system).colour, linestyle=":",
            marker=PAPER.marker, markersize=2.5,
        )  # fmt: skip
    _token_axis(axes)
    axes.set_xlabel("tokens; dotted: what the paper reports")
    axes.set_ylabel("time over Hexcute's")
    axes.set_ylim(bottom=min(0.9, *axes.get_ylim()))
    drawing.legend(loc="outside upper center", ncols=1)
    return save(drawing, folder, "ablation")


def cost_model(results: Path, folder: Path) -> list[Path]:
    """Every layout's time over the best one's, on each shape, the chosen one filled."""
    times = timed(results, "cost_model", CHOSEN)
    if times.empty:
        return []
    times = times.assign(chosen=times["system"] == CHOSEN)
    return _choices(times, folder, "cost_model", "paper: 1.01x")


def ranking(results: Path, folder: Path) -> list[Path]:
    """Every configuration's time over the best one's, as the tuner measured them on each size; the
    one that the cost model ranked first filled."""
    path = results / f"matmul_{results.name}.csv"
    if not path.exists():
        return []
    rows = pd.read_csv(path)
    rows = rows[rows["status"] == "timed"]
    first = rows.groupby("sizes")["clocks"].transform("min") == rows["clocks"]
    sizes = [text.split(",") for text in rows["sizes"]]
    shapes = [" ".join(part for part in parts if part[:2] in ("m=", "n=", "k=")) for parts in sizes]
    times = rows.assign(time_us=rows["us"].astype(float), chosen=first, shape=shapes)
    # Of configurations that the model finds equal, the first.
    times = times[~times["chosen"] | ~times.duplicated(["shape", "chosen"])]
    return _choices(times, folder, "ranking", "model alone")


def _choices(times: pd.DataFrame, folder: Path, name: str, remark: str) -> list[Path]:
    """The drawing of `time_us` by `shape`, those `chosen` filled."""
    drawing, grid = figure(2.6)
    axes = grid[0, 0]
    shapes = list(dict.fromkeys(times["shape"]))
    losses = []
    for place, shape in enumerate(shapes):
        here = times[times["shape"] == shape]
        ratio = here["time_us"] / here["time_us"].min()
        chosen = here["chosen"]
        axes.plot([place] * int((~chosen).sum()), ratio[~chosen], linestyle="",
                  color=look("").colour, marker="o", markerfacecolor="none")  # fmt: skip
        axes.plot([place] * int(chosen.sum()), ratio[chosen], linestyle="",
                  color=look("hexcute").colour, marker="D")  # fmt: skip
        losses += list(ratio[chosen])
    small = {"size": 4} if len(shapes) > 20 else {}
    axes.set_xticks(range(len(shapes)), [_short(shape) for shape in shapes], rotation=90, **small)
    axes.set_yscale("log")
    ticks = (1, 1.5, 2, 4, 8, 16)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylabel("time over the best")
    worst = f"{geometric_mean(losses):.3f}x, at most {max(losses):.3f}x" if losses else "not timed"
    axes.set_title(f"chosen over best: {worst} ({remark})", fontsize=7)
    return save(drawing, folder, name)


def _short(shape: str) -> str:
    return "x".join(str(size) for _, size in Shape.parse(shape).items)


def compile_time(results: Path, folder: Path) -> list[Path]:
    """Seconds a configuration on one core, the stages of ours stacked; below, seconds of a whole
    space of configurations on all cores."""
    path = results / "compile_time.csv"
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame()
    rows = rows[rows["status"] == "ok"] if not rows.empty else rows
    if rows.empty:
        return []
    rows = rows.drop_duplicates("key", keep="last")
    many = rows["key"].str.contains("all cores")
    groups = [(part, whole) for part, whole in ((rows[~many], False), (rows[many], True))
              if len(part)]  # fmt: skip
    heights = [len(group) for group, _ in groups]
    drawing, grid = figure(1.3 + 0.22 * sum(heights), len(groups), height_ratios=heights)
    for axes, (group, whole) in zip(grid[:, 0], groups):
        for place, (_, row) in enumerate(group.iloc[::-1].iterrows()):
            value = row["total_s"] if whole else row["median_s"]
            drawn = 0.0 if whole else _stages(axes, place, row)
            end = max(value, drawn)
            if drawn == 0.0:
                axes.barh(place, value, color=look(row["system"]).colour, height=0.6)
            axes.annotate(
                f"{value:.2f} s", (end, place), xytext=(3, 0), textcoords="offset points",
                va="center", fontsize=6.5,
            )  # fmt: skip
        names = [key.replace(" all cores", "") for key in group["key"]]
        axes.set_yticks(range(len(group)), names[::-1])
        axes.margins(x=0.15)
        count, cores = int(group["configurations"].max()), int(group["processes"].max())
        axes.set_xlabel(
            f"seconds, {count} configurations, {cores} cores"
            if whole
            else "seconds a configuration, one core"
        )
    drawing.legend(loc="outside upper center", ncols=3)
    return save(drawing, folder, "compile_time")


def _stages(axes: Any, place: int, row: Any) -> float:
    """Draws the stages of a row side by side; where they end."""
    left = 0.0
    shades = ("#6B2F00", "#A34800", "#D55E00", "#E78A45", "#F3B98E")
    for shade, name in zip(shades, (n for n in row.index if n.endswith("_stage_s"))):
        if row[name] == row[name]:
            label = name.removesuffix("_stage_s")
            axes.barh(place, row[name], left=left, color=shade, height=0.6,
                      label=label if label not in _labels(axes) else None)  # fmt: skip
            left += row[name]
    return left


def _labels(axes: Any) -> list[str]:
    return list(axes.get_legend_handles_labels()[1])
