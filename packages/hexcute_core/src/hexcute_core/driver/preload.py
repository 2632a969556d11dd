"""preload : what a first compilation loads, loaded now."""

from __future__ import annotations

from hexcute_core import backend, toolchain


def preload() -> None:
    """Imports the code generator and loads the CUDA compiler, and what cache keys say of them.

    A first compilation does it otherwise. Called before processes are forked that compile, it is
    done once for all of them. Raises `MissingDependency` where one of the two is not installed.
    """
    backend.load()
    toolchain.load()
    toolchain.toolchain_version()
    backend.version()
