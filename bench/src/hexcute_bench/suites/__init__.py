"""The suites: the paper's shapes exactly, one file per operator."""

from __future__ import annotations

from collections.abc import Iterable

from hexcute_bench.errors import BenchError
from hexcute_bench.interface import Suite
from hexcute_bench.suites.attention import MHA_CAUSAL, MHA_DECODING, MHA_FORWARD
from hexcute_bench.suites.cost_model import COST_MODEL
from hexcute_bench.suites.decoding import GQA_DECODING, LATENT_DECODING, PAGED_DECODING
from hexcute_bench.suites.end_to_end import END_TO_END
from hexcute_bench.suites.fp8 import FP8_BLOCKWISE
from hexcute_bench.suites.fp8_grouped import FP8_GROUPED
from hexcute_bench.suites.fp8_quantize import FP8_QUANTIZE
from hexcute_bench.suites.gemm import GEMM_BF16, GEMM_FEW, GEMM_SM80, GEMM_SM90, GEMM_UNTUNED
from hexcute_bench.suites.gemm_sizes import GEMM_SIZES
from hexcute_bench.suites.growth import GROWTH
from hexcute_bench.suites.layout_algebra import LAYOUT_ALGEBRA
from hexcute_bench.suites.moe import MOE, MOE_LAYER, MOE_MIXTRAL, MOE_QWEN, MOE_WIDE
from hexcute_bench.suites.norms import NORMS
from hexcute_bench.suites.packed import MHA_PACKED
from hexcute_bench.suites.rank_timeline import RANK_TIMELINE
from hexcute_bench.suites.scan import SELECTIVE_SCAN
from hexcute_bench.suites.state_update import SELECTIVE_STATE_UPDATE
from hexcute_bench.suites.tables import BYTES_PER_INSTRUCTION, COMPILE_TIME, LINES_OF_CODE
from hexcute_bench.suites.tutorial import TUTORIAL
from hexcute_bench.suites.w4a16 import W4A16

ALL: tuple[Suite, ...] = (
    GEMM_SM80,
    GEMM_SM90,
    GEMM_UNTUNED,
    GEMM_BF16,
    GEMM_FEW,
    GEMM_SIZES,
    FP8_BLOCKWISE,
    FP8_GROUPED,
    FP8_QUANTIZE,
    MHA_FORWARD,
    MHA_CAUSAL,
    MHA_PACKED,
    MHA_DECODING,
    GQA_DECODING,
    PAGED_DECODING,
    LATENT_DECODING,
    MOE,
    MOE_LAYER,
    MOE_WIDE,
    MOE_MIXTRAL,
    MOE_QWEN,
    W4A16,
    SELECTIVE_SCAN,
    SELECTIVE_STATE_UPDATE,
    NORMS,
    TUTORIAL,
    END_TO_END,
    RANK_TIMELINE,
    COST_MODEL,
    COMPILE_TIME,
    LINES_OF_CODE,
    BYTES_PER_INSTRUCTION,
    LAYOUT_ALGEBRA,
    GROWTH,
)


def find(names: Iterable[str]) -> tuple[Suite, ...]:
    """The suites of these names, in the order given; `all` for all."""
    by_name = {suite.name: suite for suite in ALL}
    chosen: list[Suite] = []
    for name in names:
        if name == "all":
            chosen += [suite for suite in ALL if suite not in chosen]
        elif name in by_name:
            chosen.append(by_name[name])
        else:
            raise BenchError(f"no suite {name!r}; there are {', '.join(by_name)}")
    return tuple(chosen)
