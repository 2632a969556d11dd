"""Atomic updates on a GPU: every operation and type as a tile, one element a thread and one a
block, queues, last blocks and vectors, against numpy, exactly."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import atomic_kernels as ak
import numpy as np
import pytest
from gpu_mirror import bits_of, on_gpu
from test_atomics import in_turns, numbers, updated
from test_atomics_findings import last, queue

from hexcute_core import bf16, f16, f32, i32
from hexcute_core.dtypes import DType
from hexcute_core.runtime import device_target
from hexcute_core.simulator.lanes.values import Array, storage

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
GALLERY = Path(__file__).parents[4] / "docs" / "gallery"


def run(kernel: Any, dtype: DType, *arguments: Any, **constants: Any) -> list[Array]:
    """What a launch leaves in its tensors; numbers are passed as they are."""
    if dtype == bf16 and device_target() < "sm_90":
        pytest.skip("sums of bf16 came with sm_90")
    given = [on_gpu(a) if isinstance(a, np.ndarray) else a for a in arguments]
    kernel(*given, **constants)
    torch.cuda.synchronize()
    return [
        bits_of(tensor).view(a.dtype).reshape(a.shape)
        for tensor, a in zip(given, arguments, strict=True)
        if isinstance(a, np.ndarray)
    ]


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize(("op", "dtype"), ak.CASES, ids=str)
def test_tiles(op: str, dtype: DType, shared: bool) -> None:
    x, y = numbers(dtype, (200, 360)), numbers(dtype, (200, 360), 1)
    _, after, old = run(ak.tiled(op, dtype, shared), dtype, x, y, np.zeros_like(x))
    assert np.array_equal(after, updated(op, y, x))
    assert np.array_equal(old, y)


@pytest.mark.parametrize(("op", "dtype"), ak.FREE, ids=str)
def test_many_blocks_meet_in_one_tile(op: str, dtype: DType) -> None:
    """Sums stay below what eight bits of a fraction hold exactly."""
    x, y = numbers(dtype, (1000, 4, 16)), numbers(dtype, (4, 16), 1)
    if dtype in (bf16, f16):
        x[20:] = 0
    want = y.copy()
    for part in x:
        want = updated(op, want, part)
    _, after = run(ak.gathered(op, dtype), dtype, x, y)
    assert np.array_equal(after, want)


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize(("op", "dtype"), ak.CASES, ids=str)
def test_one_element_a_thread(op: str, dtype: DType, shared: bool) -> None:
    x, y = numbers(dtype, (27,)), numbers(dtype, (16,), 1)
    at = np.random.default_rng(2).permutation(np.r_[-2:16, 16:25]).astype(np.int32)
    want, found = in_turns(op, x, at, y)
    _, _, after, old = run(ak.each(op, dtype, shared), dtype, x, at, y, np.full_like(x, 9))
    assert np.array_equal(after, want)
    assert np.array_equal(old, found)


@pytest.mark.parametrize(("op", "dtype"), ak.FREE, ids=str)
def test_threads_that_meet_in_one_place(op: str, dtype: DType) -> None:
    x, y = numbers(dtype, (32,)), numbers(dtype, (16,), 1)
    at = (np.arange(32) % 3).astype(np.int32)
    want, _ = in_turns(op, x, at, y)
    _, _, after, _ = run(ak.each(op, dtype), dtype, x, at, y, np.zeros_like(x))
    assert np.array_equal(after, want)


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize(("op", "dtype"), ak.CASES, ids=str)
def test_one_element_a_block(op: str, dtype: DType, shared: bool) -> None:
    """Every block finds another number where numbers grow: tickets."""
    blocks = 1 if shared else 200
    x, y = np.ones(1, storage(dtype)), np.ones(1, storage(dtype))
    want, found = in_turns(op, np.repeat(x, blocks), np.zeros(blocks, np.int32), y)
    _, after, old = run(ak.once(op, dtype, shared), dtype, x, y, np.zeros(blocks, storage(dtype)))
    assert np.array_equal(after, want)
    assert np.array_equal(np.sort(old), np.sort(found))


def test_rows_that_a_tile_names_are_added_to() -> None:
    rng = np.random.default_rng(0)
    x, rows = rng.integers(-9, 9, (5000, 200)).astype(np.int32), rng.integers(-1, 20, 5000)
    y = rng.integers(-9, 9, (19, 200)).astype(np.int32)
    want = y.copy()
    named = (rows >= 0) & (rows < 19)
    np.add.at(want, rows[named], x[named])
    *_, after = run(ak.scattered, i32, x, rows.astype(np.int32), y)
    assert np.array_equal(after, want)


def test_a_histogram() -> None:
    x = np.random.default_rng(0).integers(-1, 17, 1 << 20).astype(np.int32)
    _, y = run(ak.histogram, i32, x, np.zeros(16, np.int32))
    assert np.array_equal(y, np.bincount(x[(x >= 0) & (x < 16)], minlength=16))


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
@pytest.mark.parametrize("columns", [64, 63, 2048])
def test_wide_sums(dtype: DType, columns: int) -> None:
    x, y = numbers(dtype, (500, columns)), numbers(dtype, (500, columns), 1)
    _, after, _ = run(ak.tiled("add", dtype, returns=False), dtype, x, y, np.zeros_like(x))
    assert np.array_equal(after, updated("add", y, x))


def test_a_queue_hands_out_every_row_once() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (5000, 64)).astype(np.float32)
    for _ in range(10):
        _, taken, y = run(queue, f32, x, np.zeros(1, np.int32), np.zeros_like(x))
        assert np.array_equal(y, 2 * x)
        assert taken[0] == 5000 + 2


def test_the_last_block_sees_what_all_wrote() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2000, 64)).astype(np.float32)
    for _ in range(20):
        *_, done, y = run(
            last("acq_rel"), f32, x, np.full_like(x, np.nan), np.zeros(1, np.int32),
            np.zeros((1, 64), np.float32),
        )  # fmt: skip
        assert done[0] == 2000
        assert np.array_equal(y[0], x.sum(0))


def gallery(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"gpu_gallery_{name}", GALLERY / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not GALLERY.is_dir(), reason="the documentation is not here")
def test_the_gallerys_ragged_sums() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (3000, 2001)).astype(np.float32)
    length = (2001 * rng.random(3000) ** 4).astype(np.int32)
    order = np.argsort(-length).astype(np.int32)
    arrays = x, length, order, np.zeros(1, np.int32), np.full((3000, 1), np.nan, np.float32), 264
    *_, taken, y = run(gallery("work_queue").ragged_sums, f32, *arrays)
    assert taken[0] == 3000 + 264
    mask = np.arange(2001) < length[:, None]
    assert np.array_equal(y[:, 0], np.where(mask, x, 0).sum(1))


@pytest.mark.skipif(not GALLERY.is_dir(), reason="the documentation is not here")
def test_the_gallerys_queued_product() -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (rows, 264)).astype(np.float16) for rows in (3000, 1992))
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    for _ in range(5):
        c, taken = np.full((3000, 1992), np.nan, np.float16), np.zeros(1, np.int32)
        *_, c, taken = run(gallery("work_queue").queued_gemm, f16, a, b, c, taken, 132)
        assert taken[0] == 24 * 32 + 132
        assert np.array_equal(c, want)


@pytest.mark.skipif(not GALLERY.is_dir(), reason="the documentation is not here")
def test_the_gallerys_last_block() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (rows, 4096)).astype(np.float16) for rows in (500, 300))
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    for _ in range(5):
        w, c = np.full((16, 500, 300), np.nan, np.float32), np.zeros((500, 300), np.float16)
        done = np.zeros((8, 5), np.int32)
        *_, done, c = run(gallery("last_block").split_k_once, f16, a, b, w, done, c)
        assert (done == 16).all()
        assert np.array_equal(c, want)
