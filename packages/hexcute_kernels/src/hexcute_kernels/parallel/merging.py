"""Attention over all keys from attention over parts of them.

    lse = log sum_i exp(lse_i)        o = sum_i exp(lse_i - lse) o_i

o_i is the attention of the same queries over the keys of part i alone, lse_i the logarithm of the
sum of its exponentials. In float32, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hexcute_core.errors import LaunchError
from hexcute_kernels.parallel.collectives import all_gather

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


def merge_attention(
    outs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over the keys of all parts, and its logarithms of sums, as `attention_with_lse` and
    `decode_attention_with_lse` give them of each part.

    outs: of each part (batch, sq, heads, d), or (total_q, heads, d) of packed sequences. lses: of
    each (batch, heads, sq) or (heads, total_q), float32, natural logarithms, -inf where a query
    sees no key of the part.

    Gives both for all keys: zeros and -inf where a query sees no key of any part. Raises
    LaunchError where shapes do not belong together.
    """
    import torch as torch_module

    _check(outs, lses)
    logs = torch_module.stack(list(lses))
    whole = torch_module.logsumexp(logs, 0)
    # Queries without a key have -inf on both sides of the difference: any finite number will do.
    shares = torch_module.exp(logs - whole.masked_fill(whole == -torch_module.inf, 0.0))
    # (part, .., heads, sq) beside (part, .., sq, heads, d)
    weights = shares.mT.unsqueeze(-1)
    out = (weights * torch_module.stack([o.float() for o in outs])).sum(0)
    return out.to(outs[0].dtype), whole


def merge_across(
    out: torch.Tensor, lse: torch.Tensor, group: ProcessGroup
) -> tuple[torch.Tensor, torch.Tensor]:
    """`merge_attention` of the `out` and `lse` that the ranks of a group found, each over its own
    keys; on every rank, the same bits. Raises LaunchError and PeerError."""
    _check([out], [lse])
    return merge_attention(all_gather(out, group), all_gather(lse, group))


def _check(outs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor]) -> None:
    if not outs or len(outs) != len(lses):
        raise LaunchError(
            f"merge_attention takes an lse for each out, one at least; got {len(outs)} outs and "
            f"{len(lses)} lses"
        )
    shape, dtype = tuple(outs[0].shape), outs[0].dtype
    if len(shape) not in (3, 4):
        raise LaunchError(
            "merge_attention takes outs (batch, sq, heads, d), or (total_q, heads, d); got one of "
            f"shape {shape}"
        )
    *batch, sq, heads, _ = shape
    for o, lse in zip(outs, lses):
        if (tuple(o.shape), o.dtype) != (shape, dtype):
            raise LaunchError(
                f"merge_attention takes outs of one shape and type, got {dtype} of {shape} and "
                f"{o.dtype} of {tuple(o.shape)}"
            )
        if tuple(lse.shape) != (*batch, heads, sq) or str(lse.dtype) != "torch.float32":
            raise LaunchError(
                f"merge_attention: lse is to be float32 of {(*batch, heads, sq)} beside an out of "
                f"{shape}, got {lse.dtype} of {tuple(lse.shape)}",
                fix="pass what attention_with_lse gives: natural logarithms, heads before queries",
            )
