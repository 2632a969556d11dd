"""The interpreter of tile programs with roles: pipelines, barriers, clusters, deadlocks."""

import dataclasses

import numpy as np
import pytest
from tile_builder import TileBuilder

from hexcute_core.dtypes import boolean, f32, i32
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Binary, Compare, Const, Var
from hexcute_core.simulator import interpret
from hexcute_core.tile import (
    Assign,
    ClusterOp,
    Copy,
    For,
    If,
    Mbarrier,
    MbarrierOp,
    NamedBarrier,
    NamedBarrierOp,
    Pipeline,
    PipelineRelease,
    PipelineWait,
    Produce,
    Role,
)

TILES, STAGES, SIZE = 5, 2, 8
IT, STAGE, PHASE = Var("i"), Var("stage"), Var("phase")
TX = Var("threadIdx.x")


def number(value):
    return Const(value, i32)


def turn():
    """The slot and the round of iteration i."""
    return (
        Assign(STAGE, Binary("mod", IT, number(STAGES), i32), True, None),
        Assign(PHASE, Binary("mod", Binary("floordiv", IT, number(STAGES), i32), number(2), i32),
               True, None),
    )  # fmt: skip


def loop(span, *body):
    return For(IT, number(0), number(TILES), number(1), (*turn(), *body), span)


def ring(release=True, produce=True):
    """One role fills a ring of two slots from x, another empties it into y, backwards."""
    b = TileBuilder(threads=256)
    b.param("x", f32, TILES, SIZE)
    b.param("y", f32, TILES, SIZE)
    x = b.view("gx", "x", [(TILES, 1, 0), (SIZE, 1, 1)])
    y = b.view("gy", "y", [(TILES, 1, 0), (SIZE, 1, 1)])
    s = b.shared("s", f32, STAGES, SIZE)
    r = b.register("r", f32, SIZE)
    span = b.span()
    fill = Copy(1, b.part(x, IT, None), b.part(s, STAGE, None), span)
    backwards = Binary("sub", number(TILES - 1), IT, i32)
    consume = [
        PipelineWait("pipe", STAGE, PHASE, span),
        Copy(2, b.part(s, STAGE, None), r, span),
        *([PipelineRelease("pipe", STAGE, span)] if release else []),
        Copy(3, r, b.part(y, backwards, None), span),
    ]
    filling = loop(span, Produce("pipe", STAGE, PHASE, (fill,), span))
    roles = (
        Role("producer", 0, 128, None, (filling,) if produce else (), span),
        Role("consumer", 128, 128, None, (loop(span, *consume),), span),
    )
    made = b.program()
    return dataclasses.replace(made, body=roles, pipelines=(Pipeline("pipe", STAGES, span),))


def run(program, grid=1, **arrays):
    x = np.arange(TILES * SIZE, dtype=np.float32).reshape(TILES, SIZE)
    y = np.full_like(x, -1)
    interpret(program, {"x": x, "y": y, **arrays}, {})
    return x, y


def test_a_ring_hands_tiles_over():
    x, y = run(ring())
    np.testing.assert_array_equal(y, x[::-1])


@pytest.mark.parametrize("broken", [{"release": False}, {"produce": False}])
def test_roles_that_wait_for_ever(broken):
    with pytest.raises(SimulationError, match="wait for each other for ever") as caught:
        run(ring(**broken))
    assert caught.value.span is not None


def raw(actions):
    """Roles whose statements are given; each copies a row of x to y when it has got through."""
    b = TileBuilder(threads=128 * len(actions))
    b.param("x", f32, TILES, SIZE)
    b.param("y", f32, TILES, SIZE)
    x = b.view("gx", "x", [(TILES, 1, 0), (SIZE, 1, 1)])
    y = b.view("gy", "y", [(TILES, 1, 0), (SIZE, 1, 1)])
    registers = [b.register(f"r{i}", f32, SIZE) for i in range(len(actions))]
    span = b.span()
    roles = []
    for i, (before, after) in enumerate(actions):
        row = number(i)
        source = x if i == 0 else y
        body = (
            *before(span),
            Copy(2 * i, b.part(source, row if i == 0 else number(i - 1), None), registers[i], span),
            Copy(2 * i + 1, registers[i], b.part(y, row, None), span),
            *after(span),
        )
        roles.append(Role("consumer", 128 * i, 128, None, body, span))
    made = b.program()
    return dataclasses.replace(
        made,
        body=tuple(roles),
        mbarriers=(Mbarrier("m", 128, 2, span),),
        named_barriers=(NamedBarrier("n", 256, span),),
    )


def nothing(span):
    return ()


def arrive(span):
    return (MbarrierOp("arrive", "m", number(1), None, span),)


def wait(span):
    return (MbarrierOp("wait", "m", number(1), number(0), span),)


def arrive_one_lane(span):
    first = Compare("eq", TX, number(0), boolean)
    return (If(first, arrive(span), (), span),)


def test_an_mbarrier_orders_two_roles():
    x, y = run(raw([(nothing, arrive), (wait, nothing)]))
    np.testing.assert_array_equal(y[1], x[0])


def test_an_mbarrier_counts_executing_lanes():
    with pytest.raises(SimulationError, match="for ever"):
        run(raw([(nothing, arrive_one_lane), (wait, nothing)]))


def test_a_named_barrier_orders_two_roles():
    meet = lambda action: lambda span: (NamedBarrierOp(action, "n", span),)  # noqa: E731
    x, y = run(raw([(nothing, meet("arrive")), (meet("sync"), nothing)]))
    np.testing.assert_array_equal(y[1], x[0])
    with pytest.raises(SimulationError, match="for ever"):
        run(raw([(nothing, nothing), (meet("sync"), nothing)]))


def test_blocks_of_a_cluster_wait_for_each_other():
    """Block 0 copies what block 1 wrote before they met."""
    b = TileBuilder(threads=128, grid=(2, 1, 1))
    b.param("x", f32, TILES, SIZE)
    b.param("y", f32, TILES, SIZE)
    x = b.view("gx", "x", [(TILES, 1, 0), (SIZE, 1, 1)])
    y = b.view("gy", "y", [(TILES, 1, 0), (SIZE, 1, 1)])
    r = b.register("r", f32, SIZE)
    span, block = b.span(), Var("blockIdx.x")
    last = Compare("eq", block, number(1), boolean)
    give = (
        Copy(1, b.part(x, number(3), None), r, span),
        Copy(2, r, b.part(y, number(0), None), span),
    )
    take = (
        Copy(3, b.part(y, number(0), None), r, span),
        Copy(4, r, b.part(y, number(1), None), span),
    )
    body = (
        If(last, give, (), span),
        ClusterOp("arrive", span),
        ClusterOp("wait", span),
        If(last, (), take, span),
    )
    made = dataclasses.replace(b.program(), body=body, cluster_dim=(2, 1, 1))
    got_x, got_y = run(made)
    np.testing.assert_array_equal(got_y[1], got_x[3])
