"""Attention as a chain of two gemms in roles, run on the CPU against numpy's float32."""

from __future__ import annotations

import math

import chain_kernels as ck
import numpy as np
import pytest

TOLERANCE = 2.0**-10
"""Weights of sum 1 and sums of values below 4 are each rounded to f16."""


def attend(q, k, v, scale):
    scores = q.astype(np.float32) @ k.astype(np.float32).T * scale
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v.astype(np.float32) / weights.sum(1, keepdims=True)


def run(rows, n, d, spread=1.0, **constants):
    """Normal keys and queries, the scores `spread` times as wide as usual."""
    rng = np.random.default_rng(rows + n)
    q, k, v = (rng.standard_normal((x, d)).astype(np.float16) for x in (rows, n, n))
    scale = spread / math.sqrt(d)
    o = np.full((rows, d), np.nan, np.float16)
    compiled = ck.attention.compile("sm_90", verify=True, D=d, **constants)
    report = compiled.simulate(q, k, v, o, scale * math.log2(math.e), schedules=2)
    assert not report.findings
    assert np.abs(o - attend(q, k, v, scale)).max() < TOLERANCE * np.abs(v).max()
    return compiled, report


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize(("rows", "n"), [(128, 64), (128, 256), (150, 200), (72, 129), (1, 1)])
def test_attention(d, rows, n):
    run(rows, n, d)


@pytest.mark.parametrize("stages", [1, 3])
def test_wide_tiles_of_keys(stages):
    run(128, 300, 64, KEYS=128, STAGES=stages)


def test_scores_that_would_overflow_without_the_maximum():
    run(128, 256, 64, spread=40.0)


def test_weights_stay_in_registers():
    compiled, _ = run(128, 64, 128)
    a_in_registers = [plan.a_in_registers for plan in compiled.solution.wgmmas.values()]
    assert sorted(a_in_registers) == [False, True]
    assert not compiled.built.local_memory
