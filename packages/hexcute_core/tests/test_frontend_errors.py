"""Every construct the language does not have is refused at its line, with what to write instead."""

# ruff: noqa: B007, B023, E731, F401, F821, F841, SIM105, SIM108
import inspect
import math

import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.ir import Promise

m, k = hx.dims("m k")


def failure(body):
    """The error of a kernel whose statements are those of `body(a, r, q, s, n)`; the line that
    ends in the comment `# here` must be the one it names."""
    function = hx.device(body)

    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r, q = hx.register_tensor(f16, (16, 8)), hx.register_tensor(f32, (16, 8))
        s = hx.shared_tensor(f16, (16, 8))
        function(a, r, q, s, n)

    with pytest.raises(FrontendError) as caught:
        trace(define(kernel), {}, Promise())
    error = caught.value
    lines, first = inspect.getsourcelines(body)
    marked = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert error.span is not None
    assert error.span.file == __file__
    assert [error.span.line] == marked, f"{error} is placed at {error.span.line}, not {marked}"
    assert error.fix, str(error)
    return str(error)


def case(*expected):
    """Marks a body whose error must contain each of `expected`."""

    def mark(body):
        CASES.append(pytest.param(body, expected, id=body.__name__))
        return body

    return mark


CASES = []
OUTSIDE = []


@case("Try", "plain Python function")
def try_statement(a, r, q, s, n):
    try:  # here
        pass
    except ValueError:
        pass


@case("FunctionDef", "@hx.device")
def nested_function(a, r, q, s, n):
    def inner():  # here
        return 1


@case("Lambda", "define a function")
def a_lambda(a, r, q, s, n):
    f = lambda x: x  # here


@case("NamedExpr", "line of its own")
def walrus(a, r, q, s, n):
    if (x := n) > 1:  # here
        pass


@case("Import", "top of the module")
def an_import(a, r, q, s, n):
    import os  # here


@case("Set", "plain Python function")
def a_set(a, r, q, s, n):
    x = {1, 2}  # here


@case("Delete", "leave the name alone")
def a_delete(a, r, q, s, n):
    x = 1
    del x  # here


@case("Match", "if/elif/else")
def a_match(a, r, q, s, n):
    match n:  # here
        case 1:
            pass


@case("`else` of a loop", "after the loop")
def loop_else(a, r, q, s, n):
    for i in range(n):
        pass
    else:
        x = 1  # here


@case("`break` in run-time", "under an `if`")
def run_time_break(a, r, q, s, n):
    for i in range(n):
        break  # here


@case("`continue` in run-time")
def continue_in_branch_of_expanded_loop(a, r, q, s, n):
    for i in (1, 2):
        if n > i:
            continue  # here


@case("`return` inside the run-time `if`", "end of the function")
def value_returned_from_a_branch(a, r, q, s, n):
    if n > 2:
        return n  # here
    return 0


@case("condition stays true")
def endless(a, r, q, s, n):
    while True:  # here
        pass


@case("`undefined_thing` is not defined")
def unknown_name(a, r, q, s, n):
    x = undefined_thing  # here


@case("did you mean `helper_name`?")
def misspelt(a, r, q, s, n):
    helper_name = 1
    x = helper_nam  # here


@case("no attribute `coppy`", "did you mean `copy`?")
def misspelt_attribute(a, r, q, s, n):
    hx.coppy(r, s)  # here


@case("`x` is read before it is assigned")
def read_too_early(a, r, q, s, n):
    y = x  # here
    x = 1


@case("`last` is read before its first assignment", "initialise `last`")
def carried_without_a_start(a, r, q, s, n):
    for i in range(n):
        if i > 0:
            x = last  # here
        last = i


@case("`v` was last assigned inside the run-time `if`", "no single value")
def view_chosen_by_a_branch(a, r, q, s, n):
    if n > 1:
        v = s[0:8, :]
    else:
        v = s[8:16, :]
    hx.copy(v, r[0:8, :])  # here


@case("`v` is changed by the run-time loop", "no single value")
def view_carried_by_a_loop(a, r, q, s, n):
    v = s[0:8, :]
    for i in range(n):
        hx.copy(v, r[0:8, :])  # here
        v = s[8:16, :]


@case("variable of type i32", "annotate")
def float_into_an_int(a, r, q, s, n):
    x = 0
    for i in range(n):
        x = x + 0.5  # here


@case("`t` holds f16 register tile", "f32 register tile", "shape and type must stay")
def type_changes_in_a_loop(a, r, q, s, n):
    t = r * 2.0
    for i in range(n):
        t = hx.cast(t, f32)  # here
    hx.copy(t, s)


