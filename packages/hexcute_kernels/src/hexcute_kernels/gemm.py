"""matmul(a, b) = a b^T as a torch operator over the pipelined Tensor Core kernel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hexcute_core import bf16, f16
from hexcute_core.dtypes import DType
from hexcute_core.errors import LaunchError
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


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None = None,
    config: GemmConfig | None = None,
) -> torch.Tensor:
    """`a @ b.T` for `a` (m, k) and `b` (n, k), accumulated in float32, rounded once.

    Args:
        a, b: float16 or bfloat16 on one GPU, of one type, each row-major or the transpose of a
            row-major tensor (so all four operand orders, without a copy).
        out: where to write (m, n), row-major; allocated where not given.
        config: block tile and pipeline; `default_config(m, n)` where not given.

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
    kernel = pipelined_gemm(dtype, a_major, b_major)
    kernel(left, right, out, **asdict(config or default_config(m, n)))
    return out


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
