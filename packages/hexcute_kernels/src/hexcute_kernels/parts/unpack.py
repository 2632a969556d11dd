"""Weights of four bits in memory -> numbers in registers, and numbers that whole blocks read.

weight = (nibble - zero) * scale, in the type of scale: nibble - zero is exact, so it rounds once
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import bf16, f16

ABOVE = {f16: 1024, bf16: 128}
"""The power of two behind which the last bit of a number counts ones."""


@hx.device
def nibbles(packed, place, zero, scale):
    """The weights that stand `place` nibbles up in the words `packed` (rows, words); zero and
    scale (rows, 1) are of one float type."""
    return ((packed >> (4 * place) & 15) - zero) * scale


@hx.device
def differences(packed, place, zero):
    """nibble - zero of the nibbles that stand `place` up in the words `packed`, exactly, where zero
    (rows, 1), of f16 or bf16, holds `ABOVE` more than the zero points: `ABOVE` + nibble is those
    bits of such a number."""
    return ((packed >> (4 * place) & 15) + ABOVE[zero.dtype]) - zero


@hx.device
def shifts(zero, dtype):
    """Zero points in f16, 1024 more than they are, as `differences` in `dtype` takes them."""
    return zero if zero.dtype == dtype else hx.cast(zero - (ABOVE[f16] - ABOVE[dtype]), dtype)


@hx.device
def number(table, at):
    """table[at], of a tensor of one dimension: one number, which all threads read."""
    one, value = hx.register_tensor(table.dtype, (1,)), 0
    hx.copy(hx.global_view(table[at:], ((1,), (1,))), one)
    for (i,) in hx.elements(one):
        value = one[i]
    return value
