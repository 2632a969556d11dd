"""Atomic updates of tiles, of one element by single threads, and of one element by a block: every
operation and type, against numpy."""

from __future__ import annotations

from typing import Any

import atomic_kernels as ak
import numpy as np
import pytest

from hexcute_core import bf16, f32, i32
from hexcute_core.dtypes import DType
from hexcute_core.simulator.lanes.values import Array, storage

TARGETS = ["sm_80", "sm_90"]


def numbers(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small whole numbers, of which sums are exact; none negative where there is no sign."""
    low = 0 if dtype.kind == "uint" else -4
    drawn = np.random.default_rng(seed).integers(low, 5, shape)
    return drawn.astype(storage(dtype))


def updated(op: str, old: Array, new: Array) -> Array:
    """What the update makes of whole arrays."""
    functions = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor, "exch": lambda old, new: new,
        "cas": lambda old, new: np.where(old == 1, new, old),
    }  # fmt: skip
    made: Array = functions[op](old, new)
    return made.astype(old.dtype)


def compiled(kernel: Any, target: str, dtype: DType, **options: Any) -> Any:
    if dtype == bf16 and target == "sm_80":
        pytest.skip("sums of bf16 came with sm_90")
    return kernel.compile(target, verify=True, **options)


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "dtype"), ak.CASES, ids=str)
def test_tiles(op: str, dtype: DType, target: str, shared: bool) -> None:
    x, y = numbers(dtype, (20, 40)), numbers(dtype, (20, 40), 1)
    old, before = np.full_like(x, 9), y.copy()
    kernel = compiled(ak.tiled(op, dtype, shared), target, dtype)
    kernel.simulate(x, y, old, compare=True)
    assert np.array_equal(y, updated(op, before, x))
    assert np.array_equal(old, before)
    space = "shared" if shared else "global"
    assert any(name.startswith(f"atom.{space}.{op}.{dtype}") for name in names(kernel))


def names(kernel: Any) -> set[str]:
    """The instructions that carry its copies."""
    return {plan.row.name for plan in kernel.solution.copies.values()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "dtype"), ak.FREE, ids=str)
def test_blocks_that_meet_in_one_tile(op: str, dtype: DType, target: str) -> None:
    """Threads that hold an element twice update it once, and what was there nobody asks for."""
    x, y = numbers(dtype, (3, 4, 16)), numbers(dtype, (4, 16), 1)
    want = y.copy()
    for part in x:
        want = updated(op, want, part)
    kernel = compiled(ak.gathered(op, dtype), target, dtype)
    report = kernel.simulate(x, y, schedules=2, compare=True)
    assert np.array_equal(y, want)
    assert report.deterministic
    assert any(name.startswith(f"red.global.{op}.{dtype}") for name in names(kernel))


def in_turns(op: str, x: Array, at: Array, y: Array) -> tuple[Array, Array]:
    """y after the updates in order, and what each found."""
    y, old = y.copy(), np.zeros_like(x)
    for i, place in enumerate(at):
        if 0 <= place < len(y):
            old[i] = y[place]
            y[place] = updated(op, y[place : place + 1], x[i : i + 1])[0]
    return y, old


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "dtype"), ak.CASES, ids=str)
def test_one_element_a_thread(op: str, dtype: DType, target: str, shared: bool) -> None:
    """Places before and behind the tensor are nobody's; each element is visited once."""
    x, y = numbers(dtype, (27,)), numbers(dtype, (16,), 1)
    at = np.random.default_rng(2).permutation(np.r_[-2:16, 16:25]).astype(np.int32)
    want, found = in_turns(op, x, at, y)
    old = np.full_like(x, 9)
    kernel = compiled(ak.each(op, dtype, shared), target, dtype, aligned=False)
    kernel.simulate(x, at, y, old, compare=True)
    assert np.array_equal(y, want)
    assert np.array_equal(old, found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "dtype"), ak.FREE, ids=str)
