"""Layouts of a tensor that no equation reaches: one for every way that memory holds it.

Copies of the tile itself say along which dimension threads should hold runs and how wide; where
there are none, copies of its projections (broadcast operands, reductions) do.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from hexcute_core.arch import Fragment, Mode
from hexcute_core.synthesis import nested
from hexcute_core.synthesis.coalesced import (
    Along,
    coalesced,
    layouts,
    shared_along,
    vector_that_spreads,
)
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.memory import describe_global
from hexcute_core.synthesis.propagate import component_refs
from hexcute_core.synthesis.register_parts import Parts
from hexcute_core.tile import Copy, GlobalView, Reduce, Relabel, Scan, SharedTensor
from hexcute_core.tile.tensors import TileRef


def default_layouts(
    graph: Graph, component: Component, parts: Parts, name: str
) -> Iterator[Fragment]:
    """Layouts of a tensor that no equation reaches: one for every way that memory holds it. What
    every thread has to hold all of is left out, and put among the values of what is found."""
    core = parts.core(name)
    shape = tuple(parts.shapes[name][m] for m in core)
    threads = component.team.threads
    tried: set[Fragment] = set()
    for f in _core_layouts(graph, component, tiles_of(component, parts, name), shape, threads):
        if f not in tried:
            tried.add(f)
            yield parts.spread(name, f)


def _core_layouts(
    graph: Graph, component: Component, tiles: Tiles, shape: tuple[int, ...], threads: int
) -> Iterator[Fragment]:
    if not shape:
        yield Fragment((), (Mode(threads, 0, 0),), ())
        return
    yield from _nested(graph, component, shape, threads)
    along = passed_along(component, tiles)
    for order, widest, least, bits, turned in memories(graph, component, tiles, len(shape)):
        yield from layouts(shape, order, widest, least, threads, bits, turned, along)
    yield from _from_projections(graph, component, shape, along)


Tiles = dict[tuple[int, ...], tuple[int, ...]]
"""Shapes of the tiles of a tensor, with the dimensions of each that threads share among them."""


def tiles_of(component: Component, parts: Parts, name: str) -> Tiles:
    core, shape = parts.core(name), parts.shapes[name]
    found = {tuple(shape[m] for m in core): tuple(range(len(core)))}
    for ref in component_refs(component, name):
        dims = tuple(d for d, m in enumerate(ref.kept) if m in core)
        if len(dims) == len(core):
            found.setdefault(ref.shape, dims)
    return found


def memories(
    graph: Graph, component: Component, tiles: Tiles, rank: int
) -> Iterator[tuple[tuple[int, ...], int, int, int, bool]]:
    """(order of dimensions, widest and narrowest vector, bits of an element, whether it may be
    turned) of every copy of one of `tiles`, global memory first; dimensions are those that threads
    share among them."""
    held: list[int] = []
    outside: list[tuple[TileRef, int]] = []
    for item in component.ops:
        if not isinstance(item.op, Copy):
            continue
        for ref in (item.op.src, item.op.dst):
            tensor = graph.tensors[ref.tensor]
            if ref.shape in tiles and isinstance(tensor, SharedTensor):
                held.append(tensor.dtype.bits)
            elif ref.shape in tiles and isinstance(tensor, GlobalView):
                outside.append((ref, tensor.dtype.bits))
    # An access moves a byte at least, so a thread holds as many elements side by side.
    least = max((8 // bits for bits in (*held, *(b for _, b in outside))), default=1) or 1
    # Memory may hold what a tile is by another name along another dimension.
    relabelled = any(isinstance(item.op, Relabel) for item in component.ops)
    orders = []
    for ref, bits in outside:
        memory, shared = describe_global(graph.program, graph.facts, ref), tiles[ref.shape]
        order = tuple(shared.index(d) for d in memory.order if d in shared)
        widest = memory.vector if memory.contiguous in shared else 1
        orders.append(order)
        turned = bool(held) or len(outside) > 1 or relabelled
        yield order, max(least, min(widest, 128 // bits)), least, bits, turned
    natural = tuple(reversed(range(rank)))
    for bits in dict.fromkeys(held):
        for order in dict.fromkeys((*orders, natural, natural[::-1])):
            yield order, 128 // bits, least, bits, bits <= 8


def passed_along(component: Component, tiles: Tiles) -> Along:
    """The dimensions of `tiles`, as threads share them, along which something is reduced or
    scanned."""
    found: dict[int, bool] = {}
    for item in component.ops:
        op = item.op
        if not isinstance(op, (Reduce, Scan)):
            continue
        ref = op.src if isinstance(op, Reduce) else op.srcs[0]
        for place, dim in enumerate(tiles.get(ref.shape, ())):
            if dim == op.axis:
                found[place] = found.get(place, False) or isinstance(op, Scan)
    return found


def _nested(
    graph: Graph, component: Component, shape: tuple[int, ...], threads: int
) -> Iterator[Fragment]:
    """Layouts for copies of the whole tile whose contiguous elements are digits of several of its
    dimensions, or not the first of one."""
    for item in component.ops:
        for ref in (item.op.src, item.op.dst) if isinstance(item.op, Copy) else ():
            tensor = graph.tensors[ref.tensor]
            if ref.shape != shape or not isinstance(tensor, GlobalView):
                continue
            memory = describe_global(graph.program, graph.facts, ref)
            if memory.run:
                vector = min(memory.vector, 128 // tensor.dtype.bits)
                found = nested.spread(shape, memory, vector, threads)
                if found is not None:
                    yield found


def _from_projections(
    graph: Graph, component: Component, shape: tuple[int, ...], along: Along
) -> Iterator[Fragment]:
    """Layouts for the copies of tiles that `shape` is broadcast from or reduced to: contiguous
    along what the widest of them is, with a second run for another; last a plain one."""
    wishes: dict[int, int] = {}
    for item in component.ops:
        if not isinstance(item.op, Copy):
            continue
        for ref in (item.op.src, item.op.dst):
            wish = _wish(graph, ref, shape)
            if wish is not None:
                wishes[wish[0]] = max(wish[1], wishes.get(wish[0], 1))
    threads = component.team.threads
    natural = tuple(reversed(range(len(shape))))
    ranked = sorted(wishes, key=lambda d: -wishes[d])
    for first in ranked:
        order = (first, *(d for d in (*ranked, *natural) if d != first))
        order = tuple(dict.fromkeys(order))
        vector = vector_that_spreads(shape, order, wishes[first], threads)
        yield coalesced(shape, order, vector, threads)
        for axis, runs in along.items():
            yield from shared_along(shape, order, vector, threads, axis, runs)
        if len(order) > 1:
            for second in sorted({wishes.get(order[1], 1), 2}, reverse=True):
                if 1 < second <= wishes.get(order[1], 1) and shape[order[1]] % second == 0:
                    yield coalesced(shape, order, vector, threads, second)
    yield coalesced(shape, natural, 1, threads)


def _wish(graph: Graph, ref: TileRef, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """(dimension, vector) along which memory would like a thread to hold a run of a tile that is
    a projection of `shape`; None for other tiles."""
    tensor = graph.tensors[ref.tensor]
    thin = ref.shape != shape and len(ref.shape) == len(shape)
    if not thin or any(s not in (1, t) for s, t in zip(ref.shape, shape)):
        return None
    widest = 128 // tensor.dtype.bits
    if isinstance(tensor, GlobalView):
        memory = describe_global(graph.program, graph.facts, ref)
        if memory.contiguous is None or ref.shape[memory.contiguous] == 1:
            return None
        return memory.contiguous, min(memory.vector, widest)
    if isinstance(tensor, SharedTensor):
        d = next((d for d in reversed(range(len(shape))) if ref.shape[d] > 1), None)
        return None if d is None else (d, gcd(widest, ref.shape[d]))
    return None
