"""Clocks of what threads compute: every function has its own, loops count their rounds."""

from typing import get_args

import pytest
import tile_builder

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.arch import Fragment, Mode
from hexcute_core.scalar import Binary, Unary, Var, cast, unary
from hexcute_core.scalar.expr import BinaryOp, UnaryOp
from hexcute_core.synthesis.compute_cost import LIBRARY, SIMPLE, compute_clocks, scalar_clocks
from hexcute_core.tile.facts import UNKNOWN_TRIPS, Facts

x = Var("x", f32)


def test_arithmetic_is_counted_in_what_a_warp_issues():
    f = Fragment((16, 64), (Mode(8, 1, 1), Mode(4, 1, 0)), (Mode(8, 8, 1), Mode(4, 4, 0)))
    b = tile_builder.TileBuilder(threads=32)
    r, s = b.register("x", f32, 16, 64), b.register("y", f32, 16, 64)
    b.map(s, Var("$0", f32) + 1.0, r)
    b.map(s, cast(Var("$0", f32) * 2.0, f32), r)
    b.map(s, unary("exp", Var("$0", f32)), r)
    program = b.program()
    facts = Facts(program)
    simple, same, special = (
        compute_clocks(op, {"x": f, "y": f}, facts, 1.0) for op in program.body
    )
    assert simple == same == 32 * 0.25 and special == 32 * 2.0
    assert compute_clocks(program.body[0], {"x": f, "y": f}, facts, 4.0) == 4 * simple


def test_every_function_has_a_cost():
    for op in get_args(UnaryOp):
        assert scalar_clocks(Unary(op, x, f32)) >= SIMPLE
    for op in get_args(BinaryOp):
        assert scalar_clocks(Binary(op, x, x, f32)) >= SIMPLE


@pytest.mark.parametrize("node", [Unary("gamma", x, f32), Binary("hypot", x, x, f32)])
def test_a_function_without_a_cost_is_an_error(node):
    with pytest.raises(TypeError, match="unknown member"):
        scalar_clocks(node)


def test_what_the_library_computes_costs_more_than_one_instruction():
    for op in ("erf", "tanh", "sin", "cos"):
        assert scalar_clocks(Unary(op, x, f32)) == LIBRARY > scalar_clocks(Unary("exp", x, f32))


@hx.kernel(cache=False)
def looping(a: f32[16, 64], n: i32, *, ROUNDS: int = 1, HOW: str = "for"):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (16, 64))
    g = hx.global_view(a, ((16, 64), (64, 1)))
    hx.copy(g, r)
    for i, j in hx.elements(r):
        if HOW == "for":
            for _ in range(ROUNDS):
                r[i, j] = r[i, j] * 0.5
        elif HOW == "unknown":
            for _ in range(n):
                r[i, j] = r[i, j] * 0.5
        else:
            while r[i, j] > 1.0:
                r[i, j] = r[i, j] * 0.5
    hx.copy(r, g)


def elements_clocks(**constants):
    solution = looping.compile("sm_80", **constants).solution
    (op,) = (s for s in solution.program.body if type(s).__name__ == "ForElements")
    return solution.op_cost[op.id]


def test_a_loop_over_elements_costs_its_rounds():
    once, thousand = elements_clocks(ROUNDS=1), elements_clocks(ROUNDS=1000)
    assert thousand == 1000 * once
    assert elements_clocks(HOW="unknown") == elements_clocks(ROUNDS=UNKNOWN_TRIPS)
    assert elements_clocks(HOW="while") > 20 * once


@hx.kernel(cache=False)
def scanning(a: f32[16, 64], b: f32[16, 64]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    ga, gb = (hx.global_view(t, ((16, 64), (64, 1))) for t in (a, b))
    ra, rb = hx.register_tensor(f32, (16, 64)), hx.register_tensor(f32, (16, 64))
    hx.copy(ga, ra)
    hx.copy(gb, rb)
    first = hx.cumsum(ra, 1)
    second = hx.cumsum(rb, 0)
    for i, j in hx.elements(first):
        first[i, j] = first[i, j] + second[i, j]
    hx.copy(first, ga)
    hx.copy(second, gb)


def test_an_explanation_calls_every_operation_by_what_it_writes():
    text = str(scanning.compile("sm_80", verify=True).explain())
    for name in ("scan first", "scan second", "elements first"):
        assert f" {name} " in text, text