@case("`x` holds a run-time i32", "register tile")
def number_becomes_a_tile(a, r, q, s, n):
    x = 0
    for i in range(n):
        x = r * 2.0  # here
    y = x


@case("hx.copy between different shapes", "`s` (16, 8)", "`r` (8, 8)")
def copy_shapes(a, r, q, s, n):
    hx.copy(s, r[0:8, :])  # here


@case("different element types", "f32 register tile `q`", "hx.cast(x, f16)")
def copy_types(a, r, q, s, n):
    hx.copy(q, s)  # here


@case("cannot move", "rearrange")
def copy_between_registers(a, r, q, s, n):
    t = hx.register_tensor(f16, (16, 8))
    hx.copy(r, t)  # here


@case("a temporary", "name a tensor")
def copy_into_a_temporary(a, r, q, s, n):
    hx.copy(s, r * 2.0)  # here


@case("expects a tile, got the tensor parameter `a`")
def copy_of_a_parameter(a, r, q, s, n):
    hx.copy(a, r)  # here


@case("gemm shapes do not agree", "c is (M, N)")
def gemm_shapes(a, r, q, s, n):
    hx.gemm(q, r, r)  # here


@case("a in shared memory", "b in shared memory")
def gemm_of_shared_a_alone(a, r, q, s, n):
    hx.gemm(q, s, r)  # here


@case("works on registers", "shared tile `s`")
def gemm_into_shared(a, r, q, s, n):
    hx.gemm(s, r, r)  # here


@case("two positive ints", "warps=(2, 2)")
def gemm_warps(a, r, q, s, n):
    c = hx.register_tensor(f32, (16, 16))
    hx.gemm(c, r, r, warps=(1, 2, 3))  # here


@case("do not broadcast", "(16, 8)", "(8, 8)")
def shapes_do_not_broadcast(a, r, q, s, n):
    t = r + q[0:8, :]  # here


@case("not in registers", "copy it to a register tensor")
def arithmetic_on_shared(a, r, q, s, n):
    t = s + 1.0  # here


@case("in place on f16 shared tile")
def in_place_on_shared(a, r, q, s, n):
    s += r  # here


@case("shape and type must agree")
def in_place_type(a, r, q, s, n):
    r += q  # here


@case("element of the register tile", "hx.elements")
def element_outside_the_loop(a, r, q, s, n):
    x = r[0, 1]  # here


@case("indexed by (j, i)", "own coordinates, in order")
def element_transposed(a, r, q, s, n):
    for i, j in hx.elements(r):
        r[j, i] = 0.0  # here


@case("tile operation or barrier inside the loop over elements")
def barrier_in_elements(a, r, q, s, n):
    for i, j in hx.elements(r):
        hx.syncthreads()  # here


@case("condition depends on the thread", "depend on the block")
def barrier_for_some_threads(a, r, q, s, n):
    lane = hx.threadIdx.x % 32
    if n > 2:
        first = lane == 0
        if first:
            hx.syncthreads()  # here


@case("condition depends on the thread")
def copy_a_thread_dependent_number_of_times(a, r, q, s, n):
    steps = 0
    steps = hx.threadIdx.x
    for i in range(n):
        steps = steps + 1
    for i in range(steps):
        hx.copy(r, s)  # here


@case("name 2 coordinates")
def wrong_number_of_coordinates(a, r, q, s, n):
    for i in hx.elements(r):  # here
        pass


@case("out of range", "[12, 20)", "extent is 16")
def slice_out_of_range(a, r, q, s, n):
    t = r[12:20, :]  # here


@case("3 subscripts for a tile of 2 modes")
def too_many_subscripts(a, r, q, s, n):
    t = s[0, 0, 0]  # here


@case("size known at compile time", "hx.ds")
def slice_of_run_time_size(a, r, q, s, n):
    t = s[0:n, :]  # here


@case("extent known only at run time", "index it by an integer")
def run_time_mode(a, r, q, s, n):
    v = hx.global_view(a, ((16, 8, hx.cdiv(k, 8)), (k, 1, 8)))
    hx.copy(v, r)  # here


@case("positive ints known at compile time", "keyword-only")
def run_time_shape(a, r, q, s, n):
    t = hx.register_tensor(f16, (n, 8))  # here


@case("expects an element type first")
def missing_type(a, r, q, s, n):
    t = hx.register_tensor((16, 8), f16)  # here


@case("hx.fill: missing a required argument: 'value'", "call hx.fill(dst, value)")
def missing_argument(a, r, q, s, n):
    hx.fill(r)  # here


@case("hx.exp of the i32", "cast it first")
def exp_of_an_int(a, r, q, s, n):
    x = hx.exp(n)  # here


