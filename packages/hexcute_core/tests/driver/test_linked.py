"""Texts by lines of the kernel: the same texts as ever, each line with the statement it is of."""

import inspect
from collections import Counter
from pathlib import Path

import pytest
from plain_kernels import staged_gemm
from timeline_kernels import by_roles

import hexcute_core as hx
from hexcute_core import backend
from hexcute_core.driver.linked import cuda, linked
from hexcute_core.errors import MissingDependency, OptionError
from hexcute_core.toolchain import sass


@pytest.fixture(scope="module", params=[("sm_80", hx.kernel(staged_gemm)), ("sm_90", by_roles)],
                ids=lambda given: given[0])  # fmt: skip
def compiled(request):
    target, kernel = request.param
    return kernel.compile(target)


def line(kernel, text):
    fn = kernel.definition.fn if hasattr(kernel, "definition") else kernel
    lines, first = inspect.getsourcelines(fn)
    found = next(number for number, line in enumerate(lines, first) if text in line)
    return f"{Path(inspect.getsourcefile(fn)).name}:{found}"


def by_name(compiled):
    return {found.name: found for found in linked(compiled.thread, compiled.code, compiled.built)}


def test_the_text_is_that_without_marks(compiled):
    source = backend.located(compiled.thread, compiled.code)
    assert source.source == backend.emit(compiled.thread, compiled.code)
    assert len(source.spans) == source.source.text.count("\n")


def test_products_are_of_the_line_that_multiplies(compiled):
    kernel = staged_gemm if compiled.code == "sm_80" else by_roles
    product = line(kernel, "hx.gemm(")
    found = by_name(compiled)
    try:
        assert found["machine code"].text == sass(compiled.built.cubin)
        words = {"CUDA": ("hx_mma", "hx_wgmma_64"), "PTX": ("mma.sync", "wgmma.mma"),
                 "machine code": ("HMMA", "HGMMA")}  # fmt: skip
    except MissingDependency:
        words = {"CUDA": ("hx_mma", "hx_wgmma_64"), "PTX": ("mma.sync", "wgmma.mma")}
    assert (found["CUDA"].text, found["PTX"].text) == (compiled.source(), compiled.ptx())
    for name, wanted in words.items():
        listing = found[name]
        assert not listing.note and len(listing.where) == len(listing.text.splitlines())
        pairs = zip(listing.text.splitlines(), listing.where)
        of = Counter(
            where for text, where in pairs
            if any(word in text for word in wanted) and "__forceinline__" not in text
        )  # fmt: skip
        # What the assembler makes of a loop, it may count as the loop's.
        assert of[product] >= (of.total() / 2 if name == "machine code" else of.total()) > 0, name


def test_what_is_missing_is_said_on_the_page(compiled, monkeypatch):
    from hexcute_core.driver import linked as module

    def missing(*args, **named):
        raise MissingDependency("no such tool here", fix="pip install it")

    monkeypatch.setattr(module, "sass", missing)
    code = by_name(compiled)["machine code"]
    assert (code.text, code.note) == ("", "no such tool here: pip install it")
    assert "machine code: no such tool here: pip install it" in compiled.explain(
        form="html", machine=True
    )
    monkeypatch.setattr(module, "located", missing)
    assert cuda(compiled.thread, compiled.code).note == "no such tool here: pip install it"


@pytest.mark.parametrize("given", [{"timeline": 3, "form": "html"}, {"timeline": 3}])
def test_a_timeline_that_is_none_is_refused(compiled, given):
    with pytest.raises(OptionError, match="timeline is 3"):
        compiled.explain(**given)
