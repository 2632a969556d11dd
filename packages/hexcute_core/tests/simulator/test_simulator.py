"""The simulator against numpy: hand-written thread programs from copies to Tensor Cores."""

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Call, Const, Element, Var, cdiv, compare, land, minimum, select
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    PRIMS,
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
    While,
    verify,
)

TX, BX = Var("threadIdx.x"), Var("blockIdx.x")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
RNG = np.random.default_rng(7)


def pointer(name, dtype, *shape, aligned=True):
    extents = tuple(Const(s, dt.i32) if isinstance(s, int) else s for s in shape)
    return ThreadParam(name, dtype, extents, pointer=True, aligned=aligned)


def program(params, body, threads=32, shared=0, grid=(ONE, ONE, ONE)):
    made = ThreadProgram("kernel", tuple(params), grid, threads, shared, tuple(body))
    # Rows of later architectures run here before the table of primitives has them.
    if all(stmt.name in PRIMS for stmt in body if isinstance(stmt, Prim)):
        verify(made)
    return made


def regs(array, dtype, width, pieces=(0,), offset=ZERO):
    return Regs(array, offset, tuple(pieces), width, dtype)


def load(part, name, offset, dtype, predicate=TRUE):
    size = part.count * dtype.bits // 8
    return Prim(f"ld.global.{size}", (part, GlobalPtr(name, offset, dtype), predicate))


def store(part, name, offset, dtype, predicate=TRUE):
    size = part.count * dtype.bits // 8
    return Prim(f"st.global.{size}", (GlobalPtr(name, offset, dtype), part, predicate))


def ragged_copy(dtype, width):
    """dst[i] = src[i] for i < n, `width` elements per thread and 64 threads per block."""
    n = Var("n")
    at = (BX * 64 + TX) * width
    inside = compare("lt", at + (width - 1), n)
    part = regs("r", dtype, width)
    tail = For(
        Var("i"), at, minimum(at + width, n), ONE,
        (
            load(regs("r", dtype, 1), "src", Var("i"), dtype),
            store(regs("r", dtype, 1), "dst", Var("i"), dtype),
        ),
    )  # fmt: skip
    return program(
        [pointer("src", dtype, n), pointer("dst", dtype, n), ThreadParam("n", dt.i32)],
        [
            DeclareArray("r", dtype, width),
            load(part, "src", at, dtype, inside),
            store(part, "dst", at, dtype, inside),
            If(compare("ge", at + (width - 1), n), (tail,)),
        ],
        threads=64,
        grid=(cdiv(n, 64 * width), ONE, ONE),
    )


@pytest.mark.parametrize("n", [1, 7, 64, 513, 1000, 5000])
@pytest.mark.parametrize(("dtype", "width"), [(dt.f16, 8), (dt.f32, 4), (dt.u8, 16), (dt.i64, 2)])
def test_copy_with_a_ragged_edge(n, dtype, width):
    cell = {"f16": np.float16, "f32": np.float32, "u8": np.uint8, "i64": np.int64}[dtype.name]
    source = RNG.integers(0, 100, n).astype(cell)
    target = np.full(n, 101, dtype=cell)
    report = simulate(ragged_copy(dtype, width), {"src": source, "dst": target}, {"n": n})
    np.testing.assert_array_equal(target, source)
    assert report.outputs["dst"] is target
    assert report.counters.bytes.get("ld.global.16", 0) == n // width * 16


def test_a_sample_of_blocks_leaves_the_rest():
    source, target = np.arange(2048, dtype=np.float16), np.zeros(2048, dtype=np.float16)
    report = simulate(
        ragged_copy(dt.f16, 8), {"src": source, "dst": target}, {"n": 2048}, blocks=[(2, 0, 0)]
    )
    assert report.blocks == ((2, 0, 0),)
    np.testing.assert_array_equal(np.flatnonzero(target), np.arange(1024, 1536))


def per_thread(value, dtype, threads=32, body=(), params=(), **kwargs):
    """A program storing one scalar a thread to `out`."""
    return program(
        [pointer("out", dtype, threads), *params],
        [
            *body,
            DeclareArray("result", dtype, 1),
            SetElement("result", ZERO, value),
            Prim(
                f"st.global.{dtype.bits // 8}",
                (GlobalPtr("out", TX, dtype), regs("result", dtype, 1), TRUE),
            ),
        ],
        threads=threads,
        **kwargs,
    )


