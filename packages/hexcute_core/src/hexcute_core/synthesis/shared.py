"""Shared memory `M = S o m`.

Every copy demands that `m` maps its run to consecutive offsets: a partial layout with the run's
strides known and the rest free. Unification merges the demands of all copies of a buffer,
materialization fills the gaps with a bijection, and the swizzle S is chosen for all copies
together. Dimensions may be filled in any order; the order with the fewest wavefronts wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

from cute_layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    PartialLayout,
    bank_conflicts,
    choose_swizzle,
    materialize,
    unify,
)
from hexcute_core.arch import Mode
from hexcute_core.synthesis.linear import unit
from hexcute_core.synthesis.solution import CopyPlan, SharedLayout
from hexcute_core.tile import SharedTensor, TileRef

WARP = 32


@dataclass(frozen=True)
class SharedUse:
    """One copy's access to a buffer: its tile, its plan and how often it runs."""

    op: int
    ref: TileRef
    plan: CopyPlan
    weight: float


def constraint(tensor: SharedTensor, use: SharedUse) -> PartialLayout:
    """The partial layout that `use` demands of the tensor, a mode a dimension."""
    known: list[list[tuple[int, int, int]]] = [[] for _ in tensor.shape]
    stride = 1
    for mode in use.plan.run:
        known[use.ref.kept[mode.dim]].append((mode.step, mode.size, stride))
        stride *= mode.size
    shape, strides = [], []
    for extent, pieces in zip(tensor.shape, known):
        sizes: list[int] = []
        steps: list[int | None] = []
        reached = 1
        for step, size, at in sorted(pieces):
            if step > reached:
                sizes.append(step // reached)
                steps.append(None)
            sizes.append(size)
            steps.append(at)
            reached = step * size
        if extent > reached or not sizes:
            sizes.append(extent // reached)
            steps.append(None)
        shape.append(tuple(sizes) if len(sizes) > 1 else sizes[0])
        strides.append(tuple(steps) if len(steps) > 1 else steps[0])
    return PartialLayout(tuple(shape), tuple(strides))


def synthesize_shared(tensor: SharedTensor, uses: Sequence[SharedUse]) -> SharedLayout | str:
    """The layout of `tensor` for all its uses, or why none satisfies them."""
    demands = [constraint(tensor, use) for use in uses]
    try:
        merged = unify(*demands) if demands else PartialLayout(tensor.shape)
    except LayoutError as error:
        return str(error)
    best: SharedLayout | None = None
    best_cost = float("inf")
    for order in _orders(tensor, uses):
        candidate = _finish(tensor, uses, merged, order)
        if isinstance(candidate, str):
            continue
        cost = sum(use.weight * candidate.wavefronts[use.op][0] for use in uses)
        if cost < best_cost:
            best, best_cost = candidate, cost
    return best if best is not None else f"{merged} has no bijection onto a contiguous range"


def _orders(tensor: SharedTensor, uses: Sequence[SharedUse]) -> list[tuple[int, ...]]:
    """Orders in which free strides are given out: tiled dimensions permuted, the others last."""
    tiled = sorted({m for use in uses for m in use.ref.kept})
    leading = [use.ref.kept[use.plan.run[0].dim] for use in uses if use.plan.run]
    first = leading[0] if leading else (tiled[-1] if tiled else 0)
    outer = tuple(m for m in range(len(tensor.shape)) if m not in tiled)
    orders = list(permutations(tiled)) if len(tiled) <= 3 else [tuple(tiled)]
    orders.sort(key=lambda p: (p[:1] != (first,), p))
    return [(*p, *outer) for p in orders]


def _finish(
    tensor: SharedTensor, uses: Sequence[SharedUse], merged: PartialLayout, order: tuple[int, ...]
) -> SharedLayout | str:
    """Materialize in `order` and swizzle."""
    shapes = merged.shape if isinstance(merged.shape, tuple) else (merged.shape,)
    strides = merged.stride if isinstance(merged.stride, tuple) else (merged.stride,)
    turned = PartialLayout(tuple(shapes[d] for d in order), tuple(strides[d] for d in order))
    try:
        filled = materialize(turned)
    except LayoutError as error:
        return str(error)
    back = [order.index(d) for d in range(len(order))]
    layout = Layout(tuple(filled[i].shape for i in back), tuple(filled[i].stride for i in back))
    bits = tensor.dtype.bits
    accesses = [(_access(tensor, use), max(1, round(use.weight * use.plan.calls))) for use in uses]
    swizzle = choose_swizzle(layout, accesses, bits) if accesses else None
    if swizzle is not None and swizzle.bits == 0:
        swizzle = None
    counted: dict[int, tuple[int, int]] = {}
    whole = layout if swizzle is None else ComposedLayout(swizzle, 0, layout)
    for use, (access, _) in zip(uses, accesses):
        width = prod(m.size for m in use.plan.run) * bits
        found = bank_conflicts(whole, access, bits, width)
        counted[use.op] = (found.wavefronts * use.plan.calls, found.ideal * use.plan.calls)
    return SharedLayout(tensor.shape, layout, swizzle, counted)


def _access(tensor: SharedTensor, use: SharedUse) -> Layout:
    """(lane, run) -> index in the buffer, for the first warp and call."""

    def step(mode: Mode) -> int:
        return mode.step * unit(tensor.shape, use.ref.kept[mode.dim]) if mode.step else 0

    lanes: list[Mode] = []
    count = 1
    for mode in use.plan.thread:
        if count >= WARP:
            break
        size = min(mode.size, max(1, WARP // count))
        if mode.size % size:
            size = mode.size
        lanes.append(Mode(size, mode.step, mode.dim))
        count *= size
    lanes = lanes or [Mode(1, 0, 0)]
    run = use.plan.run or (Mode(1, 0, 0),)
    return Layout(
        (tuple(m.size for m in lanes), tuple(m.size for m in run)),
        (tuple(step(m) for m in lanes), tuple(step(m) for m in run)),
    )
