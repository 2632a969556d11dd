"""The README's and the chapter's code runs, prints what they say, and draws their pictures."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent
DOCS = PACKAGE.parent.parent / "docs"
PAGES = [page for page in (PACKAGE / "README.md", DOCS / "layouts.md") if page.is_file()]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^(\w+) = .*# (pictures/[\w-]+\.svg)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_print_what_follows(page: Path) -> None:
    blocks = FENCE.findall(page.read_text())
    assert [kind for kind, _ in blocks].count("python") >= 1
    names: dict[str, object] = {}
    for k, (kind, code) in enumerate(blocks):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name} block {k}", "exec"), names)
        if k + 1 < len(blocks) and blocks[k + 1][0] == "text":
            assert printed.getvalue() == blocks[k + 1][1]
        else:
            assert printed.getvalue() == ""
        for variable, picture in PICTURE.findall(code):
            file = page.parent / picture
            if os.environ.get("UPDATE_PICTURES"):
                file.write_text(str(names[variable]))
            assert file.read_text() == names[variable], f"UPDATE_PICTURES=1 rewrites {picture}"


def test_every_picture_of_the_chapter_is_drawn_by_it() -> None:
    page = DOCS / "layouts.md"
    if not page.is_file():
        pytest.skip("the chapter lies in the repository, not in the package")
    text = page.read_text()
    shown = set(re.findall(r"\((pictures/[\w-]+\.svg)\)", text))
    assert shown and shown == {picture for _, picture in PICTURE.findall(text)}
