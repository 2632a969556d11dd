"""Weights of four bits in the order in which the kernels read them, as one tensor of bytes.

    w[g, :n]     64 bytes per row of the result: the group's 128 nibbles in 32 words of 16 bits, k,
                 k + 32, k + 64 and k + 96 in one word, from its low bits up
    w[g, n:]     the group's scales, then 1024 more than its zero points, both f16, 32 to a row of
                 64 bytes

A word of 16 bits is four products' worth of a thread's operand, and the order of k is the products'
own: whether a thread takes words one by one, as ldmatrix deals them out, or 16 bytes in a row, it
has what the Tensor Core reads from it. 1024 + a nibble is an f16 whose low bits are the
nibble, and the difference of two such numbers is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError

if TYPE_CHECKING:
    import torch

GROUP = 128
"""Elements of k that share a scale and a zero point."""
HALF = GROUP // 2
"""Bytes of a group in a row."""
WORDS = GROUP // 4
"""Words of a group in a row, and the distance in k of a word's nibbles."""
ABOVE = 1024
"""What is added to zero points."""
ROWS = 64
"""n is a multiple of it."""


def packed_rows(n: int) -> int:
    """Rows of 64 bytes that n rows of weights take a group, scales and zero points with them."""
    return n + n // 16


def pack(q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """Weights (q - zero) * scale for the kernels.

    q: uint8 [..., k, n], 0 to 15; scale: float16 [..., k/128, n]; zero: uint8 of that shape, 0 to
    15. Gives uint8 [..., k/128, n + n/16, 64]. Raises LaunchError for other shapes and types, for
    k no multiple of 128 and n none of 64.
    """
    import torch as torch_module

    _check(q, scale, zero)
    *batch, k, n = q.shape
    # [..., group, place, word, n] to [..., group, n, word, place]
    places = q.reshape(*batch, k // GROUP, 4, WORDS, n).transpose(-3, -1)
    rows = places[..., 0::2] | places[..., 1::2] << 4
    strips = torch_module.stack((scale, zero.to(scale.dtype) + ABOVE), -2)
    return torch_module.cat(
        (
            rows.reshape(*batch, k // GROUP, n, HALF),
            strips.contiguous().view(torch_module.uint8).reshape(*batch, k // GROUP, n // 16, HALF),
        ),
        -2,
    )


def unpack(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, scale and zero of `pack`, bit for bit. Raises LaunchError where w is not of its making."""
    import torch as torch_module

    n = check_packed("unpack", "w", w)
    *batch, groups, _, _ = w.shape
    rows = w[..., :n, :].reshape(*batch, groups, n, WORDS, 2)
    places = torch_module.stack((rows & 15, rows >> 4), -1).flatten(-2)
    q = places.transpose(-3, -1).reshape(*batch, groups * GROUP, n)
    strips = w[..., n:, :].contiguous().view(torch_module.float16).reshape(*batch, groups, 2, n)
    return q, strips[..., 0, :], (strips[..., 1, :] - ABOVE).to(torch_module.uint8)


def some_columns(w: torch.Tensor, ranges: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The packed weights of these columns alone, without unpacking: what `pack` gives of
    q[..., first:last] of each range, one beside the other.

    ranges: of columns, their ends multiples of 64. Raises LaunchError for others, and where w is
    not of `pack`'s making.
    """
    import torch as torch_module

    n = check_packed("some_columns", "w", w)
    if any(not 0 <= first <= last <= n or first % ROWS or last % ROWS for first, last in ranges):
        raise LaunchError(
            f"some_columns: ranges lie within {n} columns and end at multiples of {ROWS}, got "
            f"{list(ranges)}"
        )
    # Below the weights: 32 scales to a row, then 32 zero points to a row.
    per_row = HALF // 2
    rows = [
        w[..., start + first // each : start + last // each, :]
        for start, each in ((0, 1), (n, per_row), (n + n // per_row, per_row))
        for first, last in ranges
    ]
    return torch_module.cat(rows, -2)


pack_experts = pack
"""The same for a stack of experts: q [experts, k, n], scale and zero [experts, k/128, n]."""


def check_packed(operator: str, name: str, w: Any) -> int:
    """n of packed weights. Raises LaunchError where they are no such."""
    import torch as torch_module

    shape = tuple(w.shape)
    fits = w.dtype == torch_module.uint8 and len(shape) >= 3 and shape[-1] == HALF
    n = shape[-2] * 16 // 17 if fits else 0
    if not fits or n % ROWS or packed_rows(n) != shape[-2]:
        raise LaunchError(
            f"{operator}: {name} is to be weights in the kernels' order, got {w.dtype} of shape "
            f"{shape}",
            fix="pass what hexcute_kernels.moe.pack(q, scale, zero) gives",
        )
    return n


def _check(q: Any, scale: Any, zero: Any) -> None:
    import torch as torch_module

    types = (q.dtype, scale.dtype, zero.dtype)
    if types != (torch_module.uint8, torch_module.float16, torch_module.uint8):
        raise LaunchError(f"pack takes uint8 q, float16 scale and uint8 zero, got {types}")
    if q.dim() < 2 or q.shape[-2] % GROUP or q.shape[-1] % ROWS:
        raise LaunchError(
            f"pack takes q (..., k, n), k a multiple of {GROUP} and n of {ROWS}; got "
            f"{tuple(q.shape)}",
            fix="fill up with q = zero, whose weight is 0",
        )
    wanted = (*q.shape[:-2], q.shape[-2] // GROUP, q.shape[-1])
    if tuple(scale.shape) != wanted or tuple(zero.shape) != wanted:
        raise LaunchError(
            f"pack: scale and zero are to be {wanted} beside q {tuple(q.shape)}, got "
            f"{tuple(scale.shape)} and {tuple(zero.shape)}"
        )
    for name, nibbles in (("q", q), ("zero", zero)):
        if nibbles.numel() and int(nibbles.max()) > 15:
            raise LaunchError(f"pack: {name} holds {int(nibbles.max())}, of four bits 15 is most")
