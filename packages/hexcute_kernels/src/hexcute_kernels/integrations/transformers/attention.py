"""The attention that transformers calls by the name "hexcute": ours where the mask allows it, else
sdpa's, with a warning that says why.

    mask = none | causal to the end | a window to the end | anything else, which sdpa gets

The mask is sdpa's own, so that whatever it is handed to reads it right. A mask that was recognised
carries the mark `Seen`; one that was changed on its way has lost it, and is anything else again.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import attention, decode_attention

NAME = "hexcute"
"""What the attention implementation is called."""
WIDEST = 256
"""The widest heads that `attention` takes."""
DTYPES = (torch.float16, torch.bfloat16)
_MARK = "hexcute_seen"
_UNKNOWN = "its mask is neither causal nor a window: padding, packed sequences or one of its own"


class HandedBack(UserWarning):
    """An attention that torch's sdpa computed, and why."""


@dataclass(frozen=True)
class Seen:
    """What a query sees, queries and keys having their ends in common: with `causal` no key behind
    its own place, and `left` keys before it, all where None."""

    causal: bool
    left: int | None = None


def register() -> None:
    """Makes the attention and its masks known to transformers as "hexcute"."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, marked_mask)


def marked_mask(*args: Any, **named: Any) -> torch.Tensor | None:
    """sdpa's mask (batch, 1, queries, keys) or None, marked where it is one that we have."""
    # Tensors of inference mode do not count how often they were written.
    with torch.inference_mode(False), torch.no_grad():
        made = sdpa_mask(*args, **named)
    # The elements cannot be looked at while a graph is traced.
    if made is None or torch.compiler.is_compiling():
        return made
    size = named.get("local_size")
    for left in (None,) if size is None else (size - 1, None):
        if torch.equal(made, _window(made, left).expand_as(made)):
            setattr(made, _MARK, (Seen(causal=True, left=left), made._version))
            break
    return made


def _window(like: torch.Tensor, left: int | None) -> torch.Tensor:
    """The mask (queries, keys) of a causal window whose last query and last key share a place."""
    queries, keys = like.shape[-2:]
    own = torch.arange(queries, device=like.device)[:, None] + (keys - queries)
    key = torch.arange(keys, device=like.device)[None, :]
    seen = key <= own
    return seen if left is None else seen & (key >= own - left)


def _seen(module: Any, queries: int, mask: Any, is_causal: bool | None) -> Seen | None:
    """What queries see by the mask and, without one, by sdpa's rule; None where it is not ours."""
    if mask is not None:
        seen, version = getattr(mask, _MARK, (None, None))
        return seen if seen is not None and mask._version == version else None
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    return Seen(causal=bool(causal) and queries > 1)


def _obstacle(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    named: dict[str, Any],
) -> str | None:
    """What our operators do not compute of a call."""
    if dropout:
        return f"it drops out {dropout} of its weights"
    if named.get("position_bias") is not None:
        return "it adds a bias of positions"
    if named.get("output_attentions"):
        return "its weights are asked for"
    if not {query.dtype, key.dtype, value.dtype} <= {*DTYPES}:
        return f"it is in {query.dtype}, not in float16 or bfloat16"
    widest = max(query.shape[-1], value.shape[-1])
    return f"its heads are {widest} wide, more than {WIDEST}" if widest > WIDEST else None


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    **named: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls: query (batch, heads, queries, d), key and value (batch, kv_heads,
    keys, ..), giving (batch, queries, heads, dv).

    Raises LaunchError where neither our operators nor sdpa compute it, and where the tensors are on
    no GPU or gradients are recorded.
    """
    if named.get("s_aux") is not None:
        raise LaunchError(f"{NAME} attention has no sinks", fix=_eager())
    seen = _seen(module, query.shape[2], attention_mask, is_causal)
    why = _obstacle(query, key, value, dropout, named) or (_UNKNOWN if seen is None else None)
    if why is not None or seen is None:
        if softcap is not None:
            raise LaunchError(f"{NAME} attention: {why}, and sdpa has no softcap", fix=_eager())
        warnings.warn(f"attention is sdpa's: {why}", HandedBack, stacklevel=2)
        made, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **named
        )
        return made, None
    if attention_mask is None and seen.causal:
        # A cache with room has keys behind those of the queries, which start with it.
        key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
    cap = 0.0 if softcap is None else float(softcap)
    if query.shape[2] == 1 and query.shape[-1] == value.shape[-1] and query.shape[-1] % 8 == 0:
        return _decode(query, key, value, scaling, seen.left, cap), None
    rows = (x.transpose(1, 2).contiguous() for x in (query, key, value))
    return attention(*rows, causal=seen.causal, scale=scaling, left=seen.left, softcap=cap), None


def _decode(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float | None,
    left: int | None,
    cap: float,
) -> torch.Tensor:
    """One query of each sequence. A head of keys stands for a sequence of its own, so that a cache
    whose heads follow one another is read where it lies."""
    (b, h, _, d), (hk, sk) = query.shape, key.shape[1:3]
    one = query.reshape(b * hk, 1, h // hk, d)
    caches = (x.contiguous().view(b * hk, sk, 1, d) for x in (key, value))
    made = decode_attention(one, *caches, scale=scale, left=left, softcap=cap)
    return made.view(b, 1, h, d)


def _eager() -> str:
    return 'call model.set_attn_implementation("eager") for this model'
