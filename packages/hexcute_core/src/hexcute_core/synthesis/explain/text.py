"""explain : Solution -> text or JSON: layouts, instructions with bytes, conflicts, cost,
rejections.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from hexcute_core.arch import Arch
from hexcute_core.synthesis.explain.explanation import (
    Explanation,
    OperationEntry,
    explanation,
    filled,
    listed,
)
from hexcute_core.synthesis.explain.machine import Machine
from hexcute_core.synthesis.solution import Solution

# A summary lists this many rejected candidates; `explain(rejected=None)` lists all.
SHOWN = 12


def explain_text(
    solution: Solution, arch: Arch, rejected: int | None = SHOWN, machine: Machine | None = None
) -> str:
    """A page of text; `rejected` limits the list of candidates that lost (None: all)."""
    found = explanation(solution, arch, machine)
    lines = [f"kernel {found.kernel} for {found.target}, {found.threads} threads per block", ""]
    lines += ["tensors"]
    for t in found.tensors:
        shape = "x".join(map(str, t.shape)) + "  " if t.shape else ""
        held = f"  ({t.values} per thread)" if t.values else ""
        lines.append(f"  {t.name:<14} {t.space:<8} {t.dtype}  {shape}{t.layout}{held}")
    lines += ["", "operations (clocks of one block, loops included)"]
    lines += [f"  {o.where:<18} {_described(o):<86} {o.clocks:>9.0f}" for o in found.operations]
    how = "exact" if found.exact else "the search budget was reached"
    shares = ", ".join(f"{kind} {clocks:.0f}" for kind, clocks in found.clocks_by_kind.items())
    lines += ["", f"total {found.clocks:.0f} clocks ({shares}); search {how}"]
    lines += [f"a block alone takes an estimated {found.estimate:.0f} clocks"]
    lines += [bound_line(found), *resource_lines(found)]
    lines += [f"warning: {w}" for w in found.warnings]
    lines += [f"narrow: {line}" for line in narrow_lines(found)]
    lost = found.rejected if rejected is None else found.rejected[:rejected]
    if lost:
        lines += ["", f"rejected ({len(found.rejected)})"]
        lines += [f"  {r.subject}: {r.candidate}: {r.reason}" for r in lost]
        if len(lost) < len(found.rejected):
            lines.append(f"  and {len(found.rejected) - len(lost)} more")
    return "\n".join(lines) + "\n"


def bound_line(found: Explanation) -> str:
    """Which unit a block keeps busy longest, and for how long each."""
    busy = {unit: clocks for unit, clocks in found.bounds.items() if clocks >= 0.5}
    if not busy:
        return "bound by nothing: no unit is busy"
    shares = ", ".join(f"{unit} {busy[unit]:.0f}" for unit in sorted(busy, key=lambda u: -busy[u]))
    of = f" of {found.estimate:.0f}" if found.estimate else ""
    return f"bound by {found.bound}, busy for {busy[found.bound]:.0f}{of} clocks ({shares})"


def narrow_lines(found: Explanation) -> list[str]:
    """Which copies move less at once than they could, why, and what would widen them."""
    return [
        f"{n.where} {n.text} moves {n.bytes} bytes at once, not {n.possible}: {n.reason}; wider "
        f"with {n.remedy}"
        for n in found.narrow
    ]


def resource_lines(found: Explanation) -> list[str]:
    """What threads hold in registers, and what the machine code uses where that is known."""
    lines = []
    for h in found.held:
        tiles = listed(h.tiles[:4]) + (", ..." if len(h.tiles) > 4 else "")
        lines.append(
            f"threads {h.threads} hold {filled(h)} registers in tiles at {h.where}: {tiles}"
        )
    m = found.machine
    if m is not None:
        lines.append(
            f"machine code: {m.registers} registers per thread, {m.spilled} bytes spilled, "
            f"{m.local} in local memory, {m.shared} of shared memory per block; blocks a "
            f"multiprocessor holds: {m.blocks}, limited by {m.limit}"
        )
    return lines


def _described(o: OperationEntry) -> str:
    if not o.instruction:
        return o.text
    text = f"{o.text}: {o.instruction}"
    if o.calls and o.kind != "rearrange":
        text += f" x{o.calls}"
    if o.bytes:
        text += f", {o.bytes} bytes" + ("" if o.detail else " per instruction")
    if o.conflicts is not None:
        text += f", {o.conflicts} bank conflicts"
    return f"{text}, {o.detail}" if o.detail else text


def explain_json(solution: Solution, arch: Arch, machine: Machine | None = None) -> str:
    """The explanation as JSON, its fields those of `Explanation`."""
    return json.dumps(asdict(explanation(solution, arch, machine)), indent=2) + "\n"
