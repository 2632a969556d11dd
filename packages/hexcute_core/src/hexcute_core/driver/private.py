"""Private files: read and written only where nobody else could have changed them.

What is loaded from a file runs on the GPU, so whoever can write the file can run anything there.
Folders and files are opened one name at a time without following links, and looked at once they
are open. `Trust` says whose they may be: the user's own ("own"), or of a team whose members may
write them ("team").
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

Trust: TypeAlias = Literal["own", "team"]

_LOOSE = {"own": stat.S_IWGRP | stat.S_IWOTH, "team": stat.S_IWOTH}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would block whoever opens it to read; then it is seen to be no regular file.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotPrivate(OSError):
    """Somebody else could have written what was found; the text says why."""


def _check(handle: int, what: str, trust: Trust) -> os.stat_result:
    status = os.fstat(handle)
    if trust == "own" and status.st_uid != os.geteuid():
        raise NotPrivate(f"{what} belongs to another user")
    if status.st_mode & _LOOSE[trust]:
        raise NotPrivate(f"{what} can be written by others")
    return status


@contextmanager
def folder(path: Path | str, trust: Trust, within: int | None = None) -> Iterator[int]:
    """A handle of the folder `path`, of `within` where that is given. Raises NotPrivate."""
    try:
        handle = os.open(path, _FOLDER, dir_fd=within)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotPrivate(f"{path} is a symbolic link, or no folder") from None
        raise
    try:
        _check(handle, str(path), trust)
        yield handle
    finally:
        os.close(handle)


def read(name: str, within: int, trust: Trust, most: int) -> bytes:
    """The bytes of a regular file of a folder. Raises NotPrivate for others, and for one of more
    than `most` bytes."""
    try:
        handle = os.open(name, _FILE, dir_fd=within)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivate(f"{name} is a symbolic link") from None
        raise
    with os.fdopen(handle, "rb") as file:
        status = _check(handle, name, trust)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise NotPrivate(f"{name} is no regular file, or too long for one of ours")
        return file.read(most)


def write(name: str, within: int, content: bytes, mode: int = 0o600) -> None:
    """Writes a file of a folder aside and renames it: others see all of it or nothing."""
    aside = f"{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(aside, flags, mode, dir_fd=within)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(aside, name, src_dir_fd=within, dst_dir_fd=within)
    except BaseException:
        os.unlink(aside, dir_fd=within)
        raise
