"""An operator's figure: speed over the baseline on every shape, a panel per group of shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hexcute_bench.figures.style import PAPER, Look, figure, look, save
from hexcute_bench.report.data import paper, timed
from hexcute_bench.shape import Shape


@dataclass(frozen=True)
class OperatorFigure:
    """What one figure shows.

    `panel` and `tick` name a shape's panel and its place on the axis; `systems` are drawn where
    they are measured; `paper` is the paper's data of which ours is shown too.
    """

    name: str
    suite: str
    baseline: str
    systems: tuple[str, ...]
    panel: Callable[[Shape], str]
    tick: Callable[[Shape], str]
    shapes: tuple[Shape, ...]
    axis: str
    paper: str = ""

    def draw(self, results: Path, folder: Path) -> list[Path]:
        """The files written; none where the suite has no results yet."""
        times = timed(results, self.suite, self.baseline)
        if times.empty:
            return []
        reported = paper(self.paper, self.baseline)
        reported = reported[reported["system"] == "hexcute"]
        panels = list(dict.fromkeys(self.panel(shape) for shape in self.shapes))
        drawing, grid = figure(0.85 + 0.78 * len(panels), rows=len(panels), sharex=True)
        handles: dict[str, Any] = {}
        for axes, name in zip(grid[:, 0], panels):
            shapes = [shape for shape in self.shapes if self.panel(shape) == name]
            self._panel(axes, name, shapes, times, reported, handles)
        last = grid[-1, 0]
        last.set_xlabel(self.axis)
        drawing.supylabel(f"speed over {look(self.baseline).label}", fontsize=7)
        drawing.legend(
            handles.values(), handles.keys(), loc="outside upper center",
            ncols=2, columnspacing=1.0, handletextpad=0.4,
        )  # fmt: skip
        return save(drawing, folder, self.name)

    def _panel(
        self,
        axes: Any,
        name: str,
        shapes: Sequence[Shape],
        times: pd.DataFrame,
        reported: pd.DataFrame,
        handles: dict[str, Any],
    ) -> None:
        places = range(len(shapes))
        axes.axhline(1.0, color=look(self.baseline).colour, linewidth=0.9, zorder=1)
        handles.setdefault(look(self.baseline).label, axes.lines[0])
        series = [(look(system), _values(times, shapes, system)) for system in self.systems]
        series.append((PAPER, _values(reported, shapes, "hexcute")))
        for style, values in series:
            if all(math.isnan(value) for value in values):
                continue
            handle = _line(axes, places, values, style)
            handles.setdefault(style.label, handle)
        axes.set_xticks(places, [self.tick(shape) for shape in shapes])
        if max(len(self.tick(shape)) for shape in shapes) > 6:
            axes.tick_params(axis="x", rotation=30)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
        axes.set_ylim(0.0, max(1.25, axes.get_ylim()[1]))
        axes.locator_params(axis="y", nbins=4)
        axes.set_title(name, loc="left", pad=2)


def _values(times: pd.DataFrame, shapes: Sequence[Shape], system: str) -> list[float]:
    found = times[times["system"] == system].set_index("shape")["ratio"]
    return [float(found.get(str(shape), math.nan)) for shape in shapes]


def _line(axes: Any, places: Sequence[int], values: Sequence[float], style: Look) -> Any:
    dashed = style is PAPER
    (line,) = axes.plot(
        places, values, color=style.colour, marker=style.marker,
        linestyle=":" if dashed else "-", markeredgewidth=0.5,
        markeredgecolor=style.colour if dashed else "#333333",
    )  # fmt: skip
    return line
