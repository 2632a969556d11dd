"""What this compiler is, for cache keys: its version and the state of its source files.

An installed package's files do not change; in a working tree every edit makes other kernels.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import cute_layout

VERSION = "0.1.0"


@cache
def compiler_version() -> str:
    """The version, and a digest of every source file's name, size and time."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent.parent, Path(cute_layout.__file__).parent):
        for name, size, changed in sorted(_sources(str(folder))):
            digest.update(f"{name} {size} {changed}\n".encode())
    return f"{VERSION} {digest.hexdigest()[:16]}"


def _sources(folder: str, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _sources(entry.path, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            status = entry.stat()
            yield prefix + entry.name, status.st_size, status.st_mtime_ns
