"""Sizes of three models, as their published configurations give them, and small ones of the same
form.

    DeepSeek-R1-AWQ   config.json of deepseek-ai/DeepSeek-R1, four bits in groups of 64
    Jamba-mini-1.7    config.json of ai21labs/AI21-Jamba-Mini-1.7, bfloat16
    Qwen3-32B-FP8     config.json of Qwen/Qwen3-32B-FP8, e4m3 in blocks of 128 x 128

`ranks` is over how many GPUs a layer is cut; sizes that are cut are those of the whole model, and a
rank's part of them is asked for by `part`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_bench.errors import BenchError


def part(what: str, extent: int, ranks: int) -> int:
    """One of `ranks` equal parts. Raises BenchError where there are none."""
    if extent % ranks:
        raise BenchError(f"{what} = {extent} cannot be cut for {ranks} ranks")
    return extent // ranks


@dataclass(frozen=True)
class Latent:
    """Latent attention: ranks of the projections of queries and of keys, and columns of a head
    without and with a place, and of its values."""

    query_rank: int = 1536
    rank: int = 512
    plain: int = 128
    turned: int = 64
    value: int = 128

    @property
    def head(self) -> int:
        """Columns of a head of queries."""
        return self.plain + self.turned

    @property
    def cached(self) -> int:
        """Columns of a token's entry in the cache."""
        return self.rank + self.turned


@dataclass(frozen=True)
class Routing:
    """Which experts a token goes to: `top_k` of `experts`, within the best `kept` of `groups` of
    them; `width` is that of an expert, `scale` what the gates add up to."""

    experts: int = 256
    top_k: int = 8
    width: int = 2048
    groups: int = 8
    kept: int = 4
    scale: float = 2.5


@dataclass(frozen=True)
class DeepSeekSizes:
    """DeepSeek-R1; `dense` layers come first, the others have experts and a shared one."""

    name: str = "deepseek"
    layers: int = 61
    dense: int = 3
    hidden: int = 7168
    heads: int = 128
    inner: int = 18432
    latent: Latent = Latent()
    routing: Routing = Routing()
    group: int = 64
    vocabulary: int = 129280
    base: float = 10000.0
    stretch: float = 40.0
    original: int = 4096
    eps: float = 1e-6


@dataclass(frozen=True)
class JambaSizes:
    """Jamba: of every `period` layers number `attends` has attention, the others are Mamba's; every
    second one has experts."""

    name: str = "jamba"
    layers: int = 32
    period: int = 8
    attends: int = 4
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head: int = 128
    inner: int = 14336
    experts: int = 16
    top_k: int = 2
    channels: int = 8192
    states: int = 16
    taps: int = 4
    step_rank: int = 256
    vocabulary: int = 65536
    eps: float = 1e-6


@dataclass(frozen=True)
class QwenSizes:
    """Qwen3 without experts."""

    name: str = "qwen"
    layers: int = 64
    hidden: int = 5120
    heads: int = 64
    kv_heads: int = 8
    head: int = 128
    inner: int = 25600
    vocabulary: int = 151936
    base: float = 1e6
    eps: float = 1e-6


Sizes = DeepSeekSizes | JambaSizes | QwenSizes

SMALL = {
    "deepseek": DeepSeekSizes(
        layers=3, dense=1, hidden=256, heads=8, inner=256,
        latent=Latent(query_rank=128, rank=128, plain=32, turned=64, value=32),
        routing=Routing(experts=16, top_k=4, width=256, groups=4, kept=2), vocabulary=128,
    ),
    "jamba": JambaSizes(
        layers=4, period=4, attends=2, hidden=64, heads=4, kv_heads=2, head=16, inner=128,
        experts=4, channels=128, states=16, step_rank=16, vocabulary=128,
    ),
    "qwen": QwenSizes(
        layers=2, hidden=256, heads=4, kv_heads=2, head=128, inner=256, vocabulary=128,
    ),
}  # fmt: skip
WHOLE: dict[str, Sizes] = {
    sizes.name: sizes for sizes in (DeepSeekSizes(), JambaSizes(), QwenSizes())
}
