"""Views of global memory traced and interpreted: modes, ragged edges, names of other modules."""

import numpy as np

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.frontend import define, trace
from hexcute_core.simulator import interpret
from hexcute_core.tile import Copy
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify


def test_hierarchical_views_and_leading_indices():
    def kernel(x: f32[4, 8, 6], out: f32[8, 6], e: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (8, 6))
        # Rows in the order 0, 4, 1, 5, ...: sub-modes (2, 4) of strides (4 rows, 1 row).
        hx.copy(hx.global_view(x[e, :, :], (((2, 4), 6), ((24, 6), 1))), r)
        hx.copy(r, hx.global_view(out, ((8, 6), (6, 1))))

    program = trace(define(kernel), {}, Promise())
    verify(program)
    x = np.arange(4 * 8 * 6, dtype=np.float32).reshape(4, 8, 6)
    out = interpret(program, {"x": x, "out": np.zeros((8, 6), np.float32)}, {"e": 2})["out"]
    np.testing.assert_array_equal(out, x[2][[0, 4, 1, 5, 2, 6, 3, 7]])


def test_ragged_edges_come_from_the_view_alone():
    m, k = hx.dims("m k")

    def kernel(x: f32[m, k], out: f32[m, k], *, BM: int = 8, BK: int = 16):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
        hx.attrs.cuda.block_dim = 32
        bm = hx.blockIdx.x * BM
        layout = ((BM, BK, hx.cdiv(k, BK)), (k, 1, BK))
        gx, go = hx.global_view(x[bm:], layout), hx.global_view(out[bm:], layout)
        r = hx.register_tensor(f32, (BM, BK))
        for i in range(hx.cdiv(k, BK)):
            hx.copy(gx[:, :, i], r)
            r = r * 2.0
            hx.copy(r, go[:, :, i])

    program = trace(define(kernel), {}, Promise())
    verify(program)
    x = np.random.default_rng(2).normal(size=(13, 37)).astype(np.float32)
    out = interpret(program, {"x": x, "out": np.zeros_like(x)}, {"m": 13, "k": 37})["out"]
    np.testing.assert_allclose(out, x * 2, rtol=1e-6)


def test_aliases_of_the_language_work():
    from hexcute_core import copy as move
    from hexcute_core import global_view as look

    tile = hx.register_tensor

    def kernel(x: f32[8, 4]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = tile(f32, (8, 4))
        move(look(x, ((8, 4), (4, 1))), r)

    program = trace(define(kernel), {}, Promise())
    assert [type(s) for s in program.body] == [Copy]