def test_threads_that_meet_in_one_place(op: str, dtype: DType, target: str) -> None:
    x, y = numbers(dtype, (32,)), numbers(dtype, (16,), 1)
    at = (np.arange(32) % 3).astype(np.int32)
    want, _ = in_turns(op, x, at, y)
    kernel = compiled(ak.each(op, dtype), target, dtype)
    kernel.simulate(x, at, y, np.zeros_like(x), seed=1, schedules=2)
    assert np.array_equal(y, want)


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "dtype"), ak.CASES, ids=str)
def test_one_element_a_block(op: str, dtype: DType, target: str, shared: bool) -> None:
    """All threads of a block know what was there; the block updates once."""
    blocks = 1 if shared else 3
    x, y = np.ones(1, storage(dtype)), np.full(1, 1, storage(dtype))
    want, found = in_turns(op, np.repeat(x, blocks), np.zeros(blocks, np.int32), y)
    old = np.full(blocks, 9, storage(dtype))
    kernel = compiled(ak.once(op, dtype, shared), target, dtype, aligned=False)
    kernel.simulate(x, y, old, compare=True)
    assert np.array_equal(y, want)
    assert np.array_equal(np.sort(old), np.sort(found))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_a_tile_names_are_added_to(target: str) -> None:
    rng = np.random.default_rng(0)
    x, rows = rng.integers(-9, 9, (50, 40)).astype(np.int32), rng.integers(-1, 9, 50)
    y = rng.integers(-9, 9, (8, 40)).astype(np.int32)
    want = y.copy()
    for row, line in zip(rows, x, strict=True):
        if 0 <= row < 8:
            want[row] += line
    kernel = ak.scattered.compile(target, aligned=False, verify=True)
    report = kernel.simulate(x, rows.astype(np.int32), y, schedules=3, compare=True)
    assert np.array_equal(y, want)
    assert report.deterministic


@pytest.mark.parametrize("target", TARGETS)
def test_a_histogram(target: str) -> None:
    x = np.random.default_rng(0).integers(-1, 17, 150).astype(np.int32)
    y = np.zeros(16, np.int32)
    kernel = ak.histogram.compile(target, aligned=False, verify=True)
    kernel.simulate(x, y, schedules=3, compare=True)
    assert np.array_equal(y, np.bincount(x[(x >= 0) & (x < 16)], minlength=16))


WIDE = {"f32": "v4", "f16": "v8", "bf16": "v8"}


@pytest.mark.parametrize("dtype", [f32, *(t for t in ak.UPDATED["add"] if t.name in WIDE)], ids=str)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_wide_sums_where_addresses_allow(target: str, aligned: bool, dtype: DType) -> None:
    """16 bytes at once on sm_90, pairs of halves before; an element where rows are odd."""
    columns = 64 if aligned else 63
    x, y = numbers(dtype, (16, columns)), numbers(dtype, (16, columns), 1)
    want = updated("add", y, x)
    kernel = compiled(ak.tiled("add", dtype, returns=False), target, dtype, aligned=aligned)
    kernel.simulate(x, y, np.zeros_like(x), compare=True)
    assert np.array_equal(y, want)
    (name,) = (name for name in names(kernel) if name.startswith("red."))
    wide = WIDE[dtype.name] if target == "sm_90" else "v2" if dtype != f32 else ""
    assert name == ".".join(filter(None, ("red.global.add", dtype.name, wide if aligned else "")))


def test_what_nobody_asks_for_is_not_brought_back() -> None:
    kernel = ak.histogram.compile("sm_80")
    found = {name for name in counted(kernel) if name.startswith(("red", "atom"))}
    assert found == {"red.shared.add.i32", "red.global.add.i32"}


def counted(kernel: Any) -> set[str]:
    report = kernel.simulate(np.zeros(64, np.int32), np.zeros(16, np.int32))
    return set(report.counters.instructions)


def test_what_the_tile_program_says() -> None:
    from hexcute_core.tile.printer import show_program

    text = show_program(ak.each("cas", i32).compile("sm_80").tile)
    assert "var old_1: i32 = update view_y[places[i]] by cas r[i] where it is 1" in text
    text = show_program(ak.tiled("cas", i32).compile("sm_80").tile)
    assert "update r -> view by cas where it is given giving old_1" in text
