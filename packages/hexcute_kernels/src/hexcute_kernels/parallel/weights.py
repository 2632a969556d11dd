"""Weights as the products take them, and a rank's part of one, cut from its bytes as they lie.

    Dense      w (n, k), bias (n) or none           float16 or bfloat16
    Blockwise  w (n, k), scale (n/128, k/128)       float8_e4m3fn, a float32 scale for 128 x 128
    FourBits   w (k/g, n + 8n/g, g/2), g 32, 64, 128   what `hexcute_kernels.moe.pack` gives

Nothing is unpacked, quantized or rounded: a part holds the numbers that the whole holds there. Each
weight may be a stack of experts, one more dimension in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_core.unions import assert_never
from hexcute_kernels.fp8.blockwise import BLOCK
from hexcute_kernels.moe.packing import GROUP, ROWS, check_packed, some_columns, some_rows
from hexcute_kernels.parallel.cuts import Range, merged, uneven
from hexcute_kernels.tensors import dtype_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Dense:
    """What `linear` takes: w (n, k) in float16 or bfloat16, and a bias (n) of its type or None."""

    w: torch.Tensor
    bias: torch.Tensor | None = None

    def __post_init__(self) -> None:
        dtype_of("Dense", (hx.f16, hx.bf16), w=self.w, **_given(bias=self.bias))
        _check_matrices("Dense", self.w)
        wanted = tuple(self.w.shape[:-1])
        if self.bias is not None and tuple(self.bias.shape) != wanted:
            raise LaunchError(f"Dense: bias is to be {wanted}, got {tuple(self.bias.shape)}")


@dataclass(frozen=True)
class Blockwise:
    """What `fp8_blockwise_matmul` takes: w (n, k) in float8_e4m3fn, scale (n/128, k/128) in
    float32, blocks rounded up, as `quantize_weights` gives them."""

    w: torch.Tensor
    scale: torch.Tensor

    def __post_init__(self) -> None:
        dtype_of("Blockwise", (hx.f8e4m3,), w=self.w)
        dtype_of("Blockwise", (hx.f32,), scale=self.scale)
        _check_matrices("Blockwise", self.w)
        *batch, n, k = self.w.shape
        wanted = (*batch, -(-n // BLOCK), -(-k // BLOCK))
        if tuple(self.scale.shape) != wanted:
            raise LaunchError(
                f"Blockwise: scale is to be {wanted} beside w {tuple(self.w.shape)}, got "
                f"{tuple(self.scale.shape)}"
            )


@dataclass(frozen=True)
class FourBits:
    """What `w4a16_matmul` takes: w as `hexcute_kernels.moe.pack` gives it."""

    w: torch.Tensor

    def __post_init__(self) -> None:
        check_packed("FourBits", "w", self.w)


Weight = Union[Dense, Blockwise, FourBits]


@dataclass(frozen=True)
class Shard:
    """A rank's part of a weight: what it holds, whose it is, and how the whole was cut.

    dim: "n", where results are cut, or "k", where sums are. parts: extents, along dim, of the
    matrices that lay one behind the other in the whole.
    """

    weight: Weight
    rank: int
    ranks: int
    dim: str
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Experts:
    """A rank's experts of a stack: `weight` is of those from number `first` on, of `count`."""

    weight: Weight
    first: int
    count: int

    @property
    def here(self) -> int:
        """How many there are here; a rank may have none."""
        return int(self.weight.w.shape[0])


def extents(weight: Weight) -> tuple[int, int]:
    """n and k of a weight: y (.., n) = x (.., k) w^T."""
    match weight:
        case Dense(w) | Blockwise(w):
            return int(w.shape[-2]), int(w.shape[-1])
        case FourBits(w):
            found = check_packed("FourBits", "w", w)
            return found.n, found.k
        case _:
            assert_never(weight)


