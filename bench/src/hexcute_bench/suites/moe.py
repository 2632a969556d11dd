"""Mixed-type MoE layer: f16 x uint4, 256 experts, top-8, hidden 7168, width 256, 16 token counts.

The suite `moe` times the two GEMMs and SiLU; `moe_layer` adds the alignment of tokens and the
weighted sum over the top k.
"""

from __future__ import annotations

from hexcute_bench.cases.moe import MoeCase, moe_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.moe import (
    HexcuteMoe,
    MarlinMoe,
    MarlinNew,
    MarlinOld,
    VllmTriton,
    tuned_moe,
)
from hexcute_bench.shape import Shape

TOKENS = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 128, 2048, 4096, 8192, 16384)
SHAPES = tuple(Shape.of(tokens=tokens) for tokens in TOKENS)
QUICK = tuple(Shape.of(tokens=tokens) for tokens in (8, 64, 2048))


def regime(shape: Shape) -> str:
    """Few tokens are bound by the weights' bytes, many by the Tensor Cores."""
    return "tokens>=2048" if shape["tokens"] >= 2048 else "tokens<=128"


MOE = KernelSuite(
    name="moe",
    title="FP16 x UINT4 MoE, two GEMMs and SiLU",
    operator="moe",
    baseline="marlin",
    shapes=SHAPES,
    quick=QUICK,
    peers=(
        HexcuteMoe(),
        tuned_moe(),
        MarlinMoe(),
        MarlinNew(),
        MarlinOld(),
        VllmTriton("vllm_triton", tuned=False),
        VllmTriton("vllm_triton_tuned", tuned=True),
    ),
    case=lambda shape: MoeCase(shape, "gemms"),
    work=moe_work,
    regime=regime,
)

MOE_LAYER = KernelSuite(
    name="moe_layer",
    title="FP16 x UINT4 MoE, the whole layer",
    operator="moe",
    baseline="marlin",
    shapes=SHAPES,
    quick=QUICK,
    peers=(HexcuteMoe(), tuned_moe(), MarlinMoe()),
    case=lambda shape: MoeCase(shape, "layer"),
    work=moe_work,
    regime=regime,
)
