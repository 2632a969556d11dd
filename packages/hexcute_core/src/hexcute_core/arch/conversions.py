"""Narrow elements -> f16 or bf16, two at a time: what a GPU takes for a pair, and for how much.

| from | to | by |
|---|---|---|
| integers of 1 to 4 bits | f16, bf16 | behind the bits of 1024 or 128, which an fma takes off |
| i8, u8 | f16 | behind the upper byte of 1024, less 1024 |
| i8, u8 | bf16 | behind the upper bytes of 2^23 in f32, less 2^23; the upper halves of two |
| f8 | f16, bf16 | an instruction from sm_89 on |
| f8e5m2 | f16 | the upper half of its bits, nothing else |
| f8e4m3 | f16 | its bits moved by one, times 256; NaN apart |
| f8 | bf16 | by way of f16 and f32 |

All are exact, for every bit pattern. The units for conversions take no part but where one is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.dtypes import DType, bf16, f8e4m3, f8e5m2, f16, i1, i2, i4, i8, u1, u2, u4, u8

SUBBYTES = (u4, i4, u2, i2, u1, i1)
BYTES = (u8, i8)
F8 = (f8e4m3, f8e5m2)


@dataclass(frozen=True)
class Conversion:
    """A way from `sources` to `target` in `simple` operations per pair, on GPUs of `since` on."""

    name: str
    sources: tuple[DType, ...]
    target: DType
    simple: int
    since: tuple[int, int] = (8, 0)


CONVERSIONS = (
    Conversion("prmt, lop3, fma.f16x2", SUBBYTES, f16, 3),
    Conversion("prmt, lop3, fma.bf16x2", SUBBYTES, bf16, 4),
    Conversion("prmt, sub.f16x2", BYTES, f16, 3),
    Conversion("prmt, sub.f32, prmt", BYTES, bf16, 6),
    Conversion("cvt.f16x2", F8, f16, 1, since=(8, 9)),
    Conversion("cvt.f16x2, cvt.bf16x2", F8, bf16, 4, since=(8, 9)),
    Conversion("prmt", (f8e5m2,), f16, 1),
    Conversion("prmt, lop3, mul.f16x2", (f8e4m3,), f16, 11),
    Conversion("prmt, cvt.bf16x2", (f8e5m2,), bf16, 4),
    Conversion("prmt, lop3, mul.f16x2, cvt.bf16x2", (f8e4m3,), bf16, 14),
)
"""Each source once for every target and GPU, but for the instructions of newer ones."""


def conversion(capability: tuple[int, int], source: DType, target: DType) -> Conversion | None:
    """The cheapest way on a GPU of `capability`; None where there is nothing for pairs."""
    fits = (
        row
        for row in CONVERSIONS
        if source in row.sources and row.target == target and row.since <= capability
    )
    return min(fits, key=lambda row: row.simple, default=None)
