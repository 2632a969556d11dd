"""torch's scaled_dot_product_attention by `attention`: a provider that its users switch on.

    from hexcute_kernels.attention import register_sdpa
    register_sdpa()
    torch.nn.attention.activate_flash_attention_impl("hexcute")

From then on torch's flash backend, where it is chosen, runs our kernels forward and its own
backward. `torch.nn.attention.restore_flash_attention_impl()` ends that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention.operators import attention_with_lse

if TYPE_CHECKING:
    import torch

PROVIDER = "hexcute"
"""The name by which torch knows it."""
_OPERATOR = "_scaled_dot_product_flash_attention"
_NEXT = "call torch.nn.attention.restore_flash_attention_impl() for this call"


@dataclass(frozen=True)
class Active:
    """What torch keeps while the provider is switched on: the library that overrules torch's."""

    library: Any

    def remove(self) -> None:
        """Gives torch its own kernel back."""
        self.library._destroy()


def register_sdpa() -> None:
    """Makes the provider "hexcute" known to torch; nothing changes until it is activated.

    Raises LaunchError where torch has no such providers, before 2.11.
    """
    import torch.nn.attention as providers

    register = getattr(providers, "register_flash_attention_impl", None)
    if register is None:
        raise LaunchError(
            "this torch has no providers of scaled_dot_product_attention",
            fix="use torch 2.11 or newer, or call hexcute_kernels.attention.attention",
        )
    register(PROVIDER, register_fn=activate)


def activate() -> Active:
    """Puts `forward` in the place of torch's flash attention on GPUs."""
    import torch

    library = torch.library.Library("aten", "IMPL", "CUDA")
    library.impl(_OPERATOR, forward, "CUDA")
    return Active(library)


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """aten::_scaled_dot_product_flash_attention: tensors (batch, heads, sequence, width).

    Raises LaunchError for dropout, masks of debugging, and a causal mask of sequences of two
    lengths, which torch aligns at their beginning.
    """
    import torch

    if dropout_p:
        raise LaunchError(f"{PROVIDER}: there is no dropout, {dropout_p} was asked for", fix=_NEXT)
    if return_debug_mask:
        raise LaunchError(f"{PROVIDER}: there is no mask for debugging", fix=_NEXT)
    sq, sk = query.shape[2], key.shape[2]
    if is_causal and sq != sk:
        raise LaunchError(
            f"{PROVIDER}: a causal mask of {sq} queries and {sk} keys is not the same to torch",
            fix="call hexcute_kernels.attention.attention, where the last ones share their place",
        )
    rows = (x.transpose(1, 2).contiguous() for x in (query, key, value))
    # Gradients are torch's: it differentiates the operator that this stands in for.
    with torch.no_grad():
        o, lse = attention_with_lse(*rows, causal=is_causal, scale=scale)
    # The state of a generator that nobody asked, which torch's backward wants to see.
    state, offset = (query.new_zeros(shape, dtype=torch.uint64) for shape in ((2,), ()))
    return o.transpose(1, 2), lse, None, None, sq, sk, state, offset, query.new_empty(0)
