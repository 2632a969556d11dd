"""lanes : Timeline -> its tracks as plain values, for a page that draws them.

    stretch = [activity, start, end, line]: numbers of ACTIVITIES, times, number of a line
"""

from __future__ import annotations

from typing import Any

from hexcute_core.thread.timeline import ACTIVITIES, Timeline, Track
from hexcute_core.thread.timeline_picture import COLOURS, OTHER

MOST = 20000
"""Stretches that a page takes; it has the first blocks that fit, and the first of them anyhow."""


def lanes(timeline: Timeline) -> dict[str, Any]:
    """`tracks` with their stretches, `lines` by number, colours by activity, and how many tracks
    were `left` out."""
    lines: dict[str, int] = {}
    tracks: list[dict[str, Any]] = []
    room = MOST
    kept: list[Track] = []
    for block in dict.fromkeys(t.block for t in timeline.tracks):
        mine = [t for t in timeline.tracks if t.block == block]
        room -= sum(len(t.stretches) for t in mine)
        if kept and room < 0:
            break
        kept += mine
    for t in kept:
        stretches = [
            [ACTIVITIES.index(s.activity), round(s.start, 1), round(s.end, 1),
             lines.setdefault(s.where, len(lines))]
            for s in t.stretches
        ]  # fmt: skip
        tracks.append({
            "name": f"block {','.join(map(str, t.block))}: {t.name}", "start": round(t.start, 1),
            "end": round(t.end, 1), "told": round(t.told, 1), "stretches": stretches,
        })  # fmt: skip
    return {
        "unit": timeline.unit, "end": round(timeline.end, 1), "activities": list(ACTIVITIES),
        "colours": [COLOURS[a] for a in ACTIVITIES], "other": OTHER, "lines": list(lines),
        "tracks": tracks, "left": len(timeline.tracks) - len(kept),
    }  # fmt: skip
