"""Loads the part of hidet that builds and prints IR: no torch, no HIP, no GPU, no CuTe dialect.

`import hidet` runs its whole runtime. Here the package `hidet` is seeded empty, so that
submodules load one by one, and the subpackages in `_STUBBED`, which the wanted modules import
but never use on our way, are answered with empty classes. That part is `hidet` within `ours()`
alone: outside it, `import hidet` gives a user the whole package.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from hexcute_core.errors import MissingDependency
from hexcute_core.pip import installing

WANTED = "0.6.1"
_NEEDS = ("filelock", "tabulate", "tomlkit", "tqdm", "numpy")
FIX = f"{installing(' '.join(_NEEDS))} && {installing(f'--no-deps hidet=={WANTED}')}"
_STUBBED = (
    "hidet.ir.cute", "hidet.graph", "hidet.runtime", "hidet.ffi", "hidet.cuda", "hidet.hip",
    "hidet.drivers", "hidet.utils.net_utils", "hidet.utils.fault_handler",
)  # fmt: skip
# Packages whose own __init__ would load everything below them.
_SEEDED = ("hidet", "hidet.backend", "hidet.transforms", "hidet.ir.primitives")

_lock = threading.RLock()
_depth = 0
_modules: dict[str, ModuleType] = {}
"""The part of hidet that is loaded here, while it is not in `sys.modules`."""
DEEP = 100_000
"""Frames that hidet allows Python, whose walks go as deep as programs nest. Elsewhere that many
overflow the C stack before they are refused."""


class _Empty(ModuleType):
    """A module in which every public name is a fresh empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        stub = type(name, (), {"__module__": self.__name__})
        setattr(self, name, stub)
        return stub


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(fullname == name or fullname.startswith(name + ".") for name in _STUBBED):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


_STUBS = _Stubs()


@functools.cache
def installed_version() -> str:
    """Version of the installed hidet; `MissingDependency` where there is none that fits."""
    try:
        found = importlib.metadata.version("hidet")
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependency("the code generator hidet is not installed", fix=FIX) from None
    if found != WANTED:
        raise MissingDependency(f"hidet {found} is installed, {WANTED} is needed", fix=FIX)
    return found


@contextmanager
def ours() -> Iterator[None]:
    """Within, `hidet` is the part that is loaded here, and calls may nest as it wants; outside, all
    is as it was. One thread at a time."""
    global _depth
    with _lock:
        _depth += 1
        theirs = _taken() if _depth == 1 else {}
        limit = sys.getrecursionlimit()
        if _depth == 1:
            sys.modules.update(_modules)
            sys.meta_path.insert(0, _STUBS)
            sys.setrecursionlimit(max(limit, DEEP))
        try:
            yield
        finally:
            _depth -= 1
            if _depth == 0:
                sys.setrecursionlimit(limit)
                sys.meta_path.remove(_STUBS)
                _modules.update(_taken())
                sys.modules.update(theirs)


def _taken() -> dict[str, ModuleType]:
    """All modules of hidet, out of `sys.modules`."""
    names = [name for name in sys.modules if name == "hidet" or name.startswith("hidet.")]
    return {name: sys.modules.pop(name) for name in names}


def load() -> None:
    """Within `ours()`: makes `hidet.ir`, `hidet.backend.codegen` and single passes importable."""
    if "hidet.backend.codegen" in sys.modules:
        return
    installed_version()
    _seed()
    _import("hidet.option", "hidet.ir", "hidet.backend.codegen")


def load_primitives() -> None:
    """Runs hidet's registration of its own device primitives, which kernels may call by name."""
    package = sys.modules["hidet.ir.primitives"]
    spec = package.__spec__
    if not hasattr(package, "cuda") and spec is not None and spec.loader is not None:
        spec.loader.exec_module(package)


def _seed() -> None:
    try:
        spec = importlib.util.find_spec("hidet")
    except ImportError as error:
        raise MissingDependency(f"hidet cannot be loaded: {error}", fix=FIX) from error
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency("the code generator hidet is not importable", fix=FIX)
    root = spec.submodule_search_locations[0]
    for name in _SEEDED:
        folder = "/".join([root, *name.split(".")[1:]])
        package = importlib.machinery.ModuleSpec(
            name,
            importlib.machinery.SourceFileLoader(name, f"{folder}/__init__.py"),
            origin=f"{folder}/__init__.py",
            is_package=True,
        )
        package.submodule_search_locations = [folder]
        module = importlib.util.module_from_spec(package)
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], leaf, module)


def _import(*names: str) -> None:
    try:
        for name in names:
            importlib.import_module(name)
            if name == "hidet.ir":
                _lookups()
    except ImportError as error:
        raise MissingDependency(f"hidet cannot be loaded: {error}", fix=FIX) from error


def _lookups() -> None:
    """Gives the seeded primitives package the names that the code generator asks for."""
    package = sys.modules["hidet.ir.primitives"]
    func = importlib.import_module("hidet.ir.primitives.func")
    for name in (
        "is_primitive_function", "lookup_primitive_function", "register_primitive_function",
    ):  # fmt: skip
        setattr(package, name, getattr(func, name))
    sys.modules["hidet.ir"].__dict__["primitives"] = package
