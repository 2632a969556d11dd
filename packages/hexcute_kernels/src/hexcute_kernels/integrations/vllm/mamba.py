"""vLLM's layers of the first Mamba: a step of a state for each sequence, and scans of prompts.

    step   selective_state_update, states where they lie; others' shapes go to vLLM's Triton
    scan   selective_scan_with_state of packed sequences, then the last states to their slots

vLLM marks a sequence that is none by its null block, our operators by a slot that there is not.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from vllm.config.mamba import MambaBackendEnum
from vllm.model_executor.layers.mamba import mamba_mixer
from vllm.model_executor.layers.mamba.ops import ssu_dispatch
from vllm.v1.attention.backends.utils import NULL_BLOCK_ID

from hexcute_kernels.scan import selective_scan_with_state, selective_state_update

STATES = (4, 8, 16, 32, 64, 128)
TYPES = (torch.float16, torch.bfloat16, torch.float32)


class HexcuteSSUBackend(ssu_dispatch.TritonSSUBackend):  # type: ignore[misc]
    """A step of a state for each sequence; the second Mamba's, drafts of several tokens and
    stochastic rounding are Triton's."""

    @property
    def name(self) -> str:
        """What vLLM logs."""
        return "hexcute, and triton for other shapes"

    def __call__(
        self,
        state: torch.Tensor,
        x: torch.Tensor,
        dt: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        D: torch.Tensor,
        dt_bias: torch.Tensor,
        z: torch.Tensor | None = None,
        dt_softplus: bool = False,
        state_batch_indices: torch.Tensor | None = None,
        dst_state_batch_indices: torch.Tensor | None = None,
        null_block_id: int = NULL_BLOCK_ID,
        out: torch.Tensor | None = None,
        num_accepted_tokens: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | None = None,
        is_blackwell: bool = False,
    ) -> None:
        """x, dt, z (batch, channels), state (slots, channels, states): writes `out` and states."""
        index = state_batch_indices
        same = dst_state_batch_indices is None or dst_state_batch_indices is index
        ours = (
            _is_step(state, x, dt, A, B, C, z) and same and out is not None
            and num_accepted_tokens is None and cu_seqlens is None
            and (index is None or index.dim() == 1)
            and not self._mamba_config.enable_stochastic_rounding
        )  # fmt: skip
        if not ours or out is None:
            super().__call__(
                state, x, dt, A, B, C, D, dt_bias, z, dt_softplus, state_batch_indices,
                dst_state_batch_indices, null_block_id, out, num_accepted_tokens, cu_seqlens,
                is_blackwell,
            )  # fmt: skip
            return
        rows = [None if t is None else t.contiguous() for t in (x, dt, B, C, z)]
        slots = None if index is None else _without_null(index, null_block_id)
        made = selective_state_update(
            state, rows[0], rows[1], A, rows[2], rows[3], D=None if D is None else D.float(),
            z=rows[4], dt_bias=None if dt_bias is None else dt_bias.float(),
            dt_softplus=dt_softplus, state_batch_indices=slots,
        )  # fmt: skip
        out.copy_(made)


def _is_step(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    z: torch.Tensor | None,
) -> bool:
    """Whether this is a step of the first Mamba, in types and sizes that we have."""
    many = [x, dt, B, C, *([] if z is None else [z])]
    return (
        state.dim() == 3 and x.dim() == dt.dim() == 2 and B.dim() in (2, 3) and A.dim() == 2
        and state.is_contiguous() and A.is_contiguous() and A.dtype == torch.float32
        and state.dtype in TYPES and x.dtype in TYPES and all(t.dtype == x.dtype for t in many)
        and state.shape[2] in STATES
    )  # fmt: skip


def _without_null(index: torch.Tensor, null: int) -> torch.Tensor:
    """Slots, -1 where a sequence is none."""
    return torch.where(index == null, -1, index).int()


def scan_of_prompts(given: Any) -> Any:
    """vLLM's function for scans of packed prompts, ours where they are of a kind that we have."""

    @wraps(given)
    def selective_scan_fn(
        u: torch.Tensor,
        ssm_states: torch.Tensor,
        delta: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        D: torch.Tensor | None = None,
        z: torch.Tensor | None = None,
        delta_bias: torch.Tensor | None = None,
        delta_softplus: bool = False,
        query_start_loc: torch.Tensor | None = None,
        cache_indices: torch.Tensor | None = None,
        has_initial_state: torch.Tensor | None = None,
        null_block_id: int = NULL_BLOCK_ID,
        **rest: Any,
    ) -> torch.Tensor:
        cached = ("block_idx_first_scheduled_token", "block_idx_last_scheduled_token")
        ours = (
            query_start_loc is not None and cache_indices is not None and cache_indices.dim() == 1
            and u.dim() == 2 and B.dim() == 2 and ssm_states.dim() == 3
            and all(rest.get(name) is None for name in (*cached, "initial_state_idx"))
            and A.dtype == torch.float32 and A.shape[1] in STATES and u.dtype in TYPES
            and all(t.dtype == u.dtype for t in (delta, B, C, *([] if z is None else [z])))
        )  # fmt: skip
        if not ours or cache_indices is None:
            made: torch.Tensor = given(
                u, ssm_states, delta, A, B, C, D, z, delta_bias, delta_softplus, query_start_loc,
                cache_indices, has_initial_state, null_block_id, **rest,
            )  # fmt: skip
            return made
        slots = cache_indices.long()
        starts = ssm_states[slots].float()
        has = False if has_initial_state is None else has_initial_state.view(-1, 1, 1)
        starts = torch.where(torch.as_tensor(has, device=starts.device), starts, 0.0).contiguous()
        many = [None if t is None else _steps(t) for t in (u, delta, B, C, z)]
        y, last = selective_scan_with_state(
            many[0], many[1], A.contiguous(), many[2], many[3],
            D=None if D is None else D.float(), z=many[4],
            delta_bias=None if delta_bias is None else delta_bias.float(),
            delta_softplus=delta_softplus, initial_state=starts, cu_seqlens=query_start_loc,
        )  # fmt: skip
        # A sequence that is none has the null block, whose state means nothing.
        ssm_states[slots] = last.to(ssm_states.dtype)
        return y[0]

    selective_scan_fn._hexcute = True  # type: ignore[attr-defined]
    return selective_scan_fn


def _steps(t: torch.Tensor) -> torch.Tensor:
    """(rows, length) as a batch of one, a row's steps side by side."""
    return t.contiguous().unsqueeze(0)


def register() -> None:
    """Puts ours in Triton's place, which it calls for what is not ours."""
    ssu_dispatch._BACKEND_REGISTRY[MambaBackendEnum.TRITON] = HexcuteSSUBackend
    if not getattr(mamba_mixer.selective_scan_fn, "_hexcute", False):
        mamba_mixer.selective_scan_fn = scan_of_prompts(mamba_mixer.selective_scan_fn)
