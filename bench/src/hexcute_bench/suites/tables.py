"""The suites that count or compile: no GPU is needed for any of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench import compile_cost, instruction_bytes
from hexcute_bench.code_lines import kernel_lines
from hexcute_bench.interface import Settings, TableSuite
from hexcute_bench.rows import ABSENT, OK

_RUN = ("commit", "date", "run", "note")

def _ours(family: str, kernels: str) -> tuple[str, str]:
    return f"hexcute_kernels.{family}.{kernels}", ""


# (suite, system) -> module, and the kernel in it where it holds several.
CODE: dict[tuple[str, str], tuple[str, str]] = {
    ("gemm_sm80", "hexcute"): _ours("gemm", "pipelined"),
    ("gemm_sm80", "triton"): ("hexcute_bench.triton_kernels.gemm", ""),
    ("gemm_sm90", "hexcute"): _ours("gemm", "warp_specialized"),
    ("gemm_sm90", "triton"): ("hexcute_bench.triton_kernels.gemm_tma", ""),
    ("fp8_blockwise", "hexcute"): _ours("fp8", "blockwise"),
    ("fp8_blockwise", "triton"): ("hexcute_bench.triton_kernels.fp8", ""),
    ("mha_forward", "hexcute"): _ours("attention", "warp_specialized"),
    ("mha_forward", "hexcute_sm80"): _ours("attention", "pipelined"),
    ("mha_forward", "triton"): ("hexcute_bench.triton_kernels.attention", ""),
    ("mha_decoding", "hexcute"): _ours("attention", "decoding"),
    ("mha_decoding", "triton"): ("hexcute_bench.triton_kernels.decode", ""),
    ("moe", "hexcute"): _ours("moe", "grouped"),
    ("selective_scan", "hexcute"): _ours("scan", "selective"),
    ("selective_scan", "triton"): ("hexcute_bench.triton_kernels.scan", ""),
}


def _code_keys(quick: bool) -> Sequence[str]:
    return [f"{suite} {system}" for suite, system in CODE]


def _count(key: str, settings: Settings) -> Sequence[Mapping[str, Any]]:
    suite, system = key.split()
    module, kernel = CODE[suite, system]
    row = {"key": key, "suite": suite, "system": system, "module": module}
    try:
        there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        there = False
    if not there:
        return [{**row, "status": ABSENT, "note": f"{module} is not there yet"}]
    return [{**row, "status": OK, "lines": kernel_lines(module, kernel)}]


LINES_OF_CODE = TableSuite(
    name="lines_of_code",
    title="Lines of code of ours and Triton's kernels",
    operator="",
    columns=("key", "suite", "system", "status", "module", "lines", *_RUN),
    keys=_code_keys,
    measure=_count,
)

BYTES_PER_INSTRUCTION = TableSuite(
    name="bytes_per_instruction",
    title="Bytes each copy of our kernels moves with one instruction",
    operator="matmul",
    columns=(
        "key", "kernel", "target", "tensor", "direction", "status", "instruction", "bytes",
        "calls", *_RUN,
    ),
    keys=instruction_bytes.keys,
    measure=instruction_bytes.measure,
)  # fmt: skip

COMPILE_TIME = TableSuite(
    name="compile_time",
    title="Seconds to compile GEMM configurations, cold, on one core and on all",
    operator="matmul",
    columns=(
        "key", "system", "target", "status", "configurations", "processes", "import_s", "first_s",
        "median_s", "total_s", *(f"{stage}_stage_s" for stage in compile_cost.STAGES), "versions",
        *_RUN,
    ),
    keys=compile_cost.keys,
    measure=compile_cost.measure,
    note="on one core what each system's GEMM adapter tries, on all cores one space of 102",
)  # fmt: skip
