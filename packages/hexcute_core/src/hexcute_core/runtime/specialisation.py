"""What one compiled kernel assumes of its arguments, packed into one integer key.

    two bits a tensor                  of how many of 16, 8 and 4 bytes its pointer is a multiple
    two bits a symbol with a divisor   of how many of `levels(divisor)` it is a multiple
    a bit a tensor with strides        its elements lie at places of their own
    the last bit                       some tensor reaches over 2^31 elements: index in 64 bits
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hexcute_core.runtime.signature import ALIGNMENT, Signature

NARROW_LIMIT = 2**31
"""Tensors that reach over fewer elements than this are indexed in 32 bits."""
LEVEL_BITS = 2


def levels(divisor: int) -> tuple[int, ...]:
    """The divisors that a symbol is told apart by, each a multiple of the next: `divisor`, a half
    and a quarter of it, which of elements in 16 bytes are those in 8 and 4."""
    found = [divisor]
    while len(found) < (1 << LEVEL_BITS) - 1 and found[-1] % 2 == 0 and found[-1] > 2:
        found.append(found[-1] // 2)
    return tuple(found)


@dataclass(frozen=True)
class Specialisation:
    """Names of the aligned tensors, the divisor each symbol is known to have, the width, tensors
    with strides whose elements lie apart, and the bytes that other pointers are multiples of."""

    aligned: tuple[str, ...]
    multiples: tuple[tuple[str, int], ...]
    wide: bool = False
    apart: tuple[str, ...] = ()
    begins: tuple[tuple[str, int], ...] = ()


def decode(signature: Signature, divisors: Mapping[str, int], key: int) -> Specialisation:
    """The assumptions behind a key that a `Binder` of the same signature and divisors made."""

    def bits(count: int) -> int:
        nonlocal key
        found, key = key & ((1 << count) - 1), key >> count
        return found

    begins = [(tensor.name, _held(ALIGNMENT, bits(LEVEL_BITS))) for tensor in signature.tensors]
    aligned = tuple(name for name, held in begins if held == ALIGNMENT)
    counts = [(name, _held(divisor, bits(LEVEL_BITS))) for name, divisor in divisors.items()]
    apart = tuple(tensor.name for tensor in signature.strided if bits(1))
    wide = bool(bits(1))
    multiples = tuple((name, held) for name, held in counts if held > 1)
    others = tuple((name, held) for name, held in begins if 1 < held < ALIGNMENT)
    return Specialisation(aligned, multiples, wide, apart, others)


def _held(divisor: int, count: int) -> int:
    """The divisor of a number that is a multiple of the last `count` of `levels(divisor)`."""
    return levels(divisor)[-count] if count else 1


def _key(signature: Signature, divisors: Mapping[str, int], aligned: bool) -> int:
    key = at = 0
    promised = {symbol.name for symbol in signature.symbols if symbol.multiple_of > 1}
    known = [(ALIGNMENT, aligned) for _ in signature.tensors]
    known += [(divisor, aligned or name in promised) for name, divisor in divisors.items()]
    for divisor, held in known:
        key |= (len(levels(divisor)) if held else 0) << at
        at += LEVEL_BITS
    return key | ((1 << len(signature.strided)) - 1) << at


def best_key(signature: Signature, divisors: Mapping[str, int]) -> int:
    """The key of the usual call: all aligned, all divisible, all apart, 32-bit indices."""
    return _key(signature, divisors, True)


def plain_key(signature: Signature, divisors: Mapping[str, int]) -> int:
    """The key of a call of which nothing is known but 32-bit indices, elements that lie apart, and
    what the kernel's author promises of its symbols."""
    return _key(signature, divisors, False)
