"""Packs uint4 weights into the order Marlin's kernels read, as vLLM stores them.

A tile of 16 x 64 weights holds, for each of 32 threads, the weights of its Tensor Core
fragments side by side: thread t and fragment j own columns 16 j + t // 4 and 8 more, rows
2 (t mod 4) + {0, 1, 8, 9}. The eight nibbles of a word are stored 0 2 4 6 1 3 5 7.
"""

from __future__ import annotations

import functools
from typing import Any

_NIBBLES = (0, 2, 4, 6, 1, 3, 5, 7)


def _tile_order() -> list[int]:
    """For each stored place, the weight 16-row tile row * 16 + column it comes from, over four
    16 x 16 tiles beside each other (256 per tile)."""
    order = []
    for thread in range(32):
        column, first = thread // 4, 2 * (thread % 4)
        fragment = [
            16 * row + column + 8 * half
            for half in (0, 1)
            for row in (first, first + 1, first + 8, first + 9)
        ]
        for tile in range(4):
            order += [fragment[nibble] + 256 * tile for nibble in _NIBBLES]
    return order


def words(nibbles: Any) -> Any:
    """The last axis packed eight to an int32, first nibble lowest."""
    import torch

    parts = nibbles.to(torch.int32).unflatten(-1, (-1, 8))
    word = parts[..., 0].clone()
    for place in range(1, 8):
        word |= parts[..., place] << (4 * place)
    return word


def pack_weights(q: Any) -> Any:
    """uint8 0..15 [k,n] as int32 [k/16, 2n]."""
    import torch

    k, n = q.shape
    tiles = q.view(k // 16, 16, n // 16, 16).permute(0, 2, 1, 3).reshape(-1, 1024)
    order = torch.tensor(_tile_order(), device=q.device)
    return words(tiles[:, order].reshape(k // 16, n * 16))


def _column_order(device: Any) -> Any:
    """Columns of 64 as eight threads of a fragment meet them."""
    import torch

    return torch.arange(64, device=device).view(8, 8).t().reshape(-1)


def pack_scales(scale: Any) -> Any:
    """f16 [groups,n] with columns in the order of the fragments."""
    order = _column_order(scale.device)
    return scale.view(-1, 64)[:, order].reshape(scale.shape).contiguous()


def pack_zeros(zero: Any) -> Any:
    """uint8 0..15 [groups,n] as int32 [groups,n/8]."""
    import torch

    order = _column_order(zero.device)
    nibbles = torch.tensor(_NIBBLES, device=zero.device)
    turned = zero.view(-1, 64)[:, order].reshape(-1, 8)[:, nibbles]
    return words(turned.reshape(zero.shape))


@functools.lru_cache(maxsize=2)
def pack_stack(weights: Any) -> tuple[Any, Any, Any]:
    """The words, scales and zero points of all experts, stacked."""
    import torch

    experts = range(weights.q.shape[0])
    return (
        torch.stack([pack_weights(weights.q[index]) for index in experts]),
        torch.stack([pack_scales(weights.scale[index]) for index in experts]),
        torch.stack([pack_zeros(weights.zero[index]) for index in experts]),
    )
