"""picture(timeline) = an SVG: a row for each track, time to the right, a colour for each activity.

Times cut a piece out. Stretches too short to be seen are drawn as wide as a hair.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import ceil

from hexcute_core.thread.ir import Activity
from hexcute_core.thread.timeline import ACTIVITIES, Timeline, Track

COLOURS: dict[Activity, str] = {
    "wait": "#c9ced6", "copy": "#4e8fd0", "multiply": "#59a14f", "store": "#e0803a",
}  # fmt: skip
OTHER = "#f4f1e6"
"""What is left of a track: everything that no stamp tells of."""
UNTOLD = "url(#untold)"
"""Hatched: stamps of that time found no room."""
_HATCH = (
    '<pattern id="untold" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" fill="white"/><path d="M0 6L6 0" stroke="#c03030"/></pattern>'
)
_LEFT, _RIGHT, _ROW, _BAR, _HAIR = 250.0, 20.0, 26.0, 18.0, 0.3
_HEAD = 34.0
_STEPS = (1, 2, 5)
_THIN = 'stroke="#000" stroke-opacity="0.15"'


def picture(timeline: Timeline, first: float, end: float, width: int = 1100) -> str:
    """The tracks from time `first` to `end`, in the timeline's unit, `width` pixels wide."""
    scale = (width - _LEFT - _RIGHT) / max(end - first, 1e-9)
    rows = list(_rows(timeline))
    height = _HEAD + _ROW * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height:.0f}" fill="white"/>',
        *_legend(timeline),
    ]
    for i, (label, track) in enumerate(rows):
        y = _HEAD + _ROW * i
        if track is None:
            parts.append(f'<text x="8" y="{y + 15:.1f}" font-weight="bold">{escape(label)}</text>')
            continue
        parts.append(f'<text x="20" y="{y + 13:.1f}">{escape(label)}</text>')
        parts += _bars(track, first, end, y, scale)
    parts += _axis(timeline, first, end, scale, _HEAD + _ROW * len(rows))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rows(timeline: Timeline) -> Iterator[tuple[str, Track | None]]:
    """A head for each block, then its tracks."""
    block = None
    for t in timeline.tracks:
        if t.block != block:
            block = t.block
            on = "" if t.multiprocessor is None else f", multiprocessor {t.multiprocessor}"
            yield f"block {','.join(map(str, t.block))}{on}", None
        yield t.name, t


def _legend(timeline: Timeline) -> Iterator[str]:
    yield f'<text x="8" y="20" font-weight="bold">{escape(timeline.kernel)}</text>'
    x = _LEFT
    if timeline.lost:
        yield _HATCH
    untold = (("untold: stamps found no room", UNTOLD),) if timeline.lost else ()
    for name, colour in (*((a, COLOURS[a]) for a in ACTIVITIES), ("other", OTHER), *untold):
        yield f'<rect x="{x:.1f}" y="9" width="14" height="14" fill="{colour}" stroke="#888"/>'
        yield f'<text x="{x + 20:.1f}" y="20">{name}</text>'
        x += 90


def _bars(track: Track, first: float, end: float, y: float, scale: float) -> Iterator[str]:
    def bar(start: float, stop: float, colour: str) -> str:
        low, high = max(start, first), min(stop, end)
        x, wide = _LEFT + (low - first) * scale, max((high - low) * scale, _HAIR)
        return f'<rect x="{x:.2f}" y="{y:.1f}" width="{wide:.2f}" height="{_BAR}" fill="{colour}"/>'

    if track.start < end and track.end > first:
        yield bar(track.start, track.end, OTHER)
        if track.told < track.end and track.told < end:
            yield bar(track.told, track.end, UNTOLD)
    for s in track.stretches:
        if s.start < end and s.end > first:
            yield bar(s.start, s.end, COLOURS[s.activity])


def _axis(
    timeline: Timeline, first: float, end: float, scale: float, y: float
) -> Iterator[str]:
    step = _step((end - first) / 8)
    unit, divisor = ("clocks", 1.0) if timeline.unit == "clocks" else ("us", 1000.0)
    at = step * ceil(first / step)
    while at <= end:
        x = _LEFT + (at - first) * scale
        yield f'<line x1="{x:.1f}" y1="{_HEAD:.1f}" x2="{x:.1f}" y2="{y:.1f}" {_THIN}/>'
        told = f"{at / divisor:g}"
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{told}</text>'
        at += step
    yield f'<text x="20" y="{y + 16:.1f}">{unit}</text>'


def _step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... that is no less."""
    power = 1.0
    while power * 10 <= least:
        power *= 10
    return next((power * s for s in _STEPS if power * s >= least), power * 10)
