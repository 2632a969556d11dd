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
ENGINE_ROWS = """
from hexcute_bench.engine import reference
from hexcute_bench.engine.sizes import Routing
from hexcute_bench.triton_kernels import engine_rows

def near(found, right, tolerance):
    torch.testing.assert_close(found.float(), right.float(), rtol=tolerance, atol=tolerance)

half = torch.float16
x, weight = torch.randn(3, 200, dtype=half), torch.randn(96, dtype=half)
part, other = x[:, 20:116], torch.randn(3, 96, dtype=half)
near(engine_rows.norm(part, weight, 1e-6), reference.norm(part, weight, 1e-6), 2e-3)
for more in (None, torch.randn_like(other)):
    given = part.contiguous(), other, weight, 1e-6, more
    for made, right in zip(engine_rows.add_norm(*given), reference.add_norm(*given)):
        near(made, right, 2e-3)
near(engine_rows.gated(x), reference.gated(x), 2e-3)
routing = Routing(experts=32, top_k=4, groups=8, kept=4)
logits, bias = torch.randn(5, 32, dtype=half), torch.randn(32) * 0.1
ids, gates = engine_rows.route(logits, bias, routing)
right_ids, right_gates = reference.route(logits, bias, routing)
assert torch.equal(ids.sort().values, right_ids.sort().values)
near(gates.sort().values, right_gates.sort().values, 1e-4)
for made, right in zip(*(own.own_choices(ids, gates, 8, 16) for own in (engine_rows, reference))):
    assert torch.equal(made, right)
x = torch.randn(3, 256)
q, s = engine_rows.quantize(x, 4)
assert q.shape == (4, 256) and s.stride() == (1, 4)
near(s[:3], x.unflatten(1, (2, 128)).abs().amax(-1) / 448.0, 1e-6)
"""
ENGINE_HEADS = """
from hexcute_bench.engine import reference
from hexcute_bench.engine.operators import Turn
from hexcute_bench.engine.rope import angles
from hexcute_bench.triton_kernels import engine_heads

def near(found, right):
    torch.testing.assert_close(found.float(), right.float(), rtol=4e-3, atol=4e-3)

half, both = torch.float16, (engine_heads, reference)
cos, sin = angles(16, 16, 1e4, "cpu")
lengths = torch.tensor([5, 9], dtype=torch.int32)
for s in (1, 3):
    norms = torch.randn(32, dtype=half), torch.randn(32, dtype=half)
    for how in ((norms, Turn(cos, sin, False)), (None, None)):
        qkv = torch.randn(2 * s, 8 * 32, dtype=half)
        made = []
        for by in both:
            caches = [torch.zeros(2, 16, 2, 32, dtype=half) for _ in range(2)]
            q = by.keep(qkv, 4, 2, how[0], 1e-6, *caches, lengths, how[1])
            made.append((q, *caches))
        for found, right in zip(*made):
            near(found, right)
    turn = Turn(cos, sin, True)
    kv, weight = torch.randn(2 * s, 300, dtype=half)[:, 100:196], torch.randn(64, dtype=half)
    caches = [torch.zeros(2, 16, 96, dtype=half) for _ in both]
    for by, cache in zip(both, caches):
        by.keep_latent(kv, weight, 1e-6, cache, lengths, turn)
    near(*caches)
    q, absorbed = torch.randn(2 * s, 4, 56, dtype=half), torch.randn(4, 24, 64, dtype=half)
    near(*(by.latent_query(q, absorbed, lengths, turn, 24) for by in both))
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
    "update": UPDATE, "engine_rows": ENGINE_ROWS, "engine_heads": ENGINE_HEADS,
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
