"""Weights of four bits in memory -> numbers in registers, and numbers that whole blocks read.

weight = (nibble - zero) * scale, in the type of scale: nibble - zero is exact, so it rounds once
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import bf16, f16

ABOVE = {f16: 1024, bf16: 128}
"""The power of two behind which the last bit of a number counts ones."""
EXPONENT = {f16: (5, 15), bf16: (8, 127)}
"""Bits of an exponent, and its bias."""


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
def moved(packed, up):
    """The words with their bits so many places up."""
    return packed << up if up >= 0 else packed >> -up


@hx.device
def small_floats(packed, place, bits, exponent, bias, dtype):
    """The floats of `bits` bits that stand `place` of them up in the words `packed`, exactly: their
    bits are those of a number of `dtype` whose exponent counts from elsewhere."""
    wide, other = EXPONENT[dtype]
    low, keeps = 15 - wide - (bits - 1 - exponent), (1 << bits - 1) - 1
    sign = moved(packed, 16 - bits * (place + 1)) & 0x8000
    rest = moved(packed, low - bits * place) & (keeps << low)
    return hx.bitcast(sign | rest, dtype) * 2.0 ** (other - bias)


@hx.device
def bytes_less(packed, place, zero, dtype):
    """byte - zero of the bytes that stand `place` up, exactly; zero is f16, 1024 more."""
    less = ((packed >> (8 * place) & 255) + ABOVE[f16]) - zero
    return less if dtype == f16 else hx.cast(less, dtype)


@hx.device
def numbers(packed, place, zero, form, dtype):
    """The numbers of a `Form` that stand `place` up in the words `packed`, less their zero points,
    where it has any, which are f16 and 1024 more."""
    if form.exponent:
        return small_floats(packed, place, form.bits, form.exponent, form.bias, dtype)
    if form.bits == 4:
        return differences(packed, place, shifts(zero, dtype))
    return bytes_less(packed, place, zero, dtype)


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
