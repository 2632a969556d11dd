"""Layouts of a tensor that no equation reaches: one for every way that memory holds it.

Copies of the tile itself say along which dimension threads should hold runs and how wide; where
there are none, copies of its projections (broadcast operands, reductions) do.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from hexcute_core.arch import Fragment
from hexcute_core.synthesis.anchor import coalesced, layouts, vector_that_spreads
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.memory import describe_global
from hexcute_core.synthesis.propagate import tile_shape
from hexcute_core.tile import Copy, GlobalView, SharedTensor
from hexcute_core.tile.tensors import TileRef


def default_layouts(graph: Graph, component: Component, name: str) -> Iterator[Fragment]:
    """Layouts of a tensor that no equation reaches: one for every way that memory holds it."""
    shape = tile_shape(component, name)
    threads = component.team.threads
    tried: set[Fragment] = set()
    for order, widest, least, bits, turned in _memories(graph, component, shape):
        for f in layouts(shape, order, widest, least, threads, bits, turned):
            if f not in tried:
                tried.add(f)
                yield f
    for f in _from_projections(graph, component, shape):
        if f not in tried:
            tried.add(f)
            yield f


def _memories(
    graph: Graph, component: Component, shape: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], int, int, int, bool]]:
    """(order of dimensions, widest and narrowest vector, bits of an element, whether it may be
    turned) of every copy of a tile of this shape, global memory first."""
    held: list[int] = []
    outside: list[tuple[TileRef, int]] = []
    for item in component.ops:
        if not isinstance(item.op, Copy):
            continue
        for ref in (item.op.src, item.op.dst):
            tensor = graph.tensors[ref.tensor]
            if ref.shape == shape and isinstance(tensor, SharedTensor):
                held.append(tensor.dtype.bits)
            elif ref.shape == shape and isinstance(tensor, GlobalView):
                outside.append((ref, tensor.dtype.bits))
    # An access moves a byte at least, so a thread holds as many elements side by side.
    least = max((8 // bits for bits in (*held, *(b for _, b in outside))), default=1) or 1
    orders = []
    for ref, bits in outside:
        memory = describe_global(graph.program, graph.facts, ref)
        orders.append(memory.order)
        turned = bool(held) or len(outside) > 1
        yield memory.order, max(least, min(memory.vector, 128 // bits)), least, bits, turned
    natural = tuple(reversed(range(len(shape))))
    for bits in dict.fromkeys(held):
        for order in dict.fromkeys((*orders, natural, natural[::-1])):
            yield order, 128 // bits, least, bits, bits <= 8


def _from_projections(
    graph: Graph, component: Component, shape: tuple[int, ...]
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
