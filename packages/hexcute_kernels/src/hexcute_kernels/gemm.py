"""matmul(a, b) = a b^T as a torch operator: wgmma on an H100, mma.sync elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hexcute_core import bf16, f16
from hexcute_core.dtypes import DType
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import device_target
from hexcute_kernels.hopper_gemm import hopper_gemm
from hexcute_kernels.pipelined_gemm import pipelined_gemm

if TYPE_CHECKING:
    import torch

DTYPES: dict[str, DType] = {"torch.float16": f16, "torch.bfloat16": bf16}


@dataclass(frozen=True)
class GemmConfig:
    """Block tile BM x BN x BK, shared-memory STAGES, WARPS a block, GROUP rows of blocks that run
    together."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    WARPS: int
    GROUP: int = 8


CONFIGS: tuple[GemmConfig, ...] = (
    GemmConfig(128, 128, 32, 4, 4),
    GemmConfig(256, 128, 32, 4, 8),
    GemmConfig(128, 256, 32, 4, 8),
    GemmConfig(256, 128, 64, 3, 8),
    GemmConfig(128, 256, 64, 3, 8),
    GemmConfig(64, 128, 64, 4, 4),
    GemmConfig(64, 64, 64, 6, 4),
    GemmConfig(32, 64, 64, 8, 4),
    GemmConfig(32, 128, 64, 5, 4),
)
"""Configurations worth trying: large tiles for large M, deep narrow ones for small M."""


def default_config(m: int, n: int) -> GemmConfig:
    """The configuration used where none is given: the largest tile that still fills a GPU."""
    if m <= 32:
        return GemmConfig(32, 64, 64, 8, 4)
    if m <= 64:
        return GemmConfig(64, 64, 64, 6, 4)
    blocks = -(-m // 256) * -(-n // 128)
    return GemmConfig(256, 128, 64, 3, 8) if blocks >= 128 else GemmConfig(128, 128, 32, 4, 4)


@dataclass(frozen=True)
class HopperConfig:
    """Tile BM x BN x BK, STAGES, CONSUMERS warp groups that multiply, GROUP rows of clusters of
    CLUSTER_M x CLUSTER_N blocks, PARTS of a tile stored apart, SCHEDULE of `hopper_gemm`."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    CONSUMERS: int
    GROUP: int = 8
    CLUSTER_M: int = 1
    CLUSTER_N: int = 1
    PARTS: int = 1
    SCHEDULE: str = "tile"


HOPPER_CONFIGS: tuple[HopperConfig, ...] = (
    HopperConfig(128, 256, 64, 4, 2),
    HopperConfig(256, 128, 64, 4, 2),
    HopperConfig(128, 192, 64, 5, 2),
    HopperConfig(128, 128, 64, 6, 2),
    HopperConfig(64, 128, 64, 6, 1),
    HopperConfig(64, 64, 64, 8, 1),
    HopperConfig(64, 32, 128, 8, 1),
    HopperConfig(128, 256, 64, 4, 2, CLUSTER_M=2),
    HopperConfig(128, 256, 64, 3, 2, SCHEDULE="persistent"),
    HopperConfig(128, 256, 64, 4, 2, PARTS=2, SCHEDULE="persistent"),
    HopperConfig(128, 256, 64, 4, 2, CLUSTER_M=2, PARTS=2, SCHEDULE="persistent"),
    HopperConfig(128, 128, 64, 5, 2, SCHEDULE="pingpong"),
)
"""The same for wgmma on an H100."""


def default_hopper_config(m: int, n: int) -> HopperConfig:
    """The configuration used on an H100 where none is given."""
    if m <= 64:
        return HopperConfig(64, 32, 128, 8, 1) if n <= 8192 else HopperConfig(64, 64, 64, 8, 1)
    if -(-m // 128) * -(-n // 256) >= 96:
        return HopperConfig(128, 256, 64, 4, 2, PARTS=2, SCHEDULE="persistent")
    return HopperConfig(128, 128, 64, 6, 2)


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None = None,
    config: GemmConfig | HopperConfig | None = None,
    target: str | None = None,
) -> torch.Tensor:
    """`a @ b.T` for `a` (m, k) and `b` (n, k), accumulated in float32, rounded once.

    On an H100 it is the wgmma kernel where TMA can read the operands (rows of whole 16 bytes that
    start at one), else the mma.sync kernel.

    Args:
        a, b: float16 or bfloat16 on one GPU, of one type, each row-major or the transpose of a
            row-major tensor (so all four operand orders, without a copy).
        out: where to write (m, n), row-major; allocated where not given.
        config: block tile and pipeline of either kernel; a default by shape where not given.
        target: "sm_80" for the mma.sync kernel on any GPU.

    Returns `out`. Raises LaunchError for tensors that do not fit.
    """
    import torch as torch_module

    dtype = DTYPES.get(str(a.dtype))
    if dtype is None or a.dtype != b.dtype:
        raise LaunchError(
            f"matmul takes two float16 or two bfloat16 tensors, got {a.dtype} and {b.dtype}"
        )
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise LaunchError(
            f"matmul takes a (m, k) and b (n, k), got {tuple(a.shape)} and {tuple(b.shape)}",
            fix="pass b transposed, as torch.nn.functional.linear takes its weight",
        )
    (m, _), n = a.shape, b.shape[0]
    if out is None:
        out = torch_module.empty((m, n), dtype=a.dtype, device=a.device)
    a_major, left = _order(a, "a", "k", "m")
    b_major, right = _order(b, "b", "k", "n")
    if config is None:
        wgmma = target is None and _for_wgmma(left, right, out)
        config = default_hopper_config(m, n) if wgmma else default_config(m, n)
    make = hopper_gemm if isinstance(config, HopperConfig) else pipelined_gemm
    make(dtype, a_major, b_major)(left, right, out, **asdict(config))
    return out


def _for_wgmma(*tensors: torch.Tensor) -> bool:
    """Whether the GPU has wgmma and TMA can move these tensors."""
    device = tensors[0].device
    if device.type != "cuda" or device_target(device.index or 0) != "sm_90":
        return False
    return all(t.data_ptr() % 16 == 0 and t.shape[-1] % 8 == 0 for t in tensors)


def _order(t: torch.Tensor, name: str, rows: str, columns: str) -> tuple[str, torch.Tensor]:
    """Which index is contiguous, and the tensor as it lies in memory."""
    if t.is_contiguous():
        return rows, t
    if t.t().is_contiguous():
        return columns, t.t()
    raise LaunchError(
        f"matmul: {name} of shape {tuple(t.shape)} and strides {t.stride()} is neither row-major "
        "nor column-major",
        fix=f"pass {name}.contiguous()",
    )
