"""cache_key(parts) = SHA-256 of an encoding in which unequal parts differ."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeAlias, Union

KeyPart: TypeAlias = Union[
    bool, int, float, str, bytes, "tuple[KeyPart, ...]", "Mapping[str, KeyPart]", None
]


def _encode(part: KeyPart) -> bytes:
    """One part, tagged by type and prefixed with its length."""
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
