"""Weights of four bits in memory -> numbers in registers, and numbers that whole blocks read.

weight = (nibble - zero) * scale, in the type of scale: nibble - zero is exact, so it rounds once
"""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def low_nibbles(packed, zero, scale):
    """The weights in the low halves of the bytes `packed` (rows, bytes); zero and scale (rows, 1)
    are of one float type."""
    return (hx.cast(packed & 15, scale.dtype) - zero) * scale


@hx.device
def high_nibbles(packed, zero, scale):
    """The weights in the high halves."""
    return (hx.cast(packed >> 4, scale.dtype) - zero) * scale


@hx.device
def number(table, at):
    """table[at], of a tensor of one dimension: one number, which all threads read."""
    one, value = hx.register_tensor(table.dtype, (1,)), 0
    hx.copy(hx.global_view(table[at:], ((1,), (1,))), one)
    for (i,) in hx.elements(one):
        value = one[i]
    return value
