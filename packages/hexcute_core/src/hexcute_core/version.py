"""What this compiler is, for cache keys: its version and the state of its source files.

The files are looked at when the package is imported, before any other of its modules is, and again
when a key is asked for. Where the two differ nobody knows which of them the process runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

VERSION = "0.1.0"


def _folders() -> Iterator[Path]:
    yield Path(__file__).parent
    algebra = importlib.util.find_spec("cute_layout")
    if algebra is not None and algebra.origin is not None:
        yield Path(algebra.origin).parent


def _state() -> str:
    """A digest of every source file's name, size and time."""
    digest = hashlib.sha256()
    for folder in _folders():
        for name, size, changed in sorted(_sources(str(folder))):
            digest.update(f"{name} {size} {changed}\n".encode())
    return digest.hexdigest()[:16]


def _sources(folder: str, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _sources(entry.path, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            status = entry.stat()
            yield prefix + entry.name, status.st_size, status.st_mtime_ns


def contents(*more: Path, apart: str | None = None) -> str:
    """A digest of every source file's name and content, of those of the folders `more` too: the
    same wherever the same compiler is installed. What lies in a folder `apart` does not count."""
    digest = hashlib.sha256()
    for folder in (*_folders(), *more):
        for name, _, _ in sorted(_sources(str(folder))):
            if apart is not None and name.startswith(f"{apart}/"):
                continue
            content = (folder / name).read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


_IMPORTED = _state()


def compiler_version() -> str | None:
    """The version, and the state of the sources at import; None where they changed since."""
    return f"{VERSION} {_IMPORTED}" if _state() == _IMPORTED else None
