"""build : Request -> Built, from a bundle in use or the cache where the same was built before.

The key covers the traced program, in which everything shows that the trace depended on, the table,
the target, and the versions of this package, the code generator and NVRTC.
"""

from __future__ import annotations

from hexcute_core import backend
from hexcute_core.driver import bundle
from hexcute_core.driver.built import Built, from_data, to_data
from hexcute_core.driver.cache import Cache, cache_key, warn
from hexcute_core.driver.container import Malformed
from hexcute_core.driver.grid import computable
from hexcute_core.driver.pipeline import Compilation, Request
from hexcute_core.driver.resources import tell_spills
from hexcute_core.errors import MissingDependency
from hexcute_core.scalar import Scalar, free_vars
from hexcute_core.thread.visit import calls
from hexcute_core.tile import Assign, TileProgram, digest
from hexcute_core.toolchain import toolchain_version
from hexcute_core.version import compiler_version

_ENTRY_FORMAT = 3
"""Counts changes of what an entry holds, so that none of an older form is read."""


def program_key(request: Request, tile: TileProgram) -> str:
    """What is compiled for what, whoever compiles it: found in a bundle by this."""
    return cache_key(digest(tile), repr(request.arch), request.code, dict(request.only))


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
    """The compiled kernel, and whether it came from a bundle or the cache.

    Raises MissingDependency where it has to be compiled and something that does is not installed.
    """
    if not bundle.in_use():
        return _kept_or_compiled(request, cache, compilation)
    tile = compilation.tile
    shipped = bundle.find(tile.name, program_key(request, tile))
    if shipped is not None:
        return shipped, True
    try:
        return _kept_or_compiled(request, cache, compilation)
    except MissingDependency as missing:
        lacking = bundle.lacking(tile.name, request.code)
        raise MissingDependency(
            f"{lacking}; and it cannot be compiled here: {missing.message}",
            tile.span,
            "add the call's shape to the bundle, or install the compiler",
        ) from None


def _kept_or_compiled(
    request: Request, cache: Cache | None, compilation: Compilation
) -> tuple[Built, bool]:
    version = None if cache is None else compiler_version()
    if cache is None:
        return _compile(compilation), False
    if version is None:
        warn(
            "the compiler's own source files changed since this process loaded it: its cache is "
            "left alone; start the process again"
        )
        return _compile(compilation), False
    key = request_key(request, compilation.tile, version)
    found = kept(cache, key)
    if found is not None:
        return found, True
    with cache.building(key):
        # Whoever held the lock before has built it.
        found = kept(cache, key)
        if found is not None:
            return found, True
        built = _compile(compilation)
        # A stage may have been loaded only now, from files edited meanwhile.
        if compiler_version() == version:
            cache.put(key, *to_data(built))
    return built, False


def kept(cache: Cache, key: str) -> Built | None:
    """The compiled kernel that was kept under `key`, if every field of it is in order."""
    entry = cache.get(key)
    try:
        return None if entry is None else from_data(entry.files, entry.meta)
    except Malformed:
        return None


def _promised(program: TileProgram) -> tuple[tuple[Scalar, int], ...]:
    """What every block relies on and a launch knows: numbers, and what they are multiples of."""
    known = {*program.symbols, *dict(program.scalars)}
    return tuple(
        (stmt.value, stmt.multiple)
        for stmt in program.body
        if isinstance(stmt, Assign) and stmt.multiple > 1
        if free_vars(stmt.value) <= known and computable(stmt.value)
    )


def _compile(compilation: Compilation) -> Built:
    cubin, thread, source = compilation.cubin, compilation.thread, compilation.source
    resources = next((r for r in cubin.resources if r.kernel == source.entry), None)
    built = Built(
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
        _promised(compilation.tile),
    )
    tell_spills(built, compilation.solution, compilation.request.arch)
    return built
