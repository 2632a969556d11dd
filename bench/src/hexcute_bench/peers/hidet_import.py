"""Makes the whole of Hidet 0.6.1 importable without AMD's package, and linkable on this machine.

Hidet imports `hip` wherever it runs; here that name is answered with empty modules. It links
its kernels with -lcuda, which machines that have only a driver call libcuda.so.1.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hexcute_bench.errors import PeerAbsent


class _Empty(ModuleType):
    """A module in which every public name is a fresh empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class _NoHip(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] != "hip":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


def import_hidet(cache: str) -> Any:
    """The module hidet, its cache in the folder `cache`; `PeerAbsent` where it does not import."""
    if importlib.util.find_spec("hip") is None:
        sys.meta_path.insert(0, _NoHip())
    os.environ.setdefault("HIDET_CACHE_DIR", cache)
    try:
        import hidet
    except Exception as error:
        raise PeerAbsent(f"hidet does not import: {type(error).__name__}: {error}") from error
    hidet.option.cache_dir(cache)
    return hidet


def driver_stub(hidet: Any) -> None:
    """Lets Hidet and the linker find the driver: a folder with libcuda.so in LIBRARY_PATH."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise PeerAbsent(f"no driver for Hidet's kernels: {error}") from error
    mapped = Path("/proc/self/maps").read_text().split()
    driver = next(path for path in mapped if "/libcuda.so" in path)
    folder = Path(tempfile.mkdtemp(prefix="hexcute_bench_stub_"))
    (folder / "libcuda.so").symlink_to(driver)
    known = os.environ.get("LIBRARY_PATH", "")
    os.environ["LIBRARY_PATH"] = f"{folder}:{known}" if known else str(folder)
    # Hidet asks ldconfig, which does not know of drivers that are mounted elsewhere.
    hidet.cuda.available = lambda: True
