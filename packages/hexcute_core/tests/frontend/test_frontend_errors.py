"""Every construct the language does not have is refused at its line, with what to write instead."""

# ruff: noqa: B007, B023, E731, F401, F821, F841, SIM105, SIM108
import math

import pytest
from refusals import Refusals, check_tile_refused, k, m

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.promise import Promise

OUTSIDE = []
refused = Refusals()


@refused.case("Try", "plain Python function")
def try_statement(a, r, q, s, n):
    try:  # here
        pass
    except ValueError:
        pass


@refused.case("FunctionDef", "@hx.device")
def nested_function(a, r, q, s, n):
    def inner():  # here
        return 1


@refused.case("Lambda", "define a function")
def a_lambda(a, r, q, s, n):
    f = lambda x: x  # here


@refused.case("NamedExpr", "line of its own")
def walrus(a, r, q, s, n):
    if (x := n) > 1:  # here
        pass


@refused.case("Import", "top of the module")
def an_import(a, r, q, s, n):
    import os  # here


@refused.case("Set", "plain Python function")
def a_set(a, r, q, s, n):
    x = {1, 2}  # here


@refused.case("Delete", "leave the name alone")
def a_delete(a, r, q, s, n):
    x = 1
    del x  # here


@refused.case("Match", "if/elif/else")
def a_match(a, r, q, s, n):
    match n:  # here
        case 1:
            pass


@refused.case("`else` of a loop", "after the loop")
def loop_else(a, r, q, s, n):
    for i in range(n):
        pass
    else:
        x = 1  # here


@refused.case("`break` in run-time", "under an `if`")
def run_time_break(a, r, q, s, n):
    for i in range(n):
        break  # here


@refused.case("`continue` in run-time")
def continue_in_branch_of_expanded_loop(a, r, q, s, n):
    for i in (1, 2):
        if n > i:
            continue  # here


@refused.case("`return` inside the run-time `if`", "end of the function")
def value_returned_from_a_branch(a, r, q, s, n):
    if n > 2:
        return n  # here
    return 0


@refused.case("condition stays true")
def endless(a, r, q, s, n):
    while True:  # here
        pass


@refused.case("`undefined_thing` is not defined")
def unknown_name(a, r, q, s, n):
    x = undefined_thing  # here


@refused.case("did you mean `helper_name`?")
def misspelt(a, r, q, s, n):
    helper_name = 1
    x = helper_nam  # here


@refused.case("no attribute `coppy`", "did you mean `copy`?")
def misspelt_attribute(a, r, q, s, n):
    hx.coppy(r, s)  # here


@refused.case("`x` is read before it is assigned")
def read_too_early(a, r, q, s, n):
    y = x  # here
    x = 1


@refused.case("`last` is read before its first assignment", "initialise `last`")
def carried_without_a_start(a, r, q, s, n):
    for i in range(n):
        if i > 0:
            x = last  # here
        last = i


@refused.case("`v` was last assigned inside the run-time `if`", "no single value")
def view_chosen_by_a_branch(a, r, q, s, n):
    if n > 1:
        v = s[0:8, :]
    else:
        v = s[8:16, :]
    hx.copy(v, r[0:8, :])  # here


@refused.case("`v` is changed by the run-time loop", "no single value")
def view_carried_by_a_loop(a, r, q, s, n):
    v = s[0:8, :]
    for i in range(n):
        hx.copy(v, r[0:8, :])  # here
        v = s[8:16, :]


@refused.case("variable of type i32", "annotate")
def float_into_an_int(a, r, q, s, n):
    x = 0
    for i in range(n):
        x = x + 0.5  # here


@refused.case("`t` holds f16 register tile", "f32 register tile", "shape and type must stay")
def type_changes_in_a_loop(a, r, q, s, n):
    t = r * 2.0
    for i in range(n):
        t = hx.cast(t, f32)  # here
    hx.copy(t, s)


@refused.case("`x` holds a run-time i32", "register tile")
def number_becomes_a_tile(a, r, q, s, n):
    x = 0
    for i in range(n):
        x = r * 2.0  # here
    y = x


@refused.case("divided by zero")
def division_by_zero(a, r, q, s, n):
    x = n % 0  # here


@refused.case("iteration over the run-time i32", "range(n)")
def iterate_over_a_number(a, r, q, s, n):
    for x in n:  # here
        pass


@refused.case("range with step -1", "hx.static_range")
def falling_range(a, r, q, s, n):
    for i in range(n, 0, -1):  # here
        pass


@refused.case("bounds known at compile time", "use range")
def unroll_of_run_time(a, r, q, s, n):
    for i in hx.unroll(n):  # here
        pass


@refused.case("static_range takes", "use range for run-time bounds")
def static_range_of_run_time(a, r, q, s, n):
    for i in hx.static_range(n):  # here
        pass


@refused.case("as many variables")
def grid_with_one_variable(a, r, q, s, n):
    for i in hx.grid(n, 3):  # here
        pass


