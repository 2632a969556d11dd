"""Pictures of layouts: `Grid` data rendered as SVG, text, LaTeX or on matplotlib axes.

The text of a picture depends on the layout alone, so it is the same byte for byte every time.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from cute_layout.answers import ANY, answers
from cute_layout.composed import ComposedLayout
from cute_layout.errors import DomainError, LayoutError
from cute_layout.grid import Cell, Grid, layout_grid, thread_value_grid
from cute_layout.layout import Layout
from cute_layout.thread_value import TVLayout

__all__ = ["draw", "draw_axes", "draw_tv"]

_CELL = 34
_MARGIN = 28
_LINE = 11
_LEGEND = 16


@answers((Layout, ComposedLayout, TVLayout, Grid), (str,))
def draw(layout: Layout | ComposedLayout | TVLayout | Grid, format: str = "svg") -> str:
    """The picture of a layout's values over its first mode (down) and the others (across).

    Args:
        layout: a plain or composed layout; a `TVLayout` is drawn by `draw_tv`, a `Grid` of cells
            as it is.
        format: ``svg``, ``ascii`` or ``latex`` (a standalone TikZ document).

    >>> print(draw(Layout((2, 4), (4, 1)), "ascii"))
    (2,4):(4,1)
         0   1   2   3
       +---+---+---+---+
     0 | 0 | 1 | 2 | 3 |
       +---+---+---+---+
     1 | 4 | 5 | 6 | 7 |
       +---+---+---+---+

    Raises:
        DomainError: an unknown format, or too many cells.
    """
    if isinstance(layout, TVLayout):
        return draw_tv(layout, format)
    if isinstance(layout, Grid):
        return _renderer(format)(layout)
    return _renderer(format)(layout_grid(layout))


@answers((TVLayout,), (str,))
def draw_tv(tv: TVLayout, format: str = "svg") -> str:
    """The picture of a tile: which thread holds which value of each element, coloured by thread.

    >>> print(draw_tv(TVLayout(Layout((2, 2)), (2, 2)), "ascii"))
    (2,2):(1,2) over (2,2)
             0       1
       +-------+-------+
     0 | T0 V0 | T0 V1 |
       +-------+-------+
     1 | T1 V0 | T1 V1 |
       +-------+-------+

    Raises:
        DomainError: an unknown format, or too many cells.
    """
    return _renderer(format)(thread_value_grid(tv))


@answers((Layout, ComposedLayout, TVLayout), ANY)
def draw_axes(layout: Layout | ComposedLayout | TVLayout, axes: Any) -> Any:
    """Draw the picture of `layout` on matplotlib `axes` and return them (needs the ``axes`` extra).

    Raises:
        DomainError: `axes` are none of matplotlib's, or there are too many cells.
    """
    if not hasattr(axes, "fill"):
        raise DomainError(f"a picture is drawn on matplotlib's axes, got {type(axes).__name__}")
    is_tv = isinstance(layout, TVLayout)
    grid = thread_value_grid(layout) if isinstance(layout, TVLayout) else layout_grid(layout)
    height, width = len(grid.rows), len(grid.rows[0])
    for i, row in enumerate(grid.rows):
        for j, cell in enumerate(row):
            colour = _colour(grid, cell)
            corners = [j, j + 1, j + 1, j], [i, i, i + 1, i + 1]
            axes.fill(*corners, facecolor=colour, edgecolor="0.3")
            axes.text(j + 0.5, i + 0.5, "\n".join(cell.lines), ha="center", va="center", fontsize=7)
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_aspect("equal")
    across = [str(j * grid.column_unit) for j in range(width)]
    down = [str(i * grid.row_unit) for i in range(height)]
    axes.set_xticks([j + 0.5 for j in range(width)], across)
    axes.set_yticks([i + 0.5 for i in range(height)], down)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_title(grid.title, fontsize=9, pad=18 if is_tv else 14)
    return axes


def shown(layout: Layout | ComposedLayout | TVLayout) -> str | None:
    """The picture as SVG, None where a layout cannot be drawn."""
    try:
        return draw(layout)
    except LayoutError:
        return None


def _renderer(format: str) -> Callable[[Grid], str]:
    renderers = {"svg": _svg, "ascii": _ascii, "latex": _latex}
    if format not in renderers:
        raise DomainError(f"unknown format {format!r}; choose one of {', '.join(renderers)}")
    return renderers[format]


def _colour(grid: Grid, cell: Cell) -> str:
    return "#ffffff" if cell.shade < 0 else grid.palette[cell.shade]


def _svg(grid: Grid) -> str:
    height, width = len(grid.rows), len(grid.rows[0])
    longest = max(len(line) for row in grid.rows for cell in row for line in cell.lines)
    cell_width = max(_CELL, 7 * longest + 8)
    legend = sum(7 * len(" ".join(cell.lines)) + 8 for cell in grid.legend)
    total_width = max(
        _MARGIN + width * cell_width + 2, 7 * len(grid.title) + 8, _MARGIN + legend + 2
    )
    total_height = 2 * _MARGIN + height * _CELL + 2 + (_LEGEND + 8 if grid.legend else 0)
    top = 2 * _MARGIN - 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}" '
        f'width="{total_width}" height="{total_height}" '
        'font-family="monospace" font-size="11" text-anchor="middle">',
        f"<title>{escape(grid.title)}</title>",
        f'<text x="4" y="14" text-anchor="start">{escape(grid.title)}</text>',
    ]
    for j in range(width):
        x = _MARGIN + j * cell_width + cell_width // 2
        out.append(f'<text x="{x}" y="{top - 6}" fill="#666666">{j * grid.column_unit}</text>')
    for i, row in enumerate(grid.rows):
        y = top + i * _CELL
        label = f'<text x="{_MARGIN // 2}" y="{y + _CELL // 2 + 4}" fill="#666666">'
        out.append(f"{label}{i * grid.row_unit}</text>")
        for j, cell in enumerate(row):
            x = _MARGIN + j * cell_width
            out.append(
                f'<rect x="{x}" y="{y}" width="{cell_width}" height="{_CELL}" '
                f'fill="{_colour(grid, cell)}" stroke="#555555" stroke-width="0.5"/>'
            )
            first = y + _CELL // 2 + 4 - (len(cell.lines) - 1) * _LINE // 2
            for k, line in enumerate(cell.lines):
                middle = x + cell_width // 2
                out.append(f'<text x="{middle}" y="{first + k * _LINE}">{escape(line)}</text>')
    bottom, right = top + height * _CELL, _MARGIN + width * cell_width
    for i in range(grid.row_step or height, height, grid.row_step or height):
        y = top + i * _CELL
        out.append(f'<path d="M{_MARGIN} {y}H{right}" stroke="#000000" stroke-width="2"/>')
    for j in range(grid.column_step or width, width, grid.column_step or width):
        x = _MARGIN + j * cell_width
        out.append(f'<path d="M{x} {top}V{bottom}" stroke="#000000" stroke-width="2"/>')
    out += _legend(grid, bottom + 8)
    return "\n".join([*out, "</svg>", ""])


def _legend(grid: Grid, y: int) -> list[str]:
    """A row of small cells that say what the shades mean, from `y` down."""
    out, x = [], _MARGIN
    for cell in grid.legend:
        text = " ".join(cell.lines)
        wide = 7 * len(text) + 8
        if cell.shade >= 0:
            out.append(
                f'<rect x="{x}" y="{y}" width="{wide}" height="{_LEGEND}" '
                f'fill="{_colour(grid, cell)}"/>'
            )
        out.append(f'<text x="{x + wide // 2}" y="{y + _LEGEND - 4}">{escape(text)}</text>')
        x += wide
    return out


def _ascii(grid: Grid) -> str:
    texts = [[" ".join(cell.lines) for cell in row] for row in grid.rows]
    height, width = len(texts), len(texts[0])
    wide = max(max(len(t) for row in texts for t in row), len(str((width - 1) * grid.column_unit)))
    left = len(str((height - 1) * grid.row_unit)) + 1
    rule = " " * (left + 1) + "+" + ("-" * (wide + 2) + "+") * width
    heads = "".join(f"{j * grid.column_unit:>{wide + 2}} " for j in range(width)).rstrip()
    out = [grid.title, " " * (left + 1) + heads, rule]
    for i, row in enumerate(texts):
        cells = "|".join(f" {t:>{wide}} " for t in row)
        out.append(f"{i * grid.row_unit:>{left}} |{cells}|")
        out.append(rule)
    return "\n".join(out)


def _latex(grid: Grid) -> str:
    height, width = len(grid.rows), len(grid.rows[0])
    longest = max(len(line) for row in grid.rows for cell in row for line in cell.lines)
    step = max(1.0, round(0.2 * longest + 0.2, 1))
    out = [
        r"\documentclass[convert]{standalone}",
        r"\usepackage{tikz}",
        r"\begin{document}",
        rf"% {grid.title}",
        *(
            rf"\definecolor{{shade{k}}}{{HTML}}{{{colour[1:].upper()}}}"
            for k, colour in enumerate(grid.palette)
        ),
        rf"\begin{{tikzpicture}}[x={step}cm,y=-1cm,every node/.style={{align=center,font=\small}}]",
    ]
    for j in range(width):
        out.append(rf"\node[gray] at ({j},-1) {{{j * grid.column_unit}}};")
    for i, row in enumerate(grid.rows):
        out.append(rf"\node[gray] at (-1,{i}) {{{i * grid.row_unit}}};")
        for j, cell in enumerate(row):
            fill = f"fill=shade{cell.shade}," if cell.shade >= 0 else ""
            text = r"\\".join(cell.lines)
            out.append(
                rf"\path[draw,{fill}] ({j}-0.5,{i}-0.5) rectangle ({j}+0.5,{i}+0.5) "
                rf"node[midway] {{{text}}};"
            )
    for i in range(grid.row_step or height, height, grid.row_step or height):
        out.append(rf"\draw[very thick] (-0.5,{i}-0.5) -- ({width}-0.5,{i}-0.5);")
    for j in range(grid.column_step or width, width, grid.column_step or width):
        out.append(rf"\draw[very thick] ({j}-0.5,-0.5) -- ({j}-0.5,{height}-0.5);")
    return "\n".join([*out, r"\end{tikzpicture}", r"\end{document}", ""])