def run_per_thread(value, dtype, cell, threads=32, body=()):
    out = np.zeros(threads, dtype=cell)
    simulate(per_thread(value, dtype, threads, body), {"out": out}, {})
    return out


def test_integers_wrap_and_round_down():
    lane = np.arange(32, dtype=np.int64)
    big = (TX + 2**30) * 4  # wraps
    np.testing.assert_array_equal(
        run_per_thread(big, dt.i32, np.int32), (((lane + 2**30) * 4) & 0xFFFFFFFF).astype(np.int32)
    )
    signed = TX - 16
    np.testing.assert_array_equal(
        run_per_thread(signed // 5, dt.i32, np.int32), (lane - 16) // 5
    )
    np.testing.assert_array_equal(
        run_per_thread(signed % 5, dt.i32, np.int32), (lane - 16) % 5
    )
    np.testing.assert_array_equal(
        run_per_thread(signed >> 2, dt.i32, np.int32), np.floor((lane - 16) / 4)
    )


def test_a_shuffle_reduction_sums_each_warp():
    v = Var("v", dt.f32)
    steps = [Assign(v, Element("x", (ZERO,), dt.f32), declares=True)]
    for mask in (16, 8, 4, 2, 1):
        other = Call("shfl.xor", (v, Const(mask, dt.i32)), dt.f32)
        steps.append(Assign(v, v + other, declares=False))
    body = [
        DeclareArray("x", dt.f32, 1),
        Prim("ld.global.4", (regs("x", dt.f32, 1), GlobalPtr("src", TX, dt.f32), TRUE)),
        *steps,
    ]
    source, out = RNG.integers(-50, 50, 128).astype(np.float32), np.zeros(128, dtype=np.float32)
    simulate(
        per_thread(v, dt.f32, 128, body, [pointer("src", dt.f32, 128)]),
        {"src": source, "out": out},
        {},
    )
    np.testing.assert_array_equal(out, source.reshape(4, 32).sum(axis=1).repeat(32))


def test_divergent_branches_and_loops_agree_with_a_loop_over_threads():
    count, total = Var("count"), Var("total")
    body = [
        Assign(count, TX % 7, declares=True),
        Assign(total, ZERO, declares=True),
        While(
            compare("gt", count, 0),
            (
                Assign(total, total + count, declares=False),
                Assign(count, count - 1, declares=False),
            ),
        ),
        For(
            Var("i"), TX % 3, TX, Const(2, dt.i32),
            (
                If(
                    compare("eq", Var("i") % 4, 0),
                    (Assign(total, total + Var("i") * 100, declares=False),),
                    (Assign(total, total - 1, declares=False),),
                ),
            ),
        ),
    ]  # fmt: skip

    def thread(t):
        total = sum(range(t % 7 + 1))
        for i in range(t % 3, t, 2):
            total += i * 100 if i % 4 == 0 else -1
        return total

    expected = [thread(t) for t in range(96)]
    np.testing.assert_array_equal(run_per_thread(total, dt.i32, np.int32, 96, body), expected)


def test_inner_declarations_leave_the_outer_variables():
    v, i = Var("v"), Var("i")
    inner = (Assign(v, TX * 100, declares=True), Assign(v, v + 1, declares=False))
    body = [
        Assign(v, TX, declares=True),
        Assign(i, Const(5, dt.i32), declares=True),
        If(compare("lt", TX, 16), inner),
        For(i, ZERO, Const(3, dt.i32), ONE, inner),
    ]
    np.testing.assert_array_equal(
        run_per_thread(v + i, dt.i32, np.int32, body=body), np.arange(32) + 5
    )


def test_a_transpose_through_shared_memory_in_many_blocks():
    tile, blocks = 32, 6
    at = BX * tile * tile
    body = [
        DeclareArray("r", dt.f32, 1),
        For(
            Var("i"), ZERO, Const(tile, dt.i32), ONE,
            (
                load(regs("r", dt.f32, 1), "src", at + Var("i") * tile + TX, dt.f32),
                Prim("st.shared.4", (SharedPtr((Var("i") * 33 + TX) * 4), regs("r", dt.f32, 1))),
            ),
        ),
        Prim("bar.sync", ()),
        For(
            Var("i"), ZERO, Const(tile, dt.i32), ONE,
            (
                Prim("ld.shared.4", (regs("r", dt.f32, 1), SharedPtr((TX * 33 + Var("i")) * 4))),
                store(regs("r", dt.f32, 1), "dst", at + Var("i") * tile + TX, dt.f32),
            ),
            unroll=True,
        ),
    ]  # fmt: skip
    shape = (blocks, tile, tile)
    source, target = RNG.random(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    report = simulate(
        program(
            [pointer("src", dt.f32, *shape), pointer("dst", dt.f32, *shape)],
            body,
            shared=32 * 33 * 4,
            grid=(Const(blocks, dt.i32), ONE, ONE),
        ),
        {"src": source, "dst": target},
        {},
    )
    np.testing.assert_array_equal(target, source.transpose(0, 2, 1))
    # A row of 33 words puts a column's words into 32 banks.
    assert report.counters.wavefronts == {"ld.shared.4": 32 * blocks, "st.shared.4": 32 * blocks}
    assert report.counters.instructions["bar.sync"] == blocks
    assert report.counters.sectors["ld.global.4"] == 32 * blocks * 4


MMA = [
    ("mma.16x8x16.f32.f16.f16", dt.f32, dt.f16, 16, np.float16, np.float32),
    ("mma.16x8x16.f16.f16.f16", dt.f16, dt.f16, 16, np.float16, np.float16),
    ("mma.16x8x16.f32.bf16.bf16", dt.f32, dt.bf16, 16, "bfloat16", np.float32),
    ("mma.16x8x8.f32.tf32.tf32", dt.f32, dt.tf32, 8, np.float32, np.float32),
    ("mma.16x8x32.i32.i8.i8", dt.i32, dt.i8, 32, np.int8, np.int32),
    ("mma.16x8x32.i32.u8.u8", dt.i32, dt.u8, 32, np.uint8, np.int32),
    ("mma.16x8x32.f32.f8e4m3.f8e4m3", dt.f32, dt.f8e4m3, 32, "float8_e4m3fn", np.float32),
    ("mma.16x8x32.f32.f8e5m2.f8e5m2", dt.f32, dt.f8e5m2, 32, "float8_e5m2", np.float32),
]


def numpy_type(name):
    return np.dtype(
        getattr(pytest.importorskip("ml_dtypes"), name) if isinstance(name, str) else name
    )


def stage(name, dtype, rows, row_bytes, base, threads=32):
    """Threads 0..rows-1 copy one row of `name` each into shared memory, 16 bytes at a time."""
    width = 128 // dtype.bits
    copies = []
    for j in range(row_bytes // 16):
        source = GlobalPtr(name, TX * (row_bytes * 8 // dtype.bits) + j * width, dtype)
        copies += [
            DeclareArray(f"row{j}", dtype, width),
            Prim("ld.global.16", (regs(f"row{j}", dtype, width), source, TRUE)),
            Prim(
                "st.shared.16",
                (SharedPtr(TX * row_bytes + (base + 16 * j)), regs(f"row{j}", dtype, width)),
            ),
        ]
    return If(compare("lt", TX, rows), tuple(copies))


def one_warp_mma(name, c_type, in_type, k):
    """c[16, 8] += a[16, k] * b[8, k]^T, operands through ldmatrix, one warp.

    Of 4-byte registers, a has (row half, k half), b has k halves, whatever the element type.
    """
    row_bytes = k * in_type.bits // 8
    per = 32 // in_type.bits
    b_base = 16 * row_bytes
    a_row = SharedPtr((TX % 16) * row_bytes + (TX // 16) * 16)
    b_row = SharedPtr((TX % 8) * row_bytes + ((TX // 8) % 2) * 16 + b_base)
    c_index = ((TX // 4) * 8) + (TX % 4) * 2
    c_bytes = c_type.bits // 8 * 2
    moves = [
        (GlobalPtr("c", c_index + half * 64, c_type), regs("c", c_type, 2, (half * 2,)))
        for half in (0, 1)
    ]
    return program(
        [pointer("a", in_type, 16, k), pointer("b", in_type, 8, k), pointer("c", c_type, 16, 8)],
        [
            stage("a", in_type, 16, row_bytes, 0),
            stage("b", in_type, 8, row_bytes, b_base),
            Prim("bar.sync", ()),
            DeclareArray("a", in_type, 4 * per),
            DeclareArray("b", in_type, 2 * per),
            DeclareArray("c", c_type, 4),
            Prim("ldmatrix.x4", (regs("a", in_type, per, [i * per for i in range(4)]), a_row)),
            Prim("ldmatrix.x2", (regs("b", in_type, per, [i * per for i in range(2)]), b_row)),
            *(Prim(f"ld.global.{c_bytes}", (part, place, TRUE)) for place, part in moves),
            Prim(
                name,
                (
                    regs("c", c_type, 32 // c_type.bits, range(0, 4, 32 // c_type.bits)),
                    regs("a", in_type, per, range(0, 4 * per, per)),
                    regs("b", in_type, per, range(0, 2 * per, per)),
                ),
            ),
            *(Prim(f"st.global.{c_bytes}", (place, part, TRUE)) for place, part in moves),
        ],
        shared=24 * row_bytes,
    )


@pytest.mark.parametrize(("name", "c_type", "in_type", "k", "cell", "c_cell"), MMA)
def test_one_warp_multiplies(name, c_type, in_type, k, cell, c_cell):
    low = 0 if in_type.kind == "uint" else -8
    a = RNG.integers(low, 9, (16, k)).astype(np.float32).astype(numpy_type(cell))
    b = RNG.integers(low, 9, (8, k)).astype(np.float32).astype(numpy_type(cell))
    c = RNG.integers(-9, 9, (16, 8)).astype(c_cell)
    wide = np.float64
    expected = c.astype(wide) + a.astype(wide) @ b.astype(wide).T
    report = simulate(one_warp_mma(name, c_type, in_type, k), {"a": a, "b": b, "c": c}, {})
    np.testing.assert_array_equal(c.astype(wide), expected)
    assert report.counters.instructions[name] == 1


def test_tf32_products_ignore_the_low_13_bits():
    a = np.full((16, 8), 1 + 2.0**-10 + 2.0**-11, dtype=np.float32)
    b, c = np.zeros((8, 8), dtype=np.float32), np.zeros((16, 8), dtype=np.float32)
    b[:, 0] = 1
    simulate(
        one_warp_mma("mma.16x8x8.f32.tf32.tf32", dt.f32, dt.tf32, 8), {"a": a, "b": b, "c": c}, {}
    )
    np.testing.assert_array_equal(c, np.float32(1 + 2.0**-10))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_transposed_gives_each_lane_a_column_pair(count):
    """Lane l gets, of each matrix, rows 2 * (l % 4) + {0, 1} of column l / 4."""
    out = np.zeros((32, 2 * count), dtype=np.float16)
    source = np.arange(8 * count * 8, dtype=np.float16).reshape(8 * count, 8)
    body = [
        stage("src", dt.f16, 8 * count, 16, 0),
        Prim("bar.sync", ()),
        DeclareArray("m", dt.f16, 2 * count),
        Prim(
            f"ldmatrix.x{count}.trans",
            (
                regs("m", dt.f16, 2, [2 * i for i in range(count)]),
                SharedPtr((TX % (8 * count)) * 16),
            ),
        ),
        Prim(
            f"st.global.{4 * count}",
            (GlobalPtr("out", TX * (2 * count), dt.f16), regs("m", dt.f16, 2 * count), TRUE),
        ),
    ]
    simulate(
        program(
            [pointer("src", dt.f16, 8 * count, 8), pointer("out", dt.f16, 32, 2 * count)],
            body,
            shared=128 * count,
        ),
        {"src": source, "out": out},
        {},
    )
    for lane in range(32):
        for matrix in range(count):
            rows = 8 * matrix + 2 * (lane % 4)
            np.testing.assert_array_equal(
                out[lane, 2 * matrix : 2 * matrix + 2], source[rows : rows + 2, lane // 4]
            )


def test_select_and_predicates_per_thread():
    value = select(land(compare("ge", TX, 4), compare("lt", TX, 9)), TX * 2, -1)
    lane = np.arange(32)
    np.testing.assert_array_equal(
        run_per_thread(value, dt.i32, np.int32), np.where((lane >= 4) & (lane < 9), lane * 2, -1)
    )
