"""Where the committed data is: results, the paper's numbers, figures."""

from __future__ import annotations

from pathlib import Path

BENCH = Path(__file__).resolve().parents[3]
RESULTS = BENCH / "results" / "h100"
PAPER = BENCH / "paper"
FIGURES = BENCH / "figures"
HOST = BENCH / "results" / "host"
