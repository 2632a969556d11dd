"""What a GPU would silently get wrong is reported, with the source line it stands on."""

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.scalar import Call, Const, Element, Var, compare, land, select
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
    While,
)

TX = Var("threadIdx.x")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
N = 64


def at(line):
    return SourceSpan("kernel.py", line)


def regs(array, width=1, dtype=dt.f32):
    return Regs(array, ZERO, (0,), width, dtype)


def fill(array, size=1, dtype=dt.f32):
    """Declares `array` and sets all of it."""
    values = [SetElement(array, Const(i, dt.i32), Const(0.0, dtype)) for i in range(size)]
    return [DeclareArray(array, dtype, size), *values]


def put(byte, line, array="r", width=1):
    return Prim(f"st.shared.{4 * width}", (SharedPtr(byte), regs(array, width)), at(line))


def get(byte, line, array="r", width=1):
    return Prim(f"ld.shared.{4 * width}", (regs(array, width), SharedPtr(byte)), at(line))


def fetch(byte, line, offset=TX, predicate=TRUE):
    place = GlobalPtr("x", offset, dt.f32)
    return Prim("cp.async.4", (SharedPtr(byte), place, predicate), at(line))


def step(name, line, *operands):
    return Prim(name, operands, at(line))


def run(*body, threads=N, shared=1024, aligned=True):
    """Runs `body` in one block over x: f32[64]."""
    x = np.arange(N, dtype=np.float32)
    params = (ThreadParam("x", dt.f32, (Const(N, dt.i32),), pointer=True, aligned=aligned),)
    stmts = [s for part in body for s in (part if isinstance(part, list) else [part])]
    program = ThreadProgram("kernel", params, (ONE, ONE, ONE), threads, shared, tuple(stmts))
    simulate(program, {"x": x}, {})
    return x


def finding(line, *body, **options):
    """The message of the one error of `body`, which must stand at `line`."""
    with pytest.raises(SimulationError) as caught:
        run(*body, **options)
    assert caught.value.span == at(line), str(caught.value)
    return str(caught.value)


def test_global_access_out_of_bounds():
    load = Prim("ld.global.4", (regs("r"), GlobalPtr("x", TX + 1, dt.f32), TRUE), at(5))
    message = finding(5, fill("r"), load)
    assert "byte 256 is outside x, which has 256 bytes" in message
    assert "block (0, 0, 0) thread 63" in message


def test_a_predicate_keeps_an_access_from_happening():
    inside = compare("lt", TX, 63)
    load = Prim("ld.global.4", (regs("r"), GlobalPtr("x", TX + 1, dt.f32), inside), at(5))
    store = Prim("st.global.4", (GlobalPtr("x", TX, dt.f32), regs("r"), TRUE), at(6))
    barrier = step("bar.sync", 5)
    np.testing.assert_array_equal(run(fill("r"), load, barrier, store), [*range(1, 64), 0])


def test_negative_offsets_are_out_of_bounds():
    store = Prim("st.global.4", (GlobalPtr("x", TX - 1, dt.f32), regs("r"), TRUE), at(5))
    assert "byte -4 is outside x" in finding(5, fill("r"), store)


def test_misaligned_global_access():
    load = Prim("ld.global.8", (regs("r", 2), GlobalPtr("x", ONE, dt.f32), TRUE), at(5))
    assert "byte 4 of x is misaligned" in finding(5, fill("r", 2), load)


def test_a_pointer_without_the_promise_is_not_aligned():
    load = Prim("ld.global.16", (regs("r", 4), GlobalPtr("x", ZERO, dt.f32), TRUE), at(5))
    run(fill("r", 4), load)
    message = finding(5, fill("r", 4), load, aligned=False)
    assert "does not promise 16-byte alignment" in message


