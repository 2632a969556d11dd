"""Timeline = tracks of stretches: what one thread of each warp group did, and when.

A thread waits, copies, multiplies or stores; in between it does something else. `show` tells it as
tables, `trace` in the JSON of Chrome's trace viewer, which Perfetto reads too, `picture` draws it.
"""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from hexcute_core.errors import HexcuteError, OptionError, SourceSpan
from hexcute_core.thread.ir import Activity, Interval

Block: TypeAlias = tuple[int, int, int]
Unit: TypeAlias = Literal["ns", "clocks"]
ACTIVITIES: tuple[Activity, ...] = get_args(Activity)


@dataclass(frozen=True)
class Stretch:
    """From `start` to `end` a thread did one thing, written at `where` (`file.py:7`) as `text`;
    both are empty for what no line stands for."""

    activity: Activity
    start: float
    end: float
    where: str
    text: str


@dataclass(frozen=True)
class Track:
    """What one warp group of a block did between `start` and `end`; `lost` rows of stamps found no
    room, and what they would have told is missing at the end."""

    block: Block
    name: str
    start: float
    end: float
    stretches: tuple[Stretch, ...]
    multiprocessor: int | None = None
    lost: int = 0

    @property
    def told(self) -> float:
        """Until when the stretches tell it: to the end, unless stamps were lost."""
        if not self.lost:
            return self.end
        return self.stretches[-1].end if self.stretches else self.start

    def share(self, activity: Activity) -> float:
        """The part of its time, from 0 to 1."""
        spent = sum(s.end - s.start for s in self.stretches if s.activity == activity)
        return spent / (self.end - self.start) if self.end > self.start else 0.0


