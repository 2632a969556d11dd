"""The algebra from a shell, and what Jupyter shows of a layout."""

import subprocess
import sys
from xml.dom import minidom

import pytest

from cute_layout import ComposedLayout, Layout, Swizzle, TVLayout, draw, draw_tv
from cute_layout.__main__ import FUNCTIONS, main


@pytest.mark.parametrize(
    "words, expected",
    [
        (["draw", "(2,4):(4,1)"], draw(Layout((2, 4), (4, 1)), "ascii")),
        (["draw", "(2,4):(4,1)", "--format", "latex"], draw(Layout((2, 4), (4, 1)), "latex")),
        (["draw", "(2,2):(1,2)", "--tile", "(2,2)"],
         draw_tv(TVLayout(Layout((2, 2), (1, 2)), (2, 2)), "ascii")),
        (["draw", "Sw<2,0,3> o 0 o (4,8):(8,1)", "--format", "svg"],
         draw(ComposedLayout(Swizzle(2, 0, 3), 0, Layout((4, 8), (8, 1))))),
        (["coalesce", "(2,(1,6)):(1,(6,2))"], "12:1"),
        (["composition", "(4,8):(8,1)", "8:2"], "(2,4):(16,1)"),
        (["logical_divide", "16:1", "4:1"], "(4,4):(1,4)"),
    ],
)  # fmt: skip
def test_what_is_printed(words, expected, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out == f"{expected}\n"


def test_pictures_in_files(tmp_path, capsys):
    for name, format in (("a.svg", "svg"), ("a.tex", "latex"), ("a.txt", "ascii")):
        assert main(["draw", "(4,8):(8,1)", "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text() == draw(Layout((4, 8), (8, 1)), format)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["draw", "(4,8:(8,1)"],
        ["draw", "(4,8):(8,1)", "--tile", "x"],
        ["draw", "(4,8):(8,1)", "--tile", "(2,2)"],
        ["draw", "(9999,9999):(1,9999)"],
        ["draw", "4:1", "--out", "no/such/folder/a.svg"],
        ["composition", "(4,8):(8,1)", "5:3"],
        ["inverse", "(2,2):(1,1)"],
    ],
)
def test_refusals(words, capsys):
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_every_function_has_a_line_of_help(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in FUNCTIONS)


def test_what_jupyter_shows():
    layout = Layout((4, 8), (8, 1))
    for one in (layout, ComposedLayout(Swizzle(2, 0, 3), 0, layout), TVLayout(layout, (4, 8))):
        assert one._repr_svg_() == draw(one)
        minidom.parseString(one._repr_svg_())
    assert Layout((9999, 9999))._repr_svg_() is None


@pytest.mark.parametrize("words", [["draw", "(64,64):(64,1)"], ["coalesce", "(2,4):(1,2)"]])
def test_output_that_nobody_reads_ends_it_without_a_word(words):
    command = [sys.executable, "-c", "import sys, time; from cute_layout.__main__ import main; "
               f"time.sleep(0.3); sys.exit(main({words!r}))"]  # fmt: skip
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run.stdout.close()
    assert run.wait(60) == 141 and run.stderr.read() == ""
