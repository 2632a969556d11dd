"""What statements say of themselves: what they write, read, evaluate and contain."""

from dataclasses import fields, replace

import pytest
import role_kernels as rk
from tile_builder import TileBuilder

from hexcute_core.dtypes import boolean, f16, f32, i32
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Element, Var, as_scalar, compare
from hexcute_core.tile import (
    Assign,
    CallStmt,
    Copy,
    Fill,
    For,
    ForElements,
    GemmWait,
    If,
    MbarrierOp,
    Prefetch,
    Produce,
    Role,
    SetElement,
    Sync,
    TileRef,
    UpdateElement,
    While,
)
from hexcute_core.tile.ir import Control, Nest, Simple, Stmt, TileOp
from hexcute_core.tile.visit import (
    bodies,
    change,
    elements,
    operands,
    placed,
    results,
    scalars,
    statements,
    tensors,
    tiles,
    variables,
)

AT = SourceSpan("k.py", 7)
i, j, x = Var("i"), Var("j"), Var("x")
ZERO, ONE = as_scalar(0), as_scalar(1)


def operations():
    """One operation of each kind, with the tensors that it writes and those that it reads."""
    b = TileBuilder()
    g, s = b.tile("g", f16, 16, 16), b.shared("s", f16, 16, 16)
    r, t, c = (b.register(name, f16, 16, 16) for name in "rtc")
    column = b.register("column", f16, 16, 1)
    b.fill(r, 0.0, f16)
    b.copy(g, s)
    b.gemm(c, r, t)
    b.cast(r, t)
    b.relabel(r, t, (1, 0))
    b.map(r, Var("$0", f16), t)
    b.reduce(r, column, 1)
    b.cumulate(r, t, 0)
    b.rearrange(r, t)
    body = (SetElement("t", (i, j), Element("r", (i, j), f16), AT),)
    found = [*b.program().body, Prefetch(90, g, AT), ForElements(91, r, (i, j), body, AT)]
    touched = [
        ("r", ""), ("s", "g_g"), ("c", "r t"), ("t", "r"), ("t", "r"), ("r", "t"), ("column", "r"),
        ("t", "r"), ("t", "r"), ("", "g_g"), ("t", "r"),
    ]  # fmt: skip
    return list(zip(found, touched, strict=True))


@pytest.mark.parametrize(("op", "touched"), operations(), ids=lambda v: type(v).__name__)
def test_an_operation_names_what_it_writes_and_what_it_reads(op, touched):
    written, read = (part.split() for part in touched)
    assert [ref.tensor for ref in results(op)] == written
    assert [ref.tensor for ref in operands(op)] == read
    assert set(tensors(op)) == {*written, *read}


def test_operations_of_every_kind_were_asked():
    assert {type(op) for op, _ in operations()} == set(TileOp.__args__)


def test_statements_are_operations_control_or_simple():
    parts = [set(union.__args__) for union in (TileOp, Control, Simple)]
    assert set().union(*parts) == set(Stmt.__args__)
    assert sum(map(len, parts)) == len(Stmt.__args__)
    assert set(Nest.__args__) == {ForElements, *Control.__args__}
    with_bodies = {k for k in Stmt.__args__ if any("Stmt" in str(f.type) for f in fields(k))}
    assert with_bodies == set(Nest.__args__)
    with_tiles = {k for k in Stmt.__args__ if any("TileRef" in str(f.type) for f in fields(k))}
    # A single thread's update names one element of memory, and is no operation of all of them.
    with_tiles.remove(UpdateElement)
    assert with_tiles == {k for k in Stmt.__args__ if "id" in k.__dataclass_fields__}
    assert with_tiles == set(TileOp.__args__)


def test_a_loop_over_elements_touches_what_it_visits_though_it_may_not_read_it():
    ref = TileRef("r", (ZERO, ZERO), (8, 8), (0, 1))
    set_t = SetElement("t", (i, j), Const(0.0, f32), AT)
    op = ForElements(0, ref, (i, j), (set_t,), AT)
    assert (results(op), operands(op)) == ((replace(ref, tensor="t"),), ())
    assert tiles(op) == (ref, replace(ref, tensor="t"))


