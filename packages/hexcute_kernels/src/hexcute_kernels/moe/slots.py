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
from hexcute_kernels.parts.unpack import numbers, shifts


@hx.device
def rows_ring(high, stages, held, dtype):
    """Slots for a block of k of `high` rows of x."""
    return hx.shared_tensor(dtype, (high, held.form.block, stages)), hx.pipeline(stages)


@hx.device
def words_of(half, stages, plain):
    """Slots for the words of `half` rows of weights, `plain` row after row as Triton lays them."""
    shape = half, WORDS, stages
    if plain:
        line = f"({half},{WORDS},{stages}):({WORDS},1,{half * WORDS})"
        return hx.shared_tensor(u16, shape, layout=line)
    return hx.shared_tensor(u16, shape)


@hx.device
def ring(high, half, stages, held, dtype, as_triton):
    """Slots for a block of k: of `high` rows of x, where it has any, and of two lots of `half` rows
    of weights as they are `held`, with what scales and shifts each of their parts; and where
    weights pass through shared memory once more, as in Triton's dataflow, the place for them."""
    shifted = held.parts if held.form.strips == 2 else 0
    lots = [
        (
            words_of(half, stages, as_triton == "layout"),
            [hx.shared_tensor(f16, (half, 1, stages)) for _ in range(held.parts)],
            [hx.shared_tensor(f16, (half, 1, stages)) for _ in range(shifted)],
        )
        for _ in range(2)
    ]
    sx = hx.shared_tensor(dtype, (high, held.form.block, stages)) if high else None
    through = hx.shared_tensor(dtype, (half, WORDS)) if as_triton == "dataflow" else None
    return sx, lots, hx.pipeline(stages), through


@hx.device
def load_slots(gx, q, strip, expert, columns, total, begin, tiles, slots):
    """Fills slot after slot with a block of k, `tiles` of them from `begin` on: rows of x, where
    they have any, and for each lot the weights of columns from its entry of `columns` on."""
    groups, (sx, lots, pipe, _) = q.shape[1], slots
    for i in range(tiles):
        with pipe.produce() as s:
            if sx is not None:
                hx.copy(gx[:, :, begin + i], sx[:, :, s])
            for column, (sq, scales, zeros) in zip(columns, lots):
                wide = sq.shape[0]
                a_tile = ((wide, WORDS, groups), (hx.along(2), hx.along(3), hx.along(1)))
                a_strip = ((wide, 1, groups), (hx.along(2), hx.along(1), hx.along(1)))
                gq = hx.global_view(q[expert, :, column:, :], a_tile)
                hx.copy(gq[:, :, begin + i], sq[:, :, s])
                for p in hx.static_range(len(scales)):
                    each = 2 if len(zeros) > 0 else 1
                    at = total * (WORDS + each * p) + column
                    gs = hx.global_view(strip[expert, :, at:], a_strip)
                    hx.copy(gs[:, :, begin + i], scales[p][:, :, s])
                    if len(zeros) > 0:
                        gz = hx.global_view(strip[expert, :, at + total :], a_strip)
                        hx.copy(gz[:, :, begin + i], zeros[p][:, :, s])


@hx.device
def taken(lot, s, form, dtype):
    """The words of a slot, and the scales and zero points of its parts, in registers."""
    sq, scales, zeros = lot
    words = hx.register_tensor(u16, sq.shape[:2])
    hx.copy(sq[:, :, s], words)
    strips = [hx.register_tensor(f16, (sq.shape[0], 1)) for _ in [*scales, *zeros]]
    for shared, strip in zip([*scales, *zeros], strips):
        hx.copy(shared[:, :, s], strip)
    count, less = len(scales), strips[len(scales) :]
    return words, strips[:count], [shifts(z, dtype) if form.bits == 4 else z for z in less]


@hx.device
def multiply_rounded(rcs, slots, tiles, kept, form):
    """rcs = the products of `tiles` slots with each of two lots, in turns: while one is multiplied,
    the other is unpacked, and its weights rounded. `kept` is no list of slots here."""
    sx, lots, pipe, through = slots
    assert kept is None and through is None, "what EXACT alone has: rows that stay, Triton's way"
    for rc in rcs:
        hx.fill(rc, 0.0)
    for i in range(tiles):
        s = pipe.wait()
        words = [taken(lot, s, form, sx.dtype) for lot in lots]
        factors = [[hx.cast(scale, sx.dtype) for scale in scales] for _, scales, _ in words]
        for place in hx.static_range(form.places):
            rx = sx[:, place * WORDS : (place + 1) * WORDS, s]
            for rc, (rq, _, zeros), scales in zip(rcs, words, factors):
                p = place * len(scales) // form.places
                zero = zeros[p] if len(zeros) > 0 else None
                weights = numbers(rq, place, zero, form, sx.dtype) * scales[p]
                hx.gemm(rc, weights, rx, asynchronous=True)
                hx.wait_gemm(1)
            if place == 0 and i > 0:
                pipe.release()
    hx.wait_gemm(0)
    pipe.release()


@hx.device
def multiply_exactly(rcs, slots, tiles, kept, form):
    """The same without rounding a weight: a group's products are summed apart, in one tile for both
    lots, before its scales meet them. One warp group does that while another multiplies. `kept`
    are the rows of x of each block of k, or None where they are in the slots."""
    sx, lots, pipe, through = slots
    for rc in rcs:
        hx.fill(rc, 0.0)
    if kept is None:
        for _ in range(tiles):
            s = pipe.wait()
            add_block(rcs, lots, s, sx[:, :, s], through, form)
            pipe.release()
    else:
        for rows in kept:
            add_block(rcs, lots, pipe.wait(), rows, through, form)
            pipe.release()


@hx.device
def add_block(rcs, lots, s, rows, through, form):
    """rcs += the products of a block of k: the weights of slot s and these rows of x."""
    part = hx.register_tensor(f32, rcs[0].shape)
    for lot, rc in zip(lots, rcs):
        rq, scales, zeros = taken(lot, s, form, rows.dtype)
        each = form.places // len(scales)
        for p in hx.static_range(len(scales)):
            for place in hx.static_range(p * each, (p + 1) * each):
                rx = rows[:, place * WORDS : (place + 1) * WORDS]
                zero = zeros[p] if len(zeros) > 0 else None
                weights = numbers(rq, place, zero, form, rows.dtype)
                if through is not None:
                    hx.wait_gemm(0)
                    hx.sync_role()
                    hx.copy(weights, through)
                    hx.sync_role()
                operand = weights if through is None else through
                hx.gemm(part, operand, rx, accumulate=place > p * each, asynchronous=True)
            hx.wait_gemm(0)
            rc += part * scales[p]
