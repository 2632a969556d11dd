"""The interpreter of tile programs against plain numpy, one tile operation at a time."""

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.scalar import (
    Const,
    Element,
    Unary,
    Var,
    as_scalar,
    cdiv,
    compare,
    maximum,
)
from hexcute_core.simulator import interpret
from hexcute_core.tile import (
    Assign,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GlobalTensor,
    GlobalView,
    If,
    Rearrange,
    Reduce,
    RegisterTensor,
    SetElement,
    SharedTensor,
    SubMode,
    Sync,
    TileProgram,
    TileRef,
)
from hexcute_core.tile.promise import Promise

AT = SourceSpan("kernel.py", 12)
ONE = Const(1, dt.i32)
BX, BY, TX = Var("blockIdx.x"), Var("blockIdx.y"), Var("threadIdx.x")
RNG = np.random.default_rng(3)


def param(name, dtype, *shape):
    return GlobalTensor(name, dtype, tuple(as_scalar(s) for s in shape), AT)


def view(name, of, dtype, origin, *modes):
    """A view whose modes list (extent, step, dim) sub-modes."""
    return GlobalView(
        name, of, dtype, tuple(as_scalar(o) for o in origin),
        tuple(tuple(SubMode(as_scalar(e), as_scalar(s), d) for e, s, d in mode) for mode in modes),
        AT,
    )  # fmt: skip


def ref(name, *shape, at=None, drop=()):
    starts = tuple(as_scalar(s) for s in (at or [0] * len(shape)))
    return TileRef(name, starts, shape, tuple(m for m in range(len(shape)) if m not in drop))


def reg(name, dtype, *shape):
    return RegisterTensor(name, dtype, shape, AT)


def tile_program(params, tensors, body, symbols=(), grid=(ONE, ONE, ONE), scalars=()):
    return TileProgram(
        "kernel", tuple(params), tuple(scalars), tuple(symbols), grid, 128, tuple(tensors),
        tuple(body), Promise(), AT,
    )  # fmt: skip


def gemm_program(bm=16, bn=32, bk=8):
    m, n, k = Var("m"), Var("n"), Var("k")
    steps = cdiv(k, bk)
    split = [(bk, 1, 1)], [(steps, bk, 1)]

    def stage(name, rows):
        return ref(name, rows, bk, 1, at=(0, 0, Var("i")), drop=(2,))

    return tile_program(
        [param("a", dt.f16, m, k), param("b", dt.f16, n, k), param("c", dt.f16, m, n)],
        [
            view("ga", "a", dt.f16, (BX * bm, 0), [(bm, 1, 0)], *split),
            view("gb", "b", dt.f16, (BY * bn, 0), [(bn, 1, 0)], *split),
            view("gc", "c", dt.f16, (BX * bm, BY * bn), [(bm, 1, 0)], [(bn, 1, 1)]),
            reg("ra", dt.f16, bm, bk),
            reg("rb", dt.f16, bn, bk),
            reg("rc", dt.f32, bm, bn),
            reg("rh", dt.f16, bm, bn),
            SharedTensor("sc", dt.f16, (bm, bn), AT),
        ],
        [
            Fill(0, ref("rc", bm, bn), Const(0.0, dt.f32), AT),
            For(
                Var("i"), Const(0, dt.i32), steps, ONE,
                (
                    Copy(1, stage("ga", bm), ref("ra", bm, bk), AT),
                    Copy(2, stage("gb", bn), ref("rb", bn, bk), AT),
                    Gemm(3, ref("rc", bm, bn), ref("ra", bm, bk), ref("rb", bn, bk), AT),
                ),
                AT,
            ),
            CastTile(4, ref("rh", bm, bn), ref("rc", bm, bn), AT),
            Copy(5, ref("rh", bm, bn), ref("sc", bm, bn), AT),
            Sync(AT),
            Copy(6, ref("sc", bm, bn), ref("rh", bm, bn), AT),
            Copy(7, ref("rh", bm, bn), ref("gc", bm, bn), AT),
        ],
        symbols=("m", "n", "k"),
        grid=(cdiv(m, bm), cdiv(n, bn), ONE),
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(16, 32, 8), (33, 70, 29), (1, 1, 1), (17, 24, 40), (48, 64, 0)])
def test_gemm_with_ragged_edges(shape):
    m, n, k = shape
    a = RNG.integers(-4, 5, (m, k)).astype(np.float16)
    b = RNG.integers(-4, 5, (n, k)).astype(np.float16)
    c = np.full((m, n), 99, dtype=np.float16)
    interpret(gemm_program(), {"a": a, "b": b, "c": c}, {"m": m, "n": n, "k": k})
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def test_only_the_named_blocks_run():
    a, b = np.ones((32, 8), dtype=np.float16), np.ones((64, 8), dtype=np.float16)
    c, sizes = np.zeros((32, 64), dtype=np.float16), {"m": 32, "n": 64, "k": 8}
    interpret(gemm_program(), {"a": a, "b": b, "c": c}, sizes, blocks=[(1, 0, 0)])
    assert np.argwhere(c != 0).min(axis=0).tolist() == [16, 0]
    assert np.argwhere(c != 0).max(axis=0).tolist() == [31, 31]


