"""Weights of four and eight bits in the order in which the kernels read them, as one tensor.

Of a block of k, 128 weights of four bits or 64 of eight, one after the other:

    n rows        64 bytes per row of the result: the block's numbers in 32 words of 16 bits, k,
                  k + 32 and so on in one word, from its low bits up
    n/32 rows     for each group g of k in the block its scales, f16, 32 to a row of 64 bytes, and
    each          for integers 1024 more than its zero points, f16 too

A group is 128 (of four bits), 64 or 32 of k, and the tensor's shape says which: it is [..., k/g,
rows, bytes of g numbers], in which the same bytes count as k/g blocks. Its type says which `Form`
the numbers have: uint8 four bits, int8 eight, float4_e2m1fn_x2 and float8_e4m3fn floats.

A word of 16 bits is two or four products' worth of a thread's operand, and the order of k is the
products' own: whether a thread takes words one by one, as ldmatrix deals them out, or 16 bytes in a
row, it has what the Tensor Core reads from it. 1024 + a small number is an f16 whose low bits are
the number, and the difference of two such numbers is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError
from hexcute_kernels.moe.forms import (
    E2M1,
    E4M3,
    HALF,
    U4,
    U8,
    WIDEST,
    WORDS,
    Form,
    Weights,
)

if TYPE_CHECKING:
    import torch

GROUP = WIDEST
"""Elements of k that a block of four bits holds."""
GROUPS = U4.groups
"""How many elements of k may share a scale and a zero point, of four bits."""
ABOVE = 1024
"""What is added to zero points."""
ROWS = 64
"""n is a multiple of it."""
TAGS = {"uint8": U4, "int8": U8, "float4_e2m1fn_x2": E2M1, "float8_e4m3fn": E4M3}
"""Names of torch's types, and the forms they stand for."""


@dataclass(frozen=True)
class Packed:
    """What type and shape of packed weights say: columns, rows, and how they are held."""

    n: int
    k: int
    held: Weights

    @property
    def group(self) -> int:
        """How many rows share a scale."""
        return self.held.group


def packed_shape(k: int, n: int, group: int = GROUP, form: Form = U4) -> tuple[int, int, int]:
    """The shape of packed weights of k rows and n columns."""
    row = group * form.bits // 8
    return k // group, n + 2 * form.strips * n // row, row


