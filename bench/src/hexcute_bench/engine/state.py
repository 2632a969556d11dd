"""What lives from step to step: the newest token of each sequence, lengths, and layers' caches.

A model is built once from raw weights and a system, and has

    start(batch, most)          a State for so many sequences of at most so many tokens
    prefill(state, tokens)      logits behind prompts (batch, s); caches hold them afterwards
    step(state)                 logits behind each sequence's newest token
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from hexcute_bench.engine.operators import Operators
from hexcute_bench.engine.ranks import Ranks
from hexcute_bench.engine.sizes import Sizes


@dataclass
class State:
    """tokens (batch,) int64; lengths (batch,) int32, with the newest token; caches of layers."""

    tokens: Any
    lengths: Any
    caches: list[Any]


class Model(Protocol):
    """See the module."""

    ops: Operators

    @property
    def sizes(self) -> Sizes: ...

    @property
    def ranks(self) -> Ranks: ...

    def start(self, batch: int, most: int) -> State: ...

    def prefill(self, state: State, tokens: Any) -> Any: ...

    def step(self, state: State) -> Any: ...


def advance(model: Model, state: State) -> Any:
    """A step of greedy generation: one token more for each sequence. Gives its logits. All of it
    is on the device, so that a CUDA graph may hold it."""
    state.lengths.add_(1)
    logits = model.step(state)
    state.tokens.copy_(logits.argmax(-1))
    return logits


def begin(model: Model, state: State, tokens: Any) -> Any:
    """Reads the prompts (batch, s), and takes each sequence's first token. Gives the logits."""
    state.lengths.fill_(tokens.shape[1])
    logits = model.prefill(state, tokens)
    state.tokens.copy_(logits.argmax(-1))
    return logits
