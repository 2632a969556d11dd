"""A register tensor and its parts have one layout: `f(t, v + V * p) = (g(t, v), p)`.

A mode that some operation cuts, by an integer or by a range, is a mode of parts. Every thread holds
all of it, so that any part of the tensor is held by the threads that hold the others, and what a
thread holds of a part is a run of its registers: the modes of parts come last among the values,
where g, the layout of a part, holds V values. Modes that an equation ties to a mode of parts are
held by every thread as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NoReturn

from hexcute_core.arch import Fragment, Mode
from hexcute_core.errors import NoLayout, SourceSpan
from hexcute_core.tile.layouts import cut_modes, whole
from hexcute_core.tile.printer import show_tile
from hexcute_core.tile.tensors import RegisterTensor, TileRef

Shape = tuple[int, ...]
Use = tuple[TileRef, SourceSpan]


class Apart(NoLayout):
    """`tensor` is cut in ways that no order of registers suits."""

    def __init__(self, tensor: str, message: str, span: SourceSpan, fix: str) -> None:
        super().__init__(message, span, fix)
        self.tensor = tensor


@dataclass(frozen=True)
class Parts:
    """What is taken apart in a component of register tensors.

    `order[name]` has the modes that operations cut, the one with neighbouring registers first;
    `held[name]` those and the modes tied to them; `cuts[name]` where one is cut.
    """

    shapes: Mapping[str, Shape]
    order: Mapping[str, tuple[int, ...]]
    held: Mapping[str, frozenset[int]]
    cuts: Mapping[str, SourceSpan]

    def core(self, name: str) -> tuple[int, ...]:
        """The modes of `name` that threads may share among them."""
        return tuple(m for m in range(len(self.shapes[name])) if m not in self.held[name])

    def whole(self, ref: TileRef, g: Fragment) -> Fragment | None:
        """The layout of a tensor whose tile `ref` has layout `g`; None where `g` spreads a mode of
        parts over threads."""
        return whole(g, ref.kept, self.order[ref.tensor], self.shapes[ref.tensor])

    def spread(self, name: str, g: Fragment) -> Fragment:
        """The layout of tensor `name` whose threads share its `core` among them as `g` says."""
        order, shape = self.order[name], self.shapes[name]
        beside = sorted(self.held[name].difference(order))
        tile = tuple(m for m in range(len(shape)) if m not in order)
        place = {d: tile.index(m) for d, m in enumerate(self.core(name))}
        value = [Mode(m.size, m.step, place[m.dim] if m.step else 0) for m in g.value]
        value += [Mode(shape[m], 1, tile.index(m)) for m in beside]
        thread = tuple(Mode(m.size, m.step, place[m.dim] if m.step else 0) for m in g.thread)
        spread = Fragment(tuple(shape[m] for m in tile), thread, tuple(value))
        found = whole(spread, tile, order, shape)
        assert found is not None
        return found


def component_parts(
    tensors: Mapping[str, RegisterTensor],
    uses: Iterable[Use],
    ties: Iterable[tuple[TileRef, TileRef]],
) -> Parts:
    """The parts of `tensors`, used as `uses` says; `ties` are tiles of one layout, but
    for dimensions in which one has extent 1.

    Raises Apart, located, where a tensor is cut in ways that no order of registers suits.
    """
    found: dict[str, list[Use]] = {name: [] for name in tensors}
    for ref, span in uses:
        if ref.tensor in tensors and cut_modes(ref, tensors[ref.tensor].shape):
            found[ref.tensor].append((ref, span))
    order = {name: _order(tensors[name], cuts) for name, cuts in found.items()}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    held = _closure(order, list(ties))
    return Parts(shapes, order, held, {n: cuts[0][1] for n, cuts in found.items() if cuts})


def _order(tensor: RegisterTensor, cuts: Sequence[Use]) -> tuple[int, ...]:
    """The modes that are cut, so that what a thread holds of each part is a run of registers."""
    shape = tensor.shape
    modes = sorted({m for ref, _ in cuts for m in cut_modes(ref, shape)})
    for order in permutations(modes):
        if all(_is_run(ref, order, shape) for ref, _ in cuts):
            return order
    _refuse(tensor, cuts, modes)


def _refuse(tensor: RegisterTensor, cuts: Sequence[Use], modes: Sequence[int]) -> NoReturn:
    def fits(*some: TileRef) -> bool:
        return any(all(_is_run(r, o, tensor.shape) for r in some) for o in permutations(modes))

    def shown(ref: TileRef) -> str:
        return show_tile(ref, {tensor.name: tensor})

    ref, span, other, where = next(
        (ref, span, other, where)
        for i, (ref, span) in enumerate(cuts)
        for other, where in cuts[: i + 1]
        if not fits(ref, other)
    )
    beside = "" if ref == other else f" and {shown(other)} of {where}, each"
    raise Apart(
        tensor.name,
        f"no order of the registers of `{tensor.name}` has {shown(ref)}{beside} in one piece",
        span,
        f"cut modes {_listed(modes)} of `{tensor.name}` together, by integers, wherever it is "
        f"taken in parts, or take one of them from q = hx.rearrange({tensor.name})",
    )


def _is_run(ref: TileRef, order: tuple[int, ...], shape: Shape) -> bool:
    """Whether all parts inside the outermost that `ref` takes several of are whole."""
    several = [i for i, m in enumerate(order) if ref.extents[m] > 1]
    return not several or all(ref.extents[m] == shape[m] for m in order[: several[-1]])


def _closure(
    order: Mapping[str, tuple[int, ...]], ties: Sequence[tuple[TileRef, TileRef]]
) -> dict[str, frozenset[int]]:
    held = {name: set(modes) for name, modes in order.items()}
    changed = True
    while changed:
        changed = False
        for a, b in ties:
            for m, n in zip(a.kept, b.kept):
                if a.extents[m] == 1 or b.extents[n] == 1:
                    continue
                if (m in held[a.tensor]) != (n in held[b.tensor]):
                    held[a.tensor].add(m)
                    held[b.tensor].add(n)
                    changed = True
    return {name: frozenset(modes) for name, modes in held.items()}


def _listed(modes: Iterable[int]) -> str:
    return ", ".join(map(str, modes))
