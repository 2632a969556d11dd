"""What a cache folder holds, and which of it goes: what was used least recently, beyond a limit.

An entry's time of change is when it was last used. What a killed writer left is removed as soon as
no writer can still be at it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ENTRY, ASIDE = ".entry", ".tmp"
_WRITING_SECONDS = 600
_BLOCK = 512


@dataclass(frozen=True)
class Kept:
    """A file of the cache, the bytes of disk it takes and when it was last used."""

    path: Path
    bytes: int
    used: float


def kept(root: Path, suffix: str = ENTRY) -> list[Kept]:
    """All files of one kind, the least recently used first; files that vanish are left out."""
    found = []
    for path in _files(root):
        if path.suffix == suffix:
            with suppress(OSError):
                status = path.lstat()
                taken = max(status.st_blocks * _BLOCK, status.st_size)
                found.append(Kept(path, taken, status.st_mtime))
    return sorted(found, key=lambda file: file.used)


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        yield from (Path(folder, name) for name in names)


def trim(root: Path, limit: int) -> None:
    """Removes what killed writers left, and the least recently used entries beyond `limit`
    bytes."""
    now = time.time()
    _remove(file for file in kept(root, ASIDE) if now - file.used > _WRITING_SECONDS)
    entries = kept(root)
    over = sum(file.bytes for file in entries) - limit
    for file in entries:
        if over <= 0:
            return
        _remove([file])
        over -= file.bytes


def clear(root: Path) -> int:
    """Removes all entries and what writers left; how many entries there were."""
    entries = kept(root)
    _remove([*entries, *kept(root, ASIDE)])
    return len(entries)


def _remove(files: Iterator[Kept] | list[Kept]) -> None:
    for file in files:
        # Another process may have been faster.
        with suppress(FileNotFoundError):
            file.path.unlink()
