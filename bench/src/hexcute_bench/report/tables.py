"""The summary as files: summary.md, summary.csv and summary.tex."""

from __future__ import annotations

from pathlib import Path

from hexcute_bench.report.entries import ENTRIES, code
from hexcute_bench.report.summary import as_csv, as_latex, as_markdown, summary


def texts(results: Path) -> dict[str, str]:
    """The files by name."""
    frame = summary(ENTRIES, results, code(results))
    return {
        "summary.md": as_markdown(frame),
        "summary.csv": as_csv(frame),
        "summary.tex": as_latex(frame),
    }


def write(results: Path, folder: Path) -> list[Path]:
    """Writes them; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in texts(results).items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def differences(results: Path, folder: Path) -> list[str]:
    """Files that are missing or say something else."""
    return [
        f"{name} differs or is missing"
        for name, text in texts(results).items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    ]
