"""Log -> Outcome: which tests ran under a tool, and what it reported while which of them ran."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_FILE = r"(?:packages|bench|tests)/\S+\.py"
_TEST = re.compile(rf"^({_FILE}::.+?)(?= (?:PASSED|FAILED|SKIPPED|ERROR|=)|$)")
_VERDICT = re.compile(r"\b(PASSED|FAILED|SKIPPED|ERROR)\b.* \[ *\d+%\]$")
# The tool marks its lines with nine of them; pytest's headings end with some, too.
_REPORT = re.compile(r"(?<!=)={9} +(.*)(?<!=)$")
_ALONE = "No attachable process found"
_NOISE = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "Target application")


@dataclass
class Outcome:
    """Tests by verdict, the tool's reports: (test, its lines), and how many processes ran without
    the tool, whose tests do not count."""

    tests: dict[str, list[str]] = field(default_factory=dict)
    reports: list[tuple[str, list[str]]] = field(default_factory=list)
    alone: int = 0

    def add(self, other: Outcome) -> None:
        for verdict, names in other.tests.items():
            self.tests.setdefault(verdict, []).extend(names)
        self.reports.extend(other.reports)
        self.alone += other.alone


def read(lines: Iterable[str]) -> Outcome:
    """What a process of `pytest -v` under a tool wrote. A report's first line begins with its
    kind, the lines after it with blanks."""
    out, test, open_report = Outcome(), "", False
    for raw in lines:
        line = raw.rstrip()
        if found := _TEST.match(line):
            test = found[1].strip()
        if verdict := _VERDICT.search(line):
            out.tests.setdefault(verdict[1].lower(), []).append(test)
        if not (marked := _REPORT.search(line)):
            continue
        text = marked[1]
        if _ALONE in text:
            return Outcome(alone=1)
        indented = line[marked.start() + 9 :].startswith("  ")
        if not text or any(noise in text for noise in _NOISE):
            open_report = False
        elif indented and open_report:
            if "Host Frame" not in text and "host backtrace" not in text:
                out.reports[-1][1].append(text.strip())
        elif not indented:
            out.reports.append((test, [text]))
            open_report = True
    return out


def kinds(reports: Iterable[tuple[str, list[str]]]) -> dict[str, int]:
    """How many reports there are of each kind: their first lines, without addresses and offsets."""
    out: dict[str, int] = {}
    for _, (first, *_) in reports:
        kind = re.sub(r"\+?0x[0-9a-f]+", "", re.sub(r"\([0-9,]*\)", "()", first))
        out[kind] = out.get(kind, 0) + 1
    return dict(sorted(out.items(), key=lambda pair: -pair[1]))
