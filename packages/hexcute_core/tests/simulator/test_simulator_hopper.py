"""Hopper's instructions in the simulator, against numpy: boxes, swizzles, products, clusters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hopper_programs import (
    BARRIER,
    WAIT,
    asynchronous_arrival,
    at,
    bulk_round_trip,
    first,
    generic_to_async,
    i32,
    multicast,
    opened,
    product,
    program,
    round_trip,
    stored_matrices,
    swizzled_box,
)

from hexcute_core import dtypes as dt
from hexcute_core.errors import SimulationError
from hexcute_core.simulator import simulate
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.thread import MapRef, Prim, TensorMap, verify

SEEDS = 4


def tensor(dtype, *shape, seed=1):
    """Small integers, exact in every type and in every sum here."""
    low = 0 if dtype.kind == "uint" else -2
    values = np.random.default_rng(seed).integers(low, 3, shape)
    return values.astype(np.float32).astype(storage(dtype))


def octets(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def run(case, grid, *arrays, **options):
    made, signature = case
    verify(made)
    made = dataclasses.replace(made, grid_dim=tuple(i32(n) for n in grid))
    named = {p.name: a for p, a in zip(signature.tensors, arrays, strict=True)}
    return simulate(made, named, {}, **{"schedules": SEEDS, **options})


BOXES = [
    ((1000,), (256,), 0, dt.f16), ((1000,), (64,), 128, dt.f16), ((40, 72), (16, 64), 128, dt.f16),
    ((33, 96), (8, 32), 64, dt.bf16), ((33, 48), (8, 16), 32, dt.f16),
    ((20, 52), (8, 32), 128, dt.f32), ((19, 144), (32, 128), 128, dt.u8),
    ((5, 21, 80), (5, 16, 64), 128, dt.f16), ((2, 3, 17, 24), (2, 3, 8, 8), 0, dt.f16),
    ((7, 12), (4, 4), 0, dt.i32), ((7, 10), (4, 2), 0, dt.i64), ((7, 112), (8, 64), 64, dt.i8),
]  # fmt: skip


def blocks(shape, box):
    counts = [-(-s // b) for s, b in zip(shape, box, strict=True)]
    return (counts[-1], counts[-2] if len(box) > 1 else 1, 1)


@pytest.mark.parametrize(("shape", "box", "swizzle", "dtype"), BOXES)
def test_boxes_come_back_clipped_to_their_tensor(shape, box, swizzle, dtype):
    x, y = tensor(dtype, *shape), np.zeros(shape, storage(dtype))
    report = run(round_trip(shape, box, swizzle, dtype), blocks(shape, box), x, y)
    assert report.deterministic
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("way", "combine", "dtype"),
    [("add", np.add, dt.f32), ("add", np.add, dt.u64), ("min", np.minimum, dt.i64),
     ("max", np.maximum, dt.f16), ("min.evict_first", np.minimum, dt.u32)],
)  # fmt: skip
def test_reductions_combine(way, combine, dtype):
    x, y = tensor(dtype, 40, 72), tensor(dtype, 40, 72, seed=2)
    wanted = combine(x, y)
    box = (16, 128 * 8 // dtype.bits)
    case = round_trip((40, 72), box, 128, dtype, f"tma.reduce.{way}")
    run(case, blocks((40, 72), box), x, y)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_swizzled_box_lies_as_the_manual_says(swizzle):
    """Bits 4 to 6 of an address are xored with its bits 7 to 9, as many as the span has."""
    x, y = octets(64, swizzle), np.zeros((64, swizzle), np.uint8)
    run(swizzled_box(swizzle), (1, 1, 1), x, y)
    linear = np.arange(64 * swizzle)
    place = linear ^ ((linear >> 7) % (swizzle // 16) << 4)
    np.testing.assert_array_equal(y.reshape(-1)[place], x.reshape(-1))


def test_written_by_threads_and_stored_by_tma():
    x, y = octets(16, 128), np.zeros((16, 128), np.uint8)
    run(generic_to_async(), (1, 1, 1), x, y)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("size", [16, 4096, 30000])
def test_bulk_copies_move_bytes(size):
    x, y, z, w = octets(size + 48), octets(size + 48, seed=2), octets(16, 128), octets(16, 128)
    before = y.copy()
    run(bulk_round_trip(size), (1, 1, 1), x, y, z, w)
    before[32 : 32 + size] = x[16 : 16 + size]
    np.testing.assert_array_equal(y, before)
    np.testing.assert_array_equal(w, z)


def test_asynchronous_copies_arrive_at_a_barrier():
    x, y = octets(2048), np.zeros(2048, np.uint8)
    run(asynchronous_arrival(), (1, 1, 1), x, y)
    np.testing.assert_array_equal(y, np.roll(x, -16))


def test_a_multicast_reaches_both_blocks():
    x, y = tensor(dt.f16, 64, 64), np.zeros((2, 64, 64), np.float16)
    run(multicast(), (2, 1, 1), x, y, schedules=8)
    np.testing.assert_array_equal(y[0], x)
    np.testing.assert_array_equal(y[1], x)


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_are_stored_row_by_row(count, trans):
    """Lane l holds row l / 4 and columns l % 4 * 2, + 1 of every matrix, or of its transpose."""
    x = np.arange(64 * count, dtype=np.float16).reshape(32, 2 * count)
    y = np.zeros((8 * count, 8), np.float16)
    run(stored_matrices(count, trans), (1, 1, 1), x, y)
    matrices = x.reshape(8, 4, count, 2).transpose(2, 0, 1, 3).reshape(count, 8, 8)
    wanted = matrices.swapaxes(1, 2) if trans else matrices
    np.testing.assert_array_equal(y.reshape(count, 8, 8), wanted)


PRODUCTS = [
    *(("wgmma.64x64x16.f32.f16.f16.kk", swizzle) for swizzle in (0, 32, 64, 128)),
    ("wgmma.64x128x16.f32.bf16.bf16.mm", 128),
    ("wgmma.64x64x16.f32.f16.f16.km", 128), ("wgmma.64x64x16.f32.f16.f16.mk", 128),
    ("wgmma.64x128x16.f32.f16.f16.rm", 128), ("wgmma.64x96x16.f32.f16.f16.rk", 128),
    ("wgmma.64x8x16.f16.f16.f16.kk", 128), ("wgmma.64x176x16.f32.bf16.bf16.kk", 128),
    ("wgmma.64x256x16.f32.f16.f16.kk", 64),
    ("wgmma.64x64x8.f32.tf32.tf32.kk", 128), ("wgmma.64x40x8.f32.tf32.tf32.rk", 64),
    ("wgmma.64x64x8.f32.tf32.tf32.kk", 0),
    *((f"wgmma.64x{n}x32.f32.{a}.{b}.{x}k", 128) for a, b, x, n in (
        ("f8e4m3", "f8e4m3", "k", 64), ("f8e4m3", "f8e5m2", "k", 24), ("f8e5m2", "f8e4m3", "r", 64),
        ("f8e5m2", "f8e5m2", "r", 128),
    )),
    ("wgmma.64x64x32.f16.f8e4m3.f8e4m3.kk", 128), ("wgmma.64x64x32.f32.f8e4m3.f8e4m3.kk", 0),
    ("wgmma.64x64x32.i32.i8.i8.kk", 128), ("wgmma.64x24x32.i32.i8.i8.rk", 128),
    ("wgmma.64x112x32.i32.u8.u8.kk", 64), ("wgmma.64x32x32.i32.u8.u8.rk", 32),
]  # fmt: skip


@pytest.mark.parametrize(("name", "swizzle"), PRODUCTS)
def test_products_are_exact_on_integers(name, swizzle):
    case = product(name, swizzle)
    arrays = [
        tensor(dt.BY_NAME[p.dtype_name], *p.shape, seed=i) for i, p in enumerate(case[1].tensors)
    ]
    report = run(case, (1, 1, 1), *arrays, schedules=2)
    a, b, c = (array.astype(np.float64) for array in arrays)
    left, right = a.T if name[-2] == "m" else a, b.T if name[-1] == "m" else b
    np.testing.assert_array_equal(c, left @ right.T)
    n = int(name.split("x")[1])
    assert sum(report.counters.tensor.values()) == 2 * 64 * n * left.shape[1]


def box_program(expected, *before, prim="tma.load", after=(WAIT,), column=0):
    """One box of 16 x 64 f16 of x, from `column` on, to shared memory, `expected` bytes
    announced."""
    coords = (i32(0), i32(column))
    body = (
        *opened(),
        *before,
        first(
            Prim("mbarrier.expect", (at(BARRIER), i32(expected))),
            Prim(prim, (at(0), MapRef("x_map", coords), at(BARRIER))),
        ),
        *after,
    )
    maps = (TensorMap("x_map", "x", (16, 64), 128),)
    return program("box", body, {"x": (dt.f16, (16, 64))}, maps)


def finding(case, **options):
    x = tensor(dt.f16, 16, 64)
    with pytest.raises(SimulationError) as caught:
        run(case, (1, 1, 1), x, **options)
    return caught.value


def test_bytes_that_do_not_add_up():
    run(box_program(2048), (1, 1, 1), tensor(dt.f16, 16, 64))
    error = finding(box_program(2064))
    assert error.finding.kind == "transaction bytes"
    assert "0 of 1 arrivals and 16 bytes are missing (phase 0)" in str(error)
    assert finding(box_program(2032)).finding.kind == "transaction bytes"


@pytest.mark.parametrize("column", [1, 4, 60, -3, -4])
def test_a_box_that_begins_within_16_bytes(column):
    """An H200 takes each of these for an illegal instruction."""
    error = finding(box_program(2048, column=column))
    assert error.finding.kind == "misaligned access"
    assert f"a box from (0, {column}): TMA begins at multiples of 16 bytes of a row" in str(error)
    ahead = first(Prim("tma.prefetch", (MapRef("x_map", (i32(0), i32(column))),)))
    assert finding(box_program(2048, ahead)).finding.kind == "misaligned access"
    for aligned in (8, -8, 64):
        run(box_program(2048, column=aligned), (1, 1, 1), tensor(dt.f16, 16, 64))


def test_a_load_that_nobody_waits_for():
    error = finding(box_program(2048, after=()))
    assert error.finding.kind == "use before wait"
    assert "ends while tma.load may still fill shared memory" in str(error)


def test_more_arrivals_than_the_barrier_counts():
    again = first(Prim("mbarrier.arrive", (at(BARRIER),)))
    error = finding(box_program(2048, after=(again, WAIT)), schedules=1)
    assert error.finding.kind == "barrier misuse"
    assert "1 arrivals at the mbarrier" in str(error)


def test_registers_that_the_pool_does_not_have():
    """Three groups of 232 registers and one of 40 are more than a block of 512 threads has."""
    from hexcute_core.scalar import Var, compare
    from hexcute_core.thread import If

    group = Var("threadIdx.x") // 128
    roles = If(
        compare("eq", group, 0),
        (Prim("setmaxnreg.dec", (i32(40),)),),
        (Prim("setmaxnreg.inc", (i32(232),)),),
    )

    def case(threads):
        made, signature = program("roles", (roles,), {"x": (dt.f16, (16, 64))}, threads=threads)
        return dataclasses.replace(made, min_blocks=1), signature

    run(case(384), (1, 1, 1), tensor(dt.f16, 16, 64))
    error = finding(case(512))
    assert error.finding.kind == "deadlock"
    assert "waits for 232 registers per thread" in str(error)


def test_blocks_of_half_a_cluster_are_refused():
    with pytest.raises(SimulationError, match="name all blocks of a cluster"):
        run(multicast(), (2, 1, 1), tensor(dt.f16, 64, 64), np.zeros((2, 64, 64), np.float16),
            blocks=[(0, 0, 0)])  # fmt: skip
