"""Parts of shared tensors: where they may begin, and whether TMA and wgmma, which are given one
address of a part, find all of its elements from there.

TMA and wgmma apply a swizzle to the address itself, so the part must be the tensor's beginning
moved by whole swizzles, of eight rows of its span: m(start + x) = m(start) + m(x), and m(start) a
multiple of one, for every start that is possible; where TMA moves several boxes, so must each of
them be. A K-major operand may begin inside a row, at whole pieces of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cute_layout import Layout
from hexcute_core.scalar import Const
from hexcute_core.synthesis.operands import CORE_ROWS, descriptor_steps
from hexcute_core.synthesis.solution import BulkPlan, Operand
from hexcute_core.tile import SharedTensor, TileRef
from hexcute_core.tile.facts import Facts

Begins = tuple[Sequence[int], ...]
"""Where a part may begin, a mode of the tensor."""


def begins(facts: Facts, ref: TileRef, tensor: SharedTensor) -> Begins:
    """Where part `ref` of `tensor` may begin: where it says, or at any multiple of what is known to
    divide that."""
    found: list[Sequence[int]] = []
    for start, extent, size in zip(ref.starts, ref.extents, tensor.shape):
        if isinstance(start, Const):
            found.append((int(start.value),))
        else:
            step = facts.divisor(start)
            found.append(range(0, size - extent + 1, step) if step else (0,))
    return tuple(found)


def misfit(
    layout: Layout, tensor: SharedTensor, ref: TileRef, at: Begins, plan: BulkPlan | Operand
) -> str | None:
    """Why hardware does not find part `ref`, which begins somewhere in `at`, under `layout`."""
    bits = tensor.dtype.bits
    atom, moved = CORE_ROWS * plan.span * 8 // bits, {0}
    for m, places in enumerate(at):
        mode, extent = layout[m], ref.extents[m]
        for place in places:
            first = int(mode(place))
            if place and any(int(mode(place + x)) != first + int(mode(x)) for x in range(extent)):
                return (
                    f"a part that begins at {place} of mode {m} and takes {extent} crosses the "
                    f"blocks of {layout}"
                )
        moved = {(b + int(mode(place))) % atom for b in moved for place in places}
    within = isinstance(plan, Operand) and plan.major == "k"
    for place in sorted(moved):
        into = place * bits / 8
        if into and not (within and into < plan.span and into % 16 == 0):
            return f"a part may begin {into:g} bytes into eight rows of {plan.span}"
    if isinstance(plan, BulkPlan):
        for rep in plan.reps:
            mode = layout[ref.kept[rep.dim]]
            for place in range(0, rep.size * rep.step, rep.step):
                if into := int(mode(place)) % atom * bits / 8:
                    return f"a box begins {into:g} bytes into eight rows of {plan.span}"
        return None

    def offset(row: int, k: int) -> int:
        """Element offset of element (row, k) of the operand, before the swizzle."""
        coords = [0] * len(tensor.shape)
        for m, c in zip(ref.kept, (row, k)):
            coords[m] = c
        return int(layout(*coords))

    found = descriptor_steps(plan, offset, bits // 8)
    return found if isinstance(found, str) else None
