"""The GEMM kernels, every lane of every block run on the CPU, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.driver import CompiledKernel
from hexcute_core.tile import Copy
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.simple import register_gemm

SMALL = {"BM": 64, "BN": 64, "BK": 32, "STAGES": 3, "WARPS": 4}
ORDERS = [(a, b) for a in "km" for b in "kn"]
RAGGED = [(17, 24, 40), (1, 24, 65), (33, 25, 40), (70, 66, 129)]


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Small integers, whose products and sums every type here holds exactly."""
    return rng.integers(-4, 5, shape).astype(np.float16)


def run(compiled: CompiledKernel, shape: tuple[int, int, int], a_major: str, b_major: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(sum(shape))
    a, b = integers(rng, m, k), integers(rng, n, k)
    c = np.full((m, n), np.nan, np.float16)
    left = a if a_major == "k" else np.ascontiguousarray(a.T)
    right = b if b_major == "k" else np.ascontiguousarray(b.T)
    compiled.simulate(left, right, c)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T))


@pytest.mark.parametrize(("a_major", "b_major"), ORDERS)
@pytest.mark.parametrize("shape", [(64, 64, 64), (24, 40, 104), (200, 136, 96)])
def test_simple_gemm(shape: tuple[int, int, int], a_major: str, b_major: str) -> None:
    kernel = register_gemm(hx.f16, a_major, b_major)
    run(kernel.compile("sm_80", BM=64, BN=64), shape, a_major, b_major)


@pytest.mark.parametrize(("a_major", "b_major"), ORDERS)
@pytest.mark.parametrize("shape", RAGGED)
def test_simple_gemm_relies_on_nothing(
    shape: tuple[int, int, int], a_major: str, b_major: str
) -> None:
    kernel = register_gemm(hx.f16, a_major, b_major)
    run(kernel.compile("sm_80", aligned=False, BM=64, BN=64), shape, a_major, b_major)


@pytest.mark.parametrize(("a_major", "b_major"), ORDERS)
@pytest.mark.parametrize("shape", [(64, 64, 64), (24, 40, 104), (200, 136, 96)])
def test_pipelined_gemm(shape: tuple[int, int, int], a_major: str, b_major: str) -> None:
    kernel = pipelined_gemm(hx.f16, a_major, b_major)
    run(kernel.compile("sm_80", **SMALL), shape, a_major, b_major)


@pytest.mark.parametrize(("a_major", "b_major"), ORDERS)
@pytest.mark.parametrize("shape", RAGGED)
def test_pipelined_gemm_relies_on_nothing(
    shape: tuple[int, int, int], a_major: str, b_major: str
) -> None:
    kernel = pipelined_gemm(hx.f16, a_major, b_major)
    run(kernel.compile("sm_80", aligned=False, **SMALL), shape, a_major, b_major)


@pytest.mark.parametrize(("a_major", "b_major"), ORDERS)
def test_every_order_moves_16_bytes_without_conflicts(a_major: str, b_major: str) -> None:
    compiled = pipelined_gemm(hx.bf16, a_major, b_major).compile("sm_80")
    solution = compiled.solution
    for stmt in _copies(solution.program.body):
        plan = solution.copies[stmt.id]
        if plan.row.name.startswith("cp.async") or plan.row.name.startswith("ldmatrix"):
            assert plan.row.bytes == 16, plan.name
    for layout in solution.shared.values():
        assert all(waves == least for waves, least in layout.wavefronts.values()), str(layout)


def _copies(body: tuple[object, ...]) -> list[Copy]:
    found: list[Copy] = []
    for stmt in body:
        if isinstance(stmt, Copy):
            found.append(stmt)
        found += _copies(getattr(stmt, "body", ()))
    return found
