"""Twenty right kernels in which mistakes are planted, with their arguments: small, so that a run
takes a fraction of a second, and yet every slot of a ring is used more than once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeAlias

import cluster_kernels
import numpy as np
import role_kernels
from gpu_kernels import chain, matrices, one_tile, products
from remote_cases import CASES

from attack.families import scaled, scanned
from hexcute_core import bf16, f16, f32
from hexcute_core.driver import CompiledKernel
from hexcute_core.driver.simulation import compile_for
from hexcute_kernels.fp8.blockwise import blockwise_gemm
from hexcute_kernels.fp8.thin import thin_blockwise_gemm
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm
from hexcute_kernels.scan.selective import selective_scan_kernel
from hexcute_kernels.scan.warp_specialized import helped_scan_kernel

Arguments: TypeAlias = "Callable[[], tuple[np.ndarray, ...]]"


@dataclass(frozen=True)
class Planted:
    """A kernel by name, what it is called with, for what it is compiled, and `more` that it may be
    called with: other numbers of tiles, after which rings stand at other slots."""

    name: str
    kernel: Callable[[], Any]
    arguments: Arguments
    constants: Mapping[str, Any] = field(default_factory=dict)
    target: str = "sm_90"
    more: tuple[Arguments, ...] = ()

    @property
    def calls(self) -> tuple[Arguments, ...]:
        """All that it is called with, the least first."""
        return (self.arguments, *self.more)


@cache
def compiled(name: str) -> CompiledKernel:
    """The kernel of this name for what it is called with."""
    planted = BY_NAME[name]
    return compile_for(planted.kernel(), planted.arguments(), planted.target, planted.constants)


def _role(
    name: str, arguments: Any, *more: Any, module: Any = role_kernels, **constants: Any
) -> Planted:
    return Planted(name, lambda: getattr(module, name), arguments, constants, more=more)


def _remote(name: str) -> Planted:
    case = next(case for case in CASES if case.name.startswith(name))
    return Planted(name, lambda: case.kernel, lambda: case.arguments()[0], case.constants)


def _hopper(name: str, *shapes: tuple[int, int, int], **constants: Any) -> Planted:
    first, *more = (partial(matrices, f16, f32, shape) for shape in shapes)
    whole = {"BM": 64, "BN": 64, "STAGES": 3, **constants}
    return Planted(
        name, lambda: warp_specialized_gemm(f16, "k", "k", f32), first, whole, more=tuple(more)
    )


PLANTED = (
    Planted(
        "pipelined",
        lambda: pipelined_gemm(f16, "k", "k"),
        lambda: matrices(f16, f16, (72, 56, 136)),
        {"BM": 64, "BN": 64, "BK": 32, "WARPS": 4, "STAGES": 3},
        "sm_80",
    ),
    Planted(
        "pipelined_across",
        lambda: pipelined_gemm(bf16, "m", "n"),
        lambda: matrices(bf16, bf16, (72, 56, 136), ("m", "n")),
        {"BM": 64, "BN": 64, "BK": 32, "WARPS": 4, "STAGES": 4},
        "sm_80",
    ),
    _hopper("one_group", (64, 64, 328), (64, 64, 264), (64, 64, 392), CONSUMERS=1),
    _hopper("two_groups", (128, 64, 328), (128, 64, 264), (128, 64, 392), BM=128, CONSUMERS=2),
    _hopper("persistent", (192, 128, 200), SCHEDULE="persistent"),
    _hopper("pingpong", (320, 64, 200), (640, 64, 264), (640, 64, 328), SCHEDULE="pingpong"),
    _hopper("staying_cluster", (256, 128, 200), CLUSTER_M=2, SCHEDULE="persistent"),
    _role("two_pipelines", products(64, 64, 320), products(64, 64, 448), products(64, 64, 512)),
    _role("two_readers", one_tile(320, (1, np.float32), (1, np.float16))),
    _role(
        "converting",
        products(64, 64, 320, first=np.float32),
        products(64, 64, 256, first=np.float32),
    ),
    _role("chained", chain, partial(chain, 256), partial(chain, 320)),
    _role(
        "taking_turns",
        products(320, 64, 72),
        products(640, 64, 136),
        products(640, 64, 200),
        products(640, 64, 264),
    ),
    _role("in_rows", products(128, 64, 320), products(128, 64, 256), module=cluster_kernels, X=2),
    _remote("split_k"),
    _remote("sent_by_tma"),
    Planted(
        "scan",
        lambda: selective_scan_kernel(f16, 16),
        partial(scanned, 72),
        {"BD": 64, "BT": 16, "EACH": 8},
    ),
    Planted(
        "helped_scan",
        lambda: helped_scan_kernel(f16, 16),
        partial(scanned, 72),
        {"BT": 16, "EACH": 4, "OWN": 1},
        more=(partial(scanned, 56), partial(scanned, 88), partial(scanned, 152)),
    ),
    Planted(
        "fp8",
        lambda: blockwise_gemm(f32),
        partial(scaled, 64, 32, 640),
        {"BM": 64, "BN": 32, "CONSUMERS": 1, "STAGES": 3},
        more=(partial(scaled, 64, 32, 512), partial(scaled, 64, 32, 768)),
    ),
    Planted(
        "thin_fp8",
        lambda: thin_blockwise_gemm(f32),
        partial(scaled, 8, 64, 640),
        {"BM": 8, "BN": 64, "CONSUMERS": 1, "STAGES": 3},
        more=(partial(scaled, 8, 64, 512), partial(scaled, 8, 64, 768)),
    ),
    Planted(
        "split_fp8",
        lambda: thin_blockwise_gemm(f32),
        partial(scaled, 8, 64, 640),
        {"BM": 8, "BN": 64, "CONSUMERS": 1, "STAGES": 2, "SPLITS": 2},
        more=(partial(scaled, 8, 64, 1280), partial(scaled, 8, 64, 1792)),
    ),
)
BY_NAME = {planted.name: planted for planted in PLANTED}
