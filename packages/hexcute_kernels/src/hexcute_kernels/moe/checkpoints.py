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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError
from hexcute_kernels.moe.packing import GROUP, GROUPS, ROWS, pack

if TYPE_CHECKING:
    import torch

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight columns stands in each nibble of a word."""
EIGHT = tuple(range(8))


@dataclass(frozen=True)
class Numbers:
    """Weights (q - zero) * scale: q [..., k, n] and zero [..., k/g, n] in uint8, 0 to 15, scale
    like zero in a floating type. With `order` [..., k], row i is the weights' row order[i], which
    multiplies that column of x."""

    q: torch.Tensor
    scale: torch.Tensor
    zero: torch.Tensor
    order: torch.Tensor | None = None

    def obstacle(self) -> tuple[str, str] | None:
        """Why the kernels do not take them, and what would help; None where they do."""
        (k, n), groups = self.q.shape[-2:], self.scale.shape[-2]
        size = k // groups if groups and k % groups == 0 else 0
        if size == 0 or (size not in GROUPS and size % GROUP):
            return (
                f"{groups} groups of {k} rows, each is to have 32, 64 or a multiple of {GROUP}",
                "quantize in groups of 128, or with one scale for a column",
            )
        if k % GROUP or n % ROWS:
            return (
                f"weights {(k, n)}, k is to be a multiple of {GROUP} and n of {ROWS}",
                "multiply by `dense` with torch",
            )
        if not (self.scale.half().to(self.scale.dtype) == self.scale).all():
            return (
                f"scales in {self.scale.dtype} that float16 does not hold exactly",
                "convert them with scales.to(torch.float16) where that is close enough",
            )
        return None

    def packed(self, name: str) -> torch.Tensor:
        """What `pack` gives, for the function `name`. Raises LaunchError at an obstacle."""
        found = self.obstacle()
        if found is not None:
            raise LaunchError(f"{name}: {found[0]}", fix=found[1])
        return pack(self.q.contiguous(), self.scale.half().contiguous(), self.zero.contiguous())

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        """The weights themselves, [..., n, k], rows of k in x's own order."""
        size = self.q.shape[-2] // self.scale.shape[-2]
        scale, zero = (t.repeat_interleave(size, -2).float() for t in (self.scale, self.zero))
        made = ((self.q.float() - zero) * scale).to(dtype)
        if self.order is not None:
            places = self.order.unsqueeze(-1).expand_as(made)
            made = made.scatter(-2, places, made)
        return made.mT.contiguous()


def awq_numbers(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor) -> Numbers:
    """The numbers of AWQ's weights, which `from_awq` packs. Raises LaunchError."""
    q, zero = (_nibbles("from_awq", t, -1, AWQ_ORDER) for t in (qweight, qzeros))
    return _numbers("from_awq", q, scales, zero)


def gptq_numbers(
    qweight: torch.Tensor,
    qzeros: torch.Tensor,
    scales: torch.Tensor,
    g_idx: torch.Tensor | None = None,
    version: int = 1,
) -> Numbers:
    """The numbers of GPTQ's weights, which `from_gptq` packs. Raises LaunchError."""
    name = "from_gptq"
    if version not in (1, 2):
        raise LaunchError(f"{name}: version is 1 or 2, got {version!r}")
    q, zero = _nibbles(name, qweight, -2, EIGHT), _nibbles(name, qzeros, -1, EIGHT)
    if version == 1:
        zero = zero + 1 & 15
    return _numbers(name, q, scales, zero, g_idx)


def compressed_numbers(
    weight_packed: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_zero_point: torch.Tensor | None = None,
    g_idx: torch.Tensor | None = None,
) -> Numbers:
    """The numbers of compressed-tensors' weights, which `from_compressed_tensors` packs. Raises
    LaunchError."""
    import torch as torch_module

    name = "from_compressed_tensors"
    q, scales = _nibbles(name, weight_packed, -1, EIGHT).mT, _grid(name, weight_scale).mT
    if weight_zero_point is None:
        zero = torch_module.full_like(scales, 8, dtype=torch_module.uint8)
    else:
        zero = _nibbles(name, weight_zero_point, -2, EIGHT).mT
    return _numbers(name, q, scales, zero, g_idx)


def from_awq(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """AWQ's weights, packed for the kernels: qweight [..., k, n/8] and qzeros [..., k/g, n/8],
    int32 of eight columns each, scales [..., k/g, n]. Raises LaunchError."""
    return awq_numbers(qweight, qzeros, scales).packed("from_awq")


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
    found = gptq_numbers(qweight, qzeros, scales, g_idx, version)
    return found.packed("from_gptq"), found.order


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
    found = compressed_numbers(weight_packed, weight_scale, weight_zero_point, g_idx)
    return found.packed("from_compressed_tensors"), found.order


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


def _numbers(name: str, q: Any, scales: Any, zero: Any, g_idx: Any = None) -> Numbers:
    """The numbers, rows of a group side by side."""
    *batch, _, n = q.shape
    groups = _grid(name, scales).shape[-2]
    q, order = _in_groups(name, q, groups, g_idx)
    if tuple(scales.shape) != (*batch, groups, n) or scales.shape != zero.shape:
        raise LaunchError(
            f"{name}: scales and zero points are to be (..., groups of k, {n}) beside weights "
            f"{tuple(q.shape)}, got {tuple(scales.shape)} and {tuple(zero.shape)}"
        )
    return Numbers(q, scales, zero, order)
