"""Mixed-type MoE layer: f16 x uint4, 256 experts, top-8, hidden 7168, width 256, 16 token counts.

The suite `moe` times the two GEMMs and SiLU; `moe_layer` adds the alignment of tokens and the
weighted sum over the top k. The others time what `moe` does at the sizes of whole models.
"""

from __future__ import annotations

from functools import partial

from hexcute_bench.cases.moe import MoeCase, MoeSizes, moe_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.humming import HummingMoe
from hexcute_bench.peers.moe import (
    AblatedMoe,
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
        HummingMoe(),
        MarlinMoe(),
        MarlinNew(),
        MarlinOld(),
        VllmTriton("vllm_triton", tuned=False),
        VllmTriton("vllm_triton_tuned", tuned=True),
        AblatedMoe("hexcute_triton_dataflow", "dataflow"),
        AblatedMoe("hexcute_triton_smem", "layout"),
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
    peers=(HexcuteMoe(), tuned_moe(), HummingMoe(), MarlinMoe()),
    case=lambda shape: MoeCase(shape, "layer"),
    work=moe_work,
    regime=regime,
)

SOME_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 2048, 4096, 8192, 16384)
MODELS = {
    "wide": MoeSizes(width=2048),
    "mixtral": MoeSizes(experts=8, top_k=2, hidden=4096, width=14336),
    "qwen": MoeSizes(experts=128, top_k=8, hidden=2048, width=768),
}


def _model(name: str, title: str) -> KernelSuite:
    sizes = MODELS[name]
    return KernelSuite(
        name=f"moe_{name}",
        title=f"FP16 x UINT4 MoE, two GEMMs and SiLU, {title}",
        operator="moe",
        baseline="humming",
        shapes=tuple(Shape.of(tokens=tokens) for tokens in SOME_TOKENS),
        quick=QUICK,
        peers=(HexcuteMoe(), tuned_moe(), HummingMoe(), MarlinMoe()),
        case=lambda shape: MoeCase(shape, "gemms", sizes),
        work=partial(moe_work, sizes=sizes),
        regime=regime,
        note="not in the paper",
    )


MOE_WIDE = _model("wide", "DeepSeek-V3 unsharded")
MOE_MIXTRAL = _model("mixtral", "Mixtral 8x7B")
MOE_QWEN = _model("qwen", "Qwen3-30B-A3B")
