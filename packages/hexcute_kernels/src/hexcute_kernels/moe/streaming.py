"""Weights of four bits on their way to the registers that multiply them, and what comes of them.

    c[i, j] = sum over g of scale[g, j] (sum over k of g of x[i, k] (q[g, j, k] - zero[g, j]))

A thread's 16 bytes of weights are its operands of a block of k, so that nothing is exchanged, and
what it has asked for is what is under way: DEPTH blocks of BN rows. Its loop loads nothing else:
rows of x, scales and zero points wait in shared memory, since a number of two bytes would be made
part of a word, and waited for, as soon as it is asked for. q - zero is exact in x's type, and the
scale meets the group's sum in f32, so that no weight is rounded. Blocks of a cluster share the
blocks of k and add their parts up through shared memory.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f16, f32, u16
from hexcute_kernels.moe.forms import WORDS
from hexcute_kernels.parts.unpack import numbers


@hx.device
def weights_of(q, strip, expert, n, row, rows, begin, depth, steps, held):
    """`steps` times `depth` blocks of k of `rows` rows from `row` on of an expert's n; and of all
    parts of these blocks what scales the weights, and what shifts them, by how they are `held`."""
    each = held.form.strips
    a_word = (rows, WORDS, depth, steps)
    gq = hx.global_view(
        q[expert, begin:, row:, :],
        (a_word, (hx.along(2), hx.along(3), hx.along(1), hx.along(1, depth))),
    )
    a_strip = (rows, held.parts, depth * steps), (hx.along(2), hx.along(2, each * n), hx.along(1))
    gs = hx.global_view(strip[expert, begin:, n * WORDS + row :], a_strip)
    if each == 1:
        return gq, [gs]
    gz = hx.global_view(strip[expert, begin:, n * (WORDS + 1) + row :], a_strip)
    return gq, [gs, gz]


@hx.device
def accumulate(rcs, tiles, strips, sx, block, d, form):
    """rcs += the products of a block of k, whose weights are in d of `tiles`."""
    parts = strips[0][0].shape[1]
    each = form.places // parts
    for p in hx.static_range(parts):
        sums = [hx.register_tensor(f32, rc.shape) for rc in rcs]
        zeros = [hx.register_tensor(f16, (rc.shape[0], 1)) for rc in rcs]
        for total, zero, strip in zip(sums, zeros, strips):
            hx.fill(total, 0.0)
            if len(strip) > 1:
                hx.copy(strip[1][:, p, hx.ds(block, 1)], zero)
        for place in hx.static_range(p * each, (p + 1) * each):
            rx = hx.register_tensor(sx.dtype, (sx.shape[0], WORDS))
            hx.copy(sx[:, hx.ds(block * form.block + place * WORDS, WORDS)], rx)
            for total, rq, zero in zip(sums, tiles, zeros):
                hx.gemm(total, numbers(rq[:, :, d], place, zero, form, sx.dtype), rx)
        for rc, total, strip in zip(rcs, sums, strips):
            scale = hx.register_tensor(f16, (rc.shape[0], 1))
            hx.copy(strip[0][:, p, hx.ds(block, 1)], scale)
            rc += total * scale


@hx.device
def bring(x, tops, column, sx):
    """sx = rows of x from `column` on: each from one of `tops`, or as they follow one top."""
    high = sx.shape[0] // len(tops)
    for i, top in enumerate(tops):
        at = ((high, sx.shape[1]), (x.shape[1], 1))
        hx.copy(hx.global_view(x[top:, column:], at), sx[i * high : (i + 1) * high, :])
    hx.syncthreads()


@hx.device
def order(lots, rows, depth, count):
    """Asks for the first `depth` blocks of k of `rows` rows of each of `lots`, and for what scales
    and shifts all `count` of them: where these will be, in registers and in shared memory."""
    tiles = [hx.register_tensor(u16, (rows, WORDS, depth)) for _ in lots]
    for d in hx.static_range(depth):
        for (gq, _), tile in zip(lots, tiles):
            hx.copy(gq[:, :, d, 0], tile[:, :, d])
    parts = lots[0][1][0].shape[1]
    strips = [[hx.shared_tensor(f16, (rows, parts, count)) for _ in given] for _, given in lots]
    for (_, given), here in zip(lots, strips):
        for from_memory, strip in zip(given, here):
            hx.copy(from_memory, strip)
    return tiles, strips


@hx.device
def products(rcs, lots, ordered, sx, depth, form):
    """rcs = the weights of each of `lots` times sx. A block of k that is multiplied makes room
    for the one `depth` later."""
    tiles, strips = ordered
    steps = sx.shape[1] // (form.block * depth)
    for rc in rcs:
        hx.fill(rc, 0.0)
    for step in range(steps):
        for d in hx.static_range(depth):
            accumulate(rcs, tiles, strips, sx, step * depth + d, d, form)
            if step + 1 < steps:
                # The minimum tells the compiler that all of it is inside.
                for (gq, _), tile in zip(lots, tiles):
                    hx.copy(gq[:, :, d, hx.minimum(step + 1, steps - 1)], tile[:, :, d])


@hx.device
def meet(split):
    """Waits for all threads of a cluster of `split` blocks."""
    if split > 1:
        hx.cluster_sync()
    else:
        hx.syncthreads()


@hx.device
def over_cluster(parts, row, rows, column, columns, split):
    """A corner of `parts`, summed over the blocks of a cluster in their order."""
    total, part = [hx.register_tensor(f32, (rows, columns)) for _ in range(2)]
    hx.fill(total, 0.0)
    for other in hx.static_range(split):
        theirs = parts[:, hx.ds(column, columns)]
        theirs = hx.remote(theirs, other) if split > 1 else theirs
        hx.copy(theirs[row : row + rows, :], part)
        total += part
    return total