@case("`/` on the integers", "use `//`")
def integer_division(a, r, q, s, n):
    x = n / 2  # here


@case("divided by zero")
def division_by_zero(a, r, q, s, n):
    x = n % 0  # here


@case("is not used", "assign it to a name")
def unused_result(a, r, q, s, n):
    hx.cast(r, f32)  # here


@case("as a condition", "hx.where")
def tile_condition(a, r, q, s, n):
    if r > 0.0:  # here
        pass


@case("operator `@`", "hx.gemm")
def matmul_operator(a, r, q, s, n):
    t = r @ r  # here


@case("f16 register tile `r` (16, 8) cannot be iterated", "hx.elements")
def iterate_over_a_tile(a, r, q, s, n):
    for x in r:  # here
        pass


@case("iteration over the run-time i32", "range(n)")
def iterate_over_a_number(a, r, q, s, n):
    for x in n:  # here
        pass


@case("range with step -1", "hx.static_range")
def falling_range(a, r, q, s, n):
    for i in range(n, 0, -1):  # here
        pass


@case("bounds known at compile time", "use range")
def unroll_of_run_time(a, r, q, s, n):
    for i in hx.unroll(n):  # here
        pass


@case("static_range takes", "use range for run-time bounds")
def static_range_of_run_time(a, r, q, s, n):
    for i in hx.static_range(n):  # here
        pass


@case("as many variables")
def grid_with_one_variable(a, r, q, s, n):
    for i in hx.grid(n, 3):  # here
        pass


@case("indexed by the run-time", "hx.static_range")
def list_indexed_at_run_time(a, r, q, s, n):
    x = [1, 2, 3][n]  # here


@case("once instead of once an iteration")
def list_grown_in_a_loop(a, r, q, s, n):
    xs = []
    for i in range(n):
        xs.append(i)  # here


@case("outlives the kernel", "inside the kernel")
def global_list_grown(a, r, q, s, n):
    OUTSIDE.append(3)  # here


@case("once instead of once an iteration")
def item_set_in_a_branch(a, r, q, s, n):
    xs = [0]
    if n > 1:
        xs[0] = 1  # here


@case("assert on the run-time condition")
def run_time_assert(a, r, q, s, n):
    assert n > 1  # here


@case("assertion failed: BM is 12")
def failed_assert(a, r, q, s, n):
    size = 12
    assert size % 16 == 0, f"BM is {size}"  # here


@case("2 values are unpacked into 3 names")
def unpacking(a, r, q, s, n):
    x, y, z = 1, 2  # here


@case("assignment to attribute")
def attribute(a, r, q, s, n):
    a.name = 3  # here


@case("elements of a tensor parameter", "hx.copy")
def parameter_item(a, r, q, s, n):
    a[0, 0] = 1.0  # here


@case("grid_dim is set inside the run-time `if`")
def grid_in_a_branch(a, r, q, s, n):
    if n > 1:
        hx.attrs.cuda.grid_dim = 2  # here


@case("depends on blockIdx.x")
def grid_of_blocks(a, r, q, s, n):
    hx.attrs.cuda.grid_dim = hx.blockIdx.x  # here


@case("multiple of 32", "use 128")
def odd_block(a, r, q, s, n):
    hx.attrs.cuda.block_dim = 100  # here


@case("no attribute hx.attrs.cuda.threads")
def unknown_launch_attribute(a, r, q, s, n):
    hx.attrs.cuda.threads = 100  # here


@case("of a run-time value", "hx.cast(x, i32)")
def python_int_of_a_scalar(a, r, q, s, n):
    x = int(n)  # here


@case("`math.sqrt` raised TypeError")
def library_function(a, r, q, s, n):
    x = math.sqrt(n)  # here


@case("not a function")
def call_of_a_number(a, r, q, s, n):
    x = n(3)  # here


@case("takes scalars")
def primitive_of_a_tile(a, r, q, s, n):
    hx.primitive("shfl", r)  # here


@case("is not a context of the language")
def other_context(a, r, q, s, n):
    with n as x:  # here
        pass


@case("count known at compile time")
def wait_for_run_time(a, r, q, s, n):
    hx.cp_async_wait(n)  # here


@case("has no operation 'mean'")
def unknown_reduction(a, r, q, s, n):
    t = hx.reduce(q, 1, op="mean")  # here


@case("reduces a tile along a mode", "hx.maximum")
def max_of_scalars(a, r, q, s, n):
    x = hx.max(n, 3)  # here


@pytest.mark.parametrize("body, expected", CASES)
def test_refused_with_its_line_and_a_way_out(body, expected):
    text = failure(body)
    for part in expected:
        assert part in text, text


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
        (branches, branching_helper, 1, ("truth value", "hx.select")),
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
