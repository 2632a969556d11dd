"""Slots of shared memory that hold a block of k: rows of x, weights of four bits, and what scales
and shifts these; how they are filled, and multiplied.

    weight[j, k] = (q[j, k] - zero[g, j]) scale[g, j],  g the group of k

The weights are the product's rows: each thread unpacks in registers what the Tensor Core reads from
it, once for all tokens of the tile.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f16, f32, u16
from hexcute_kernels.moe.forms import WORDS
from hexcute_kernels.parts.unpack import numbers

NO_SCALE = 2.0**-60
"""The unit of a group whose scale is zero: what it adds is below what any result holds."""


@hx.device
def rows_ring(high, stages, held, dtype):
    """Slots for a block of k of `high` rows of x."""
    return hx.shared_tensor(dtype, (high, held.form.block, stages)), hx.pipeline(stages)


@hx.device
def ring(high, half, stages, held, dtype, as_triton):
    """Slots for a block of k: of `high` rows of x, where it has any, and of two lots of `half` rows
    of weights as they are `held`, with what scales and shifts each of their parts, as it lies in
    memory. Triton's layout has the weights row after row; and where they pass through shared memory
    once more, as in its dataflow, there is a place for them."""
    line = f"({half},{WORDS},{stages}):({WORDS},1,{half * WORDS})"
    each, given = held.parts * held.form.strips, line if as_triton == "layout" else None
    words = [hx.shared_tensor(u16, (half, WORDS, stages), layout=given) for _ in range(2)]
    strips = [[hx.shared_tensor(f16, (half, 1, stages)) for _ in range(each)] for _ in words]
    sx = hx.shared_tensor(dtype, (high, held.form.block, stages)) if high else None
    through = hx.shared_tensor(dtype, (half, WORDS)) if as_triton == "dataflow" else None
    return sx, list(zip(words, strips)), hx.pipeline(stages), through


@hx.device
def load_slots(gx, q, strip, expert, columns, total, begin, tiles, slots):
    """Fills slot after slot with a block of k, `tiles` of them from `begin` on: rows of x, where
    they have any, and for each lot the weights of columns from its entry of `columns` on."""
    groups, (sx, lots, pipe, _) = q.shape[1], slots
    for i in range(tiles):
        with pipe.produce() as s:
            if sx is not None:
                hx.copy(gx[:, :, begin + i], sx[:, :, s])
            for column, (sq, strips) in zip(columns, lots):
                a_tile = (*sq.shape[:2], groups), (hx.along(2), hx.along(3), hx.along(1))
                a_strip = (sq.shape[0], 1, groups), (hx.along(2), hx.along(1), hx.along(1))
                gq = hx.global_view(q[expert, :, column:, :], a_tile)
                hx.copy(gq[:, :, begin + i], sq[:, :, s])
                for j, shared in enumerate(strips):
                    at = total * (WORDS + j) + column
                    gs = hx.global_view(strip[expert, :, at:], a_strip)
                    hx.copy(gs[:, :, begin + i], shared[:, :, s])


@hx.device
def taken(lot, s, form):
    """The words of a slot, and the scale and the zero point, if any, of each part, in registers."""
    words = hx.register_tensor(u16, lot[0].shape[:2])
    hx.copy(lot[0][:, :, s], words)
    strips = [hx.register_tensor(f16, (words.shape[0], 1)) for _ in lot[1]]
    for shared, strip in zip(lot[1], strips):
        hx.copy(shared[:, :, s], strip)
    zeros = strips[1::2] if form.strips == 2 else [None] * len(strips)
    return words, list(zip(strips[:: form.strips], zeros))


@hx.device
def add(into, there, rows, place, form, through=None, rounded=False, new=False):
    """into += the products of one place of words, without their scale unless they are `rounded`,
    and rows of x; `new`, it becomes these. They may go on behind this; gives the place's scale."""
    words, parts = there
    scale, zero = parts[place * len(parts) // form.places]
    operand = numbers(words, place, zero, form, rows.dtype)
    if rounded:
        operand = operand * hx.cast(scale, rows.dtype)
    if through is not None:
        hx.wait_gemm(0)  # Nobody reads what was there.
        hx.sync_role()
        hx.copy(operand, through)
        hx.sync_role()
        operand = through
    rx = rows[:, place * WORDS : (place + 1) * WORDS]
    hx.gemm(into, operand, rx, accumulate=not new, asynchronous=True)
    return scale


@hx.device
def multiply_in_turns(rcs, slots, tiles, exact, form):
    """rcs, zero before, = the products of `tiles` slots with each of two lots, in turns: while one
    is multiplied, the other is unpacked. Either its weights are rounded; or, `exact`, a group's
    products are summed in units of its scale, to which the sum before it is brought."""
    sx, lots, pipe, through = slots
    assert sx is not None and through is None, "rows that stay, and Triton's way, take fewer tokens"
    units = [hx.register_tensor(f32, (rc.shape[0], 1)) for rc in rcs]
    for unit in units:
        hx.fill(unit, 1.0)
    for i in range(tiles):
        s = pipe.wait()
        taken_lots = [taken(lot, s, form) for lot in lots]
        for place in hx.static_range(form.places):
            for rc, unit, there in zip(rcs, units, taken_lots):
                if exact and place * len(there[1]) % form.places == 0:
                    scale = there[1][place * len(there[1]) // form.places][0]
                    wide = hx.where(scale == 0.0, NO_SCALE, hx.cast(scale, f32))
                    rc *= unit / wide
                    hx.copy(wide, unit)
                add(rc, there, sx[:, :, s], place, form, rounded=not exact)
                # A sum that is brought to other units has none of its products under way.
                hx.wait_gemm(1 if exact else 2)
            if place == 1 and i > 0:
                pipe.release()
    hx.wait_gemm(0)
    for rc, unit in zip(rcs, units):
        rc *= unit
    pipe.release()


@hx.device
def multiply_apart(rcs, slots, tiles, kept, form):
    """The same without rounding a weight: a group's products are summed apart, in one tile for both
    lots, before its scale meets them. One warp group does that while another multiplies. `kept`
    are the rows of x of each block of k, or None where they are in the slots."""
    sx, lots, pipe, through = slots
    for i in range(tiles) if kept is None else hx.static_range(len(kept)):
        s, part = pipe.wait(), hx.register_tensor(f32, rcs[0].shape)
        rows = sx[:, :, s] if kept is None else kept[i]
        for lot, rc in zip(lots, rcs):
            there = taken(lot, s, form)
            each = form.places // len(there[1])
            for place in hx.static_range(form.places):
                scale = add(part, there, rows, place, form, through, new=place % each == 0)
                if place % each == each - 1:
                    hx.wait_gemm(0)
                    rc += part * scale
        pipe.release()
