"""What lives from step to step: the newest token of each sequence, lengths, and layers' caches.

A model is built once from raw weights and a system, and has

    start(batch, most)          a State for so many sequences of at most so many tokens
    prefill(state, tokens)      logits behind prompts (batch, s); caches hold them afterwards
    step(state)                 logits behind each sequence's newest token
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class OneText(ABC):
    """A model that reads prompts and steps by one text, on one device."""

    device: Any

    def prefill(self, state: State, tokens: Any) -> Any:
        """Logits (batch, vocabulary) behind prompts (batch, s)."""
        return self._forward(state, tokens)

    def step(self, state: State) -> Any:
        """The same behind each sequence's newest token."""
        return self._forward(state, state.tokens.unsqueeze(1))

    @abstractmethod
    def _forward(self, state: State, tokens: Any) -> Any:
        """Logits (batch, vocabulary) behind tokens (batch, s), which the caches hold then."""

    def _empty(self, batch: int, caches: list[Any]) -> State:
        """The state of so many sequences without a token."""
        import torch

        tokens, lengths = (
            torch.zeros(batch, dtype=dtype, device=self.device)
            for dtype in (torch.int64, torch.int32)
        )
        return State(tokens, lengths, caches)


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
