"""Proof that tensors lie as their authors say, from the texts themselves.

A thread holds the elements that the named layout gives it, in whatever order; a shared element lies
where the named layout puts it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cute_layout import Layout, Swizzle
from hexcute_core.errors import VerifyError
from hexcute_core.synthesis.proof.parts import table
from hexcute_core.synthesis.proof.tables import Table, inside, offsets
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import Arrangement, RegisterTensor, SharedTensor


def check_named(solution: Solution) -> None:
    """Raises VerifyError, located, where a tensor lies otherwise."""
    for tensor in solution.program.tensors:
        if tensor.name not in {*solution.shared, *solution.fragments}:
            continue
        if isinstance(tensor, SharedTensor) and tensor.layout is not None:
            _shared(solution, tensor, tensor.layout)
        elif isinstance(tensor, RegisterTensor) and tensor.arranged is not None:
            _arranged(solution, tensor, tensor.arranged)


def _shared(solution: Solution, tensor: SharedTensor, text: str) -> None:
    swizzle, _, inner = text.rpartition(" o ")
    layout = Layout.parse(inner)
    places = np.array([int(layout(i)) for i in range(int(layout.size))])
    if swizzle:
        moved = Swizzle.parse(swizzle)
        places = np.array([moved(int(place)) for place in places])
    # Layouts count their coordinates with the first mode fastest.
    if not np.array_equal(offsets(solution.shared[tensor.name]).ravel(order="F"), places):
        raise VerifyError(f"`{tensor.name}` does not lie as {text}", tensor.span)


def _arranged(solution: Solution, tensor: RegisterTensor, said: Arrangement) -> None:
    f = solution.fragments[tensor.name]
    held = table(f, f.threads)
    wrong = VerifyError(f"`{tensor.name}`, {f}, does not lie as {said}", tensor.span)
    if said.layout is not None:
        named = _named(said.layout, tensor.shape)
        mine = [_elements(row, tensor.shape) for row in held]
        if mine != [_elements(named[t % len(named)], tensor.shape) for t in range(len(held))]:
            raise wrong
        return
    first = held[:, 0]
    counts = tuple(len(set(first[:, d].tolist())) for d in range(len(tensor.shape)))
    if said.threads is not None and counts != said.threads:
        raise wrong
    if said.vector is not None:
        run = held[:, : said.vector] - first[:, None]
        steps = [np.arange(said.vector)[:, None] * unit for unit in np.eye(len(tensor.shape))]
        if not any(np.array_equal(run, np.broadcast_to(step, run.shape)) for step in steps):
            raise wrong


def _elements(coords: Table, shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    return {tuple(c) for c in coords[inside(coords, shape)].tolist()}


def _named(text: str, shape: tuple[int, ...]) -> Table:
    """[thread, value, dimension] -> coordinate, as the text says."""
    layout = Layout.parse(text)
    thread, value = (
        _sums(list(_leaves(sizes, steps)), shape)
        for sizes, steps in zip(layout.shape, layout.stride)
    )
    both: Table = thread[:, None, :] + value[None, :, :]
    return both


def _leaves(sizes: object, steps: object) -> Iterator[tuple[int, object]]:
    if isinstance(sizes, tuple):
        assert isinstance(steps, tuple)
        for size, step in zip(sizes, steps):
            yield from _leaves(size, step)
    else:
        assert isinstance(sizes, int)
        yield sizes, steps


def _sums(digits: list[tuple[int, object]], shape: tuple[int, ...]) -> Table:
    """The coordinates that an index's digits add up to; a step without a mode counts elements of
    the tile, its first mode fastest."""
    index = np.zeros((1, len(shape)), dtype=np.int64)
    for size, step in digits:
        here = np.zeros((size, len(shape)), dtype=np.int64)
        for i in range(size):
            if isinstance(step, int):
                left = i * step
                for d, extent in enumerate(shape):
                    # What is beyond the tile is so along its last mode.
                    here[i, d] = left % extent if d + 1 < len(shape) else left
                    left //= extent
            elif step:
                ((path, along),) = step.terms  # type: ignore[attr-defined]
                here[i, path[0]] = i * along
        index = (index[None, :, :] + here[:, None, :]).reshape(-1, len(shape))
    return index
