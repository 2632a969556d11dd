"""Layouts that an author names for a shared tensor: `Sw<3,3,3> o (64,64):(64,1)` -> m and S.

A copy may go by any instruction whose runs the named layout has side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from cute_layout import Layout, LayoutError, PartialLayout, Swizzle
from hexcute_core.errors import LayoutConflict
from hexcute_core.synthesis.operands import Plan, swizzle_of
from hexcute_core.synthesis.parts import Begins, misfit
from hexcute_core.synthesis.solution import CopyPlan
from hexcute_core.tile import SharedTensor, TileRef


@lru_cache(maxsize=256)
def named_layout(tensor: SharedTensor) -> tuple[Layout, Swizzle]:
    """The layout that a shared tensor is to have, a mode per dimension, and its swizzle.

    Raises LayoutConflict, located, for a text that is none of the tensor.
    """
    text = str(tensor.layout)
    outer, between, inner = text.rpartition(" o ")
    try:
        swizzle = Swizzle.parse(outer) if between else Swizzle(0, 0, 0)
        layout = Layout.parse(inner)
    except LayoutError as error:
        raise _no_layout(tensor, str(error)) from error
    if not isinstance(layout.shape, tuple):
        layout = Layout((layout.shape,), (layout.stride,))
    sizes = tuple(int(layout[i].size) for i in range(len(layout)))
    if sizes != tensor.shape:
        raise _no_layout(tensor, f"its modes have the extents {sizes}")
    size = prod(sizes)
    places = [swizzle(int(layout(i))) for i in range(size)] if _plain(layout) else []
    if sorted(places) != list(range(size)):
        raise _no_layout(tensor, f"it does not put each element at a place of its own below {size}")
    return layout, swizzle


def _plain(layout: Layout) -> bool:
    """Whether its steps are numbers."""
    return all(isinstance(step, int) and step >= 0 for step in layout.flat_stride)


def _no_layout(tensor: SharedTensor, reason: str) -> LayoutConflict:
    shape = ",".join(map(str, tensor.shape))
    rows, step = [], 1
    for extent in reversed(tensor.shape):
        rows.append(step)
        step *= extent
    steps = ",".join(map(str, reversed(rows)))
    return LayoutConflict(
        f"the layout of `{tensor.name}`, {tensor.layout!r}: not one of a tile ({shape}) ({reason})",
        tensor.span,
        f"write a mode for each dimension, as in ({shape}):({steps}), behind a swizzle or none",
    )


def refused(
    tensor: SharedTensor,
    merged: PartialLayout,
    uses: Sequence[tuple[TileRef, Begins, Plan]],
    layout: Layout,
    swizzle: Swizzle,
) -> str | None:
    """Why uses, which demand `merged` of the layout together, cannot have the named one."""
    if not merged.admits(layout):
        return f"the named {layout} is none of {merged}"
    for ref, begins, plan in uses:
        if isinstance(plan, CopyPlan):
            run = prod(m.size for m in plan.run)
            if swizzle.bits and run > 1 << swizzle.base:
                return f"the named {swizzle} tears runs of {run} elements apart"
            continue
        wanted = swizzle_of(plan.span, tensor.dtype.bits) or Swizzle(0, 0, 0)
        if (swizzle.bits or wanted.bits) and swizzle != wanted:
            told = wanted if wanted.bits else "no swizzle"
            return f"{plan.name} of rows of {plan.span} bytes wants {told}"
        wrong = misfit(layout, tensor, ref, begins, plan)
        if wrong is not None:
            return wrong
    return None
