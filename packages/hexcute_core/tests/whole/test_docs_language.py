"""The tutorial, and the pages on the language, the kernels, shipping and tuning: their blocks run
and print what stands below."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import cute_layout
from hexcute_core.driver import bundle

DOCS = Path(__file__).parents[4] / "docs"
NAMES = ["language.md", "kernels.md", "timeline.md", "shipping.md", "tuning.md"]
NAMES += ["porting.md", "debugging.md", "errors.md", "edges.md"]
CHAPTERS = (
    "start", "copy", "rows", "product", "ahead", "roles", "attention", "attention_roles"
)  # fmt: skip
NAMES += [f"tutorial/{name}.md" for name in CHAPTERS]
PAGES = [page for page in (DOCS / name for name in NAMES) if page.is_file()]
FENCE = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_print_what_follows(page, tmp_path, monkeypatch, update_goldens):
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(bundle, "_used", [])
    text = page.read_text(encoding="utf-8")
    names = {"__name__": page.stem}
    printed, wrong = None, []
    pieces, at = [], 0
    for number, block in enumerate(FENCE.finditer(text)):
        kind, code = block.groups()
        if kind == "python":
            assert not printed, "what a block prints stands below it"
            # A kernel's source is read again from its file.
            file = tmp_path / f"{page.stem}_{number}.py"
            file.write_text(code, encoding="utf-8")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, str(file), "exec"), names)
            printed = output.getvalue()
        else:
            assert printed, "a block above prints it"
            if code != printed:
                wrong.append((code, printed))
            pieces += [text[at : block.start(2)], printed]
            at = block.end(2)
            printed = None
    assert not printed, "what a block prints stands below it"
    if update_goldens:
        page.write_text("".join(pieces) + text[at:], encoding="utf-8")
        return
    assert not wrong, f"--update-goldens rewrites {page.name}: {wrong[0]}"


def test_every_error_and_warning_has_its_place_on_the_page_of_errors():
    from hexcute_core import errors

    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    kinds = (errors.HexcuteError, errors.HexcuteWarning, cute_layout.LayoutError)
    known = [*vars(errors).values(), *vars(cute_layout).values()]
    named = [k for k in known if isinstance(k, type) and issubclass(k, kinds)]
    names = {k.__name__ for k in named} - {"HexcuteError", "HexcuteWarning"}
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_there_is_something_to_run():
    assert [page.relative_to(DOCS).as_posix() for page in PAGES] == NAMES
