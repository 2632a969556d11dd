"""ThreadProgram -> CudaSource, through a code generator looked up by name.

A backend is a function `(program, arch) -> CudaSource`; its module is imported when the backend
is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol, cast

from hexcute_core.backend.source import CudaSource, LocatedSource
from hexcute_core.errors import BackendError
from hexcute_core.thread import ThreadProgram


class Backend(Protocol):
    """A backend's module."""

    emit: Callable[[ThreadProgram, str], CudaSource]
    located: Callable[[ThreadProgram, str], LocatedSource]
    load: Callable[[], None]
    version: Callable[[], str]


BACKENDS: dict[str, str] = {"hidet": "hexcute_core.backend.hidet"}
"""Backend name -> module with what a `Backend` has."""


def _module(backend: str) -> Backend:
    try:
        return cast(Backend, importlib.import_module(BACKENDS[backend]))
    except KeyError:
        raise BackendError(
            f"there is no backend called {backend!r}",
            fix=f"use one of {', '.join(sorted(BACKENDS))}",
        ) from None


def emit(program: ThreadProgram, arch: str, backend: str = "hidet") -> CudaSource:
    """CUDA source of `program` for `arch` ("sm_80", ...); the same input gives the same text.

    Raises `BackendError` where the program has no translation, with the statement's source
    line, and `MissingDependency` where the code generator is not installed.
    """
    return _module(backend).emit(program, arch)


def located(program: ThreadProgram, arch: str, backend: str = "hidet") -> LocatedSource:
    """What `emit` gives, to the letter, and for each line of it where in the kernel it comes from;
    raises as `emit` does."""
    return _module(backend).located(program, arch)


def load(backend: str = "hidet") -> None:
    """Imports the code generator, which the first `emit` would do otherwise."""
    _module(backend).load()


def version(backend: str = "hidet") -> str:
    """Name and version of the code generator, without loading it."""
    return _module(backend).version()


__all__ = [
    "BACKENDS", "Backend", "CudaSource", "LocatedSource", "emit", "load", "located", "version",
]  # fmt: skip
