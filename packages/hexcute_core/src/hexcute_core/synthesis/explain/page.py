"""page : Solution -> one HTML file: source, layouts, accesses, candidates and code of a kernel.

Tables and texts are written here, so that they can be read and searched without a program; layouts
and accesses are drawn by `assets/page.js` from the functions of `scene`. The file needs nothing
beside itself.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from hexcute_core.arch import Arch
from hexcute_core.synthesis.explain.explanation import Explanation, explanation
from hexcute_core.synthesis.explain.lanes import lanes
from hexcute_core.synthesis.explain.listing import Listing, linked, whole
from hexcute_core.synthesis.explain.machine import Machine
from hexcute_core.synthesis.explain.scene import scene
from hexcute_core.synthesis.explain.text import bound_line, narrow_lines, resource_lines
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.solution import Solution
from hexcute_core.thread.timeline import Timeline

_SECTIONS = ("source", "timeline", "layouts", "accesses", "operations", "candidates", "code")
_PROGRAMS = ("page.js", "lines.js", "lanes.js")
_HEAT = ("", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█")


def explain_html(
    solution: Solution,
    arch: Arch,
    machine: Machine | None = None,
    code: Sequence[Listing] = (),
    timeline: Timeline | None = None,
) -> str:
    """The page; `code` are the texts to show of what the kernel became, `timeline` a run of it."""
    found, drawn = explanation(solution, arch, machine), scene(solution)
    touched = (
        "What the lanes of the first warp touch in the 32 banks of shared memory; lanes below one "
        "another wait." if drawn["accesses"] else "No copy goes through shared memory."
    )
    title = escape(f"{found.kernel} for {found.target}")
    body = [
        f'<header><button id="theme">light or dark</button><h1>{title}</h1>',
        f"<p>{_summary(found)}</p>",
        *(f"<p>{escape(line)}</p>" for line in (bound_line(found), *resource_lines(found))),
        *(f'<p class="warning">{escape(w)}</p>' for w in found.warnings),
        *(f'<p class="warning">{escape(line)}</p>' for line in narrow_lines(found)),
        _bars(found),
        "<nav>" + "".join(f'<a href="#{name}">{name}</a>' for name in _SECTIONS
                          if timeline is not None or name != "timeline") + "</nav>",
        "</header><main>",
        _section(
            "source",
            *_source(solution, found, code),
            '<div id="linked" aria-live="polite"></div>',
        ),
        *(() if timeline is None else (_timeline(timeline),)),
        _section(
            "layouts",
            '<p class="soft">Point at an element to see who has it; click it, or give a number, to '
            "see all that its thread has. Arrow keys move.</p>",
            '<div class="controls" id="chosen"></div><div class="controls" id="pages"></div>',
            '<p class="told" id="told" aria-live="polite"></p>',
            '<div class="scroll" id="grid"></div>',
        ),
        _section(
            "accesses",
            f'<p class="soft">{touched}</p>',
            '<div class="controls" id="copies"></div><div id="access"></div>',
        ),
        _section("operations", *_operations(found)),
        _section("candidates", *_candidates(found)),
        _section("code", *_code(code)),
        "</main>",
    ]
    data = {**drawn, "code": linked(code)}
    if timeline is not None:
        data["timeline"] = lanes(timeline)
    return _whole(title, body, json.dumps(data, separators=(",", ":")))


def _whole(title: str, body: Iterable[str], data: str) -> str:
    assets = files("hexcute_core.synthesis.explain") / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    program = "\n".join((assets / name).read_text(encoding="utf-8") for name in _PROGRAMS)
    # A name in the data must not end the script that holds it.
    safe = data.replace("<", "\\u003c")
    return "\n".join([
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta name="viewport" content="width=device-width"><title>{title}</title>',
        f"<style>\n{style}</style></head><body>",
        *body,
        f'<script type="application/json" id="scene">{safe}</script>',
        f"<script>\n{program}</script>\n</body></html>\n",
    ])  # fmt: skip


def _section(name: str, *parts: str) -> str:
    inside = "\n".join(parts)
    return f'<section id="{name}"><h2>{name.capitalize()}</h2>\n{inside}\n</section>'


def _summary(found: Explanation) -> str:
    how = "exact" if found.exact else "ended at its budget"
    return (
        f"{found.threads} threads per block; {found.clocks:.0f} clocks of work, an estimated "
        f"{found.estimate:.0f} for a block alone; the search was {how}."
    )


def _bars(found: Explanation) -> str:
    """How long a block keeps each unit busy."""
    busy = {unit: clocks for unit, clocks in found.bounds.items() if clocks >= 0.5}
    most = max(busy.values(), default=1.0)
    rows = (
        f'<span>{escape(unit)}</span><i style="width:{100 * clocks / most:.1f}%"></i>'
        f"<span>{clocks:.0f}</span>"
        for unit, clocks in sorted(busy.items(), key=lambda item: -item[1])
    )
    return f'<div class="bars">{"".join(rows)}</div>'


def _source(
    solution: Solution, found: Explanation, code: Sequence[Listing]
) -> Iterator[str]:
    """The lines of the kernel and of its device functions, each with its share of the clocks; those
    that something came of can be chosen."""
    became = {where for listing in code for where in listing.where} - {""}
    clocks: dict[str, float] = {}
    for o in found.operations:
        clocks[o.where] = clocks.get(o.where, 0.0) + o.clocks
    most = max(clocks.values(), default=0.0) or 1.0
    for file, first, last in _ranges(solution):
        name = Path(file).name
        rows = []
        for number in range(first, last + 1):
            where = f"{name}:{number}"
            spent = clocks.get(where, 0.0)
            heat = _HEAT[min(len(_HEAT) - 1, round(8 * spent / most))] if spent else ""
            some = where in clocks or where in became
            link = f' data-where="{escape(where)}" tabindex="0"' if some else ""
            text = escape(linecache.getline(file, number).rstrip("\n"))
            told = f"{spent:.0f}" if spent else ""
            rows.append(
                f'<tr{link}><td class="number soft">{number}</td><td class="heat">{heat}</td>'
                f'<td class="number soft">{told}</td><td>{text}</td></tr>'
            )
        yield f'<p class="soft">{escape(name)}: lines, and the clocks of each; click one to see '
        yield "what came of it</p>"
        yield f'<div class="scroll"><table class="source">{"".join(rows)}</table></div>'


def _ranges(solution: Solution) -> Iterator[tuple[str, int, int]]:
    """Of each source file the lines that operations come from, the kernel's own first."""
    spans = [i.op.span for i in build_graph(solution.program).ops if i.op.span is not None]
    start = solution.program.span
    lines: dict[str, list[int]] = {}
    for span in (*([start] if start is not None else []), *spans):
        lines.setdefault(span.file, []).append(span.line)
    for file, numbers in lines.items():
        if linecache.getline(file, max(numbers)):
            yield file, min(numbers), max(numbers)


