"""Every figure, and the check that committed ones are what the committed results give."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hexcute_bench.figures.curves import ablation, compile_time, cost_model, moe, ranking
from hexcute_bench.figures.end_to_end import end_to_end
from hexcute_bench.figures.growth import growth
from hexcute_bench.figures.operators import OperatorFigure
from hexcute_bench.figures.rank_timeline import rank_timeline
from hexcute_bench.figures.switches import switches
from hexcute_bench.shape import Shape
from hexcute_bench.suites import attention, fp8, gemm, scan


def _layer(shape: Shape) -> str:
    return f"{shape['n']}x{shape['k']}"


def _rows(shape: Shape) -> str:
    return f"M = {shape['m']}"


def _heads(shape: Shape) -> str:
    return f"{shape['heads']} heads, d = {shape['d']}"


def _length(shape: Shape) -> str:
    size = shape["s"]
    return f"{size // 1024}K" if size % 1024 == 0 else str(size)


_OURS = ("hexcute_tuned", "hexcute")
_GEMM_PEERS = ("hidet_f16", "hidet_f16_cute", "triton", "triton_tma", *_OURS)
OPERATORS = (
    OperatorFigure("gemm_sm80", "gemm_sm80", "cublas", _GEMM_PEERS, _rows, _layer, gemm.SHAPES,
                   "N x K", "gemm_sm80"),
    OperatorFigure("gemm_sm90", "gemm_sm90", "cublas", _GEMM_PEERS, _rows, _layer, gemm.SHAPES,
                   "N x K", "gemm_sm90"),
    OperatorFigure("fp8_blockwise", "fp8_blockwise", "deepgemm",
                   ("triton", "cutlass", "cublaslt", *_OURS), _rows, _layer, fp8.SHAPES,
                   "N x K"),
    OperatorFigure("mha_forward_sm80", "mha_forward", "fa2",
                   ("triton", "hidet_attention", "hexcute_sm80_tuned", "hexcute_sm80"), _heads,
                   _length, attention.FORWARD, "sequence length", "mha_forward_sm80"),
    OperatorFigure("mha_forward_sm90", "mha_forward", "fa3", ("triton", "cudnn", "fa4", *_OURS),
                   _heads, _length, attention.FORWARD, "sequence length", "mha_forward_sm90"),
    OperatorFigure("mha_decoding", "mha_decoding", "flashinfer",
                   ("triton", "fa2", "fa3", *_OURS), _heads, _length, attention.DECODING,
                   "keys and values", "mha_decoding"),
    OperatorFigure("selective_scan", "selective_scan", "mamba",
                   ("triton", "vllm_scan", *_OURS),
                   lambda shape: f"batch {shape['batch']}",
                   lambda shape: str(shape["length"]), scan.SHAPES, "length", "selective_scan"),
)  # fmt: skip
OTHERS = (
    moe, ablation, switches, cost_model, ranking, compile_time, growth, end_to_end, rank_timeline,
)  # fmt: skip


def draw(results: Path, folder: Path) -> list[Path]:
    """Draws every figure whose results are there; gives the files."""
    written: list[Path] = []
    for figure in OPERATORS:
        written += figure.draw(results, folder)
    other: Callable[[Path, Path], list[Path]]
    for other in OTHERS:
        written += other(results, folder)
    return written


def differences(results: Path, committed: Path) -> list[str]:
    """What is not byte for byte as drawn afresh: changed, missing, and left over files."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = {path.name: path.read_bytes() for path in draw(results, Path(scratch))}
    kept = {
        path.name: path.read_bytes()
        for path in sorted(committed.glob("*"))
        if path.suffix in (".svg", ".pdf")
    }
    found = [f"{name} is missing" for name in fresh if name not in kept]
    found += [f"{name} has no results" for name in kept if name not in fresh]
    found += [f"{name} differs" for name, data in fresh.items() if kept.get(name, data) != data]
    return found
