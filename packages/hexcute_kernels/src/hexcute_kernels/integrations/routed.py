"""A mixture of experts by two products of rows sorted by expert, silu between them.

    out[t] = sum over j of gates[t, j] second(silu(g) * u),  (g, u) = first(x[t]),  by ids[t, j]

A token's rows are added up in float32 and rounded once. Nothing waits for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import silu

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Rows sorted by expert [m, k] and bounds [experts + 1] -> their products [m, n]."""


def routed(
    x: torch.Tensor,
    ids: torch.Tensor,
    gates: torch.Tensor,
    experts: int,
    first: Product,
    second: Product,
) -> torch.Tensor:
    """x (tokens, hidden), ids and gates (tokens, top_k), both products -> (tokens, hidden) of x's
    type."""
    tokens, top_k = ids.shape
    expert, order = torch.sort(ids.reshape(-1), stable=True)
    edges = torch.arange(experts + 1, device=ids.device, dtype=expert.dtype)
    bounds = torch.searchsorted(expert, edges, out_int32=True)
    gate, up = first(x[order // top_k], bounds).chunk(2, dim=-1)
    rows = second((silu(gate) * up).contiguous(), bounds).float()
    weighted = torch.empty_like(rows)
    weighted[order] = rows * gates.reshape(-1)[order].unsqueeze(-1).float()
    return weighted.view(tokens, top_k, -1).sum(1).to(x.dtype)
