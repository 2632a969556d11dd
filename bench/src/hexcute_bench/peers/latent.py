"""Peers of latent decoding: FlashInfer, planned before the clock runs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.latent import KEY, PAGE, VALUE, LatentCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.attention import flashinfer
from hexcute_bench.peers.common import module
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute

_WORKSPACE = 128 << 20


class FlashInferLatent(CasePeer):
    """BatchMLAPagedAttentionWrapper of FlashInfer, by its kernels for Hopper."""

    name = "flashinfer"

    def prepare(self, case: LatentCase) -> Sequence[Candidate]:
        torch = module("torch")
        latent = importlib.import_module(f"{flashinfer().__name__}.mla")

        def build() -> Run:
            def starts(step: int) -> Any:
                ends = torch.arange(case.batch + 1, dtype=torch.int32, device="cuda")
                return ends * step

            space = torch.empty(_WORKSPACE, dtype=torch.uint8, device="cuda")
            wrapper = latent.BatchMLAPagedAttentionWrapper(space, backend="fa3")
            wrapper.plan(
                starts(1), starts(case.s // PAGE), case.table.reshape(-1), case.seq_lens,
                case.heads, VALUE, KEY - VALUE, PAGE, False, case.scale, torch.float16,
                torch.float16,
            )  # fmt: skip
            parts = [
                [tensor[..., :VALUE], tensor[..., VALUE:]]
                for pair in zip((q[:, 0] for q in case.q), case.cache)
                for tensor in pair
            ]

            def run(index: int) -> Any:
                return wrapper.run(*parts[2 * index], *parts[2 * index + 1])[:, None]

            return run

        return [Candidate("fa3", build)]


def hexcute_latent() -> tuple[Hexcute, TunedHexcute]:
    """Our latent_decode_attention."""
    return hexcute(
        "latent_decode_attention",
        lambda case, i: (case.q[i], case.cache[i], case.seq_lens, case.table),
    )
