"""Programs run from end to end: synthesized, proved, lowered, verified, simulated lane by lane, and
compared with the interpreter of what was written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hexcute_core.arch import arch
from hexcute_core.driver.proof import prove
from hexcute_core.lowering import lower
from hexcute_core.scalar import Const
from hexcute_core.simulator import interpret, simulate
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.synthesis import synthesize
from hexcute_core.synthesis.proof.check import check
from hexcute_core.thread import verify
from hexcute_core.tile.verify import verify as verify_tile


@dataclass(frozen=True)
class Run:
    solution: object
    thread: object
    outputs: dict
    expected: dict
    counters: object


def solve(program, target="sm_80"):
    """The checked solution."""
    verify_tile(program)
    solution = synthesize(program, arch(target))
    check(solution)
    return solution


def plan_of(solution, index=0):
    """The plan of the index-th copy that has one, in program order."""
    return list(solution.copies.values())[index]


def fill_array(dtype, shape, rng):
    """Small whole numbers of a type, packed for types narrower than a byte."""
    count = int(np.prod(shape))
    if dtype.bits < 8:
        return rng.integers(0, 256, -(-count * dtype.bits // 8), dtype=np.uint8)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low = 0 if dtype.kind == "uint" else -4
    return rng.integers(low, 5, shape).astype(storage(dtype))


def run(program, sizes=None, target="sm_80", seed=0, arrays=None, exact=True):
    """Runs `program`; with `exact`, asserts the same bits from the lanes and the interpreter."""
    solution = solve(program, target)
    thread = lower(solution, arch(target))
    verify(thread)
    prove(solution, thread)
    sizes = sizes or {}
    rng = np.random.default_rng(seed)
    if arrays is None:
        arrays = {}
        for p in program.params:
            shape = tuple(int(e.value) if isinstance(e, Const) else sizes[e.name] for e in p.shape)
            arrays[p.name] = fill_array(p.dtype, shape, rng)
    have = {name: a.copy() for name, a in arrays.items()}
    want = {name: a.copy() for name, a in arrays.items()}
    report = simulate(thread, have, sizes)
    interpret(program, want, sizes)
    if exact:
        for name in have:
            np.testing.assert_array_equal(
                have[name].view(np.uint8), want[name].view(np.uint8), err_msg=name
            )
    return Run(solution, thread, have, want, report.counters)
