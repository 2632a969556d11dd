"""How figures look: column width, legible sizes, one colour and marker a system everywhere.

The colours are Okabe and Ito's, which colour-blind readers tell apart; markers tell systems
apart in print without colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

COLUMN_INCHES = 3.5
_ORANGE, _SKY, _GREEN, _YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
_BLUE, _RED, _PINK, _BLACK, _GREY = "#0072B2", "#D55E00", "#CC79A7", "#000000", "#777777"


@dataclass(frozen=True)
class Look:
    """A system's name in print, colour and marker."""

    label: str
    colour: str
    marker: str


LOOKS: dict[str, Look] = {
    "hexcute": Look("Hexcute", _RED, "o"),
    "hexcute_tuned": Look("Hexcute, tuned", _RED, "*"),
    "hexcute_sm80": Look("Hexcute (sm_80)", _PINK, "o"),
    "hexcute_sm80_tuned": Look("Hexcute (sm_80), tuned", _PINK, "*"),
    "hexcute_triton_dataflow": Look("with Triton's dataflow", _ORANGE, "o"),
    "hexcute_triton_smem": Look("with Triton's shared layout", _SKY, "o"),
    "alone": Look("the same on one GPU", _GREY, "o"),
    "cublas": Look("cuBLAS", _GREEN, "s"),
    "cublaslt": Look("cuBLASLt", _GREEN, "D"),
    "cudnn": Look("cuDNN", _GREEN, "^"),
    "cutlass": Look("CUTLASS", _SKY, "s"),
    "deepgemm": Look("DeepGEMM", _ORANGE, "D"),
    "fa2": Look("FlashAttention 2", _SKY, "v"),
    "fa3": Look("FlashAttention 3", _SKY, "^"),
    "fa4": Look("FlashAttention 4", _BLUE, "v"),
    "flashinfer": Look("FlashInfer", _ORANGE, "s"),
    "humming": Look("Humming", _ORANGE, "P"),
    "machete": Look("Machete", _SKY, "P"),
    "marlin": Look("Marlin (vLLM)", _GREEN, "P"),
    "marlin_092": Look("Marlin (vLLM 0.9.2)", _GREEN, "X"),
    "marlin_082": Look("Marlin (vLLM 0.8.2)", _GREY, "X"),
    "vllm_triton": Look("vLLM's Triton", _BLUE, "v"),
    "vllm_triton_tuned": Look("vLLM's Triton, tuned", _BLUE, "D"),
    "mamba": Look("Mamba", _GREEN, "h"),
    "vllm_scan": Look("vLLM", _SKY, "h"),
    "triton": Look("Triton", _BLUE, "^"),
    "triton_tma": Look("Triton (TMA)", _BLUE, "s"),
    "hidet_f16": Look("Hidet", _YELLOW, "v"),
    "hidet_f16_cute": Look("Hidet (CuTe)", _YELLOW, "s"),
    "hidet_attention": Look("Hidet", _YELLOW, "d"),
}
PAPER = Look("Hexcute, as the paper reports", _GREY, "x")

_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "hexcute",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "pdf.compression": 0,
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.3,
    "grid.color": "#CCCCCC",
    "lines.linewidth": 0.9,
    "lines.markersize": 3.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
    "savefig.dpi": 300,
}


def look(system: str) -> Look:
    """A system's look; systems without one are drawn grey under their own name."""
    return LOOKS.get(system, Look(system, _GREY, "*"))


def figure(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of column width and this height in inches, with its axes as a 2-D array."""
    plt.close("all")
    plt.rcdefaults()
    plt.rcParams.update(_SETTINGS)
    made: tuple[Any, Any] = plt.subplots(
        rows, columns, figsize=(COLUMN_INCHES, height), squeeze=False, layout="constrained",
        **options,
    )  # fmt: skip
    return made


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Writes NAME.svg and NAME.pdf without dates, versions or random names."""
    folder.mkdir(parents=True, exist_ok=True)
    svg, pdf = folder / f"{name}.svg", folder / f"{name}.pdf"
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    plt.close(figure)
    # The SVG writer ends some lines in a blank, which editors and git would strip.
    svg.write_text("\n".join(line.rstrip() for line in svg.read_text().splitlines()) + "\n")
    return [svg, pdf]
