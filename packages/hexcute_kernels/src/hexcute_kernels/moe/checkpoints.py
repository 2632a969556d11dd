"""Weights of four bits as models are stored -> the kernels' order, bit for bit, on any device.

    AWQ                  qweight [k, n/8], qzeros [k/g, n/8]: eight columns to a word, in the order
                         0 2 4 6 1 3 5 7 from its low bits up
    GPTQ                 qweight [k/8, n]: eight rows to a word; qzeros [k/g, n/8]: eight columns to
                         a word, in version 1 one less than the zero points, modulo 16
    compressed-tensors   weight_packed [n, k/8] and weight_zero_point [n/8, k/g]: eight to a word,
                         8 more than the signed numbers, which leaves their differences as they are

Words are int32, scales [k/g, n], of compressed-tensors [n, k/g]. In front of these a tensor may
have more dimensions, as stacks of experts do. Groups g of k are 32, 64 or
multiples of 128, or all of k.
Where `g_idx` gives a group for every row of the weights, rows of a group are brought together, and
the result comes with the order in which x's columns meet them.

Sources: vLLM's and AutoGPTQ's documented layouts, and compressed-tensors' `pack_to_int32`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError
from hexcute_kernels.moe.packing import GROUP, GROUPS, pack

if TYPE_CHECKING:
    import torch

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight columns stands in each nibble of a word."""
EIGHT = tuple(range(8))


def from_awq(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """AWQ's weights, packed for the kernels: qweight [..., k, n/8] and qzeros [..., k/g, n/8],
    int32 of eight columns each, scales [..., k/g, n]. Raises LaunchError."""
    q, zero = (_nibbles("from_awq", t, -1, AWQ_ORDER) for t in (qweight, qzeros))
    return _packed("from_awq", q, scales, zero)


def from_gptq(
    qweight: torch.Tensor,
    qzeros: torch.Tensor,
    scales: torch.Tensor,
    g_idx: torch.Tensor | None = None,
    version: int = 1,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """GPTQ's weights, packed for the kernels: qweight [..., k/8, n], int32 of eight rows each,
    qzeros [..., k/g, n/8], of eight columns each, scales [..., k/g, n]; and with `g_idx` [..., k]
    that is not in order (as desc_act leaves it) int64 [..., k]: x[:, order] is what the weights
    are multiplied by, else None. version: of the checkpoint's format, 1 or 2. Raises
    LaunchError."""
    name = "from_gptq"
    if version not in (1, 2):
        raise LaunchError(f"{name}: version is 1 or 2, got {version!r}")
    q, zero = _nibbles(name, qweight, -2, EIGHT), _nibbles(name, qzeros, -1, EIGHT)
    if version == 1:
        zero = zero + 1 & 15
    q, order = _in_groups(name, q, _grid(name, scales).shape[-2], g_idx)
    return _packed(name, q, scales, zero), order


def from_compressed_tensors(
    weight_packed: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_zero_point: torch.Tensor | None = None,
    g_idx: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weights of compressed-tensors' format "pack-quantized", packed for the kernels: weight_packed
    [..., n, k/8] and weight_zero_point [..., n/8, k/g], int32 of eight numbers, weight_scale
    [..., n, k/g]; and the order of x's columns, of which g_idx [..., k] gives the groups, as of
    `from_gptq`. Without zero points they are symmetric. Raises LaunchError."""
    import torch as torch_module

    name = "from_compressed_tensors"
    q, scales = _nibbles(name, weight_packed, -1, EIGHT).mT, _grid(name, weight_scale).mT
    if weight_zero_point is None:
        zero = torch_module.full_like(scales, 8, dtype=torch_module.uint8)
    else:
        zero = _nibbles(name, weight_zero_point, -2, EIGHT).mT
    q, order = _in_groups(name, q, scales.shape[-2], g_idx)
    return _packed(name, q, scales, zero), order


def _grid(name: str, scales: Any) -> Any:
    """The same scales, which are numbers by group and column."""
    if scales.dim() < 2 or not scales.is_floating_point():
        raise LaunchError(
            f"{name} takes scales in floats of two dimensions or more, got {scales.dtype} of shape "
            f"{tuple(scales.shape)}"
        )
    return scales


def _nibbles(name: str, words: Any, dim: int, order: tuple[int, ...]) -> Any:
    """Eight numbers for each word of int32 along `dim`: nibble i is number order[i] of them."""
    import torch as torch_module

    if words.dtype != torch_module.int32 or words.dim() < 2:
        raise LaunchError(
            f"{name} takes words of eight numbers, int32 of two dimensions or more, got "
            f"{words.dtype} of shape {tuple(words.shape)}"
        )
    places = [order.index(i) for i in EIGHT]
    along = words.movedim(dim, -1)
    parts = [(along >> 4 * place & 15).to(torch_module.uint8) for place in places]
    return torch_module.stack(parts, -1).flatten(-2).movedim(-1, dim)


def _in_groups(name: str, q: Any, groups: int, g_idx: Any) -> tuple[Any, Any]:
    """Rows of q with those of a group side by side, groups in order, and their order where it
    changed."""
    import torch as torch_module

    k = q.shape[-2]
    if g_idx is None:
        return q, None
    if g_idx.shape != q.shape[:-1] or groups == 0 or k % groups:
        raise LaunchError(
            f"{name}: g_idx is to give one of {groups} groups for each of {tuple(q.shape[:-1])} "
            f"rows, got {tuple(g_idx.shape)}"
        )
    even = torch_module.arange(k, device=g_idx.device) // (k // groups)
    found, order = torch_module.sort(g_idx.long(), dim=-1, stable=True)
    if not torch_module.equal(found, even.expand_as(found)):
        raise LaunchError(
            f"{name}: g_idx is to name each of {groups} groups {k // groups} times",
            fix="quantize with one size of groups, which divides k",
        )
    if torch_module.equal(g_idx.long(), found):
        return q, None
    return q.gather(-2, order.unsqueeze(-1).expand_as(q)), order


def _packed(name: str, q: Any, scales: Any, zero: Any) -> Any:
    """What `pack` gives."""
    import torch as torch_module

    *batch, k, n = q.shape
    groups = _grid(name, scales).shape[-2]
    if tuple(scales.shape) != (*batch, groups, n) or scales.shape != zero.shape:
        raise LaunchError(
            f"{name}: scales and zero points are to be (..., groups of k, {n}) beside weights "
            f"(..., {k}, {n}), got {tuple(scales.shape)} and {tuple(zero.shape)}"
        )
    size = k // groups if groups and k % groups == 0 else 0
    if size == 0 or (size not in GROUPS and size % GROUP):
        raise LaunchError(
            f"{name}: {groups} groups of {k} rows, each is to have 32, 64 or a multiple of {GROUP}",
            fix="quantize in groups of 128, or with one scale for a column",
        )
    half = scales.to(torch_module.float16)
    if not torch_module.equal(half.to(scales.dtype), scales):
        raise LaunchError(
            f"{name}: scales in {scales.dtype} that float16 does not hold exactly",
            fix="convert them with scales.to(torch.float16) where that is close enough",
        )
    return pack(q.contiguous(), half.contiguous(), zero.contiguous())
