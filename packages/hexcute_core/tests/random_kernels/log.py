"""log(rows) = how many kernels of each kind were right, and which were refused, for which reason
and why that holds."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from random_kernels.running import Outcome

JUSTIFIED: dict[str, str] = {
    "a part at .* need different layouts": "a product shares rows and columns of its tile among"
    " threads: what cuts them is read, but not written (docs/language.md, parts of register tiles)",
}
"""Reasons that a refusal may have, as patterns, and why each holds."""


@dataclass(frozen=True)
class Row:
    """What became of one seed's kernel."""

    seed: int
    target: str
    kinds: tuple[str, ...]
    outcome: Outcome

    def text(self) -> str:
        detail = " / ".join(line.strip() for line in self.outcome.detail.splitlines())
        return f"{self.seed} {self.target} {self.outcome.kind}: {detail[:300]}"


def justification(outcome: Outcome) -> str | None:
    """Why a refusal holds; None for one that has no place in the list."""
    return next((why for text, why in JUSTIFIED.items() if re.search(text, outcome.reason)), None)


def log(rows: Iterable[Row], seeds: Sequence[int]) -> str:
    """The summary that is committed."""
    rows = list(rows)
    right = [r for r in rows if r.outcome.kind == "right"]
    refused = [r for r in rows if r.outcome.kind == "refused"]
    failed = [r for r in rows if r.outcome.fault]
    lines = [f"{len(rows)} kernels, seeds {seeds[0]} to {seeds[-1]}", ""]
    lines += [f"right    {len(right)}", f"refused  {len(refused)}", f"faults   {len(failed)}", ""]
    lines.append("right, by what they contain")
    counts = Counter(kind for r in right for kind in r.kinds)
    lines += [f"  {kind:<18} {count}" for kind, count in sorted(counts.items())]
    lines += ["", "right, by target"]
    targets = Counter(r.target for r in right)
    lines += [f"  {target:<18} {count}" for target, count in sorted(targets.items())]
    by_reason = defaultdict(list)
    for r in refused:
        by_reason[r.outcome.reason].append(r.seed)
    lines += ["", "refused, by reason"]
    for reason, found in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        outcome = next(r.outcome for r in refused if r.seed == found[0])
        lines += [f"  {len(found)} {reason}", f"    seeds {', '.join(map(str, found[:8]))}"]
        lines.append(f"    {justification(outcome) or 'not justified'}")
    if failed:
        lines += ["", "faults", *(f"  {r.text()}" for r in failed)]
    return "\n".join(lines) + "\n"