def test_shared_access_out_of_bounds_and_misaligned():
    assert "outside the shared arena of 252 bytes" in finding(
        5, fill("r"), put(TX * 4, 5), shared=252
    )
    assert "must be a multiple of 8" in finding(5, fill("r", 2), put(TX * 8 + 4, 5, width=2))


def test_uninitialised_shared_memory():
    message = finding(7, fill("r"), put(TX * 8, 5), step("bar.sync", 6), get(TX * 4, 7))
    assert "shared byte 4, which was never written" in message
    assert "thread 1" in message


def test_uninitialised_registers():
    assert "registers r that were never written" in finding(
        5, DeclareArray("r", dt.f32, 1), put(TX * 4, 5)
    )
    half = If(compare("lt", TX, 32), (SetElement("r", ZERO, Const(1.0, dt.f32)),))
    message = finding(5, DeclareArray("r", dt.f32, 1), half, put(TX * 4, 5))
    assert "thread 32" in message


def test_a_register_index_out_of_range():
    wrong = SetElement("r", select(compare("eq", TX, 9), 2, 0), Const(0.0, dt.f32), at(5))
    assert "r[2] is outside the register array of 2" in finding(5, fill("r", 2), wrong)


def test_a_read_without_a_barrier_races_with_the_write():
    neighbour = get((TX ^ 32) * 4, 6)
    message = finding(6, fill("r"), put(TX * 4, 5), neighbour)
    assert "race on shared byte 128: ld.shared.4 here" in message
    assert "written at kernel.py:5 by thread 32, no barrier between" in message
    run(fill("r"), put(TX * 4, 5), step("bar.sync", 5), neighbour)


def test_a_write_without_a_barrier_races_with_the_read():
    body = [fill("r"), put(TX * 4, 5), step("bar.sync", 6), get((TX ^ 1) * 4, 7)]
    message = finding(8, *body, put(TX * 4, 8))
    assert "read at kernel.py:7 by thread 1" in message
    run(*body, step("bar.sync", 7), put(TX * 4, 8))


def test_a_read_by_many_races_with_the_write_of_one_of_them():
    body = [fill("r"), put(TX * 4, 5), step("bar.sync", 6), get(ZERO, 7)]
    assert "read at kernel.py:7 by several threads" in finding(8, *body, put(TX * 4, 8))


def test_a_thread_may_reuse_what_only_it_touched():
    run(fill("r"), put(TX * 4, 5), get(TX * 4, 6), put(TX * 4, 7), get(TX * 4, 8))


def test_different_values_written_to_one_place():
    values = [DeclareArray("r", dt.f32, 1), SetElement("r", ZERO, Var("v", dt.f32))]
    same = Assign(Var("v", dt.f32), Const(2.0, dt.f32), True)
    different = Assign(Var("v", dt.f32), TX * 1.0, True)
    run(same, values, put((TX % 4) * 4, 5))
    message = finding(5, different, values, put((TX % 4) * 4, 5))
    assert "different values" in message


def test_different_values_written_to_one_global_element():
    lane = [DeclareArray("r", dt.f32, 1), SetElement("r", ZERO, TX * 1.0)]
    store = Prim("st.global.4", (GlobalPtr("x", TX % 32, dt.f32), regs("r"), TRUE), at(5))
    assert "different values to byte 0 of x" in finding(5, lane, store)
    run(fill("r"), store)


def test_a_barrier_in_divergent_control_flow():
    inside = If(compare("lt", TX, 40), (step("bar.sync", 6),), (), at(5))
    assert "40 of 64 threads reach it" in finding(6, inside)
    loop = [
        Assign(Var("i"), TX % 3, True),
        While(
            compare("gt", Var("i"), 0),
            (step("bar.sync", 8), Assign(Var("i"), Var("i") - 1, False)),
            at(7),
        ),
    ]
    assert "divergent" in finding(8, loop)


COMMIT, BARRIER = step("cp.async.commit", 11), step("bar.sync", 13)