def one_tile(shape, dtype, tensors, body, out_dtype=None, out_shape=None):
    """x -> registers `rx`, `body`, registers `ry` -> y."""
    out_dtype, out_shape = out_dtype or dtype, out_shape or shape
    return tile_program(
        [param("x", dtype, *shape), param("y", out_dtype, *out_shape)],
        [
            view("gx", "x", dtype, (0, 0), [(shape[0], 1, 0)], [(shape[1], 1, 1)]),
            view("gy", "y", out_dtype, (0, 0), [(out_shape[0], 1, 0)], [(out_shape[1], 1, 1)]),
            reg("rx", dtype, *shape),
            reg("ry", out_dtype, *out_shape),
            *tensors,
        ],
        [
            Copy(0, ref("gx", *shape), ref("rx", *shape), AT),
            *body,
            Copy(1, ref("ry", *out_shape), ref("gy", *out_shape), AT),
        ],
    )


def run(program, x, y):
    interpret(program, {"x": x, "y": y}, {})
    return y


def test_softmax_like_reductions_and_broadcasts():
    x = RNG.standard_normal((8, 12)).astype(np.float32)
    rm, rs = ref("rm", 8, 1), ref("rs", 8, 1)
    rx, ry = ref("rx", 8, 12), ref("ry", 8, 12)
    v0, v1 = Var("$0", dt.f32), Var("$1", dt.f32)
    body = [
        Reduce(2, rm, rx, 1, "max", AT),
        Elementwise(3, ry, (rx, rm), Unary("exp", v0 - v1, dt.f32), AT),
        Reduce(4, rs, ry, 1, "sum", AT),
        Elementwise(5, ry, (ry, rs), v0 / v1, AT),
    ]
    tensors = [reg("rm", dt.f32, 8, 1), reg("rs", dt.f32, 8, 1)]
    got = run(one_tile((8, 12), dt.f32, tensors, body), x, np.zeros_like(x))
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(axis=1, keepdims=True), rtol=1e-6)


def test_sums_of_half_precision_are_carried_wide():
    x = np.full((4, 4096), 1, dtype=np.float16)
    body = [Reduce(2, ref("ry", 4, 1), ref("rx", 4, 4096), 1, "sum", AT)]
    program = one_tile((4, 4096), dt.f16, [], body, dt.f32, (4, 1))
    got = run(program, x, np.zeros((4, 1), dtype=np.float32))
    np.testing.assert_array_equal(got, 4096)


def test_a_view_with_split_and_permuted_modes():
    """y[j, i] over modes ((2 @ dim 1 step 3, 3 @ dim 1 step 1), (4 @ dim 0)) of x[4, 6]."""
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    program = tile_program(
        [param("x", dt.i32, 4, 6), param("y", dt.i32, 6, 4)],
        [
            view("gx", "x", dt.i32, (0, 0), [(2, 3, 1), (3, 1, 1)], [(4, 1, 0)]),
            view("gy", "y", dt.i32, (0, 0), [(6, 1, 0)], [(4, 1, 1)]),
        ],
        [Copy(0, ref("gx", 6, 4), ref("gy", 6, 4), AT)],
    )
    got = run(program, x, np.zeros((6, 4), dtype=np.int32))
    column = [0, 3, 1, 4, 2, 5]
    np.testing.assert_array_equal(got, x[:, column].T)


