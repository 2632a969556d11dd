"""Our warp-specialized GEMM, launched kernel by kernel with a handful of configurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import config_name, module

KERNELS = "hexcute_kernels.hopper_gemm"


def _config(bm: int, bn: int, bk: int, stages: int, consumers: int) -> dict[str, int]:
    return {"BM": bm, "BN": bn, "BK": bk, "STAGES": stages, "CONSUMERS": consumers}


# Tried where the module of kernels names none itself; tiles need not be powers of two.
WIDE = (
    _config(128, 256, 64, 4, 2), _config(256, 128, 64, 4, 2), _config(128, 192, 64, 5, 2),
    _config(128, 128, 64, 6, 2), _config(128, 160, 64, 5, 2), _config(128, 224, 64, 4, 2),
)  # fmt: skip
SLIM = (
    _config(64, 64, 64, 8, 1), _config(64, 32, 128, 8, 1), _config(64, 128, 64, 6, 1),
    _config(64, 96, 64, 6, 1), _config(128, 64, 64, 6, 2), _config(128, 128, 64, 5, 2),
)  # fmt: skip


def constants(config: Any) -> Mapping[str, int]:
    """A configuration as the kernel's compile-time constants."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return dataclasses.asdict(config)
    return dict(config)


def configs(kernels: Any, m: int) -> Sequence[Mapping[str, int]]:
    """The module's CONFIGS, or those of this file that suit the number of rows."""
    named = getattr(kernels, "CONFIGS", None)
    if named is not None:
        return [constants(config) for config in named]
    return WIDE if m > 128 else SLIM


class HopperGemm(CasePeer):
    """hopper_gemm on the device's own instructions, the fastest of its configurations."""

    name = "hexcute"

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        core, kernels = module("hexcute_core"), module(KERNELS)
        kernel = kernels.hopper_gemm(core.f16)

        def build(config: Mapping[str, int]) -> Run:
            def run(index: int) -> None:
                kernel(case.a[index], case.b[index], case.c[index], **config)

            return run

        return [
            Candidate(config_name(config), lambda config=config: build(config))
            for config in configs(kernels, case.m)
        ]