def in_blocks(w: torch.Tensor) -> torch.Tensor:
    """The same bytes as blocks of k, [..., blocks, rows of 64 bytes, 64]."""
    import torch as torch_module

    *batch, groups, lines, row = w.shape
    w = w.view(torch_module.uint8)
    return w if row == HALF else w.reshape(*batch, groups * row // HALF, lines, HALF)


def in_order(form: Form, fields: Any, strips: Sequence[Any]) -> torch.Tensor:
    """Packed weights of bit fields, uint8 [..., k, n], and what each group has, float16
    [..., k/g, n]: scales, and of integers zero points too."""
    import torch as torch_module

    *batch, k, n = fields.shape
    group = k // strips[0].shape[-2]
    if group > form.groups[-1]:
        strips = [t.repeat_interleave(group // form.groups[-1], -2) for t in strips]
        group = form.groups[-1]
    held, blocks = Weights(form, group), k // form.block
    # [..., block, place, word, n] to [..., block, n, word, place]
    rows = fields.reshape(*batch, blocks, form.places, WORDS, n).transpose(-3, -1)
    if form.bits == 4:
        rows = rows[..., 0::2] | rows[..., 1::2] << 4
    stacked = torch_module.stack(list(strips), -2).contiguous()
    whole = torch_module.cat(
        (
            rows.reshape(*batch, blocks, n, HALF),
            stacked.view(torch_module.uint8).reshape(*batch, blocks, held.rows(n) - n, HALF),
        ),
        -2,
    )
    name = next(name for name, each in TAGS.items() if each == form)
    packed = whole.reshape(*batch, *packed_shape(k, n, group, form))
    return packed.view(getattr(torch_module, name))


def pack(q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """Weights (q - zero) * scale for the kernels.

    q: uint8 [..., k, n], 0 to 15; scale: float16 [..., k/g, n]; zero: uint8 of that shape, 0 to 15.
    g is 32, 64 or a multiple of 128. Gives uint8 [..., k/g, n + 8n/g, g/2], with 128 for g where it
    is more. Raises LaunchError for other shapes and types, for k no multiple of 128 and n none of
    64.
    """
    _check(q, scale, zero)
    return in_order(U4, q, (scale, zero.to(scale.dtype) + ABOVE))


def fields_of(w: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The bit fields and what each group has, as `in_order` took them. Raises LaunchError where w
    is not of its making."""
    import torch as torch_module

    found, blocks = check_packed("unpack", "w", w), in_blocks(w)
    form, n = found.held.form, found.n
    rows = blocks[..., :n, :].unflatten(-1, (WORDS, 2))
    if form.bits == 4:
        rows = torch_module.stack((rows & 15, rows >> 4), -1).flatten(-2)
    q = rows.transpose(-3, -1).reshape(*w.shape[:-3], found.k, n)
    strips = blocks[..., n:, :].contiguous().view(torch_module.float16)
    groups = found.k // found.held.group
    return q, list(strips.reshape(*w.shape[:-3], groups, form.strips, n).unbind(-2))


def unpack(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, scale and zero of w, which `pack` gave, bit for bit. Raises LaunchError where it is not of
    that making."""
    import torch as torch_module

    if check_packed("unpack", "w", w).held.form != U4:
        raise LaunchError(f"unpack takes what pack gives, of four bits, got {w.dtype}")
    q, (scale, zero) = fields_of(w)
    return q, scale, (zero - ABOVE).to(torch_module.uint8)


def some_columns(w: torch.Tensor, ranges: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The packed weights of these columns alone, without unpacking: what `pack` gives of
    q[..., first:last] of each range, one beside the other.

    ranges: of columns, their ends multiples of 64. Raises LaunchError for others, and where w is
    not of `pack`'s making.
    """
    import torch as torch_module

    found, blocks = check_packed("some_columns", "w", w), in_blocks(w)
    n, held = found.n, found.held
    _check_ranges("some_columns", "columns", n, ROWS, ranges)
    # Below the weights: 32 scales of a group to a row, then 32 zero points, group after group.
    per_row = HALF // 2
    count = held.parts * held.form.strips
    strips = [(n + i * n // per_row, per_row) for i in range(count)]
    rows = [
        blocks[..., start + first // each : start + last // each, :]
        for start, each in ((0, 1), *strips)
        for first, last in ranges
    ]
    columns = sum(last - first for first, last in ranges)
    shape = packed_shape(found.k, columns, held.group, held.form)
    return torch_module.cat(rows, -2).reshape(*w.shape[:-3], *shape).view(w.dtype)


def some_rows(w: torch.Tensor, ranges: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The same of rows of k, the ranges' ends multiples of 128."""
    import torch as torch_module

    found = check_packed("some_rows", "w", w)
    _check_ranges("some_rows", "rows", found.k, GROUP, ranges)
    each, plain = found.held.group, w.view(torch_module.uint8)
    parts = [plain[..., first // each : last // each, :, :] for first, last in ranges]
    return torch_module.cat(parts, -3).contiguous().view(w.dtype)


pack_experts = pack
"""The same for a stack of experts: q [experts, k, n], scale and zero [experts, k/g, n]."""


def check_packed(operator: str, name: str, w: Any) -> Packed:
    """What type and shape of packed weights say. Raises LaunchError where they are no such."""
    shape = tuple(w.shape)
    form = TAGS.get(str(w.dtype).removeprefix("torch."))
    if form is not None and len(shape) >= 3:
        group = shape[-1] * 8 // form.bits
        n = shape[-2] * shape[-1] // (shape[-1] + 2 * form.strips)
        k = shape[-3] * group
        fits = group in form.groups and n % ROWS == 0 and k % form.block == 0
        if fits and packed_shape(k, n, group, form) == shape[-3:]:
            return Packed(n, k, Weights(form, group))
    raise LaunchError(
        f"{operator}: {name} is to be weights in the kernels' order, got {w.dtype} of shape "
        f"{shape}",
        fix="pass what hexcute_kernels.moe.pack(q, scale, zero) gives, or one of its kin",
    )


def _check_ranges(
    name: str, what: str, end: int, step: int, ranges: Sequence[tuple[int, int]]
) -> None:
    if any(not 0 <= first <= last <= end or first % step or last % step for first, last in ranges):
        raise LaunchError(
            f"{name}: ranges lie within {end} {what} and end at multiples of {step}, got "
            f"{list(ranges)}"
        )


def _check(q: Any, scale: Any, zero: Any) -> None:
    """That these are weights of four bits."""
    import torch as torch_module

    types = (q.dtype, scale.dtype, zero.dtype)
    if types != (torch_module.uint8, torch_module.float16, torch_module.uint8):
        raise LaunchError(f"pack takes uint8 q, float16 scale and uint8 zero, got {types}")
    check_groups("pack", U4, q, scale=scale, zero=zero)
    for name, nibbles in (("q", q), ("zero", zero)):
        if nibbles.numel() and int(nibbles.max()) > 15:
            raise LaunchError(f"pack: {name} holds {int(nibbles.max())}, of four bits 15 is most")


def check_groups(operator: str, form: Form, q: Any, **strips: Any) -> None:
    """That q is of whole blocks of `form`, and each of `strips` of one size of groups. Raises
    LaunchError."""
    if q.dim() < 2 or q.shape[-2] % form.block or q.shape[-1] % ROWS:
        raise LaunchError(
            f"{operator} takes q (..., k, n), k a multiple of {form.block} and n of {ROWS}; got "
            f"{tuple(q.shape)}",
            fix="fill up with q = zero, whose weight is 0",
        )
    *batch, k, n = q.shape
    scale, widest = next(iter(strips.values())), form.groups[-1]
    groups = scale.shape[-2] if scale.dim() == q.dim() else 0
    group = k // groups if groups and k % groups == 0 else widest
    wanted = (*batch, k // group, n)
    if any(tuple(strip.shape) != wanted for strip in strips.values()):
        raise LaunchError(
            f"{operator}: {' and '.join(strips)} are to be {wanted}, or of other groups of k, "
            f"beside q {tuple(q.shape)}, got "
            f"{' and '.join(str(tuple(strip.shape)) for strip in strips.values())}"
        )
    if group not in form.groups and group % widest:
        *few, last = form.groups
        raise LaunchError(
            f"{operator} takes groups of {', '.join(map(str, few))} or a multiple of {last} of k, "
            f"got {group}",
            fix="quantize in such groups, or with one scale for a column",
        )
