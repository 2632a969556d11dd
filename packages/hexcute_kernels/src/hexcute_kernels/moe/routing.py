"""What a layer's launches rely on and do not look at: that each choice is an expert's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.tensors import dtype_of

if TYPE_CHECKING:
    import torch


def check_routing(ids: torch.Tensor, experts: int) -> None:
    """That each of `ids`, as `moe` takes them, int32 (tokens, top_k), is from 0 to experts - 1.
    Waits for the GPU. Raises LaunchError, which names the first token that chose another."""
    dtype_of("check_routing", (hx.i32,), ids=ids)
    strange = ((ids < 0) | (ids >= experts)).nonzero()
    if len(strange):
        first = tuple(strange[0].tolist())
        raise LaunchError(
            f"moe: ids are to be from 0 to {experts - 1}, and {len(strange)} of them are not; "
            f"ids{list(first)} is {int(ids[first])}",
            fix="route among the experts that w13 and w2 hold, and give others' choices gate 0",
        )
