"""What a fresh environment must find of the installed packages: `python -I tests/installed.py`.

Run by `nox -s build` outside of the tree's own path: everything comes from what was installed.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import numpy as np

PACKAGES = ("cute_layout", "hexcute_core", "hexcute_kernels")


def check_files(name: str) -> None:
    """That a package is installed whole: its version, its licence, its types."""
    module = importlib.import_module(name)
    folder = Path(module.__file__ or "").parent
    assert folder.is_relative_to(sys.prefix), f"{name} comes from {folder}"
    assert (folder / "py.typed").is_file(), f"{name} has no py.typed"
    assert module.__version__ == version(name), f"{name} says {module.__version__}"
    said = metadata(name)
    assert said["License-Expression"] == "Apache-2.0" and said["Summary"], f"{name}: {said}"


def check_kernels() -> None:
    """That every operator is there, and a kernel is traced, solved and run."""
    import hexcute_kernels
    from hexcute_kernels.gemm.simple import simple_gemm

    for name in hexcute_kernels.FAMILIES:
        assert hexcute_kernels.operator_named(name).name == name
    a, b = np.ones((20, 40), np.float16), np.ones((24, 40), np.float16)
    c = np.zeros((20, 24), np.float16)
    simple_gemm.compile("sm_80", BM=32, BN=32).simulate(a, b, c)
    assert (c == 40).all()


if __name__ == "__main__":
    for package in PACKAGES:
        check_files(package)
    assert "torch" not in sys.modules
    check_kernels()
