"""picture : Solution -> SVG. Each tensor's corner: threads and values, or shared-memory offsets.

Values are numbered within the corner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from cute_layout import ComposedLayout, Layout, TVLayout, composition, draw, draw_tv
from hexcute_core.arch import Fragment, Mode
from hexcute_core.synthesis.linear import modes_to_layout
from hexcute_core.synthesis.solution import SharedLayout, Solution

# Rows and columns of a tensor that a picture shows.
CORNER = (32, 32)
GAP = 24
TITLE = 26
_SIZE = re.compile(r'<svg[^>]*?width="([\d.]+)"[^>]*?height="([\d.]+)"')


def picture(solution: Solution) -> str:
    """One SVG with a panel for every register and shared tensor of `solution`, corners alone."""
    panels = [(title, svg, *_size(svg)) for title, svg in _panels(solution)]
    width = max((w for _, _, w, _ in panels), default=0) + 2 * GAP
    y = float(GAP)
    body = []
    for title, svg, _, height in panels:
        body.append(f'<text x="{GAP}" y="{y + 12:g}" class="name">{escape(title)}</text>')
        inner = svg.replace("<svg ", f'<svg x="{GAP}" y="{y + TITLE:g}" ', 1)
        body.append(inner[inner.index("<svg ") :])
        y += TITLE + height + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{y:g}" '
        f'viewBox="0 0 {width:g} {y:g}">'
        "<style>.name{font:bold 13px sans-serif}</style>"
        f'<rect width="{width:g}" height="{y:g}" fill="white"/>'
    )
    return head + "".join(body) + "</svg>\n"


def _size(svg: str) -> tuple[float, float]:
    found = _SIZE.search(svg)
    return (float(found.group(1)), float(found.group(2))) if found else (0.0, 0.0)


def _panels(solution: Solution) -> Iterator[tuple[str, str]]:
    for name, shared in solution.shared.items():
        yield f"{name}: shared memory offsets, {shared}", _shared(shared)
    seen: set[Fragment] = set()
    for f in solution.fragments.values():
        if f not in seen and len(f.shape) == 2:
            seen.add(f)
            alike = [n for n, g in solution.fragments.items() if g == f]
            yield f"{', '.join(alike)}: registers, {f}", _registers(f)


def _registers(f: Fragment) -> str:
    shape = tuple(min(extent, limit) for extent, limit in zip(f.shape, CORNER))
    thread = modes_to_layout(_corner(f.thread, shape), shape)
    value = modes_to_layout(_corner(f.value, shape), shape)
    pair = Layout((thread.shape, value.shape), (thread.stride, value.stride))
    return draw_tv(TVLayout(pair, shape))


def _corner(modes: tuple[Mode, ...], shape: tuple[int, ...]) -> tuple[Mode, ...]:
    """The digits that stay within `shape`; those that leave it, or replicate, have extent 1."""
    out = []
    for m in modes:
        room = shape[m.dim] // m.step if m.step else 1
        out.append(Mode(max(1, min(m.size, room)), m.step if room else 0, m.dim))
    return tuple(out)


def _shared(shared: SharedLayout) -> str:
    shape = tuple(min(e, limit) for e, limit in zip(shared.shape, (*CORNER, *(1,) * 8)))
    corner = composition(shared.layout, tuple(shape))
    return draw(corner if shared.swizzle is None else ComposedLayout(shared.swizzle, 0, corner))
