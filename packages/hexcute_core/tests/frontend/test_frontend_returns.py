
"""Returns of a kernel leave it, wherever they stand."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import i32
from hexcute_core.frontend import define, trace
from hexcute_core.simulator import interpret
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify


def test_early_return_of_a_kernel_becomes_a_branch():
    def kernel(out: i32[4], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        if n > 3:
            return
        r = hx.register_tensor(i32, 4)
        hx.fill(r, n)
        hx.copy(r, hx.global_view(out, (4, 1)))

    program = trace(define(kernel), {}, Promise())
    verify(program)
    for n, expected in ((2, 2), (5, -1)):
        out = interpret(program, {"out": np.full(4, -1, np.int32)}, {"n": n})["out"]
        assert (out == expected).all()


@pytest.mark.parametrize("static", [False, True])
def test_a_return_of_an_if_in_another_leaves_the_kernel(static: bool) -> None:
    def kernel(out: i32[4], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i32, 4)
        hx.fill(r, n)
        if static or n > 0:
            if n > 3:
                hx.copy(r, hx.global_view(out, (4, 1)))
                return
            r += 10
        elif n < -3:
            return
        else:
            if n == -1:
                return
        hx.copy(r + 100, hx.global_view(out, (4, 1)))

    program = trace(define(kernel), {}, Promise())
    verify(program)
    for n, expected in ((2, 112), (5, 5), (-7, -1), (-1, -1), (-2, 98)):
        if static and n < 0:
            expected = n + 110
        out = interpret(program, {"out": np.full(4, -1, np.int32)}, {"n": n})["out"]
        assert (out == expected).all()
