"""Layouts that authors name, of rearranged and other register tensors: CuTe notation -> Fragment.

A step is written as `explain()` prints it, `8@1` for eight along mode 1 of the tile, or as a
number: so many of the tile's colexicographic index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TypeAlias

from cute_layout import Basis, Layout, LayoutError
from hexcute_core.arch import Fragment, Mode
from hexcute_core.arch.linear import digit_modes
from hexcute_core.errors import LayoutConflict, SourceSpan
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.tile import Rearrange, TileProgram
from hexcute_core.tile.visit import statements

Forced: TypeAlias = tuple[Fragment, Rearrange]
"""A layout of a rearrange's result, and the rearrange."""


def forced_layouts(program: TileProgram) -> Mapping[str, Forced]:
    """Fragments that the author gave to rearranged tensors.

    Raises LayoutConflict, located, for a text that is no layout of the tile over its threads.
    """
    given = (s for s in statements(program.body) if isinstance(s, Rearrange))
    if all(op.layout is None for op in given):
        return {}
    return {
        item.op.dst.tensor: (_rearranged(item.op, item.team.threads), item.op)
        for item in build_graph(program).ops
        if isinstance(item.op, Rearrange) and item.op.layout is not None
    }


def _rearranged(op: Rearrange, threads: int) -> Fragment:
    return parse_layout(str(op.layout), op.dst.shape, threads, "rearrange to", op.span)


def parse_layout(
    text: str, shape: tuple[int, ...], threads: int, what: str, span: SourceSpan
) -> Fragment:
    """The layout of a tile of `shape` over `threads` that `text` is; `what` names it in errors.

    Raises LayoutConflict, located, for one that is none.
    """
    try:
        layout = Layout.parse(text)
    except LayoutError as error:
        raise _not_a_layout(text, what, span, str(error)) from error
    if not isinstance(layout.shape, tuple) or len(layout.shape) != 2:
        raise _not_a_layout(text, what, span, "it has not two modes, threads and values")
    modes: list[tuple[Mode, ...]] = []
    for sizes, steps in zip(layout.shape, layout.stride):
        found: list[Mode] = []
        for size, step in zip(_leaves(sizes), _leaves(steps)):
            digit = _digit(size, step, shape)
            if digit is None:
                tile = "x".join(map(str, shape))
                raise _not_a_layout(
                    text, what, span, f"{size}:{step} is no digit of a {tile} tile"
                )
            found += digit
        modes.append(tuple(found))
    fragment = Fragment(shape, modes[0], modes[1])
    fault = _fault(fragment, threads)
    if fault is not None:
        raise LayoutConflict(
            f"{what} {text}: not a layout of {prod(shape)} elements of a "
            f"{'x'.join(map(str, shape))} tile over {threads} threads: {fault}",
            span,
            "every element must be held, by the threads that run this, by each once",
        )
    return fragment


def _not_a_layout(text: str, what: str, span: SourceSpan, reason: str) -> LayoutConflict:
    return LayoutConflict(
        f"{what} {text!r}: not a thread-value layout ({reason})",
        span,
        "write ((threads...),(values...)):((steps...),(steps...)), a step as explain() prints it "
        "(8@1 is eight along mode 1) or as one of the tile's colexicographic index",
    )


def _leaves(tree: object) -> Iterator[object]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _digit(size: object, step: object, shape: tuple[int, ...]) -> list[Mode] | None:
    """One digit of a layout as modes of the tile; None where it is none."""
    if not isinstance(size, int) or size < 1:
        return None
    if isinstance(step, int):
        return None if step < 0 else digit_modes(size, step, shape)
    assert isinstance(step, Basis)
    if not step or size == 1:
        return [Mode(size, 0, 0)] if size > 1 else []
    if len(step.terms) != 1:
        return None
    ((path, along),) = step.terms
    inside = len(path) == 1 and path[0] < len(shape) and along > 0
    return [Mode(size, along, path[0])] if inside else None


def _fault(f: Fragment, threads: int) -> str | None:
    """Why `f` is no layout of its tile over `threads`; what reaches beyond the tile is nothing."""
    if f.threads > threads:
        return f"it has {f.threads} threads"
    everything = prod(f.shape)
    if f.values > everything << len(f.shape):
        return f"it gives each thread {f.values} values"
    held: set[tuple[int, ...]] = set()
    for t in range(f.threads):
        row = [f.coord(t, v) for v in range(f.values)]
        mine = [c for c in row if all(x < extent for x, extent in zip(c, f.shape))]
        if len(set(mine)) != len(mine):
            return f"thread {t} holds an element twice"
        held.update(mine)
    missing = everything - len(held)
    return None if missing == 0 else f"{missing} elements are held by none"
