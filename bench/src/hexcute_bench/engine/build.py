"""The models by name, built of random weights for several systems at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_bench.engine import deepseek, jamba, qwen
from hexcute_bench.engine.operators import Operators
from hexcute_bench.engine.ranks import ALONE, Ranks
from hexcute_bench.engine.sizes import DeepSeekSizes, JambaSizes, QwenSizes, Sizes
from hexcute_bench.engine.state import Model
from hexcute_bench.engine.weights import Draw


@dataclass(frozen=True)
class Built:
    """The same model by each of some systems, and raw weights of one layer of each kind."""

    sizes: Sizes
    models: tuple[Model, ...]
    raw: dict[str, Any]


def build(
    sizes: Sizes, systems: Sequence[Operators], device: Any, most: int, ranks: Ranks = ALONE
) -> Built:
    """Models of at most `most` tokens a sequence. Systems whose weights are alike share them where
    a model alone fills the memory, as Jamba does."""
    import torch

    draw = Draw(device)
    models: list[Model] = []
    match sizes:
        case DeepSeekSizes():
            raw = deepseek.raw_weights(sizes, draw, ranks)
            for ops in systems:
                models.append(deepseek.DeepSeek(sizes, ops, raw, device, most, ranks))
        case QwenSizes():
            raw = qwen.raw_weights(sizes, draw, ranks)
            for ops in systems:
                models.append(qwen.Qwen(sizes, ops, raw, device, most, ranks))
        case JambaSizes():
            raw = jamba.raw_weights(sizes, draw, ranks)
            layers = jamba.layers_of(sizes, raw, systems[0])
            models += [jamba.Jamba(sizes, ops, raw, device, layers) for ops in systems]
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return Built(sizes, tuple(models), raw)