def _operations(found: Explanation) -> Iterator[str]:
    rows = [
        (o.where, o.text, o.instruction, str(o.calls or ""), str(o.bytes or ""),
         "" if o.conflicts is None else str(o.conflicts), f"{o.clocks:.0f}",
         f"{o.clocks / found.clocks:.0%}" if found.clocks else "", o.detail)
        for o in found.operations
    ]  # fmt: skip
    head = ("line", "operation", "instruction", "calls", "bytes", "conflicts", "clocks", "share")
    yield _table((*head, ""), rows, True)
    tensors = [
        (t.name, t.space, t.dtype, "x".join(map(str, t.shape)), t.layout, str(t.values or ""))
        for t in found.tensors
    ]
    yield _table(("tensor", "space", "type", "shape", "layout", "per thread"), tensors)


def _candidates(found: Explanation) -> Iterator[str]:
    yield f'<p class="soft">{len(found.rejected)} candidates lost, each with the reason.</p>'
    yield '<div class="controls"><input id="filter" placeholder="filter" aria-label="filter"></div>'
    rows = [(r.where, r.subject, r.candidate, r.reason) for r in found.rejected]
    yield _table(("line", "subject", "candidate", "reason"), rows, True)


def _timeline(timeline: Timeline) -> str:
    missing = f"; {timeline.lost} rows of stamps were lost" if timeline.lost else ""
    return _section(
        "timeline",
        '<p class="soft">What one thread of each warp group did, and when. Point at a stretch, '
        "click it to see its line; + and -, or Ctrl and the wheel, zoom; arrow keys move, 0 shows "
        "all"
        f"{escape(missing)}.</p>",
        '<div class="controls" id="legend"></div>',
        '<p class="told" id="stretch" aria-live="polite"></p><div id="lanes"></div>',
    )


def _code(code: Sequence[Listing]) -> Iterator[str]:
    if len(code) < 2:
        yield '<p class="soft">explain(form="html", machine=True) brings PTX and machine code.</p>'
    yield from whole(code)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], lines: bool = False) -> str:
    """`lines`: the first cell of a row is the line that it belongs to."""
    top = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = []
    for row in rows:
        link = f' data-where="{escape(row[0])}" tabindex="0"' if lines and row[0] else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        body.append(f"<tr{link}>{cells}</tr>")
    inside = f"<thead><tr>{top}</tr></thead><tbody>\n{chr(10).join(body)}</tbody>"
    return f'<div class="scroll"><table>{inside}</table></div>'
