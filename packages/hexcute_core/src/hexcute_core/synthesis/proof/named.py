"""Proof that tensors lie as their authors say, from the texts themselves.

A thread holds the elements that the named layout gives it, in whatever order; a shared element lies
where the named layout puts it. `(4,(8,2)):(1@0,(1@1,2@0))` is read here by itself, extents and
steps digit by digit, the first fastest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

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
    places = _sums([d for mode in _modes(inner) for d in mode], (1,))[:, 0]
    if swizzle:
        bits, base, shift = map(int, re.findall(r"-?\d+", swizzle))
        moved = places & ((1 << bits) - 1) << (base + max(0, shift))
        places = places ^ (moved >> shift if shift >= 0 else moved << -shift)
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
    thread, value = (_sums(mode, shape) for mode in _modes(text))
    both: Table = thread[:, None, :] + value[None, :, :]
    return both


Digit = tuple[int, int, int | None]
"""An extent, its step, and the mode of the tile that the step is along, where it says."""


def _modes(text: str) -> list[list[Digit]]:
    """The digits of each mode at the top of a layout."""
    sizes, steps = (list(_tops(half)) for half in text.replace(" ", "").split(":"))
    found = []
    for extents, moves in zip(sizes, steps):
        each = re.findall(r"(\d+)(?:@(\d+))?", moves)
        found.append(
            [
                (int(size), int(step), int(along) if along else None)
                for size, (step, along) in zip(re.findall(r"\d+", extents), each)
            ]
        )
    return found


def _tops(text: str) -> Iterator[str]:
    """The entries of a tuple that is written in brackets, or the only one."""
    inner = text[1:-1] if text.startswith("(") else text
    depth, begun = 0, 0
    for at, letter in enumerate(f"{inner},"):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            yield inner[begun:at]
            begun = at + 1


def _sums(digits: list[Digit], shape: tuple[int, ...]) -> Table:
    """The coordinates that an index's digits add up to; a step without a mode counts elements of
    the tile, its first mode fastest."""
    index = np.zeros((1, len(shape)), dtype=np.int64)
    for size, step, mode in digits:
        here = np.zeros((size, len(shape)), dtype=np.int64)
        left = np.arange(size) * step
        if mode is not None:
            here[:, mode] = left
            left = left * 0
        for d, extent in enumerate(shape):
            # What is beyond the tile is so along its last mode.
            last = d + 1 == len(shape)
            here[:, d] += left if last else left % extent
            left = left // extent
        index = (index[None, :, :] + here[:, None, :]).reshape(-1, len(shape))
    return index
