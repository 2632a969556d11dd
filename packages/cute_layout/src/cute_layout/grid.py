"""The picture of a layout as data: a grid of labelled, shaded cells that every format draws."""

from __future__ import annotations

from colorsys import hls_to_rgb
from typing import Any, NamedTuple

from cute_layout.answers import answers
from cute_layout.composed import ComposedLayout
from cute_layout.errors import DomainError, UnsupportedError
from cute_layout.layout import Layout
from cute_layout.table import offsets
from cute_layout.thread_value import TVLayout
from cute_layout.trees import Tree, product, spell

__all__ = ["PALETTE", "SPECTRUM", "Cell", "Grid", "layout_grid", "thread_value_grid"]

MOST_CELLS = 1 << 14

PALETTE = (
    "#c6dbef",
    "#fdd0a2",
    "#c7e9c0",
    "#dadaeb",
    "#fbb4ae",
    "#ffffcc",
    "#e5d8bd",
    "#d9d9d9",
)
"""Background colours, taken modulo 8."""

SPECTRUM = tuple(
    "#" + "".join(f"{round(255 * c):02x}" for c in hls_to_rgb(k / 32, 0.86 - 0.14 * (k % 2), 0.75))
    for k in range(32)
)
"""A colour for each of the 32 banks of shared memory, in the order of the rainbow."""


class Cell(NamedTuple):
    """One element: its lines of text and its colour's index."""

    lines: tuple[str, ...]
    shade: int


class Grid(NamedTuple):
    """Rows of cells, with the row and column distances at which a heavier line is drawn.

    Rows and columns are numbered in units, for cells of several elements. `palette` is what shades
    index; `legend` names shades below an SVG.
    """

    title: str
    rows: tuple[tuple[Cell, ...], ...]
    row_step: int = 0
    column_step: int = 0
    row_unit: int = 1
    column_unit: int = 1
    palette: tuple[str, ...] = PALETTE
    legend: tuple[Cell, ...] = ()


@answers((Layout, ComposedLayout))
def layout_grid(layout: Layout | ComposedLayout) -> Grid:
    """The values over (mode 0, remaining modes); a layout of rank 1 is one row.

    Raises:
        DomainError: more than 16384 cells, or an empty layout.
        UnsupportedError: symbolic extents.
    """
    if isinstance(layout, Layout) and layout.is_symbolic:
        raise UnsupportedError(f"the layout {layout} has symbolic extents: it has no picture")
    shape = layout.shape
    if type(shape) is not tuple or len(shape) < 2:
        height, width = 1, int(layout.size)
        row_step, column_step = 0, _inner(shape)
    else:
        height, width = int(product(shape[0])), int(product(shape[1:]))
        row_step, column_step = _inner(shape[0]), _inner(shape[1])
    _check(layout, height * width)
    table = offsets(layout)
    rows = tuple(
        tuple(_value_cell(table[i + j * height], i + j * height) for j in range(width))
        for i in range(height)
    )
    return Grid(str(layout), rows, row_step, column_step)


@answers((TVLayout,))
def thread_value_grid(tv: TVLayout) -> Grid:
    """Over the tile, which thread (coloured) holds which value: ``T3`` above ``V1``.

    An element held several times shows its first holder and ``+n``; one held by nobody is blank.
    """
    tile = tv.tile
    extents = [int(product(s)) for s in tile] if type(tile) is tuple else [1, int(tile)]
    height = extents[0] if len(extents) > 1 else 1
    width = int(product(tuple(extents[1:]))) if len(extents) > 1 else extents[0]
    _check(tv, height * width)
    holders: dict[int, list[int]] = {}
    for place, element in enumerate(offsets(tv.index)):
        holders.setdefault(element, []).append(place)
    rows = tuple(
        tuple(_holder_cell(holders.get(i + j * height, []), tv.threads) for j in range(width))
        for i in range(height)
    )
    return Grid(f"{tv.index} over {spell(tile)}", rows, 0, 0)


def _inner(shape: Tree) -> int:
    """The extent of a nested mode's first part, 0 for a plain mode."""
    return int(product(shape[0])) if type(shape) is tuple and len(shape) > 1 else 0


def _check(what: Any, cells: int) -> None:
    if cells == 0:
        raise DomainError(f"{what} is empty: there is nothing to draw")
    if cells > MOST_CELLS:
        raise DomainError(f"{what} has {cells} cells; at most {MOST_CELLS} can be drawn")


def _value_cell(value: Any, index: int) -> Cell:
    if type(value) is tuple:
        return Cell((spell(value),), index % len(PALETTE))
    return Cell((str(value),), value % len(PALETTE))


def _holder_cell(places: list[int], threads: int) -> Cell:
    if not places:
        return Cell(("",), -1)
    value, thread = divmod(places[0], threads)
    lines = [f"T{thread}", f"V{value}"]
    if len(places) > 1:
        lines.append(f"+{len(places) - 1}")
    return Cell(tuple(lines), thread % len(PALETTE))