@dataclass(frozen=True, repr=False)
class Timeline:
    """Tracks of the chosen blocks of one run of `kernel`, from 0 on.

    Times are nanoseconds of a GPU, whose multiprocessors made `clocks` of their own in each, or
    `unit` is "clocks": those that the cost model gives each block alone on a multiprocessor.
    """

    kernel: str
    unit: Unit
    tracks: tuple[Track, ...]
    clocks: float | None = None

    def __repr__(self) -> str:
        blocks = len({t.block for t in self.tracks})
        tracks = f"{len(self.tracks)} tracks of {blocks} blocks"
        lost = f", {self.lost} rows of stamps lost" if self.lost else ""
        return f"<timeline of {self.kernel}: {tracks}, {self._time(self.end)}{lost}>"

    @property
    def end(self) -> float:
        """When the last track ends, in nanoseconds or clocks, as `unit` says."""
        return max((t.end for t in self.tracks), default=0.0)

    @property
    def lost(self) -> int:
        """Rows of stamps, four or fewer in each, that found no room."""
        return sum(t.lost for t in self.tracks)

    def show(self) -> str:
        """Each track's time by what it was spent on, then each line's by role."""
        speed = "" if self.clocks is None else f", {self.clocks:.2f} clocks a nanosecond"
        lines = [f"timeline of {self.kernel}: {self._time(self.end)}{speed}"]
        missing = ("untold",) if self.lost else ()
        heads = "".join(f"{head:>10}" for head in (*ACTIVITIES, "other", *missing))
        wide = max(len(name) for name in ("threads", *(t.name for t in self.tracks))) + 2
        lines.append(f"  {'block':<12}{'threads':<{wide}}{'time':>11}{heads}")
        for t in self.tracks:
            shares = [t.share(a) for a in ACTIVITIES]
            untold = (t.end - t.told) / (t.end - t.start) if t.end > t.start else 0.0
            shares.append(max(0.0, 1.0 - untold - sum(shares)) if t.end > t.start else 0.0)
            shares += [untold] if self.lost else []
            place = ",".join(map(str, t.block))
            told = "".join(f"{share:>10.0%}" for share in shares)
            lines.append(f"  {place:<12}{t.name:<{wide}}{self._time(t.end - t.start):>11}{told}")
        lines += ["", *self._by_line(wide)]
        if self.lost:
            most = max(t.lost for t in self.tracks)
            lines.append(f"{self.lost} rows of stamps found no room: raise stamps= by {most}")
        return "\n".join(lines) + "\n"

    def _by_line(self, wide: int) -> Iterator[str]:
        spent: dict[tuple[str, str, str, str], list[float]] = {}
        for t in self.tracks:
            for s in t.stretches:
                key = t.name, s.where, s.activity, s.text
                spent.setdefault(key, []).append(s.end - s.start)
        yield f"  {'threads':<{wide}}{'line':<24}{'':<10}{'times':>6}{'each':>11}{'all':>11}"
        for (name, where, activity, text), times in spent.items():
            each, whole = self._time(sum(times) / len(times)), self._time(sum(times))
            line = f"  {name:<{wide}}{where:<24}{activity:<10}{len(times):>6}{each:>11}{whole:>11}"
            yield f"{line}  {text}".rstrip()

    def _time(self, time: float) -> str:
        if self.unit == "clocks":
            return f"{time:.0f} clk"
        return f"{time / 1000:.2f} us" if time >= 1000 else f"{time:.0f} ns"

    def trace(self) -> str:
        """The timeline as JSON in Chrome's trace format, for ui.perfetto.dev: a process is a block,
        a thread a track. Where the unit is clocks, a nanosecond of the viewer is a clock."""
        blocks = list(dict.fromkeys(t.block for t in self.tracks))
        events: list[dict[str, Any]] = []
        for i, t in enumerate(self.tracks):
            at = {"pid": blocks.index(t.block), "tid": i}
            on = "" if t.multiprocessor is None else f" on multiprocessor {t.multiprocessor}"
            named = {"name": f"block {','.join(map(str, t.block))}{on}"}
            about = {
                "name": t.name, "block": t.block, "start": t.start, "end": t.end,
                "multiprocessor": t.multiprocessor, "lost": t.lost,
            }  # fmt: skip
            events.append({"ph": "M", "name": "process_name", **at, "args": named})
            events.append({"ph": "M", "name": "thread_name", **at, "args": about})
            for s in t.stretches:
                when = {"ts": round(s.start / 1000, 6), "dur": round((s.end - s.start) / 1000, 6)}
                line = {"line": s.where, "text": s.text}
                kind = {"ph": "X", "name": s.activity, "cat": s.activity}
                events.append({**kind, **at, **when, "args": line})
            if t.lost:
                missing = {"name": f"{t.lost} rows of stamps found no room", "s": "t"}
                events.append({"ph": "i", **missing, **at, "ts": round(t.told / 1000, 6)})
        whole = {"kernel": self.kernel, "unit": self.unit, "clocks": self.clocks}
        lines = ",\n".join(json.dumps(event) for event in events)
        head = f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(whole)}, "traceEvents": ['
        return f"{head}\n{lines}\n]}}\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes `trace()` to a file; its path. Raises HexcuteError where that cannot be."""
        try:
            target = Path(path)
            target.write_text(self.trace(), encoding="utf-8")
        except (OSError, TypeError, ValueError) as wrong:
            raise HexcuteError(
                f"{path} cannot be written: {getattr(wrong, 'strerror', None) or wrong}",
                fix="name a file in a folder that is there",
            ) from None
        return target

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Timeline:
        """The timeline that `save` wrote to `path`. Raises HexcuteError for a file that is anything
        else."""
        try:
            return _from_trace(json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, LookupError, TypeError) as wrong:
            raise HexcuteError(
                f"{path}: it is no timeline: {wrong}", fix="name a file that save() wrote"
            ) from None

    def picture(self, first: float = 0.0, last: float | None = None) -> str:
        """An SVG of the time from `first` to `last`, in the timeline's unit. Raises OptionError."""
        from hexcute_core.thread.timeline_picture import picture

        ends = (first, self.end if last is None else last)
        if not all(type(time) in (int, float) for time in ends) or not 0 <= ends[0] <= ends[1]:
            raise OptionError(
                f"a picture from {first!r} to {last!r}: expected two times, the later one last",
                fix=f"leave them out, or name times from 0 to {self.end:.0f}",
            )
        return picture(self, *ends)


def stretches(
    intervals: Sequence[Interval], stamps: Sequence[tuple[int | None, float]], end: float
) -> tuple[Stretch, ...]:
    """The stretches between `stamps`, each the number of the interval that begins there, or None,
    and when; the last one's lasts to `end`."""
    times = [*(time for _, time in stamps[1:]), end]
    lines = [_line(interval.span) for interval in intervals]
    return tuple(
        Stretch(intervals[number].activity, start, stop, *lines[number])
        for (number, start), stop in zip(stamps, times)
        if number is not None
    )


def _line(span: SourceSpan | None) -> tuple[str, str]:
    """File and line, and the line itself as far as its file is still there."""
    if span is None:
        return "", ""
    text = linecache.getline(span.file, span.line).strip()
    return f"{Path(span.file).name}:{span.line}", text


def _from_trace(trace: Any) -> Timeline:
    found: dict[int, list[Stretch]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            start, long = event["ts"] * 1000, event["dur"] * 1000
            line = event["args"]["line"], event["args"]["text"]
            ACTIVITIES.index(event["name"])
            stretch = Stretch(event["name"], start, start + long, *line)
            found.setdefault(event["tid"], []).append(stretch)
    tracks = []
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            t, (x, y, z) = event["args"], event["args"]["block"]
            done = tuple(found.get(event["tid"], ()))
            place, ends = t["multiprocessor"], (float(t["start"]), float(t["end"]))
            tracks.append(Track((x, y, z), str(t["name"]), *ends, done, place, int(t["lost"])))
    whole = trace["otherData"]
    unit: Unit = "clocks" if whole["unit"] == "clocks" else "ns"
    return Timeline(str(whole["kernel"]), unit, tuple(tracks), whole["clocks"])
