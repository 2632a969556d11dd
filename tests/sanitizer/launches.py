"""`Launch`: one launch of a kernel, with all that it needs to be run again by itself, in a file.

    a file: one line of JSON | the bytes of its buffers that something had written, in order;
            of very large ones the first period, which repeats

What a launch does follows from machine code, shape, numbers and memory. So launches that are alike
in these have one key, and are kept once; of large buffers, sizes count and the contents do not.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass, replace
from pathlib import Path

SHAPE_BYTES = 28
"""Of a CUlaunchConfig: the grid, the block, bytes of shared memory."""
ADDRESS_BYTES = 8
_CLUSTER_DIMENSION = 4
"""Kind of a CUlaunchAttribute, which begins with it; the cluster stands at bytes 8 to 20."""
SMALL = 1 << 16
"""Buffers of at most so many bytes may hold what steers a kernel: lengths, pages, experts."""


@dataclass(frozen=True)
class Value:
    """A parameter's bytes, in hex. Where `buffer` is not negative it is an address, or a tensor
    map with one: `offset` bytes into that buffer."""

    data: str
    buffer: int = -1
    offset: int = 0


@dataclass(frozen=True)
class Buffer:
    """Memory of `size` bytes; `written`: where (start, end) something had been written; `period`:
    where it is not 0, all was, and so many bytes are kept of it, one after another again."""

    size: int
    written: tuple[tuple[int, int], ...]
    period: int = 0

    @property
    def kept(self) -> int:
        """Bytes that stand in the file."""
        return self.period or sum(end - start for start, end in self.written)


@dataclass(frozen=True)
class Launch:
    """`image`: digest of the machine code; `shape`: SHAPE_BYTES in hex; `attributes`: as packed
    for the driver, in hex, and their number; `test`: the first that launched it."""

    kernel: str
    image: str
    shape: str
    attributes: tuple[str, int]
    values: tuple[Value, ...]
    buffers: tuple[Buffer, ...]
    test: str

    @property
    def shared(self) -> int:
        return int.from_bytes(bytes.fromhex(self.shape)[24:], "little")

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Its blocks along each axis."""
        packed, count = self.attributes
        listed = bytes.fromhex(packed)
        for start in range(0, len(listed), len(listed) // max(count, 1) or 1):
            kind, _, x, y, z = struct.unpack_from("<5I", listed, start)
            if kind == _CLUSTER_DIMENSION:
                return x, y, z
        return 1, 1, 1


def of_one_cluster(launch: Launch) -> Launch:
    """The same with the blocks of one cluster, or one block where there are none."""
    return replace(launch, shape=struct.pack("<3I", *launch.cluster).hex() + launch.shape[24:])


def key_of(launch: Launch, contents: list[bytes]) -> str:
    """The name under which launches that do the same are kept."""
    alike = asdict(launch) | {"test": ""}
    digest = hashlib.sha256(json.dumps(alike).encode())
    for buffer, data in zip(launch.buffers, contents, strict=True):
        if buffer.size <= SMALL:
            digest.update(data)
    return digest.hexdigest()[:24]


def write(path: Path, launch: Launch, contents: list[bytes]) -> None:
    """Whoever reads the folder meanwhile sees all of the file or nothing."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        file.write(json.dumps(asdict(launch)).encode() + b"\n")
        for data in contents:
            file.write(data)
    unfinished.replace(path)


def head(path: Path) -> Launch:
    """A launch without its contents."""
    with path.open("rb") as file:
        return _parsed(file.readline())


def read(path: Path) -> tuple[Launch, list[bytes]]:
    """A launch, and of each of its buffers the bytes that were written, one after another."""
    with path.open("rb") as file:
        launch = _parsed(file.readline())
        return launch, [file.read(buffer.kept) for buffer in launch.buffers]


def _parsed(line: bytes) -> Launch:
    fields = json.loads(line)
    fields["attributes"] = tuple(fields["attributes"])
    fields["values"] = tuple(Value(**value) for value in fields["values"])
    fields["buffers"] = tuple(
        Buffer(b["size"], tuple((start, end) for start, end in b["written"]), b["period"])
        for b in fields["buffers"]
    )
    return Launch(**fields)
