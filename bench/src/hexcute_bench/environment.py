"""Where and with what a run was measured: `environment.json`, one entry per run."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch", "triton", "numpy", "hidet", "vllm", "flash-attn", "flashinfer-python", "mamba-ssm",
    "deep-gemm", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "cuda-bindings",
)  # fmt: skip
_GPU_QUERY = "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.memory"
_CLOCK_QUERY = "clocks.sm,clocks.mem,power.draw,temperature.gpu"


@dataclass(frozen=True)
class Environment:
    """The facts each row carries in short, and `details` for environment.json in full."""

    run: str
    gpu: str
    driver: str
    versions: str
    commit: str
    date: str
    details: Mapping[str, Any]

    def columns(self) -> dict[str, str]:
        return {
            "run": self.run,
            "gpu": self.gpu,
            "driver": self.driver,
            "versions": self.versions,
            "commit": self.commit,
            "date": self.date,
        }


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def commit() -> str:
    """The tree's commit, with `+` where files differ from it; HEXCUTE_COMMIT where there is no
    git (a copied tree)."""
    named = os.environ.get("HEXCUTE_COMMIT", "")
    if named:
        return named
    here = str(Path(__file__).parent)
    head = _output("git", "-C", here, "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    changed = _output("git", "-C", here, "status", "--porcelain", "--untracked-files=no")
    return head + ("+" if changed else "")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def look() -> Environment:
    """Reads the machine; the GPU is named "none" where there is none."""
    now = datetime.datetime.now(datetime.timezone.utc)
    versions = _versions()
    seen = [part.strip() for part in _smi(_GPU_QUERY).split(",")]
    gpu, driver = (seen[0], seen[1]) if len(seen) > 1 else ("none", "none")
    cuda = _output("nvcc", "--version").splitlines()
    short = [f"{name} {versions[name]}" for name in ("torch", "triton", "hidet", "vllm")
             if name in versions]  # fmt: skip
    state = commit()
    details = {
        "gpu": dict(zip(_GPU_QUERY.split(","), seen)) if gpu != "none" else {},
        "versions": versions,
        "cuda_compiler": cuda[-1] if cuda else "",
        "cublas_cudnn": _library_versions(),
        "platform": platform.platform(),
        "cpu_cores": os.cpu_count(),
        "commit": state,
        "date": now.isoformat(timespec="seconds"),
    }
    return Environment(
        run=now.strftime("%Y%m%dT%H%M%S") + f"-{os.getpid()}",
        gpu=gpu,
        driver=driver,
        versions="; ".join(short),
        commit=state,
        date=now.strftime("%Y-%m-%d"),
        details=details,
    )


def _library_versions() -> dict[str, str]:
    """cuBLAS and cuDNN as torch loads them; empty without torch."""
    try:
        import torch
    except ImportError:
        return {}
    found = {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    for name in ("nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cudnn-cu13"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _smi(query: str) -> str:
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    lines = _output("nvidia-smi", "-i", index, f"--query-gpu={query}", "--format=csv,noheader")
    return lines.splitlines()[0] if lines else ""


class ClockWatch:
    """Reads the clocks while the device works, in a process of its own; never sets any."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.seen: list[dict[str, str]] = []

    def start(self) -> None:
        index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
        command = ["nvidia-smi", "-i", index, f"--query-gpu={_CLOCK_QUERY}",
                   "--format=csv,noheader,nounits"]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self._process = None

    def finish(self) -> str:
        """The multiprocessor clock in MHz, or nothing where it cannot be read."""
        if self._process is None:
            return ""
        try:
            text, _ = self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return ""
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != len(_CLOCK_QUERY.split(",")):
            return ""
        self.seen.append(dict(zip(_CLOCK_QUERY.split(","), parts)))
        return parts[0]

    def summary(self) -> dict[str, Any]:
        """Least, middle and greatest of each quantity over the run."""
        found: dict[str, Any] = {"samples": len(self.seen)}
        for name in _CLOCK_QUERY.split(","):
            values = sorted(float(row[name]) for row in self.seen if _is_number(row[name]))
            if values:
                middle = values[len(values) // 2]
                found[name] = {"min": values[0], "median": middle, "max": values[-1]}
        return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write(folder: Path, environment: Environment, suite: str, seen: Mapping[str, Any]) -> None:
    """Adds the run to `folder/environment.json`, or renews what it says of one suite."""
    path = folder / "environment.json"
    folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    entry = runs.setdefault(environment.run, {**environment.details, "suites": {}})
    entry["suites"][suite] = dict(seen)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(runs, indent=2, sort_keys=True) + "\n")
    partial.replace(path)
