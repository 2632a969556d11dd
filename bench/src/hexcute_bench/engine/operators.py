"""What the models call, as one set. A system is such a set; two systems that are compared differ in
the operators under test alone.

Rows x are (tokens, k), row-major, a sequence's tokens one behind the other. `lengths` (batch,),
int32, are the keys of each sequence, its newest tokens' among them: of `tokens` rows of a batch,
row t is of sequence t // s at place lengths - s + t % s, with s = tokens / batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol


class Product(Protocol):
    """x W, with W brought into the order that it is read in once."""

    def pack(self, weight: Any) -> Any:
        """What a call takes, of a raw weight (see `weights`)."""

    def __call__(self, x: Any, packed: Any) -> Any:
        """(tokens, n) of x (tokens, k)."""


class Experts(Protocol):
    """The weighted sum of gated experts: rows x, expert numbers and gates (tokens, top_k)."""

    def pack(self, stacks: Any) -> Any:
        """What a call takes, of raw `Stacks`."""

    def __call__(self, x: Any, packed: Any, ids: Any, gates: Any) -> Any:
        """(tokens, hidden)."""


@dataclass(frozen=True)
class Turn:
    """Rotary embedding: cosine and sine of the angle of each place and pair, float32; `paired`,
    pair i are columns 2 i and 2 i + 1, else i and pairs + i."""

    cos: Any
    sin: Any
    paired: bool


@dataclass(frozen=True)
class Operators:
    """A system.

    products  `four` and `eight` by the bits of their weights, `dense` of 16
    experts   `experts` of four bits, `mixture` of 16
    attend(q, k, v, scale)                            causal, (batch, s, heads, d)
    decode(q, k_cache, v_cache, lengths, scale)       of q (batch, 1, heads, d)
    latent(q, cache, lengths, values, scale)          one head of keys, its first columns values
    convolve(x, w, bias), convolve_step(x, state, w, bias)           (batch, channels, length)
    scan(u, delta, a, b, c, d, z, bias)               y and the last state; b, c (batch, length, n)
    scan_step(state, x, dt, a, b, c, d, z, bias)      state in place
    `steps_first`: u, delta and z have a step's channels side by side in memory
    add_norm(x, residual, weight, eps, more)          rows of x (+ more) + residual, normed, and
                                                      the sum
    norm(x, weight, eps), gated(x)                    silu(left half) * right half
    route(logits, bias, routing)                      expert numbers and gates
    own_choices(ids, gates, first, here)              the same of a rank that has `here` of them
    keep(qkv, heads, kv_heads, norms, eps, k_cache, v_cache, lengths, turn)      queries
    keep_latent(kv, weight, eps, cache, lengths, turn)
    latent_query(q, absorbed, lengths, turn, plain)
    turn_heads(q, lengths, turn, plain)               columns behind `plain` of q (tokens, heads, d)
    """

    name: str
    four: Product
    eight: Product
    dense: Product
    experts: Experts
    mixture: Experts
    attend: Callable[..., Any]
    decode: Callable[..., Any]
    latent: Callable[..., Any]
    convolve: Callable[..., Any]
    convolve_step: Callable[..., Any]
    scan: Callable[..., Any]
    scan_step: Callable[..., Any]
    steps_first: bool
    add_norm: Callable[..., Any]
    norm: Callable[..., Any]
    gated: Callable[..., Any]
    route: Callable[..., Any]
    own_choices: Callable[..., Any]
    keep: Callable[..., Any]
    keep_latent: Callable[..., Any]
    latent_query: Callable[..., Any]
    turn_heads: Callable[..., Any]

    def but(self, name: str, **others: Any) -> Operators:
        """The same with other operators, under another name."""
        return replace(self, name=name, **others)


def places(lengths: Any, tokens: int) -> tuple[Any, Any]:
    """The sequence and the place of each row."""
    import torch

    s = tokens // lengths.numel()
    rows = torch.arange(tokens, device=lengths.device)
    sequences = rows // s
    return sequences, lengths.long()[sequences] - s + rows % s
