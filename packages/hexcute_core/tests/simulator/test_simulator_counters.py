"""Bank-conflict wavefronts and global sectors of single accesses, worked out by hand."""

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Const, Var
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    DeclareArray,
    For,
    GlobalPtr,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
)

TX = Var("threadIdx.x")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)


def counters(*body):
    shared = 32 * 512
    params = (ThreadParam("x", dt.f32, (Const(4096, dt.i32),), pointer=True, aligned=True),)
    program = ThreadProgram("kernel", params, (ONE, ONE, ONE), 32, shared, body)
    return simulate(program, {"x": np.zeros(4096, dtype=np.float32)}, {}).counters


def declared(words):
    step = Var("i")
    fill = SetElement("r", step, Const(0.0, dt.f32))
    return (
        DeclareArray("r", dt.f32, words),
        For(step, ZERO, Const(words, dt.i32), ONE, (fill,), unroll=True),
    )


def store(size, address):
    """One warp's stores of `size` bytes at byte `address` of each lane."""
    part = Regs("r", ZERO, (0,), size // 4, dt.f32)
    name = f"st.shared.{size}"
    return counters(*declared(4), Prim(name, (SharedPtr(address), part))).wavefronts[name]


@pytest.mark.parametrize(
    ("size", "address", "expected"),
    [
        (4, TX * 4, 1),
        (4, TX * 8, 2),  # lanes l and l + 16 share a bank
        (4, TX * 128, 32),  # all in bank 0
        (4, TX * 132, 1),  # a padded column
        (4, (TX // 2) * 4, 1),  # two lanes write one word
        (8, TX * 8, 2),  # two phases of 16 lanes
        (8, TX * 16, 4),
        (16, TX * 16, 4),  # four phases of 8 lanes
        (16, TX * 32, 8),
        (16, TX * 128, 32),
        (16, TX * 144, 4),  # rows of 128 bytes padded by 16
        (16, (TX * 128) ^ ((TX % 8) * 16), 4),  # rows of 128 bytes swizzled
    ],
)
def test_wavefronts_of_a_store(size, address, expected):
    assert store(size, address) == expected


@pytest.mark.parametrize(
    ("size", "address", "expected"),
    [
        (8, (TX // 2) * 8, 1),  # each pair of lanes one address: both halves at once
        (8, (TX // 4 * 2 + TX % 2) * 8, 1),  # lanes i and i ^ 2
        (8, (TX % 16) * 8, 2),  # the halves share addresses, neighbours do not
        (16, (TX // 2) * 16, 2),  # the quarters of each half at once
        (16, (TX % 8) * 16, 4),
        (4, (TX // 2) * 4, 1),
    ],
)
def test_phases_of_a_load_merge_where_neighbours_share_addresses(size, address, expected):
    part = Regs("r", ZERO, (0,), size // 4, dt.f32)
    fill = Prim("st.shared.16", (SharedPtr(TX * 16), Regs("r", ZERO, (0,), 4, dt.f32)))
    load = Prim(f"ld.shared.{size}", (part, SharedPtr(address)))
    got = counters(*declared(4), fill, Prim("bar.sync", ()), load)
    assert got.wavefronts[f"ld.shared.{size}"] == expected
    assert got.wavefronts["st.shared.16"] == 4


@pytest.mark.parametrize(("row_bytes", "expected"), [(16, 1), (32, 2), (64, 4), (128, 8), (80, 1)])
def test_wavefronts_of_ldmatrix(row_bytes, expected):
    """Eight rows a phase: rows `row_bytes` apart start in banks row * row_bytes / 4 mod 32."""
    rows = SharedPtr((TX % 8) * row_bytes)
    fill = [
        Prim("st.shared.16", (SharedPtr(TX * 16 + i * 512), Regs("r", ZERO, (0,), 4, dt.f32)))
        for i in range(2)
    ]
    body = (*declared(4), *fill, Prim("bar.sync", ()), DeclareArray("m", dt.f16, 2))
    matrix = Prim("ldmatrix.x1", (Regs("m", ZERO, (0,), 2, dt.f16), rows))
    assert counters(*body, matrix).wavefronts["ldmatrix.x1"] == expected


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [(4, 1, 4), (4, 2, 8), (4, 8, 32), (4, 32, 32), (16, 4, 16), (8, 2, 8), (4, 0, 1)],
)
def test_sectors_of_a_load(size, stride, expected):
    part = Regs("r", ZERO, (0,), size // 4, dt.f32)
    name = f"ld.global.{size}"
    load = Prim(name, (part, GlobalPtr("x", TX * stride, dt.f32), TRUE))
    got = counters(DeclareArray("r", dt.f32, 4), load)
    assert got.sectors[name] == expected
    assert got.bytes[name] == 32 * size


def test_a_report_prints_its_counters():
    part = Regs("r", ZERO, (0,), 4, dt.f32)
    text = counters(*declared(4), Prim("st.shared.16", (SharedPtr(TX * 16), part))).show()
    assert "st.shared.16" in text
    assert text.splitlines()[1].split() == ["st.shared.16", "1", "512", "4", "-"]
