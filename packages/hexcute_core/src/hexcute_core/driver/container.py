"""Container = a file of named blobs and JSON metadata under one digest, read back whole or not at
all.

    the form's name, SHA-256 of what follows, the header's length, the header, the blobs

The header is JSON: the blobs' names and lengths, the metadata, and what the file is for. Nothing
is unpickled, and a length that does not fit the file is seen before anything is made of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, Union

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]

MOST_BYTES = 2**28
"""A longer file is none of ours: machine code and its listings take a hundredth of that."""

_DIGEST_BYTES = hashlib.sha256().digest_size
_LENGTH_BYTES = 8


class Malformed(ValueError):
    """The bytes are not what `pack` made; the text says in what respect."""


@dataclass(frozen=True)
class Content:
    """Named blobs and metadata; `purpose` is what the file was written for."""

    purpose: str
    files: Mapping[str, bytes]
    meta: Mapping[str, Json]


def pack(form: bytes, content: Content) -> bytes:
    """The bytes of a file of this form."""
    sizes = [[name, len(blob)] for name, blob in content.files.items()]
    fields = {"purpose": content.purpose, "files": sizes, "meta": dict(content.meta)}
    header = json.dumps(fields, allow_nan=False).encode()
    length = len(header).to_bytes(_LENGTH_BYTES, "big")
    payload = b"".join([length, header, *content.files.values()])
    return form + hashlib.sha256(payload).digest() + payload


def unpack(form: bytes, raw: bytes) -> Content:
    """What was packed. Raises Malformed for any other bytes."""
    if not raw.startswith(form):
        raise Malformed("it does not begin as such a file does")
    start = len(form) + _DIGEST_BYTES
    payload = memoryview(raw)[start:]
    if hashlib.sha256(payload).digest() != raw[len(form) : start]:
        raise Malformed("its digest is not that of its content: it is truncated or changed")
    at = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "big")
    if at > len(payload):
        raise Malformed("its header is longer than the file")
    try:
        header = json.loads(bytes(payload[_LENGTH_BYTES:at]))
    except (ValueError, RecursionError):
        raise Malformed("its header is not JSON that was written here") from None
    return _content(header, payload[at:])


def _content(header: object, blobs: memoryview) -> Content:
    match header:
        case {"purpose": str(purpose), "files": list(sizes), "meta": dict(meta)}:
            files: dict[str, bytes] = {}
            at = 0
            for row in sizes:
                match row:
                    case [str(name), int(size)] if name not in files and 0 <= size <= len(blobs):
                        files[name] = bytes(blobs[at : at + size])
                        at += size
                    case _:
                        raise Malformed("its header lists a blob that it cannot hold")
            if at != len(blobs):
                raise Malformed("its blobs do not fill the file")
            return Content(purpose, files, meta)
        case _:
            raise Malformed("its header lacks a field")
