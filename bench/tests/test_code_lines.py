"""The rule that counts lines of code, on a package written for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hexcute_bench.code_lines import kernel_lines
from hexcute_bench.errors import BenchError

KERNELS = '''
"""A module."""
from counted.helpers import shared_helper, unused
import numpy


def local_helper(x):
    """A docstring
    of two lines."""
    # a comment
    return x + 1


@hx.kernel
def first(
    a,
    b,
):
    """Its docstring."""

    local_helper(a)  # 1
    shared_helper(
        b
    )
    numpy.sin(a)


def factory():
    scale = 2

    @jit(fast=True)
    def second(a):
        return a * scale

    return second


def launch(x):
    first(x, x)
'''
HELPERS = '''
def shared_helper(x):
    return deeper(x)


def deeper(x):
    text = """two
lines"""
    return x


def unused(x):
    return x
'''


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: Any) -> str:
    package = tmp_path / "counted"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(KERNELS)
    (package / "helpers.py").write_text(HELPERS)
    (package / "empty.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "counted"]:
        monkeypatch.delitem(sys.modules, name)
    return "counted"


def test_kernel_and_what_it_reaches(counted: str) -> None:
    # first: 5 lines of head, 5 of body; local_helper 2; shared_helper 2; deeper 4.
    assert kernel_lines(f"{counted}.kernels", "first") == 10 + 2 + 2 + 4


def test_a_kernel_made_by_a_factory_counts_without_the_factory(counted: str) -> None:
    assert kernel_lines(f"{counted}.kernels", "second") == 3


def test_all_kernels_of_a_module_share_their_helpers(counted: str) -> None:
    assert kernel_lines(f"{counted}.kernels") == 18 + 3


def test_what_is_not_there_is_said(counted: str) -> None:
    with pytest.raises(BenchError, match="no module counted.away"):
        kernel_lines(f"{counted}.away")
    with pytest.raises(BenchError, match="has no kernel third"):
        kernel_lines(f"{counted}.kernels", "third")
    with pytest.raises(BenchError, match="has no kernel"):
        kernel_lines(f"{counted}.empty")
