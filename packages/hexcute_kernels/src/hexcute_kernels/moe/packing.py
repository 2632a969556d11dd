"""Weights of four bits in the order in which the kernels read them, as one tensor of bytes.

Of a block of 128 of k, one after the other:

    n rows      64 bytes per row of the result: the block's 128 nibbles in 32 words of 16 bits, k,
                k + 32, k + 64 and k + 96 in one word, from its low bits up
    n/16 rows   for each group g of k in the block: its scales, then 1024 more than its zero points,
                both f16, 32 to a row of 64 bytes

A group is 128, 64 or 32 of k, and the tensor's shape says which: it is [..., k/g, n + 8n/g, g/2],
in which the same bytes count as k/g blocks.

A word of 16 bits is four products' worth of a thread's operand, and the order of k is the products'
own: whether a thread takes words one by one, as ldmatrix deals them out, or 16 bytes in a row, it
has what the Tensor Core reads from it. 1024 + a nibble is an f16 whose low bits are the
nibble, and the difference of two such numbers is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError

if TYPE_CHECKING:
    import torch

GROUP = 128
"""Elements of k that lie together: a block."""
GROUPS = (32, 64, GROUP)
"""How many elements of k may share a scale and a zero point."""
HALF = GROUP // 2
"""Bytes of a block in a row."""
WORDS = GROUP // 4
"""Words of a block in a row, and the distance in k of a word's nibbles."""
ABOVE = 1024
"""What is added to zero points."""
ROWS = 64
"""n is a multiple of it."""


@dataclass(frozen=True)
class Packed:
    """What the shape of packed weights says: columns, rows, and rows that share a scale."""

    n: int
    k: int
    group: int


def packed_rows(n: int, group: int = GROUP) -> int:
    """Rows of 64 bytes that n rows of weights take a block, scales and zero points with them."""
    return n + 8 * n // group


def packed_shape(k: int, n: int, group: int = GROUP) -> tuple[int, int, int]:
    """The shape of packed weights of k rows and n columns."""
    return k // group, packed_rows(n, group), group // 2