def shard(
    weight: Weight, rank: int, ranks: int, dim: str, parts: Sequence[int] | None = None
) -> Shard:
    """A rank's part of a weight, in memory of its own, so that the whole can be freed.

    dim: "n" for a ColumnParallel layer, "k" for a RowParallel one.
    parts: where several matrices lie one behind the other along `dim`, as gate and up or q, k and
    v, their extents; each of them is cut, and the rank has its part of each.

    Parts are equal, and of whole blocks of 128 x 128 (Blockwise), whole groups of 128 along k and
    64 columns along n (FourBits). Of a Dense weight that is cut along "k" rank 0 alone has the
    bias, since results are added up. Raises LaunchError where a cut falls within a block, with the
    extents and the numbers of ranks that would do.
    """
    if dim not in ("n", "k"):
        raise LaunchError(
            f"shard: dim is 'n' or 'k', got {dim!r}",
            fix='use "n" for ColumnParallel, "k" for RowParallel',
        )
    extent = extents(weight)[0 if dim == "n" else 1]
    sizes = (extent,) if parts is None else tuple(parts)
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise LaunchError(f"shard: parts {sizes} are to add up to {dim} = {extent}")
    ranges = merged(dim, sizes, rank, ranks, _block(weight, dim))
    return Shard(_taken(weight, dim, ranges, rank), rank, ranks, dim, sizes)


def shard_experts(weight: Weight, rank: int, ranks: int, empty: bool = False) -> Experts:
    """A rank's experts of a stack, in memory of their own; the first ranks have one more than the
    others where they cannot all have the same number.

    weight: a stack, its tensors (experts, ...). empty: whether a rank may have none; otherwise that
    is a LaunchError.
    """
    if weight.w.dim() != (4 if isinstance(weight, FourBits) else 3):
        raise LaunchError(
            f"shard_experts takes a stack of weights, got w of shape {tuple(weight.w.shape)}"
        )
    count = int(weight.w.shape[0])
    first, last = uneven("experts", count, rank, ranks, empty)
    tensors = {
        name: None if tensor is None else tensor[first:last].clone()
        for name, tensor in vars(weight).items()
    }
    return Experts(type(weight)(**tensors), first, count)


def _block(weight: Weight, dim: str) -> int:
    """What a weight is not cut within, along `dim`."""
    match weight:
        case Dense():
            return 1
        case Blockwise():
            return BLOCK
        case FourBits():
            return ROWS if dim == "n" else GROUP
        case _:
            assert_never(weight)


def _taken(weight: Weight, dim: str, ranges: Sequence[Range], rank: int) -> Weight:
    """A weight of these ranges along `dim` alone."""
    axis = -2 if dim == "n" else -1
    match weight:
        case Dense(w, bias):
            if bias is not None and dim == "n":
                bias = _joined(bias, -1, ranges)
            return Dense(_joined(w, axis, ranges), bias if dim == "n" or rank == 0 else None)
        case Blockwise(w, scale):
            # Bytes, since not every torch joins numbers of 8 bits.
            taken = _joined(w.view(_bytes()), axis, ranges).view(w.dtype)
            return Blockwise(taken, _joined(scale, axis, _blocks(ranges)))
        case FourBits(w):
            if dim == "n":
                return FourBits(some_columns(w, ranges))
            return FourBits(some_rows(w, ranges))
        case _:
            assert_never(weight)


def _blocks(ranges: Sequence[Range]) -> list[Range]:
    """The same ranges in blocks of 128; the last block of a matrix may be short."""
    return [(first // BLOCK, -(-last // BLOCK)) for first, last in ranges]


def _joined(tensor: torch.Tensor, axis: int, ranges: Sequence[Range]) -> torch.Tensor:
    """Copies of these ranges of an axis, one behind the other, row-major."""
    import torch as torch_module

    pieces = [tensor.narrow(axis, first, last - first) for first, last in ranges]
    return torch_module.cat(pieces, axis).contiguous()


def _bytes() -> torch.dtype:
    import torch as torch_module

    return torch_module.uint8


def _given(**tensors: torch.Tensor | None) -> dict[str, Any]:
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _check_matrices(name: str, w: torch.Tensor) -> None:
    if w.dim() < 2:
        raise LaunchError(f"{name}: w is to be (n, k), or a stack of such, got {tuple(w.shape)}")
