"""The on-disk cache: key = SHA-256 of what a kernel depends on; an entry is one verified file.

An entry's file is `MAGIC`, the SHA-256 of all that follows, the length of a JSON header, the
header, and the blobs one after another. Files are written aside and renamed, so that readers and
writers in other processes see a whole entry or none; one whose digest does not match reads as
absent, and the next `put` replaces it. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, Union

from hexcute_core.errors import CacheWarning

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
KeyPart: TypeAlias = Union[
    bool, int, float, str, bytes, "tuple[KeyPart, ...]", "Mapping[str, KeyPart]", None
]

_MAGIC = b"hexcute cache 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_LENGTH_BYTES = 8
_SUFFIX = ".entry"


@dataclass(frozen=True)
class Entry:
    """What was put under a key: named blobs and JSON metadata."""

    files: Mapping[str, bytes]
    meta: Mapping[str, Json]


def default_root() -> Path:
    """`$HEXCUTE_CACHE_DIR`, else `hexcute` in the XDG cache folder."""
    chosen = os.environ.get("HEXCUTE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "hexcute"


def _encode(part: KeyPart) -> bytes:
    """One part, tagged by type and prefixed with its length: unequal parts differ."""
    match part:
        case None | bool() | int() | float():
            body = repr(part).encode()
        case str():
            body = part.encode("utf-8", "surrogatepass")
        case bytes():
            body = part
        case tuple():
            body = b"".join(map(_encode, part))
        case Mapping():
            body = b"".join(_encode(pair) for pair in sorted(part.items()))
        case _:
            raise TypeError(f"a cache key cannot hold a {type(part).__name__}: {part!r}")
    tag = "map" if isinstance(part, Mapping) else type(part).__name__
    return f"{tag}:{len(body)}:".encode() + body


def cache_key(*parts: KeyPart) -> str:
    """The key of these parts, 64 hexadecimal digits; stable over processes and versions."""
    return hashlib.sha256(_encode(parts)).hexdigest()


def _pack(files: Mapping[str, bytes], meta: Mapping[str, Json]) -> bytes:
    sizes = [[name, len(blob)] for name, blob in files.items()]
    header = json.dumps({"files": sizes, "meta": dict(meta)}, allow_nan=False).encode()
    payload = b"".join([len(header).to_bytes(_LENGTH_BYTES, "big"), header, *files.values()])
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def _unpack(raw: bytes) -> Entry | None:
    start = len(_MAGIC) + _DIGEST_BYTES
    payload = memoryview(raw)[start:]
    if raw[: len(_MAGIC)] != _MAGIC or hashlib.sha256(payload).digest() != raw[len(_MAGIC) : start]:
        return None
    at = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "big")
    header = json.loads(bytes(payload[_LENGTH_BYTES:at]))
    files: dict[str, bytes] = {}
    for name, size in header["files"]:
        files[name] = bytes(payload[at : at + size])
        at += size
    return Entry(files, header["meta"])


class Cache:
    """Entries under one folder, safe to share between threads, processes and versions."""

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = default_root() if root is None else Path(root)

    def path(self, key: str) -> Path:
        """Where the entry of `key` is or would be."""
        return self.root / key[:2] / (key[2:] + _SUFFIX)

    def get(self, key: str) -> Entry | None:
        """The entry of `key`; None where there is none, or it is damaged, or cannot be read."""
        try:
            return _unpack(self.path(key).read_bytes())
        except OSError:
            return None

    def put(
        self, key: str, files: Mapping[str, bytes], meta: Mapping[str, Json] | None = None
    ) -> None:
        """Stores an entry, replacing one that is there. A folder that cannot be written warns."""
        target = self.path(key)
        try:
            _write_atomically(target, _pack(files, meta or {}))
        except OSError as error:
            warnings.warn(
                f"the compiled kernel is not cached: {error}; "
                "set HEXCUTE_CACHE_DIR to a folder that can be written",
                CacheWarning,
                stacklevel=2,
            )


def _write_atomically(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(aside, target)
    except BaseException:
        os.unlink(aside)
        raise
