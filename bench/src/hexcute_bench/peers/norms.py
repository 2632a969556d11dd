"""Peers of row operators: torch's own kernels, torch.compile, and a copy, which does nothing else.

What torch makes is kept until its set is used again: else every launch would write the memory of
the one before, which is in the L2 cache still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hexcute_bench.cases.norms import EPS, NormsCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.ours import TUNED, Hexcute, TunedHexcute


def kept(case: NormsCase, compute: Callable[..., Any]) -> Run:
    """`compute` on a set; its results are kept."""
    made: dict[int, Any] = {}

    def run(index: int) -> Any:
        made[index] = compute(case.x[index], *case.given)
        return made[index]

    return run


class Torch(CasePeer):
    """torch.nn.functional, as called."""

    name = "torch"

    def prepare(self, case: NormsCase) -> Sequence[Candidate]:
        return [Candidate("eager", lambda: kept(case, case.reference))]


class TorchCompile(CasePeer):
    """The same compiled for this shape."""

    name = "torch_compile"

    def prepare(self, case: NormsCase) -> Sequence[Candidate]:
        torch = module("torch")

        def build() -> Run:
            torch._dynamo.reset()
            return kept(case, torch.compile(case.reference, dynamic=False))

        return [Candidate("dynamic=False", build)]


class Copy(CasePeer):
    """torch's copy of the rows: the bytes alone."""

    name = "copy"

    def prepare(self, case: NormsCase) -> Sequence[Candidate]:
        def build() -> Run:
            def run(index: int) -> None:
                case.out[index].copy_(case.x[index])

            return run

        return [Candidate("copy_", build)]

    def check(self, case: NormsCase, output: Any, index: int) -> float:
        return float((output != case.x[index]).sum())


def ours(case: NormsCase) -> Hexcute:
    """Our operator of this case."""

    def arguments(case: NormsCase, index: int) -> tuple[Any, ...]:
        return case.x[index], *case.given, *[EPS] * bool(case.given)

    return Hexcute("hexcute", case.called, arguments)


class HexcuteNorms(CasePeer):
    """Our operator of the case, as called."""

    name = "hexcute"

    def prepare(self, case: NormsCase) -> Sequence[Candidate]:
        return ours(case).prepare(case)


def hexcute_norms() -> tuple[HexcuteNorms, TunedHexcute]:
    """The two systems: as called, and tuned."""
    return HexcuteNorms(), TunedHexcute(f"hexcute{TUNED}", ours)
