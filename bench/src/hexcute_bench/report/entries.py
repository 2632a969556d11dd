"""The operators of the summary, in the paper's order."""

from __future__ import annotations

import csv
from pathlib import Path

from hexcute_bench.report.summary import Entry
from hexcute_bench.rows import OK
from hexcute_bench.suites import attention, gemm, moe, scan

ENTRIES = (
    Entry("FP16 GEMM, sm_80", "gemm_sm80", "cublas", gemm.regime,
          triton=("triton", "triton_tma"), paper="gemm_sm80"),
    Entry("Attention forward, sm_80", "mha_forward", "fa2", attention.forward_regime,
          ours="hexcute_sm80", paper="mha_forward_sm80"),
    Entry("Attention decoding", "mha_decoding", "flashinfer", attention.decoding_regime,
          paper="mha_decoding"),
    Entry("Blockwise FP8 GEMM", "fp8_blockwise", "deepgemm", gemm.regime, paper="fp8_blockwise",
          paper_baseline="cutlass"),
    Entry("FP16 GEMM, sm_90", "gemm_sm90", "cublas", gemm.regime,
          triton=("triton", "triton_tma"), paper="gemm_sm90"),
    Entry("Attention forward, sm_90", "mha_forward", "fa3", attention.forward_regime,
          paper="mha_forward_sm90"),
    Entry("FP16 x UINT4 MoE", "moe", "marlin", moe.regime,
          triton=("vllm_triton", "vllm_triton_tuned"), paper="moe", paper_baseline="marlin_092"),
    Entry("Selective scan", "selective_scan", "mamba", scan.regime, paper="selective_scan"),
)  # fmt: skip


def code(folder: Path) -> dict[tuple[str, str], int]:
    """Lines of code by suite and system, as the suite lines_of_code last counted them."""
    path = folder / "lines_of_code.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == OK]
    return {(row["suite"], row["system"]): int(row["lines"]) for row in rows}