def in_blocks(w: torch.Tensor) -> torch.Tensor:
    """The same bytes as blocks of 128 of k, [..., k/128, rows of 64 bytes, 64]."""
    *batch, groups, lines, half = w.shape
    return w if half == HALF else w.reshape(*batch, groups * half // HALF, lines, HALF)


def pack(q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """Weights (q - zero) * scale for the kernels.

    q: uint8 [..., k, n], 0 to 15; scale: float16 [..., k/g, n]; zero: uint8 of that shape, 0 to 15.
    g is 32, 64 or a multiple of 128. Gives uint8 [..., k/g, n + 8n/g, g/2], with 128 for g where it
    is more. Raises LaunchError for other shapes and types, for k no multiple of 128 and n none of
    64.
    """
    import torch as torch_module

    group = _check(q, scale, zero)
    *batch, k, n = q.shape
    if group > GROUP:
        scale, zero = (t.repeat_interleave(group // GROUP, -2) for t in (scale, zero))
        group = GROUP
    # [..., block, place, word, n] to [..., block, n, word, place]
    places = q.reshape(*batch, k // GROUP, 4, WORDS, n).transpose(-3, -1)
    rows = places[..., 0::2] | places[..., 1::2] << 4
    strips = torch_module.stack((scale, zero.to(scale.dtype) + ABOVE), -2).contiguous()
    blocks = torch_module.cat(
        (
            rows.reshape(*batch, k // GROUP, n, HALF),
            strips.view(torch_module.uint8).reshape(*batch, k // GROUP, 8 * n // group, HALF),
        ),
        -2,
    )
    return blocks.reshape(*batch, *packed_shape(k, n, group))


def unpack(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, scale and zero of w, which `pack` gave, bit for bit. Raises LaunchError where it is not of
    that making."""
    import torch as torch_module

    found, blocks = check_packed("unpack", "w", w), in_blocks(w)
    *batch, count, _, _ = blocks.shape
    n, groups = found.n, count * GROUP // found.group
    rows = blocks[..., :n, :].reshape(*batch, count, n, WORDS, 2)
    places = torch_module.stack((rows & 15, rows >> 4), -1).flatten(-2)
    q = places.transpose(-3, -1).reshape(*batch, found.k, n)
    strips = blocks[..., n:, :].contiguous().view(torch_module.float16)
    scale, zero = strips.reshape(*batch, groups, 2, n).unbind(-2)
    return q, scale, (zero - ABOVE).to(torch_module.uint8)


def some_columns(w: torch.Tensor, ranges: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The packed weights of these columns alone, without unpacking: what `pack` gives of
    q[..., first:last] of each range, one beside the other.

    ranges: of columns, their ends multiples of 64. Raises LaunchError for others, and where w is
    not of `pack`'s making.
    """
    import torch as torch_module

    found, blocks = check_packed("some_columns", "w", w), in_blocks(w)
    n = found.n
    _check_ranges("some_columns", "columns", n, ROWS, ranges)
    # Below the weights: 32 scales of a group to a row, then 32 zero points, group after group.
    per_row = HALF // 2
    strips = [(n + i * n // per_row, per_row) for i in range(2 * GROUP // found.group)]
    rows = [
        blocks[..., start + first // each : start + last // each, :]
        for start, each in ((0, 1), *strips)
        for first, last in ranges
    ]
    columns = sum(last - first for first, last in ranges)
    shape = packed_shape(found.k, columns, found.group)
    return torch_module.cat(rows, -2).reshape(*w.shape[:-3], *shape)


def some_rows(w: torch.Tensor, ranges: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The same of rows of k, the ranges' ends multiples of 128."""
    import torch as torch_module

    found = check_packed("some_rows", "w", w)
    _check_ranges("some_rows", "rows", found.k, GROUP, ranges)
    parts = [w[..., first // found.group : last // found.group, :, :] for first, last in ranges]
    return torch_module.cat(parts, -3).contiguous()


pack_experts = pack
"""The same for a stack of experts: q [experts, k, n], scale and zero [experts, k/g, n]."""


def check_packed(operator: str, name: str, w: Any) -> Packed:
    """What the shape of packed weights says. Raises LaunchError where they are no such."""
    import torch as torch_module

    shape = tuple(w.shape)
    group = 2 * shape[-1] if w.dtype == torch_module.uint8 and len(shape) >= 3 else 0
    n = shape[-2] * group // (group + 8) if group in GROUPS else 0
    if group not in GROUPS or n % ROWS or (shape[-3] * group) % GROUP:
        n = -1
    if n < 0 or packed_rows(n, group) != shape[-2]:
        raise LaunchError(
            f"{operator}: {name} is to be weights in the kernels' order, got {w.dtype} of shape "
            f"{shape}",
            fix="pass what hexcute_kernels.moe.pack(q, scale, zero) gives",
        )
    return Packed(n, shape[-3] * group, group)


def _check_ranges(
    name: str, what: str, end: int, step: int, ranges: Sequence[tuple[int, int]]
) -> None:
    if any(not 0 <= first <= last <= end or first % step or last % step for first, last in ranges):
        raise LaunchError(
            f"{name}: ranges lie within {end} {what} and end at multiples of {step}, got "
            f"{list(ranges)}"
        )


def _check(q: Any, scale: Any, zero: Any) -> int:
    """How many rows share a scale."""
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
    *batch, k, n = q.shape
    groups = scale.shape[-2] if scale.dim() == q.dim() else 0
    group = k // groups if groups and k % groups == 0 else GROUP
    wanted = (*batch, k // group, n)
    if tuple(scale.shape) != wanted or tuple(zero.shape) != wanted:
        raise LaunchError(
            f"pack: scale and zero are to be {wanted}, or of other groups of k, beside q "
            f"{tuple(q.shape)}, got {tuple(scale.shape)} and {tuple(zero.shape)}"
        )
    if group not in GROUPS and group % GROUP:
        raise LaunchError(
            f"pack takes groups of 32, 64 or a multiple of 128 of k, got {group}",
            fix="quantize in such groups, or with one scale for a column",
        )
    for name, nibbles in (("q", q), ("zero", zero)):
        if nibbles.numel() and int(nibbles.max()) > 15:
            raise LaunchError(f"pack: {name} holds {int(nibbles.max())}, of four bits 15 is most")
    return int(group)
