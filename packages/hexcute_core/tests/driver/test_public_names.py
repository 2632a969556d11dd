"""The names of `hexcute_core` itself: what its users annotate with, catch and silence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hexcute_core as hx
from hexcute_core import errors
from hexcute_core.errors import SourceSpan
from hexcute_core.frontend.language.subscript import whole
from hexcute_core.tile import RegisterTensor

ROOT = Path(__file__).parents[4]
# Names that an f-string completes are left out.
USED = re.compile(r"\bhx\.([A-Za-z_]\w*)\b(?!\{)")


def test_every_public_name_exists_and_is_listed() -> None:
    missing = [name for name in hx.__all__ if not hasattr(hx, name)]
    assert missing == []
    assert set(hx.__all__) <= set(dir(hx))
    assert len(set(hx.__all__)) == len(hx.__all__)


def test_dir_lists_what_is_loaded_when_first_used() -> None:
    program = "import hexcute_core as hx, sys; print('kernel' in dir(hx), 'Kernel' in dir(hx))\n"
    program += "print('hexcute_core.driver' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.stdout.split() == ["True", "True", "False"]


def test_what_a_kernel_is_made_of_has_public_types() -> None:
    @hx.kernel(cache=False)
    def nothing(x: hx.f32[8]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32

    assert isinstance(nothing, hx.Kernel)
    assert isinstance(nothing.compile("sm_80"), hx.CompiledKernel)
    assert isinstance(hx.f32, hx.DType)


def test_warnings_have_one_base_and_are_reachable() -> None:
    for kind in (hx.RearrangeWarning, hx.CacheWarning, hx.SpillWarning):
        assert issubclass(kind, hx.HexcuteWarning)
        assert getattr(errors, kind.__name__) is kind
    assert issubclass(hx.HexcuteWarning, UserWarning)


def test_an_error_is_caught_as_the_one_public_base() -> None:
    with pytest.raises(hx.HexcuteError, match=r"k\.py:3: no"):
        raise errors.NoLayout("no", SourceSpan("k.py", 3))


def test_names_written_after_hx_exist() -> None:
    """In the documentation, in docstrings, in fixes, in kernels."""
    patterns = ("*.md", "docs/*.md", "packages/*/*.md", "packages/*/src/**/*.py")
    texts = [path for pattern in patterns for path in ROOT.glob(pattern)]
    assert len(texts) > 300
    unknown = {
        (str(path.relative_to(ROOT)), name)
        for path in texts
        for name in USED.findall(path.read_text(encoding="utf-8"))
        if not hasattr(hx, name)
    }
    assert unknown == set()


m, n = hx.dims("m n")


@hx.kernel(cache=False)
def shown(x: hx.f16[m, n], s: hx.f32, *, BM: int, BN: int = 8) -> None:
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32


def test_what_authors_hold_says_what_it_is() -> None:
    assert repr(shown) == "<kernel shown(x: f16[m, n], s: f32, *, BM, BN=8)>"
    compiled = shown.compile("sm_80", BM=4)
    assert repr(compiled) == "<kernel shown for sm_80, BM=4, BN=8>"
    tensor = RegisterTensor("r", hx.f16, (4, 8), compiled.tile.span)
    assert repr(hx.Tile(tensor, whole(tensor))) == "<f16 register tile `r` (4, 8)>"
    assert repr(hx.f16) == "f16"
