"""Races planted in right kernels, by what they are written with: gathers, numbers from memory,
packed elements. Each statement that orders something is left out once. Queues of work are in
`test_atomics_findings.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import test_named_rows
from mutations import mutants

import hexcute_core as hx
from hexcute_core import f16, f32, i32, u4
from hexcute_core.driver import CompiledKernel
from hexcute_core.simulator import simulate

n = hx.dim("n")
TARGETS = ["sm_80", "sm_90"]


def kinds(
    compiled: CompiledKernel, arrays: Mapping[str, Any], numbers: Mapping[str, int], seed: int = 0
) -> list[tuple[str, int, set[str]]]:
    """For each statement left out its name, its line and the kinds of what is found then."""
    found = []
    for program, gone in mutants(compiled.thread):
        given = {name: array.copy() for name, array in arrays.items()}
        report = simulate(program, given, numbers, check=False, seed=seed)
        line = 0 if gone.span is None else gone.span.line
        found.append((gone.name, line, {f.kind for f in report.findings}))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_a_gather_into_slots_needs_each_of_its_waits_and_fences(seed: int) -> None:
    """cp.async bring rows by number to a slot that wgmma reads: they are waited for and fenced."""
    rng = np.random.default_rng(4)
    x, w = (rng.integers(-2, 3, (rows, 128)).astype(np.float16) for rows in (20, 64))
    idx = rng.integers(0, 20, 64).astype(np.int32)
    arrays = {"x": x, "idx": idx, "w": w, "y": np.zeros((64, 64), np.float16)}
    # One slot, which is filled a second time.
    compiled = test_named_rows.experts.compile("sm_90", STAGES=1)
    found = kinds(compiled, arrays, {"m": 20, "n": 64, "t": 64}, seed)
    by_name: dict[str, set[str]] = {}
    for name, _, what in found:
        by_name.setdefault(name, set()).update(what)
    assert by_name["fence.proxy"] == {"missing fence"}
    assert "race" in by_name["bar.sync"] and by_name["cp.async.wait"] >= {"use before wait"}
    assert by_name["mbarrier.wait"] and by_name["mbarrier.arrive"] == {"deadlock"}
    # The barriers' initialisation is followed by the author's own barrier.
    assert [(name, line) for name, line, what in found if not what] == [("bar.sync", 0)]


@hx.kernel(cache=False)
def named_twice(x: f32[n, 32], y: f32[n, 32]):
    """Rows by number in shared memory, which every round of a loop writes anew."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 64
    rows, s = hx.shared_tensor(i32, (16,)), hx.shared_tensor(f32, (16, 32))
    held = hx.register_tensor(f32, (16, 32))
    for i in range(3):
        hx.copy(15 - hx.iota((16,), 0) + i * 16, rows)
        hx.syncthreads()
        hx.copy(hx.global_view(x, ((16, 32), (rows, 1))), s)
        hx.syncthreads()
        hx.copy(s, held)
        hx.copy(held * 2.0, hx.global_view(y, ((16, 32), (rows, 1))))
        hx.syncthreads()


@pytest.mark.parametrize("target", TARGETS)
def test_rows_by_number_need_each_of_their_barriers(target: str) -> None:
    x = np.arange(48 * 32, dtype=np.float32).reshape(48, 32)
    arrays = {"x": x, "y": np.zeros_like(x)}
    compiled = named_twice.compile(target, aligned=False)
    y = arrays["y"].copy()
    compiled.simulate(x, y, schedules=2)
    assert np.array_equal(y, 2 * x)
    found = kinds(compiled, arrays, {"n": 48})
    missed = {(name, line) for name, line, what in found if not what}
    written = {line for name, line, _ in found if name == "bar.sync"}
    assert len(written) == 3 and not {(name, line) for name, line in missed if name == "bar.sync"}
    assert all(
        what & {"race", "use before wait"} for name, _, what in found if name == "bar.sync"
    )


@hx.kernel(cache=False)
def told_by_memory(x: f32[n], count: i32[4], y: f32[n]):
    """A number that one role's threads leave in memory says how far a loop of all goes."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 64
    told = hx.iota((4,), 0) + 2
    hx.copy(told, hx.global_view(count, ((4,), (1,))))
    hx.syncthreads()
    r = hx.register_tensor(f32, (64,))
    for i in range(count[1]):
        hx.copy(hx.global_view(x[i * 64 :], ((64,), (1,))), r)
        hx.copy(r + 1.0, hx.global_view(y[i * 64 :], ((64,), (1,))))


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("target", TARGETS)
def test_a_number_from_memory_is_read_when_it_is_there(target: str, seed: int) -> None:
    x = np.arange(192, dtype=np.float32)
    arrays = {"x": x, "count": np.zeros(4, np.int32), "y": np.zeros(192, np.float32)}
    compiled = told_by_memory.compile(target, aligned=False)
    y = arrays["y"].copy()
    compiled.simulate(x, arrays["count"].copy(), y)
    assert np.array_equal(y, x + 1)
    ((name, _, what),) = kinds(compiled, arrays, {"n": 192}, seed)
    assert name == "bar.sync" and what == {"race"}


@hx.kernel(cache=False)
def staged_nibbles(q: u4[32, 64], y: f16[32, 64]):
    """Elements of four bits through shared memory, two to a byte."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 64
    s, r = hx.shared_tensor(u4, (32, 64)), hx.register_tensor(u4, (32, 64))
    hx.copy(hx.global_view(q, ((32, 64), (64, 1))), s)
    hx.syncthreads()
    hx.copy(s, r)
    hx.copy(hx.cast(r, f16), hx.global_view(y, ((32, 64), (64, 1))))


@pytest.mark.parametrize("target", TARGETS)
def test_packed_elements_are_read_when_they_are_there(target: str) -> None:
    q = np.random.default_rng(0).integers(0, 256, (32, 32), np.uint8)
    arrays = {"q": q, "y": np.zeros((32, 64), np.float16)}
    found = kinds(staged_nibbles.compile(target), arrays, {})
    assert {"bar.sync", "cp.async.wait"} <= {name for name, _, _ in found}
    assert all(what & {"race", "use before wait"} for _, _, what in found)
