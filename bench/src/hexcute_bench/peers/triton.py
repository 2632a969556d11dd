"""Triton's kernels of the same work, which stand in `triton_kernels/`: each the fastest of its
configurations on a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer
from hexcute_bench.peers.common import module


@dataclass(frozen=True)
class Triton(CasePeer):
    """`function(case, config)` of the module `kernels`, for each of the configurations that
    `configs` takes out of that module for the case.

    `needs` is what has to be there, with `fix` where it is not; `lacks` says of a case what the
    kernel cannot do, else None.
    """

    kernels: str
    function: str
    configs: Callable[[Any, Any], Iterable[Any]]
    name: str = "triton"
    needs: str = "triton"
    fix: str = ""
    lacks: Callable[[Any], str | None] = lambda case: None

    def prepare(self, case: Any) -> Sequence[Candidate]:
        module(self.needs, self.fix)
        missing = self.lacks(case)
        if missing is not None:
            raise PeerAbsent(missing)
        kernels = module(f"hexcute_bench.triton_kernels.{self.kernels}")
        make = getattr(kernels, self.function)
        return [
            Candidate(config.name, partial(make, case, config))
            for config in self.configs(kernels, case)
        ]


def scan() -> Triton:
    """The scan, by Triton's associative scan."""
    return Triton("scan", "scan", lambda kernels, case: kernels.CONFIGS)


def state_update() -> Triton:
    """A step of the scan, as mamba-ssm has one: its tiles, or the fastest of ours."""
    return Triton("state_update", "update", lambda kernels, case: kernels.CONFIGS)


def gemm() -> tuple[Triton, Triton]:
    """Products over plain pointers, and over TMA descriptors by blocks that stay."""
    return (
        Triton("gemm", "pointer_gemm", lambda kernels, case: kernels.pointer_configs(case.m)),
        Triton(
            "gemm_tma", "tma_gemm", lambda kernels, case: kernels.tma_configs(case.m),
            name="triton_tma", needs="triton.tools.tensor_descriptor",
            fix="Triton 3.4 or newer has TMA descriptors",
        ),
    )  # fmt: skip


def attention() -> Triton:
    """Fused attention."""
    return Triton(
        "attention", "forward", lambda kernels, case: kernels.configs(case.d),
        lacks=lambda case: "the Triton kernel has no causal mask" if case.causal else None,
    )  # fmt: skip


def decoding() -> Triton:
    """Decoding, the cache split over programs and combined by a second kernel."""
    return Triton("decode", "decode", lambda kernels, case: kernels.configs(case.s, case.heads))


def blockwise(block: int) -> Triton:
    """Blockwise FP8, for whole blocks of so many along k."""
    return Triton(
        "fp8", "scaled_gemm",
        lambda kernels, case: kernels.configs(case.m) if case.k % block == 0 else (),
    )  # fmt: skip
