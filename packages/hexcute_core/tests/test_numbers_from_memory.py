"""Numbers that a block reads from memory say how often its tile operations and barriers run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32, i32

m, n, t = hx.dims("m n t")


@hx.device
def number(x, at):
    """x[at], by a tile of one element."""
    cell, value = hx.register_tensor(i32, (1,)), 0
    hx.copy(hx.global_view(x[at:], ((1,), (1,))), cell)
    for (i,) in hx.elements(cell):
        value = cell[i]
    return value


@hx.kernel(cache=False)
def ragged(x: f32[m, n], starts: i32[t], y: f32[m, n], *, SHARED: bool = False):
    """y[z] = the sum of rows starts[z] to starts[z + 1] - 1 of x, left alone where there is none;
    twice as much where the first of them is odd."""
    hx.attrs.cuda.grid_dim = t - 1
    hx.attrs.cuda.block_dim = 64
    z = hx.blockIdx.x
    row, end = number(starts, z), number(starts, z + 1)
    if row >= end:
        return
    total = hx.register_tensor(f32, (4, 64))
    hx.fill(total, 0.0)
    odd = row % 2 == 1
    while row < end:
        r = hx.register_tensor(f32, (4, 64))
        rows = hx.global_view(x[row:, :], ((4, 64), (n, 1)))
        if SHARED:
            s = hx.shared_tensor(f32, (4, 64))
            hx.copy(rows, s)
            hx.syncthreads()
            hx.copy(s, r)
            hx.syncthreads()
        else:
            hx.copy(rows, r)
        for i, j in hx.elements(r):
            if row + i >= end:
                r[i, j] = 0.0
        total += r
        row += 4
    if odd:
        total *= 2.0
    hx.copy(hx.sum(total, 0), hx.global_view(y[z:, :], ((1, 64), (n, 1))))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_loops_and_branches_by_numbers_from_memory(target: str, shared: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (23, 50)).astype(np.float32)
    starts = np.array([0, 3, 3, 12, 13, 23], np.int32)
    y = np.full_like(x, 7.0)
    compiled = ragged.compile(target, aligned=False, verify=True, SHARED=shared)
    compiled.simulate(x, starts, y, compare=True)
    want = np.full_like(x, 7.0)
    for z, (first, end) in enumerate(itertools.pairwise(starts)):
        if first < end:
            want[z] = x[first:end].sum(0) * (1 + first % 2)
    assert np.array_equal(y, want)