@pytest.mark.parametrize(
    "stmt",
    [
        While(compare("lt", x, Element("r", (i, j), i32)), (), AT),
        If(compare("lt", x, Element("r", (i, j), i32)), (), (), AT),
        For(x, ZERO, Element("r", (i, j), i32), ONE, (), AT),
        Assign(x, Element("r", (i, j), i32), True, AT),
        CallStmt("f", (ONE, Element("r", (i, j), i32)), AT),
        MbarrierOp("arrive", "b", Element("r", (i, j), i32), None, AT),
        SetElement("t", (i, j), Element("r", (i, j), i32), AT),
    ],
    ids=lambda stmt: type(stmt).__name__,
)
def test_elements_are_found_wherever_a_statement_evaluates_them(stmt):
    nested = If(Const(True, boolean), (), (While(Const(True, boolean), (stmt,), AT),), AT)
    assert (("r", (i, j)), False) in list(elements([nested]))


def nest(*stmts):
    """The statements in every kind of body."""
    ref = TileRef("r", (ZERO,), (8,), (0,))
    one = Const(True, boolean)
    return (
        Role("producer", 0, 128, None, (
            For(i, ZERO, ONE, ONE, (
                While(one, (
                    If(one, (Sync(AT),), (
                        Produce("p", ZERO, ZERO, (ForElements(0, ref, (j,), stmts, AT),), AT),
                    ), AT),
                ), AT),
            ), AT),
        ), AT),
    )  # fmt: skip


def test_every_statement_is_visited_before_what_it_contains():
    found = [type(s) for s in statements(nest(Sync(AT)))]
    assert found == [Role, For, While, If, Sync, Produce, ForElements, Sync]
    assert set(found) >= set(Nest.__args__)


def test_a_place_is_told_what_surrounds_it():
    last = GemmWait(0, AT)
    around = dict(placed(nest(last), (), lambda stmt, outer: (*outer, type(stmt).__name__)))
    assert around[last] == ("Role", "For", "While", "If", "Produce", "ForElements")
    assert len(around) == 8


def test_a_change_sees_operations_whole_and_keeps_control_around_them():
    seen = []

    def f(stmt):
        seen.append(type(stmt))
        return (stmt, stmt) if isinstance(stmt, Sync) else ()

    changed = change(nest(Sync(AT)), f)
    assert seen == [Sync, ForElements]
    assert [type(s) for s in statements(changed)] == [Role, For, While, If, Sync, Sync, Produce]


@pytest.mark.parametrize("kernel", [rk.taking_turns, rk.by_hand, rk.two_pipelines])
def test_a_change_to_the_same_is_the_same(kernel):
    body = kernel.compile("sm_90").tile.body
    assert change(body, lambda stmt: (stmt,)) == body


def test_scalars_are_those_of_a_statement_itself():
    inner = Assign(x, as_scalar(5), True, AT)
    assert scalars(For(i, ZERO, x, ONE, (inner,), AT)) == (ZERO, x, ONE)
    assert scalars(If(compare("eq", x, 1), (inner,), (), AT)) == (compare("eq", x, 1),)
    ref = TileRef("t", (i, j), (8, 8), (0, 1), rank=x)
    assert scalars(Fill(0, ref, ONE, AT)) == (ONE, i, j, x)
    assert scalars(Copy(0, ref, replace(ref, rank=None), AT)) == (i, j, i, j, x)


def test_variables_and_bodies():
    loop = ForElements(0, TileRef("r", (ZERO,), (8,), (0,)), (i, j), (Sync(AT),), AT)
    assert variables(loop) == (i, j)
    assert variables(Assign(x, ONE, True, AT)) == variables(For(x, ONE, ONE, ONE, (), AT)) == (x,)
    assert bodies(loop) == ((Sync(AT),),)
    assert bodies(If(x, (), (Sync(AT),), AT)) == ((), (Sync(AT),))
    assert bodies(Sync(AT)) == ()