def wait(pending, line=12):
    return step("cp.async.wait", line, Const(pending, dt.i32))


def test_asynchronous_copies_land_at_their_wait():
    store = Prim("st.global.4", (GlobalPtr("x", TX, dt.f32), regs("r"), TRUE), at(15))
    got = run(fill("r"), fetch(TX * 4, 10), COMMIT, wait(0), BARRIER, get((63 - TX) * 4, 14), store)
    np.testing.assert_array_equal(got, np.arange(63, -1, -1))


def test_an_asynchronous_copy_fills_with_zeros():
    load = fetch(TX * 4, 10, offset=TX * 1000, predicate=compare("lt", TX, 0))
    store = Prim("st.global.4", (GlobalPtr("x", TX, dt.f32), regs("r"), TRUE), at(15))
    got = run(fill("r"), load, COMMIT, wait(0), get(TX * 4, 14), store)
    np.testing.assert_array_equal(got, 0)


def test_a_read_before_the_wait():
    message = finding(14, fill("r"), fetch(TX * 4, 10), COMMIT, BARRIER, get(TX * 4, 14))
    assert "before the wait for the asynchronous copy that fills it, issued at kernel.py:10" in (
        message
    )


def test_a_wait_that_leaves_the_group_pending():
    body = [fetch(TX * 4, 10), COMMIT, fetch(TX * 4 + 256, 10), COMMIT]
    run(fill("r"), *body, wait(1), get(TX * 4, 14))
    assert "issued at kernel.py:10" in finding(14, fill("r"), *body, wait(1), get(TX * 4 + 256, 14))


def test_a_group_that_was_not_committed_is_not_waited_for():
    assert "issued at" in finding(14, fill("r"), fetch(TX * 4, 10), wait(0), get(TX * 4, 14))


def test_a_wait_speaks_for_its_own_thread_only():
    body = [fill("r"), fetch(TX * 4, 10), COMMIT, wait(0)]
    run(*body, get(TX * 4, 14))
    assert "written at kernel.py:10" in finding(14, *body, get((TX ^ 1) * 4, 14))
    half = If(compare("lt", TX, 32), (wait(0),))
    body = [fill("r"), fetch(TX * 4, 10), COMMIT, half, BARRIER]
    message = finding(14, *body, get((TX % 32) * 4 + 128, 14))
    assert "shared byte 128 before the wait" in message


def test_a_store_into_what_a_copy_is_filling():
    assert "before the wait" in finding(14, fill("r"), fetch(TX * 4, 10), COMMIT, put(TX * 4, 14))


def test_an_asynchronous_copy_over_what_others_still_read():
    body = [fill("r"), put(TX * 4, 5), step("bar.sync", 6), get((TX ^ 1) * 4, 7)]
    assert "read at kernel.py:7" in finding(10, *body, fetch(TX * 4, 10))


def matrix(row, line):
    return Prim("ldmatrix.x1", (Regs("m", ZERO, (0,), 2, dt.f16), SharedPtr(row)), at(line))


def test_ldmatrix_rows_are_16_byte_aligned_and_whole_warps_load_them():
    zeros = [fill("r"), *(put(TX * 4 + 256 * i, 5) for i in range(2)), DeclareArray("m", dt.f16, 2)]
    run(*zeros, step("bar.sync", 6), matrix((TX % 8) * 32, 7))
    assert "must be a multiple of 16" in finding(
        7, *zeros, step("bar.sync", 6), matrix((TX % 8) * 20, 7)
    )
    assert "race" in finding(7, *zeros, matrix((TX % 8) * 32, 7))
    torn = If(compare("lt", TX, 40), (matrix((TX % 8) * 32, 7),))
    assert "only part of a warp" in finding(7, *zeros, step("bar.sync", 6), torn)
    whole = If(compare("lt", TX, 32), (matrix((TX % 8) * 32, 7),))
    run(*zeros, step("bar.sync", 6), whole)


