"""Attention as it is defined, in float32 by torch: long problems on a GPU are compared with it."""

from __future__ import annotations

from typing import Any

import torch


def reference(
    q: Any, k: Any, v: Any, scale: float, right: int | None, left: int | None, cap: float
) -> tuple[Any, Any]:
    """The result and the logarithms of the sums, in float32."""
    group, shift = q.shape[2] // k.shape[2], k.shape[1] - q.shape[1]
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    s = q @ k.mT * scale
    if cap:
        s = cap * torch.tanh(s / cap)
    i = torch.arange(q.shape[2], device=q.device)[:, None]
    j = torch.arange(k.shape[2], device=q.device)[None, :]
    hidden = torch.zeros(i.shape[0], j.shape[1], dtype=torch.bool, device=q.device)
    if right is not None:
        hidden |= j > i + shift + right
    if left is not None:
        hidden |= j < i + shift - left
    s = s.masked_fill(hidden, -torch.inf)
    p = torch.softmax(s, 3).nan_to_num(0.0)
    return (p @ v).transpose(1, 2), torch.logsumexp(s, 3)


def exact() -> None:
    """float32 products of the reference are float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
