"""What one compiled kernel assumes of its arguments, packed into one integer key.

    bit i              tensor i's pointer is a multiple of 16 bytes
    bit tensors + j    the j-th symbol with a divisor is a multiple of it
    the last bit       some tensor has 2^31 elements or more: index in 64 bits
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hexcute_core.runtime.signature import Signature

NARROW_LIMIT = 2**31
"""Tensors of fewer elements than this are indexed in 32 bits."""


@dataclass(frozen=True)
class Specialisation:
    """Names of the aligned tensors, the divisor each symbol is known to have, and the width."""

    aligned: tuple[str, ...]
    multiples: tuple[tuple[str, int], ...]
    wide: bool = False


def decode(signature: Signature, divisors: Mapping[str, int], key: int) -> Specialisation:
    """The assumptions behind a key that a `Binder` of the same signature and divisors made."""
    tensors = [tensor.name for tensor in signature.tensors]
    multiples = list(divisors.items())
    return Specialisation(
        aligned=tuple(name for i, name in enumerate(tensors) if key >> i & 1),
        multiples=tuple(
            pair for j, pair in enumerate(multiples) if key >> (len(tensors) + j) & 1
        ),
        wide=bool(key >> (len(tensors) + len(multiples)) & 1),
    )


def best_key(signature: Signature, divisors: Mapping[str, int]) -> int:
    """The key of the usual call: all aligned, all divisible, 32-bit indices."""
    return (1 << (len(signature.tensors) + len(divisors))) - 1
