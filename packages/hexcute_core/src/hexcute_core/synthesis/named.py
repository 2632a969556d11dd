"""Layouts that an author names for a register tensor: all of one, or how threads and vectors lie.

What is left open is chosen as it would be otherwise: vectors as wide as memory allows, lanes along
what memory has contiguous, threads along the other modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from hexcute_core.arch import Fragment
from hexcute_core.errors import LayoutConflict
from hexcute_core.scalar import as_scalar
from hexcute_core.synthesis.coalesced import coalesced, laid_out, overhanging, shared_along
from hexcute_core.synthesis.defaults import memories, passed_along, tiles_of
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.rearrange import parse_layout
from hexcute_core.synthesis.register_parts import Parts
from hexcute_core.tile import Arrangement, RegisterTensor, TileRef

WIDEST = 16
"""Elements side by side that an error proposes at most: an access of the narrowest type."""


def arranged(graph: Graph, component: Component) -> tuple[RegisterTensor, ...]:
    """The tensors of a component of which an author says how they lie."""
    tensors = (graph.tensors[name] for name in component.tensors)
    return tuple(t for t in tensors if isinstance(t, RegisterTensor) and t.arranged is not None)


def named_layouts(
    graph: Graph, component: Component, parts: Parts, tensor: RegisterTensor
) -> tuple[Fragment, ...]:
    """The layouts that such a tensor may have, the likeliest first.

    Raises LayoutConflict, located, where there is none.
    """
    said, threads = tensor.arranged, component.team.threads
    assert said is not None
    if said.layout is not None:
        what = f"the layout of `{tensor.name}`,"
        f = parse_layout(said.layout, tensor.shape, threads, what, tensor.span)
        modes = tuple(range(len(tensor.shape)))
        starts = tuple(as_scalar(0) for _ in modes)
        whole = parts.whole(TileRef(tensor.name, starts, tensor.shape, modes), f)
        if whole is None:
            raise _held(parts, tensor, "write them last among the values, in every thread")
        return (whole,)
    if said.threads is not None:
        _check_counts(parts, tensor, said.threads, threads)
    core = parts.core(tensor.name)
    shape = tuple(tensor.shape[m] for m in core)
    counts = None if said.threads is None else [said.threads[m] for m in core]
    found = dict.fromkeys(_arranged(graph, component, parts, tensor, shape, counts, said.vector))
    if not found:
        raise _no_vector(graph, component, parts, tensor, said)
    return tuple(parts.spread(tensor.name, f) for f in found)


def _orders(
    graph: Graph, component: Component, parts: Parts, tensor: RegisterTensor
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Orders of the dimensions that threads share, as memory has them, with the widest vector."""
    rank = len(parts.core(tensor.name))
    tiles = tiles_of(component, parts, tensor.name)
    for order, widest, _, _, _ in memories(graph, component, tiles, rank):
        yield order, widest
    yield tuple(reversed(range(rank))), 128 // tensor.dtype.bits


def _arranged(
    graph: Graph,
    component: Component,
    parts: Parts,
    tensor: RegisterTensor,
    shape: tuple[int, ...],
    counts: Sequence[int] | None,
    vector: int | None,
) -> Iterator[Fragment]:
    threads = component.team.threads
    along = passed_along(component, tiles_of(component, parts, tensor.name))
    for order, widest in _orders(graph, component, parts, tensor) if shape else ():
        extent = shape[order[0]]
        if counts is None:
            assert vector is not None
            if extent % vector:
                continue
            yield coalesced(shape, order, vector, threads)
            beyond = overhanging(shape, order, vector, threads)
            if beyond is not None:
                yield beyond
            for axis, runs in along.items():
                yield from shared_along(shape, order, vector, threads, axis, runs)
            continue
        share = -(-extent // counts[order[0]])
        width = vector or widest
        while vector is None and width > 1 and (extent % width or share % width):
            width //= 2
        if extent % width or extent // width < counts[order[0]]:
            continue
        by_dim = dict(enumerate(counts))
        yield laid_out(shape, order, width, by_dim, threads)
        for axis in (axis for axis, runs in along.items() if runs):
            yield laid_out(shape, order, width, by_dim, threads, axis)


def _check_counts(
    parts: Parts, tensor: RegisterTensor, counts: tuple[int, ...], threads: int
) -> None:
    if prod(counts) > threads:
        raise LayoutConflict(
            f"threads={counts} of `{tensor.name}` are {prod(counts)} threads, {threads} run this",
            tensor.span,
            f"write numbers whose product is {threads}, or less",
        )
    for mode, (count, extent) in enumerate(zip(counts, tensor.shape)):
        if mode not in parts.core(tensor.name):
            if count > 1:
                raise _held(parts, tensor, f"write 1 for mode {mode} of threads=")
        elif count > extent:
            raise LayoutConflict(
                f"threads={counts} of `{tensor.name}`: {count} along mode {mode}, of {extent} "
                "elements",
                tensor.span,
                f"write {extent} at most there",
            )


def _held(parts: Parts, tensor: RegisterTensor, fix: str) -> LayoutConflict:
    """A mode that is taken in parts is to lie among threads."""
    modes = ", ".join(map(str, sorted(parts.held[tensor.name])))
    where = parts.cuts.get(tensor.name, tensor.span)
    return LayoutConflict(
        f"every thread holds all of mode {modes} of `{tensor.name}`, which is taken in parts at "
        f"{where}",
        tensor.span,
        fix,
    )


def _no_vector(
    graph: Graph, component: Component, parts: Parts, tensor: RegisterTensor, said: Arrangement
) -> LayoutConflict:
    core = parts.core(tensor.name)
    counts, would = said.threads, []
    for order, _ in _orders(graph, component, parts, tensor) if core else ():
        mode = core[order[0]]
        share = tensor.shape[mode] // (1 if counts is None else counts[mode])
        would += [v for v in range(1, min(share, WIDEST) + 1) if tensor.shape[mode] % v == 0]
    return LayoutConflict(
        f"{said} of `{tensor.name}`, a tile of {'x'.join(map(str, tensor.shape))}: no mode that "
        "memory has contiguous is cut into such vectors",
        tensor.span,
        f"write vector={' or '.join(map(str, sorted(set(would)))) or 1}",
    )