def test_a_shuffle_from_a_lane_that_does_not_execute():
    share = Call("shfl.xor", (Element("r", (ZERO,), dt.f32), Const(16, dt.i32)), dt.f32)
    shuffle = Assign(Var("v", dt.f32), share, True, at(5))
    run(fill("r"), If(compare("lt", TX, 32), (shuffle,)))
    assert "shfl.xor reads lane 16" in finding(5, fill("r"), If(compare("lt", TX, 8), (shuffle,)))


def test_a_shuffle_in_a_branch_of_an_expression_runs_in_the_lanes_that_take_it():
    share = Call("shfl.xor", (Element("r", (ZERO,), dt.f32), Const(16, dt.i32)), dt.f32)
    zero = Const(0.0, dt.f32)
    same = compare("eq", share, zero)

    def chosen(e):
        return fill("r"), Assign(Var("v", e.dtype), e, True, at(5))

    assert "reads lane 16" in finding(5, *chosen(select(compare("lt", TX, 8), share, zero)))
    assert "reads lane 16" in finding(5, *chosen(land(compare("lt", TX, 8), same)))
    run(*chosen(select(compare("lt", TX, 32), share, zero)))
    run(*chosen(land(compare("lt", TX, 32), same)))


def test_integer_division_by_zero():
    divide = Assign(Var("v"), Const(7, dt.i32) // (TX % 3), True, at(5))
    assert "division by zero" in finding(5, divide)
    run(If(compare("ne", TX % 3, 0), (divide,)))


def test_primitives_without_a_meaning():
    assert "no meaning for the primitive `tex.2d`" in finding(5, step("tex.2d", 5))
    unknown = Assign(Var("v"), Call("clock", (), dt.i32), True, at(5))
    assert "no meaning for `clock`" in finding(5, unknown)


@pytest.mark.parametrize(
    ("arrays", "scalars", "message"),
    [
        ({}, {"n": 8}, "takes the arrays ['x'], got []"),
        ({"x": np.zeros(8, np.float32)}, {}, "takes the scalars ['n'], got []"),
        ({"x": np.zeros(8, np.float64)}, {"n": 8}, "expected elements of type float32"),
        ({"x": np.zeros(9, np.float32)}, {"n": 8}, "expected shape (8,), got (9,)"),
        ({"x": np.zeros(16, np.float32)[::2]}, {"n": 8}, "not contiguous"),
        ({"x": [0] * 8}, {"n": 8}, "expected a numpy array, got list"),
    ],
)
def test_wrong_arguments(arrays, scalars, message):
    params = (
        ThreadParam("x", dt.f32, (Var("n"),), pointer=True),
        ThreadParam("n", dt.i32),
    )
    program = ThreadProgram("kernel", params, (ONE, ONE, ONE), 32, 0, ())
    with pytest.raises(SimulationError) as caught:
        simulate(program, arrays, scalars)
    assert message in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("dtype", "given", "fix"),
    [
        (dt.u8, bool, "pass x.view('uint8')"),
        (dt.i32, np.float32, "pass x.astype('int32')"),
        (dt.f32, np.int32, "pass x.astype('float32')"),
    ],
)
def test_arguments_of_another_type_are_told_how_they_fit(dtype, given, fix):
    params = (ThreadParam("x", dtype, (Const(8, dt.i32),), pointer=True),)
    program = ThreadProgram("kernel", params, (ONE, ONE, ONE), 32, 0, ())
    with pytest.raises(SimulationError, match="argument x: expected elements of type") as caught:
        simulate(program, {"x": np.zeros(8, given)}, {})
    assert caught.value.fix == fix


def test_a_block_outside_the_grid():
    program = ThreadProgram("kernel", (), (ONE, ONE, ONE), 32, 0, ())
    with pytest.raises(SimulationError, match="not in the grid"):
        simulate(program, {}, {}, blocks=[(1, 0, 0)])