def test_thread_code_over_elements():
    """A causal mask with a clamp, written element by element."""
    x = RNG.integers(-9, 9, (8, 8)).astype(np.float32)
    i, j = Var("i"), Var("j")
    v = Var("v", dt.f32)
    element = Element("rx", (i, j), dt.f32)
    body = [
        Assign(Var("limit"), Const(3, dt.i32), True, AT),
        ForElements(
            2, ref("rx", 8, 8), (i, j),
            (
                Assign(v, maximum(element, Const(0.0, dt.f32)), True, AT),
                If(
                    compare("gt", j, i + Var("limit")),
                    (SetElement("rx", (i, j), Const(-1.0, dt.f32), AT),),
                    (SetElement("rx", (i, j), v, AT),),
                    AT,
                ),
            ),
            AT,
        ),
        Rearrange(3, ref("ry", 8, 8), ref("rx", 8, 8), None, AT),
    ]  # fmt: skip
    got = run(one_tile((8, 8), dt.f32, [], body), x, np.zeros_like(x))
    row, column = np.indices((8, 8))
    np.testing.assert_array_equal(got, np.where(column > row + 3, -1, np.maximum(x, 0)))


def test_casts_round_and_saturate_as_the_machine():
    x = np.array([[2049.0, -2.75, 300.0, 1e9, 65536.0, np.nan]], dtype=np.float32)
    for dtype, cell, expected in [
        (dt.f16, np.float16, [2048, -2.75, 300, np.inf, np.inf, np.nan]),
        (dt.i8, np.int8, [127, -2, 127, 127, 127, 0]),
        (dt.u8, np.uint8, [255, 0, 255, 255, 255, 0]),
        (dt.i32, np.int32, [2049, -2, 300, 10**9, 65536, 0]),
    ]:
        body = [CastTile(2, ref("ry", 1, 6), ref("rx", 1, 6), AT)]
        got = run(one_tile((1, 6), dt.f32, [], body, dtype), x, np.zeros((1, 6), dtype=cell))
        np.testing.assert_array_equal(got[0], np.array(expected, dtype=cell))


def error(program, x, y):
    with pytest.raises(SimulationError) as caught:
        run(program, x, y)
    assert str(caught.value).startswith("kernel.py:12: ")
    return str(caught.value)


X = np.zeros((8, 8), dtype=np.float32)


def test_a_tile_read_before_it_is_written():
    body = [Rearrange(2, ref("ry", 8, 8), ref("rz", 8, 8), None, AT)]
    message = error(one_tile((8, 8), dt.f32, [reg("rz", dt.f32, 8, 8)], body), X, X.copy())
    assert "rz is read before all of it was written" in message


def test_a_slice_outside_its_tensor():
    body = [Copy(2, ref("rx", 8, 8, at=(0, 4)), ref("ry", 8, 8), AT)]
    assert "[4, 12) is outside mode 1 of extent 8" in error(
        one_tile((8, 8), dt.f32, [], body), X, X.copy()
    )


def test_a_tile_operation_that_only_some_threads_reach():
    body = [If(compare("lt", TX, 7), (Fill(2, ref("ry", 8, 8), ONE, AT),), (), AT)]
    assert "differs from thread to thread" in error(one_tile((8, 8), dt.f32, [], body), X, X.copy())


def test_an_element_loop_whose_result_would_depend_on_the_layout():
    total, i, j = Var("total", dt.f32), Var("i"), Var("j")
    add = Assign(total, total + Element("rx", (i, j), dt.f32), False, AT)
    body = [
        Assign(total, Const(0.0, dt.f32), True, AT),
        ForElements(2, ref("rx", 8, 8), (i, j), (add,), AT),
    ]
    assert "would depend on the layout" in error(one_tile((8, 8), dt.f32, [], body), X, X.copy())
