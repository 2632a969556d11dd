"""Our warp-specialized GEMM, launched kernel by kernel with a handful of configurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import config_name, module

KERNELS = "hexcute_kernels.gemm.warp_specialized"


TUNING = "hexcute_kernels.gemm.configs"
UNTUNED = {"BM": 128, "BN": 256, "BK": 64, "STAGES": 3, "CONSUMERS": 2, "SCHEDULE": "persistent"}
"""As many stages as fit beside a whole tile of c."""


def _config(bm: int, bn: int, bk: int, stages: int, consumers: int) -> dict[str, Any]:
    return {"BM": bm, "BN": bn, "BK": bk, "STAGES": stages, "CONSUMERS": consumers}


# Few rows: narrow tiles and deep rings; tiles need not be powers of two.
SLIM = (
    _config(64, 64, 64, 8, 1), _config(64, 32, 128, 8, 1), _config(64, 128, 64, 6, 1),
    _config(64, 96, 64, 6, 1), _config(128, 64, 64, 6, 2), _config(128, 128, 64, 5, 2),
)  # fmt: skip


def constants(config: Any) -> Mapping[str, Any]:
    """A configuration as the kernel's compile-time constants."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return dataclasses.asdict(config)
    return dict(config)


def configs(m: int) -> Sequence[Mapping[str, Any]]:
    """Those of the operator's configurations that suit many rows, or those of this file."""
    if m <= 128:
        return SLIM
    named = module(TUNING).WGMMA
    return [constants(config) for config in named if config.BM * config.BN >= 128 * 128]


class HopperGemm(CasePeer):
    """hopper_gemm on the device's own instructions, the fastest of its configurations, or the
    `only` one."""

    name = "hexcute"

    def __init__(self, only: Mapping[str, Any] | None = None) -> None:
        self._only = only

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        core, kernels = module("hexcute_core"), module(KERNELS)
        kernel = kernels.warp_specialized_gemm(core.f16)
        tried = configs(case.m) if self._only is None else [self._only]

        def build(config: Mapping[str, Any]) -> Run:
            def run(index: int) -> None:
                kernel(case.a[index], case.b[index], case.c[index], **config)

            return run

        return [
            Candidate(config_name(config), lambda config=config: build(config))
            for config in tried
        ]