@refused.case("indexed by the run-time", "hx.static_range")
def list_indexed_at_run_time(a, r, q, s, n):
    x = [1, 2, 3][n]  # here


@refused.case("once instead of once per iteration")
def list_grown_in_a_loop(a, r, q, s, n):
    xs = []
    for i in range(n):
        xs.append(i)  # here


@refused.case("outlives the kernel", "inside the kernel")
def global_list_grown(a, r, q, s, n):
    OUTSIDE.append(3)  # here


@refused.case("once instead of once per iteration")
def item_set_in_a_branch(a, r, q, s, n):
    xs = [0]
    if n > 1:
        xs[0] = 1  # here


@refused.case("assert on the run-time condition")
def run_time_assert(a, r, q, s, n):
    assert n > 1  # here


@refused.case("assertion failed: BM is 12")
def failed_assert(a, r, q, s, n):
    size = 12
    assert size % 16 == 0, f"BM is {size}"  # here


@refused.case("2 values are unpacked into 3 names")
def unpacking(a, r, q, s, n):
    x, y, z = 1, 2  # here


@refused.case("assignment to attribute")
def attribute(a, r, q, s, n):
    a.name = 3  # here


@refused.case("elements of a tensor parameter", "hx.copy")
def parameter_item(a, r, q, s, n):
    a[0, 0] = 1.0  # here


@refused.case("grid_dim is set inside the run-time `if`")
def grid_in_a_branch(a, r, q, s, n):
    if n > 1:
        hx.attrs.cuda.grid_dim = 2  # here


@refused.case("depends on blockIdx.x")
def grid_of_blocks(a, r, q, s, n):
    hx.attrs.cuda.grid_dim = hx.blockIdx.x  # here


@refused.case("multiple of 32", "use 128")
def odd_block(a, r, q, s, n):
    hx.attrs.cuda.block_dim = 100  # here


@refused.case("no attribute hx.attrs.cuda.threads")
def unknown_launch_attribute(a, r, q, s, n):
    hx.attrs.cuda.threads = 100  # here


@refused.case("of a run-time value", "hx.cast(x, i32)")
def python_int_of_a_scalar(a, r, q, s, n):
    x = int(n)  # here


@refused.case("`n` was used as a float of Python's", "hx.cast")
def library_function(a, r, q, s, n):
    x = math.sqrt(n)  # here


@refused.case("not a function")
def call_of_a_number(a, r, q, s, n):
    x = n(3)  # here


@refused.case("is not a context of the language")
def other_context(a, r, q, s, n):
    with n as x:  # here
        pass


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_refused_with_its_line_and_a_way_out(body, expected, threads):
    check_tile_refused(body, expected)


def broken_helper(x):
    table = {"a": 1}
    return table[x]


def branching_helper(x):
    if x > 3:
        return 1
    return 2


def building_helper(n):
    r = hx.register_tensor(f16, (8, 8))
    hx.copy(n, r)


def test_errors_inside_plain_functions_name_the_line_inside():
    def fails(a, r, q, s, n):
        broken_helper("b")

    def branches(a, r, q, s, n):
        branching_helper(n)

    def builds(a, r, q, s, n):
        building_helper(n)

    for body, helper, offset, words in (
        (builds, building_helper, 2, ("hx.copy expects a tile",)),
        (fails, broken_helper, 2, ("raised KeyError: 'b'",)),
        (branches, branching_helper, 2, ("`return` inside the run-time `if`", "at the end")),
    ):

        def kernel(a: f16[m, k], n: i32):
            hx.attrs.cuda.grid_dim = 1
            hx.attrs.cuda.block_dim = 32
            body(a, None, None, None, n)

        body = hx.device(body)
        with pytest.raises(FrontendError) as caught:
            trace(define(kernel), {}, Promise())
        assert caught.value.span.line == helper.__code__.co_firstlineno + offset
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_traceback_shows_no_interpreter():
    def kernel(a: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        hx.fill(a, 0.0)

    with pytest.raises(FrontendError) as caught:
        trace(define(kernel), {}, Promise())
    names = [entry.name for entry in caught.traceback]
    assert names[1:] == ["trace"]


def test_missing_launch_attributes():
    def no_grid(a: f16[m, k]):
        hx.attrs.cuda.block_dim = 32

    def no_block(a: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1

    for kernel, name in ((no_grid, "grid_dim"), (no_block, "block_dim")):
        with pytest.raises(FrontendError, match=f"does not set hx.attrs.cuda.{name}"):
            trace(define(kernel), {}, Promise())


def test_the_language_outside_a_kernel():
    with pytest.raises(FrontendError, match="only meaningful while a kernel is compiled"):
        hx.register_tensor(f16, (8, 8))
    with pytest.raises(FrontendError, match="only meaningful while a kernel is compiled"):
        hx.attrs.cuda.block_dim = 32


def test_endless_recursion_is_refused():
    def kernel(n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        forever(n)

    with pytest.raises(FrontendError, match="nest deeper than 64"):
        trace(define(kernel), {}, Promise())


@hx.device
def forever(x):
    forever(x)
