"""Built <-> blobs and JSON: a compiled kernel as data, read back only if every field is of its
kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hexcute_core.driver.container import Malformed
from hexcute_core.driver.grid import decode, encode
from hexcute_core.errors import HexcuteError
from hexcute_core.scalar import Scalar
from hexcute_core.thread import TensorMap

_TEXTS = ("ptx", "log", "source")


@dataclass(frozen=True)
class Built:
    """A compiled kernel as data: what a launch, a listing or a file needs."""

    cubin: bytes
    arch: str
    ptx: str
    log: str
    source: str
    entry: str
    shared_bytes: int
    block_dim: int
    grid_dim: tuple[Scalar, ...]
    registers: int
    local_memory: bool
    maps: tuple[TensorMap, ...] = ()
    cluster_dim: tuple[int, int, int] = (1, 1, 1)
    dependent: bool = False
    promised: tuple[tuple[Scalar, int], ...] = ()
    """What a launch knows and the kernel relies on: numbers, and what they are multiples of."""


def to_data(built: Built) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Blobs and metadata."""
    files = {"cubin": built.cubin, **{name: getattr(built, name).encode() for name in _TEXTS}}
    meta = {
        "arch": built.arch,
        "entry": built.entry,
        "shared_bytes": built.shared_bytes,
        "block_dim": built.block_dim,
        "grid_dim": [encode(e) for e in built.grid_dim],
        "registers": built.registers,
        "local_memory": built.local_memory,
        "maps": [asdict(tensor_map) for tensor_map in built.maps],
        "cluster_dim": list(built.cluster_dim),
        "dependent": built.dependent,
        "promised": [[encode(e), multiple] for e, multiple in built.promised],
    }
    return files, meta


def from_data(files: Mapping[str, bytes], meta: Mapping[str, Any]) -> Built:
    """What `to_data` gave. Raises Malformed for anything else."""
    texts = {name: _text(files, name) for name in _TEXTS}
    if set(files) != {"cubin", *_TEXTS}:
        raise Malformed("it has other parts than machine code and listings")
    x, y, z = _numbers(meta, "cluster_dim", 3)
    return Built(
        files["cubin"],
        _of(meta, "arch", str),
        **texts,
        entry=_of(meta, "entry", str),
        shared_bytes=_count(_of(meta, "shared_bytes", int)),
        block_dim=_count(_of(meta, "block_dim", int)),
        grid_dim=_grid(meta),
        registers=_count(_of(meta, "registers", int)),
        local_memory=_of(meta, "local_memory", bool),
        maps=tuple(_map(row) for row in _of(meta, "maps", list)),
        cluster_dim=(x, y, z),
        dependent=_of(meta, "dependent", bool),
        promised=_promised(meta),
    )


def _of(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    # A bool is an int to Python, and none in a file.
    if type(value) is not kind:
        raise Malformed(f"its field {name!r} is not what it should be")
    return value


def _count(value: int) -> int:
    if not 0 <= value < 2**31:
        raise Malformed("it counts what cannot be so many")
    return value


def _text(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files[name].decode()
    except (KeyError, UnicodeDecodeError):
        raise Malformed(f"its part {name!r} is missing, or no text") from None


def _numbers(fields: Mapping[str, Any], name: str, count: int | None = None) -> tuple[int, ...]:
    values = _of(fields, name, list)
    if any(type(value) is not int for value in values) or count not in (None, len(values)):
        raise Malformed(f"its field {name!r} is not what it should be")
    return tuple(_count(value) for value in values)


def _grid(meta: Mapping[str, Any]) -> tuple[Scalar, ...]:
    grid = _expressions(_of(meta, "grid_dim", list))
    if len(grid) != 3:
        raise Malformed("its grid is not an expression that a kernel can have")
    return grid


def _promised(meta: Mapping[str, Any]) -> tuple[tuple[Scalar, int], ...]:
    rows = _of(meta, "promised", list)
    if not all(type(row) is list and len(row) == 2 and type(row[1]) is int for row in rows):
        raise Malformed("its field 'promised' is not what it should be")
    multiples = [_count(multiple) for _, multiple in rows]
    if any(multiple < 2 for multiple in multiples):
        raise Malformed("its field 'promised' is not what it should be")
    return tuple(zip(_expressions([node for node, _ in rows]), multiples))


def _expressions(nodes: list[Any]) -> tuple[Scalar, ...]:
    try:
        found = tuple(decode(node) for node in nodes)
        same = [encode(e) for e in found] == nodes
    except (HexcuteError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        same = False
    if not same:
        raise Malformed("its grid is not an expression that a kernel can have")
    return found


def _map(row: object) -> TensorMap:
    if not isinstance(row, dict):
        raise Malformed("its tensor maps are not what they should be")
    name, param = _of(row, "name", str), _of(row, "param", str)
    swizzle, dims = _count(_of(row, "swizzle", int)), _numbers(row, "dims")
    if sorted(dims) != list(range(len(dims))):
        raise Malformed("its tensor maps are not what they should be")
    return TensorMap(name, param, _numbers(row, "box"), swizzle, dims)
