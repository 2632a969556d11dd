"""Pictures: every format shows the values, and is the same text every time."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import cute_layout as cl
from cute_layout import ComposedLayout, E, Layout, Swizzle, TVLayout

F = TVLayout(Layout(((2, 4), (2, 2)), ((8, 1), (4, 16))), (4, 8))


def test_ascii() -> None:
    assert cl.draw(Layout((2, 3), (3, 1)), "ascii").splitlines() == [
        "(2,3):(3,1)",
        "     0   1   2",
        "   +---+---+---+",
        " 0 | 0 | 1 | 2 |",
        "   +---+---+---+",
        " 1 | 3 | 4 | 5 |",
        "   +---+---+---+",
    ]
    assert "| 0 | 2 | 4 |" in cl.draw(Layout(3, 2), "ascii")
    assert "(1,2)" in cl.draw(Layout((2, 3), (E(0), E(1))), "ascii")


def test_svg_is_xml_with_a_cell_an_element() -> None:
    tile = ComposedLayout(Swizzle(2, 0, 2), 0, Layout(((2, 2), 4), ((8, 4), 1)))
    text = cl.draw(tile)
    root = ElementTree.fromstring(text)
    cells = [node for node in root.iter() if node.tag.endswith("rect")]
    words = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert len(cells) == 16 and text == cl.draw(tile)
    assert sorted(words)[-16:] and all(str(v) in words for v in range(16))
    assert len([node for node in root.iter() if node.tag.endswith("path")]) == 1
    assert ">Sw&lt;2,0,2&gt;" in text


def test_latex_is_a_standalone_document() -> None:
    text = cl.draw(Layout((2, 2)), "latex")
    assert text.startswith("\\documentclass") and text.rstrip().endswith("\\end{document}")
    assert text.count("rectangle") == 4 and "{3}" in text


def test_thread_value_pictures_name_every_holder() -> None:
    text = cl.draw_tv(F, "ascii")
    assert text.count("T2 V3") == 1
    assert all(f"T{t} V{v}" in text for t in range(8) for v in range(4))
    row = text.splitlines()[3 + 2 * 1]
    assert row.split("|")[1 + 5].strip() == "T2 V3"
    assert cl.draw(F, "ascii") == text
    assert "+1" in cl.draw_tv(F.replicate(threads=2), "ascii")
    holes = TVLayout(Layout((2, 2), (1, 4)), (2, 4))
    assert "#ffffff" in cl.draw_tv(holes, "svg")


def test_axes_get_a_patch_and_a_text_an_element() -> None:
    class Axes:
        def __init__(self) -> None:
            self.filled, self.texts = 0, []

        def fill(self, *args: object, **kwargs: object) -> None:
            self.filled += 1

        def text(self, x: float, y: float, text: str, **kwargs: object) -> None:
            self.texts.append(text)

        def __getattr__(self, name: str) -> object:
            return lambda *args, **kwargs: None

    axes = Axes()
    assert cl.draw_axes(Layout((2, 3)), axes) is axes
    assert axes.filled == 6 and axes.texts == ["0", "2", "4", "1", "3", "5"]
    cl.draw_axes(F, axes)
    assert axes.filled == 6 + 32


def test_axes_of_matplotlib() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.add_subplot()
    cl.draw_axes(Layout((2, 3)), axes)
    assert len(axes.patches) == 6 and len(axes.texts) == 6


def test_refusals() -> None:
    with pytest.raises(cl.DomainError, match="svg, ascii, latex"):
        cl.draw(Layout(3), "png")
    with pytest.raises(cl.DomainError, match="at most"):
        cl.draw(Layout((256, 256)))
    with pytest.raises(cl.DomainError, match="nothing to draw"):
        cl.draw(Layout((0, 2)))
