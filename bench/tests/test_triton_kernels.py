"""Our Triton kernels under Triton's interpreter, on the CPU; needs torch and triton."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("triton") is None, reason="no torch or triton"
)

COMMON = """
import torch
from hexcute_bench.shape import Shape
from hexcute_bench.triton_kernels.gemm import GemmConfig

def check(case, run, index=0):
    case.poison(index)
    run(index)
    error = case.error(case.output(index), index)
    assert error <= case.tolerance, (case.shape, error)
"""
GEMM = """
from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.triton_kernels.gemm import pointer_gemm
for m, n, k in ((64, 128, 128), (40, 72, 80)):
    case = GemmCase(Shape.of(m=m, n=n, k=k), sets=2, device="cpu")
    check(case, pointer_gemm(case, GemmConfig(32, 64, 32, 2, 4)), 1)
"""
TMA = """
from types import SimpleNamespace
torch.cuda.get_device_properties = lambda device: SimpleNamespace(multi_processor_count=3)
from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.triton_kernels.gemm_tma import tma_gemm
case = GemmCase(Shape.of(m=48, n=128, k=128), sets=2, device="cpu")
check(case, tma_gemm(case, GemmConfig(32, 64, 32, 2, 4)), 1)
"""
ATTENTION = """
from hexcute_bench.cases.attention import AttentionCase
from hexcute_bench.triton_kernels import attention, decode
case = AttentionCase(Shape.of(heads=2, d=64, s=160), sets=2, device="cpu")
check(case, attention.forward(case, attention.AttentionConfig(64, 64, 2, 4)), 1)
case = AttentionCase(Shape.of(heads=3, d=64, s=500), queries=1, sets=2, device="cpu")
check(case, decode.decode(case, decode.DecodeConfig(64, 3, 2, 4)))
"""
FP8 = """
from hexcute_bench.cases.fp8 import Fp8Case
from hexcute_bench.triton_kernels.fp8 import scaled_gemm
case = Fp8Case(Shape.of(m=40, n=256, k=384), sets=1, device="cpu")
check(case, scaled_gemm(case, GemmConfig(32, 64, 128, 2, 4)))
"""
SCAN = """
from hexcute_bench.cases.scan import ScanCase
from hexcute_bench.triton_kernels.scan import ScanConfig, scan
case = ScanCase(Shape.of(batch=2, length=300), sets=1, device="cpu", width=8)
check(case, scan(case, ScanConfig(128, 4)))
"""
UPDATE = """
from hexcute_bench.cases.state_update import StateUpdateCase
from hexcute_bench.triton_kernels.state_update import UpdateConfig, update
for bits in (16, 32):
    case = StateUpdateCase(Shape.of(batch=2, bits=bits), sets=1, device="cpu", width=24)
    check(case, update(case, UpdateConfig(16, 4)))
    run = update(case, UpdateConfig(16, 4))
    run(0)
    assert case.error(case.output(0), 0) > case.tolerance
"""
KERNELS = {
    "gemm": GEMM, "gemm_tma": TMA, "attention": ATTENTION, "fp8": FP8, "scan": SCAN,
    "update": UPDATE,
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_right(name: str) -> None:
    # Triton decides at its import whether it interprets.
    environment = {
        **os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", COMMON + KERNELS[name]],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
