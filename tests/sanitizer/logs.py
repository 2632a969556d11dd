"""Log -> Outcome: which launches ran under a tool, and what it reported while which of them ran."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_SAID = re.compile(r"^(launch|cut|ended|broken|stopped) (\w+)(?:: (.*))?$")
_REPORT = re.compile(r"={9} +(.*)$")
_ALONE = "No attachable process found"
_NOISE = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "Target application",
    "errors were skipped",
)
"""What is skipped is told at its launch, too: "Some records have been dropped"."""


@dataclass
class Outcome:
    """Keys of launches that `ended`, of those that ran with one cluster alone (`cut`), of those
    during which their process ended (`broken`, with what it said), the tool's reports as (key, its
    lines), and how many processes ran without the tool, whose launches do not count."""

    ended: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)
    reports: list[tuple[str, list[str]]] = field(default_factory=list)
    alone: int = 0

    def add(self, other: Outcome) -> None:
        self.ended |= other.ended
        self.cut |= other.cut
        self.broken |= other.broken
        self.reports.extend(other.reports)
        self.alone += other.alone


def read(lines: Iterable[str]) -> Outcome:
    """What a process of `replay.py` under a tool wrote. A report's first line begins with its
    kind, the lines after it with blanks. A launch that was stopped for time is none."""
    out, key, open_report = Outcome(), "", False
    for raw in lines:
        line = raw.rstrip()
        if said := _SAID.match(line):
            match said[1]:
                case "launch":
                    key = said[2]
                    out.broken[key] = "its process ended"
                case "cut":
                    out.cut.add(said[2])
                case "broken":
                    out.broken[said[2]] = said[3]
                case "ended":
                    out.broken.pop(said[2])
                    out.ended.add(said[2])
                case _:
                    out.broken.pop(key, None)
        if not (marked := _REPORT.search(line)):
            continue
        text = marked[1]
        if _ALONE in text:
            return Outcome(alone=1)
        indented = line[marked.start() + 9 :].startswith("  ")
        if not text or any(noise in text for noise in _NOISE):
            open_report = False
        elif indented and open_report:
            out.reports[-1][1].append(text.strip())
        elif not indented:
            out.reports.append((key, [text]))
            open_report = True
    return out


def kinds(reports: Iterable[tuple[str, list[str]]]) -> dict[str, int]:
    """How many reports there are of each kind: their first lines, without addresses and offsets."""
    out: dict[str, int] = {}
    for _, (first, *_) in reports:
        kind = re.sub(r"\+?0x[0-9a-f]+", "", re.sub(r"\([0-9,]*\)", "()", first))
        out[kind] = out.get(kind, 0) + 1
    return dict(sorted(out.items(), key=lambda pair: -pair[1]))
