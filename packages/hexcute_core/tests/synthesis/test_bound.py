"""What bounds a block: the unit that it keeps busy longest, by kernels whose answer is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.synthesis.explain.bound import (
    ISSUE,
    MEMORY,
    SHARED,
    SPECIALS,
    TENSOR,
    UNITS,
    bounds,
)

n = hx.dim("n")
ROWS = 128


def kernel(of: Callable[[Any], Any], rounds: int = 64) -> hx.Kernel:
    """A block that loads a tile, makes another of it `rounds` times and stores that."""

    @hx.kernel(cache=False)
    def made(x: f32[n, 64], y: f32[n, 64]):
        hx.attrs.cuda.grid_dim = hx.cdiv(n, ROWS)
        hx.attrs.cuda.block_dim = 128
        at = hx.blockIdx.x * ROWS
        r = hx.register_tensor(f32, (ROWS, 64))
        hx.copy(hx.global_view(x[at:, :], ((ROWS, 64), (64, 1))), r)
        for _ in range(rounds):
            r = of(r)
        hx.copy(r, hx.global_view(y[at:, :], ((ROWS, 64), (64, 1))))

    return made


@pytest.mark.parametrize(
    ("of", "unit"),
    [
        (lambda r: hx.exp2(r), SPECIALS),
        (lambda r: hx.rsqrt(r) + 1.0, SPECIALS),
        (lambda r: r * 2.0 + 1.0, ISSUE),
        (lambda r: hx.maximum(hx.minimum(r, 1.0), -1.0), ISSUE),
    ],
    ids=["exp2", "rsqrt", "fma", "clamp"],
)
def test_what_is_computed_bounds(of: Callable[[Any], Any], unit: str) -> None:
    found = bounds(kernel(of).compile("sm_90").solution)
    assert max(found, key=lambda u: found[u]) == unit
    # 128 x 64 values, 64 rounds: four special functions a clock of a scheduler, 32 others.
    values = ROWS * 64 * 64
    if unit == SPECIALS:
        assert found[SPECIALS] == values / 16
    assert found[ISSUE] >= values / 128


def test_what_only_moves_is_bound_by_memory() -> None:
    found = bounds(kernel(lambda r: r, 0).compile("sm_90").solution)
    # 64 bytes a clock, in and out, and a slot for each warp's instruction.
    assert found[MEMORY] == 2 * ROWS * 64 * 4 / 64 + 2 * 128 * 64 * 4 / 16 / 32
    assert max(found, key=lambda u: found[u]) == MEMORY
    assert found[SPECIALS] == found[TENSOR] == found[SHARED] == 0


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_products_are_bound_by_the_tensor_core(target: str) -> None:
    @hx.kernel(cache=False)
    def multiply(a: f16[128, 64], c: f32[128, 128]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        sa = hx.shared_tensor(f16, (128, 64))
        hx.copy(hx.global_view(a, ((128, 64), (64, 1))), sa)
        hx.syncthreads()
        ra, rc = hx.register_tensor(f16, (128, 64)), hx.register_tensor(f32, (128, 128))
        rb = hx.register_tensor(f16, (128, 64))
        hx.copy(sa, ra)
        hx.copy(sa, rb)
        hx.fill(rc, 0.0)
        for _ in range(32):
            hx.gemm(rc, ra, rb)
        hx.copy(rc, hx.global_view(c, ((128, 128), (128, 1))))

    compiled = multiply.compile(target)
    found = bounds(compiled.solution)
    assert max(found, key=lambda u: found[u]) == TENSOR
    assert 0 < found[SHARED] < found[TENSOR] and 0 < found[ISSUE] < found[TENSOR]
    text = compiled.explain(rejected=0)
    assert f"bound by the Tensor Core, busy for {found[TENSOR]:.0f} of " in text
    told = json.loads(compiled.explain(form="json"))
    assert told["bound"] == TENSOR and tuple(told["bounds"]) == UNITS
    assert "bound by the Tensor Core" in compiled.explain(form="html")


def test_nothing_is_bound_by_nothing() -> None:
    @hx.kernel(cache=False)
    def idle(x: f32[8]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32

    assert "bound by nothing" in idle.compile("sm_80").explain()


def test_loops_over_elements_count_their_functions() -> None:
    @hx.kernel(cache=False)
    def visited(x: f32[n, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f32, (ROWS, 64))
        hx.copy(hx.global_view(x, ((ROWS, 64), (64, 1))), r)
        for i, j in hx.elements(r):
            if i < j:
                r[i, j] = hx.exp(r[i, j])
        hx.copy(r, hx.global_view(x, ((ROWS, 64), (64, 1))))

    assert bounds(visited.compile("sm_80").solution)[SPECIALS] == ROWS * 64 / 16
