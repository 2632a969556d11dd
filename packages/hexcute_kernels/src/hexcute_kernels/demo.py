"""`python -m hexcute_kernels.demo`: the simplest GEMM, synthesized, shown, run and checked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from hexcute_core.driver import CompiledKernel
from hexcute_core.runtime import device_count, device_target
from hexcute_kernels.gemm.simple import simple_gemm

SHAPE = (200, 136, 104)
"""m, n, k: every edge ragged, four blocks, so the simulated run takes a moment."""


def _compile(target: str) -> CompiledKernel:
    started = perf_counter()
    compiled = simple_gemm.compile(target)
    built = compiled.built
    print(compiled.explain(rejected=4))
    origin = "from the cache" if compiled.from_cache else "compiled"
    print(
        f"{origin} in {perf_counter() - started:.2f} s: {len(built.cubin)} bytes of machine code, "
        f"{built.registers} registers per thread, local memory "
        f"{'used' if built.local_memory else 'not used'}\n"
    )
    return compiled


def _operands(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, n, k = SHAPE
    rng = np.random.default_rng(seed)
    a = rng.integers(-4, 5, (m, k)).astype(np.float16)
    b = rng.integers(-4, 5, (n, k)).astype(np.float16)
    return a, b, np.full((m, n), np.nan, np.float16)


def _run_on_cpu(compiled: CompiledKernel) -> bool:
    a, b, c = _operands(seed=0)
    print(f"no GPU here: running all lanes of c{list(c.shape)} = a{list(a.shape)} b^T on the CPU")
    started = perf_counter()
    report = compiled.simulate(a, b, c)
    print(f"simulated {len(report.blocks)} blocks in {perf_counter() - started:.2f} s")
    return bool(np.array_equal(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T))


def _run_on_gpu() -> bool:
    import torch

    print(f"running on {torch.cuda.get_device_name(0)} ({device_target(0)})")
    tensors = [torch.from_numpy(x).cuda() for x in _operands(seed=0)]
    simple_gemm(*tensors)
    a, b, c = tensors
    return bool(torch.equal(c.float(), a.float() @ b.float().T))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; exit status 1 where the result is not exact."""
    parser = argparse.ArgumentParser(prog="python -m hexcute_kernels.demo", description=__doc__)
    parser.add_argument("--picture", type=Path, default=Path("layouts.svg"), help="where to draw")
    options = parser.parse_args(arguments)
    compiled = _compile("sm_80")
    _compile("sm_90")
    options.picture.write_text(compiled.picture(), encoding="utf-8")
    print(f"layouts drawn in {options.picture}")
    exact = _run_on_gpu() if device_count() else _run_on_cpu(compiled)
    print("the result equals the reference exactly" if exact else "THE RESULT IS WRONG")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
