"""Runs NVIDIA's pycute unit tests against this library.

``python pycute_suite.py FOLDER`` takes the folder ``test/python/pycute`` of a CUTLASS checkout. The
tests import everything from a module called ``pycute``; here that module is made of our functions.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

import cute_layout
from cute_layout.trees import compact_major, product

METHODS = 10
"""How many test methods the public suite has; fewer means it was not found."""


class _IntegerKind(type):
    """Ints are integers, bools are not."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, int) and not issubclass(kind, bool)


class Integer(metaclass=_IntegerKind):
    """What the suite calls an integer type."""


def inner_product(a: Any, b: Any) -> int:
    """The sum of the products of corresponding leaves."""
    return int(cute_layout.crd2idx(a, a, b))


def shape_div(a: Any, b: int) -> Any:
    """Take b elements off a shape from the left; an extent smaller than what is left becomes 1."""
    if isinstance(a, tuple):
        out = []
        for part in a:
            out.append(shape_div(part, b))
            b = max(b // product(part), 1) if b % product(part) == 0 else 1
        return tuple(out)
    return a // b if a % b == 0 else 1


def shim() -> ModuleType:
    """The module ``pycute`` made of our names."""
    module = ModuleType("pycute")
    for name in cute_layout.__all__:
        setattr(module, name, getattr(cute_layout, name))
    helpers = {
        "Integer": Integer,
        "inner_product": inner_product,
        "prefix_product": compact_major,
        "product": product,
        "shape_div": shape_div,
    }
    for name, value in helpers.items():
        setattr(module, name, value)
    module.__all__ = [*cute_layout.__all__, *helpers]  # type: ignore[attr-defined]
    return module


def run_suite(folder: Path) -> unittest.TestResult:
    """Run every test of the folder on the shim."""
    sys.modules["pycute"] = shim()
    found = unittest.TestLoader().discover(str(folder), top_level_dir=str(folder))
    return unittest.TextTestRunner(verbosity=2).run(found)


def main() -> int:
    """The command line: 0 if the whole suite ran and passed."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: python pycute_suite.py FOLDER  (test/python/pycute of a CUTLASS checkout)")
        return 2
    result = run_suite(Path(sys.argv[1]))
    if result.testsRun < METHODS:
        print(f"only {result.testsRun} of {METHODS} test methods were found")
        return 1
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
