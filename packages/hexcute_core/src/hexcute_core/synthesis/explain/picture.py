"""picture : Solution -> SVG. Each tensor's corner: which threads hold an element, in which of their
values, or where shared memory has it, coloured by bank.

Threads, values and offsets are those of the whole tile, however little of it is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from itertools import product
from math import prod

from cute_layout import Cell, ComposedLayout, Grid, draw
from cute_layout.grid import PALETTE, SPECTRUM
from hexcute_core.arch import Fragment
from hexcute_core.synthesis.solution import SharedLayout, Solution

# Rows and columns that a picture shows; of shared memory so many words of a bank.
CORNER = 32
BANKS = 32
BANK_BITS = 32
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
        tensor = solution.program.tensor(name)
        yield f"{name}: {tensor.dtype} in shared memory", draw(_banks(shared, tensor.dtype.bits))
    seen: set[Fragment] = set()
    for f in solution.fragments.values():
        if f not in seen:
            seen.add(f)
            alike = [n for n, g in solution.fragments.items() if g == f]
            yield f"{', '.join(alike)}: registers", draw(_holders(f))


def _extents(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the two modes that are drawn; one mode is one row."""
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def _place(row: int, column: int, rank: int) -> tuple[int, ...]:
    """The coordinate that is drawn at `row` and `column`, further modes at 0."""
    return (column,) if rank == 1 else (row, column, *(0,) * (rank - 2))


def _shown(layout: object, shape: tuple[int, ...], rows: int, columns: int) -> str:
    text = f"{layout}, {'x'.join(map(str, shape))}"
    if (rows, columns) != _extents(shape) or prod(shape[2:]) > 1:
        text += f", rows 0-{rows - 1} and columns 0-{columns - 1}"
        text += f" of slice {','.join('0' for _ in shape[2:])}" if len(shape) > 2 else ""
    return text


def _holders(f: Fragment) -> Grid:
    """`T5` above `V2`: value 2 of thread 5 is the element; `+n` where n more hold it."""
    rows, columns = (min(extent, CORNER) for extent in _extents(f.shape))
    held: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for t, v in product(range(f.threads), range(f.values)):
        held.setdefault(f.coord(t, v), []).append((t, v))
    rank = len(f.shape)
    cells = tuple(
        tuple(_holder(held.get(_place(i, j, rank), [])) for j in range(columns))
        for i in range(rows)
    )
    return Grid(_shown(f, f.shape, rows, columns), cells)


def _holder(holders: list[tuple[int, int]]) -> Cell:
    if not holders:
        return Cell(("",), -1)
    thread, value = holders[0]
    lines = (f"T{thread}", f"V{value}")
    more = (f"+{len(holders) - 1}",) if len(holders) > 1 else ()
    # Neighbours of a thread by one, by eight and by sixty-four look different.
    return Cell((*lines, *more), (thread + thread // 8 + thread // 64) % len(PALETTE))


def _banks(shared: SharedLayout, bits: int) -> Grid:
    """Element offsets, coloured by the bank they are in: 32 banks of 4 bytes, counted from where
    the tensor starts. Elements side by side in one bank's word share a cell."""
    shape, rank = shared.shape, len(shared.shape)
    m = shared.layout
    at = m if shared.swizzle is None else ComposedLayout(shared.swizzle, 0, m)

    def offset(row: int, column: int) -> int:
        place = _place(row, column, rank)
        return int(at(place[0] if rank == 1 else place))

    word = max(1, BANK_BITS // bits)
    unit = next(
        (u for u in ((1, word), (word, 1)) if _words(offset, _extents(shape), u, word)), (1, 1)
    )
    rows, columns = _drawn(_extents(shape), unit)
    cells = tuple(
        tuple(_banked(offset(i * unit[0], j * unit[1]), bits) for j in range(columns))
        for i in range(rows)
    )
    height, width = (min(n * u, e) for n, u, e in zip((rows, columns), unit, _extents(shape)))
    legend = (Cell(("bank:",), -1), *(Cell((f"{k:2}",), k) for k in range(BANKS)))
    return Grid(_shown(shared, shape, height, width), cells, 0, 0, *unit, SPECTRUM, legend)


def _drawn(extents: tuple[int, int], unit: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of cells, each of `unit` elements."""
    rows, columns = (min(-(-extent // u), CORNER) for extent, u in zip(extents, unit))
    return rows, columns


def _words(
    offset: Callable[[int, int], int], extents: tuple[int, int], unit: tuple[int, int], word: int
) -> bool:
    """Whether the elements of every cell of `unit` are consecutive, and in one word of `word`."""
    rows, columns = _drawn(extents, unit)
    for i, j in product(range(rows), range(columns)):
        inside = [
            offset(row, column)
            for row in range(i * unit[0], min((i + 1) * unit[0], extents[0]))
            for column in range(j * unit[1], min((j + 1) * unit[1], extents[1]))
        ]
        if inside[0] % word or inside != list(range(inside[0], inside[0] + len(inside))):
            return False
    return True


def _banked(offset: int, bits: int) -> Cell:
    bank = offset * bits // BANK_BITS % BANKS
    return Cell((str(offset), f"b{bank}"), bank)
