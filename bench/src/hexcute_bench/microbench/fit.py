"""clocks(trips) = fixed + slope * trips, by least squares over medians of repeated launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from hexcute_bench.errors import BenchError


@dataclass(frozen=True)
class Line:
    """`error` is the greatest distance from the line as a fraction of the clocks it spans."""

    fixed: float
    slope: float
    error: float


def line(samples: Mapping[int, Sequence[float]]) -> Line:
    """The line through samples of clocks by trips. Raises BenchError for fewer than two numbers of
    trips, or where more trips do not take longer."""
    if len(samples) < 2 or not all(samples.values()):
        raise BenchError("a slope needs samples at two numbers of trips or more")
    xs = [float(trips) for trips in samples]
    ys = [float(median(taken)) for taken in samples.values()]
    middle_x, middle_y = fmean(xs), fmean(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
    if slope <= 0:
        raise BenchError(f"more trips took no longer: {dict(zip(xs, ys, strict=True))}")
    fixed = middle_y - slope * middle_x
    off = max(abs(fixed + slope * x - y) for x, y in zip(xs, ys, strict=True))
    return Line(fixed, slope, off / (slope * (max(xs) - min(xs))))
