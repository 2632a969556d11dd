"""The cache on disk: key -> entry, one verified file each, used only if it is the user's own.

An entry is loaded where its folder and file are private (`private.py`), its digest is right and the
key that stands in it is the one asked for; anything else reads as absent, and the next `put`
replaces it. Trouble with the disk is a CacheWarning: a kernel is compiled all the same.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hexcute_core.driver import eviction, private
from hexcute_core.driver.container import MOST_BYTES, Content, Json, Malformed, pack, unpack
from hexcute_core.driver.keys import cache_key
from hexcute_core.driver.told import tell
from hexcute_core.errors import CacheWarning

__all__ = ["Cache", "Entry", "cache_key", "default_limit", "default_root", "warn"]

_FORM = b"hexcute cache 2\n"
_LIMIT = 2**31
_LOCKS = "locks"
_BUILD_SECONDS = 600.0
_POLL_SECONDS = 0.02
_PUTS_BEFORE_TRIM = 256


@dataclass(frozen=True)
class Entry:
    """What was put under a key: named blobs and JSON metadata."""

    files: Mapping[str, bytes]
    meta: Mapping[str, Json]


def default_root() -> Path | None:
    """`$HEXCUTE_CACHE_DIR`, else `hexcute` in the XDG cache folder; None without a home."""
    chosen = os.environ.get("HEXCUTE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg:
        return Path(xdg) / "hexcute"
    with suppress(RuntimeError):
        return Path.home() / ".cache" / "hexcute"
    return None


def default_limit() -> int:
    """`$HEXCUTE_CACHE_LIMIT` in bytes, else 2 GiB."""
    text = os.environ.get("HEXCUTE_CACHE_LIMIT", "")
    if text and not (text.isascii() and text.isdecimal()):
        warn(f"HEXCUTE_CACHE_LIMIT={text!r} is no number of bytes; it is taken as {_LIMIT}")
        return _LIMIT
    return int(text) if text else _LIMIT


def warn(message: str) -> None:
    """A CacheWarning."""
    tell(message, CacheWarning, stacklevel=3)


class Cache:
    """Entries under one folder, safe to share between threads, processes and versions.

    Behind it lies the folder `$HEXCUTE_CACHE_SHARED`, if that is set, from which entries are read
    and never written: who sets it trusts all who may write there.
    """

    def __init__(self, root: Path | str | None = None, limit: int | None = None) -> None:
        self.root = default_root() if root is None else Path(root)
        self.limit = default_limit() if limit is None else limit
        shared = os.environ.get("HEXCUTE_CACHE_SHARED")
        self.shared = Path(shared) if shared else None
        self._puts = 0

    def path(self, key: str) -> Path:
        """Where the entry of `key` is or would be."""
        return (self.root or Path()) / key[:2] / _name(key)

    def get(self, key: str) -> Entry | None:
        """The entry of `key`; None where there is none, or it is damaged, or not ours."""
        return self._read(self.root, key, "own") or self._read(self.shared, key, "team")

    def _read(self, root: Path | None, key: str, trust: private.Trust) -> Entry | None:
        if root is None:
            return None
        try:
            with private.folder(root, trust) as top, private.folder(key[:2], trust, top) as inner:
                raw = private.read(_name(key), inner, trust, MOST_BYTES)
                if trust == "own":
                    with suppress(OSError):
                        os.utime(_name(key), dir_fd=inner)
        except private.NotPrivate as error:
            warn(f"an entry of the cache {root} is ignored: {error}; make it private or remove it")
            return None
        except OSError:
            return None
        try:
            content = unpack(_FORM, raw)
        except Malformed:
            return None
        return Entry(content.files, content.meta) if content.purpose == key else None

    def put(
        self, key: str, files: Mapping[str, bytes], meta: Mapping[str, Json] | None = None
    ) -> None:
        """Stores an entry, replacing one that is there. A folder that cannot be written warns."""
        content = pack(_FORM, Content(key, files, meta or {}))
        try:
            with self._made(key[:2]) as inner:
                private.write(_name(key), inner, content)
            if self._puts % _PUTS_BEFORE_TRIM == 0 and self.root is not None:
                eviction.trim(self.root, self.limit)
            self._puts += 1
        except OSError as error:
            warn(
                f"the compiled kernel is not cached: {error}; "
                "set HEXCUTE_CACHE_DIR to a folder of your own"
            )

    @contextmanager
    def building(self, key: str) -> Iterator[None]:
        """One process builds `key` at a time, the others wait; the lock ends with its holder.

        Where there is no lock to be had, or not in ten minutes, everybody builds.
        """
        try:
            with self._made(_LOCKS) as inner:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                # As many locks as folders of entries, so that they do not pile up.
                handle = os.open(key[:2], flags, 0o600, dir_fd=inner)
        except OSError:
            yield
            return
        try:
            _lock(handle)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _made(self, name: str) -> Iterator[int]:
        """A handle of a private folder under the root, both made where they are missing."""
        if self.root is None:
            raise OSError("this user has no home folder")
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self.root, 0o700)
        with private.folder(self.root, "own") as top:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=top)
            with private.folder(name, "own", top) as inner:
                yield inner


def _name(key: str) -> str:
    return key[2:] + eviction.ENTRY


def _lock(handle: int) -> None:
    ends = time.monotonic() + _BUILD_SECONDS
    while time.monotonic() < ends:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(_POLL_SECONDS)
        except OSError:
            return
