"""Weights of four bits in memory -> numbers in registers, and numbers that whole blocks read.

weight = (nibble - zero) * scale, in the type of scale: nibble - zero is exact, so it rounds once
"""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def nibbles(packed, place, zero, scale):
    """The weights that stand `place` nibbles up in the words `packed` (rows, words); zero and
    scale (rows, 1) are of one float type."""
    return ((packed >> (4 * place) & 15) - zero) * scale


@hx.device
def differences(packed, place, zero):
    """nibble - zero of the nibbles that stand `place` up in the words `packed`, exactly, where zero
    (rows, 1) holds 1024 more than the zero points: 1024 + nibble is those bits of an f16."""
    return ((packed >> (4 * place) & 15) + 1024) - zero


@hx.device
def number(table, at):
    """table[at], of a tensor of one dimension: one number, which all threads read."""
    one, value = hx.register_tensor(table.dtype, (1,)), 0
    hx.copy(hx.global_view(table[at:], ((1,), (1,))), one)
    for (i,) in hx.elements(one):
        value = one[i]
    return value
