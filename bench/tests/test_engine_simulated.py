"""Small models by our operators on a GPU in software: greedy tokens are those of plain torch."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from hexcute_bench.engine.build import build
from hexcute_bench.engine.generation import agreement
from hexcute_bench.engine.ours import PLAIN
from hexcute_bench.engine.reference import REFERENCE
from hexcute_bench.engine.sizes import SMALL, DeepSeekSizes, JambaSizes, Latent, Sizes
from hexcute_bench.engine.state import Model, advance, begin

# The operators' own tests have that GPU.
sys.path.append(str(Path(__file__).parents[2] / "packages/hexcute_kernels/tests"))
from simulated_gpu import simulated_gpu

MOST = 16
LAUNCHED = {
    "qwen": {"attention", "decode", "quantize_blocks", "thin_fp8_gemm"},
    "jamba": {"attention", "convolve", "decode", "gemm", "place_tiles", "scan", "step", "update"},
    "deepseek": {"added", "arranged", "attention", "decode", "few", "gated", "weighted"},
}


def sizes_of(name: str) -> Sizes:
    """A layer of each kind: a launch takes seconds here."""
    match SMALL[name]:
        case DeepSeekSizes() as sizes:
            return replace(
                sizes, layers=1, dense=0, hidden=128, heads=2, group=128,
                latent=Latent(query_rank=128, rank=128, plain=64, turned=64, value=64),
                routing=replace(sizes.routing, experts=4, top_k=2, width=128, groups=2, kept=1),
            )  # fmt: skip
        case JambaSizes() as sizes:
            return replace(sizes, layers=2, period=2, attends=1)
        case sizes:
            return replace(sizes, layers=1)


def generated(model: Model, steps: int, forced: list[Any]) -> tuple[list[Any], list[Any]]:
    """Logits and tokens behind a prompt and of steps, each from the token that `forced` has."""
    state = model.start(2, MOST)
    logits = [begin(model, state, torch.arange(6).view(2, 3) * 7).float()]
    tokens = [state.tokens.clone()]
    for step in range(steps):
        if forced:
            state.tokens.copy_(forced[step])
        logits.append(advance(model, state).float())
        tokens.append(state.tokens.clone())
    return logits, tokens


@pytest.mark.parametrize("name", LAUNCHED)
def test_greedy_tokens_are_those_of_plain_torch(name: str) -> None:
    plain, ours = build(sizes_of(name), (REFERENCE, PLAIN), "cpu", MOST).models
    right, tokens = generated(plain, 1, [])
    with simulated_gpu("h200", "sm_90") as launched:
        found, same = generated(ours, 1, tokens)
    assert set(launched) == LAUNCHED[name]
    assert agreement(found, right).error < 0.03
    assert all(torch.equal(a, b) for a, b in zip(tokens, same))
