"""Models of transformers with two layers and random weights, and what they answer."""

from __future__ import annotations

import zlib
from typing import Any

import torch
import transformers

SIZES = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1,
}  # fmt: skip
GPUS = {"sm_80": "a100", "sm_90": "h100"}
NEW = 4
"""Tokens that are generated."""
SEED = 148
"""Of weights under which no two tokens come close to being the next."""


def tiny(family: str, dtype: Any = torch.float16, seed: int = SEED, **sizes: Any) -> Any:
    """A model of two layers whose weights are random, those of its norms too."""
    torch.manual_seed(seed)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **sizes})
    model = getattr(transformers, f"{family}ForCausalLM")(config).to(dtype).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += torch.rand_like(parameter) - 0.5
        else:
            parameter.data.normal_(0, 0.15)
    return model


def drawn(model: Any, seed: int, deviation: float) -> Any:
    """The model with other numbers: inner weights so wide, those of norms about 1. They depend on
    their names and the seed alone, not on what making a model draws in this version."""
    for name, parameter in model.named_parameters():
        draw = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
        width = 0.15 if "embed" in name or "lm_head" in name else deviation
        made = torch.empty(parameter.shape)
        if parameter.dim() == 1:
            made.uniform_(0.5, 1.5, generator=draw)
        else:
            made.normal_(0, width, generator=draw)
        parameter.data.copy_(made)
    return model


def prompt(batch: int = 2, length: int = 7) -> Any:
    return torch.randint(2, 64, (batch, length), generator=torch.Generator().manual_seed(1))


def answers(model: Any, ids: Any, **more: Any) -> tuple[Any, Any]:
    """The logits of a prompt, and the tokens that greedily follow it."""
    mask = torch.ones_like(ids) if more.get("mask") is None else more.pop("mask")
    with torch.no_grad():
        logits = model(ids, attention_mask=mask).logits
        tokens = model.generate(
            ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False, **more
        )
    return logits, tokens


def same(got: tuple[Any, Any], want: tuple[Any, Any], ulps: int = 4) -> None:
    """Equal tokens, and logits as near as sums in this type are."""
    bound = ulps * torch.finfo(want[0].dtype).eps * want[0].abs().max()
    assert (got[0] - want[0]).abs().max() <= bound
    assert torch.equal(got[1], want[1])
