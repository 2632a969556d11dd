"""build : Request -> Built, from the cache where the same was built before.

The key covers the traced program, in which everything shows that the trace depended on, the table,
the target, and the versions of this package, the code generator and NVRTC.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hexcute_core import backend
from hexcute_core.driver.cache import Cache, Entry, cache_key
from hexcute_core.driver.grid import decode, encode
from hexcute_core.driver.pipeline import Compilation, Request
from hexcute_core.errors import CacheWarning
from hexcute_core.scalar import Scalar
from hexcute_core.thread import TensorMap
from hexcute_core.thread.visit import calls
from hexcute_core.tile import TileProgram, digest
from hexcute_core.toolchain import toolchain_version
from hexcute_core.version import compiler_version

_ENTRY_FORMAT = 2
"""Counts changes of what an entry holds, so that none of an older form is read."""


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


def request_key(request: Request, tile: TileProgram, version: str) -> str:
    """The cache key of `tile`, compiled as `request` says by this compiler in `version`."""
    return cache_key(
        version,
        _ENTRY_FORMAT,
        digest(tile),
        repr(request.arch),
        request.code,
        dict(request.only),
        backend.version(),
        toolchain_version(),
    )


def build(request: Request, cache: Cache | None, compilation: Compilation) -> tuple[Built, bool]:
    """The compiled kernel, and whether it came from the cache."""
    version = None if cache is None else compiler_version()
    if cache is None:
        return _compile(compilation), False
    if version is None:
        warnings.warn(
            "the compiler's own source files changed since this process loaded it: its cache is "
            "left alone; start the process again",
            CacheWarning,
            stacklevel=2,
        )
        return _compile(compilation), False
    key = request_key(request, compilation.tile, version)
    entry = cache.get(key)
    if entry is not None:
        return _from_entry(entry), True
    built = _compile(compilation)
    files, meta = _to_entry(built)
    cache.put(key, files, meta)
    return built, False


def _compile(compilation: Compilation) -> Built:
    cubin, thread, source = compilation.cubin, compilation.thread, compilation.source
    resources = next((r for r in cubin.resources if r.kernel == source.entry), None)
    return Built(
        cubin.cubin,
        cubin.arch,
        cubin.ptx,
        cubin.log,
        source.text,
        source.entry,
        thread.shared_bytes,
        thread.block_dim,
        thread.grid_dim,
        resources.registers if resources else 0,
        bool(resources and resources.uses_local_memory),
        thread.maps,
        thread.cluster_dim,
        calls(thread.body, "griddepcontrol.wait"),
    )


def _to_entry(built: Built) -> tuple[dict[str, bytes], dict[str, Any]]:
    files = {
        "cubin": built.cubin,
        "ptx": built.ptx.encode(),
        "log": built.log.encode(),
        "source": built.source.encode(),
    }
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
    }
    return files, meta


def _from_entry(entry: Entry) -> Built:
    meta: Mapping[str, Any] = entry.meta
    x, y, z = meta["cluster_dim"]
    return Built(
        entry.files["cubin"],
        meta["arch"],
        entry.files["ptx"].decode(),
        entry.files["log"].decode(),
        entry.files["source"].decode(),
        meta["entry"],
        meta["shared_bytes"],
        meta["block_dim"],
        tuple(decode(node) for node in meta["grid_dim"]),
        meta["registers"],
        meta["local_memory"],
        tuple(TensorMap(**{**fields, "box": tuple(fields["box"])}) for fields in meta["maps"]),
        (x, y, z),
        meta["dependent"],
    )
