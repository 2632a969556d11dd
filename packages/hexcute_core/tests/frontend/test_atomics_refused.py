"""What atomic updates and numbers of tiles do not take is refused at its line, with what to write
instead."""

# ruff: noqa: B007, B018
import pytest
from refusals import Refusals, check_tile_refused, k, located

import hexcute_core as hx
from hexcute_core import bf16, f16, f32, i8, i32

refused = Refusals()


@refused.case("hx.atomic_add of different shapes", "`s` (16, 8)", "`r` (8, 8)", "equal parts")
def another_shape(a, r, q, s, n):
    hx.atomic_add(s, r[0:8, :])  # here


@refused.case("different element types", "f32 register tile `q`", "hx.cast(x, f16)")
def another_type(a, r, q, s, n):
    hx.atomic_add(s, q)  # here


@refused.case("works on registers", "copy it to a register tensor first")
def memory_by_memory(a, r, q, s, n):
    hx.atomic_add(hx.global_view(a, ((16, 8), (k, 1))), s)  # here


@refused.case("no other thread can reach", "t += x")
def registers(a, r, q, s, n):
    hx.atomic_add(r, r)  # here


@refused.case("which of its elements?", "hx.global_view")
def a_parameter_by_a_tile(a, r, q, s, n):
    hx.atomic_add(a, r)  # here


@refused.case("there is no such update of f16", "i32, u32, i64, u64")
def the_smaller_of_floats(a, r, q, s, n):
    hx.atomic_min(s, r)  # here


@refused.case("there is no such update of i8", "use one of")
def bytes_added(a, r, q, s, n):
    t = hx.shared_tensor(i8, (16,))
    hx.atomic_add(t, 0, 1)  # here


@refused.case("the float 0.5 fills", "write an integer")
def a_fraction_of_an_integer(a, r, q, s, n):
    t = hx.shared_tensor(i32, (16,))
    hx.atomic_add(t, 0, 0.5)  # here


@refused.case("got 1 arguments", "hx.atomic_add(view, tile)")
def nothing_given(a, r, q, s, n):
    hx.atomic_add(s)  # here


@refused.case("got 4 arguments", "hx.atomic_add(x, (i, j), value)")
def too_much_given(a, r, q, s, n):
    hx.atomic_add(s, (0, 0), 1.0, 2.0)  # here


@refused.case("got 2 arguments", "hx.atomic_cas(view, compare, tile)")
def nothing_to_compare_with(a, r, q, s, n):
    hx.atomic_cas(s, r)  # here


@refused.case("no order='sequential'", '"acq_rel"')
def an_unknown_order(a, r, q, s, n):
    hx.atomic_add(s, r, order="sequential")  # here


@refused.case("no scope='system'", 'scope="gpu"')
def an_unknown_scope(a, r, q, s, n):
    hx.atomic_add(s, r, scope="system")  # here


@refused.case("of the element 3 of", "by 2 integers")
def too_few_integers(a, r, q, s, n):
    hx.atomic_add(s, 3, 1.0)  # here


@refused.case("the constant -1 along dimension 0 of `a`", "from its end", "write m - 1")
def a_constant_before_the_tensor(a, r, q, s, n):
    hx.atomic_add(a, (-1, 0), 1.0)  # here


@refused.case("the constant -2 along dimension 1 of `a`", "write k - 2")
def a_constant_before_the_tensor_by_single_threads(a, r, q, s, n):
    if hx.threadIdx.x < 3:
        hx.atomic_add(a, (n, -2), 1.0)  # here


@refused.case("[16, 17) is out of range for mode 0 of `s`", "stay within")
def a_constant_behind_a_shared_tile(a, r, q, s, n):
    if hx.threadIdx.x < 3:
        hx.atomic_add(s, (16, 0), 1.0)  # here


@refused.case("of one element of f16 global tile", "the tensor parameter")
def an_element_of_a_view(a, r, q, s, n):
    hx.atomic_add(hx.global_view(a, ((16, 8), (k, 1))), (0, 0), 1.0)  # here


@refused.case("of one element by f16 register tile `r`", "hx.number(tile)")
def an_element_by_a_tile(a, r, q, s, n):
    hx.atomic_add(a, (0, 0), r)  # here


@refused.case("in which threads differ", "once for all of them", "hx.elements")
def a_place_of_the_thread(a, r, q, s, n):
    hx.atomic_add(a, (0, hx.threadIdx.x), 1.0)  # here


@refused.case("in which threads differ", "if hx.threadIdx.x < 32:")
def a_number_of_the_thread(a, r, q, s, n):
    hx.atomic_add(a, (0, 0), hx.threadIdx.x)  # here


@refused.case("over a tile of one element, which all threads hold", "write it outside")
def in_a_loop_over_one_element(a, r, q, s, n):
    one = hx.register_tensor(i32, (1,))
    hx.fill(one, 0)
    for (i,) in hx.elements(one):
        hx.atomic_add(a, (0, one[i]), 1.0)  # here


@refused.case("inside the loop over elements", "move it out of the loop")
def a_tile_in_a_loop_over_elements(a, r, q, s, n):
    for i, j in hx.elements(r):
        hx.atomic_add(s, r)  # here


@refused.case("whose condition depends on the thread", "move it out")
def a_tile_under_a_condition_of_the_thread(a, r, q, s, n):
    if hx.threadIdx.x == 0:
        hx.atomic_add(s, r)  # here


@refused.case("whose condition depends on the thread", "move it out")
def a_ticket_of_one_thread_steers_a_barrier(a, r, q, s, n):
    t, ticket = hx.shared_tensor(i32, (1,)), 0
    hx.fill(t, 0)
    hx.syncthreads()
    if hx.threadIdx.x == 0:
        ticket = hx.atomic_add(t, 0, 1)
    if ticket == 0:
        hx.syncthreads()  # here


@refused.case("starts at", "differs between threads")
def a_tile_where_each_thread_has_a_ticket(a, r, q, s, n):
    t, place = hx.shared_tensor(i32, (1,)), 0
    hx.fill(t, 0)
    if hx.threadIdx.x < 8:
        place = hx.atomic_add(t, 0, 1)
    view = hx.global_view(a[place:, :], ((16, 8), (k, 1)))  # here
    hx.copy(view, r)


@refused.case("which has 128 elements", "hx.elements(t)")
def the_number_of_a_long_tile(a, r, q, s, n):
    hx.number(r)  # here


@refused.case("a part of a tile of which each thread holds its own", "hx.max(t, 1)")
def the_number_of_a_part(a, r, q, s, n):
    hx.number(r[0:1, 0:1])  # here


@pytest.mark.parametrize(("body", "expected", "threads"), refused.params)
def test_refused(body, expected, threads):
    check_tile_refused(body, expected)


def in_bf16(y):
    hx.atomic_add(y, 0, 1.0)  # here


@pytest.mark.parametrize("single", [False, True])
def test_sums_of_bf16_are_refused_before_sm_90(single):
    """At the statement, whether a block or a thread adds."""
    function = hx.device(in_bf16)

    @hx.kernel(cache=False)
    def kernel(y: bf16[4]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        if single:
            if hx.threadIdx.x < 4:
                function(y)
        else:
            function(y)

    message = located(in_bf16, lambda: kernel.compile("sm_80").thread)
    assert "sm_80 has no atomic sum of bf16" in message
    assert "add up in f32" in message
    kernel.compile("sm_90").source()


def behind(y):
    hx.atomic_add(y[1:], 3, 1)  # here


def test_a_constant_behind_the_tensor_is_refused():
    function = hx.device(behind)

    @hx.kernel(cache=False)
    def kernel(y: i32[4]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        hx.atomic_add(y[1:], 2, 1)
        function(y)

    message = located(behind, lambda: kernel.compile("sm_80").tile)
    assert "the constant 3 along dimension 0 of `y`, whose extent is 4" in message


def never_filled(y):
    s = hx.shared_tensor(i32, (4,))
    if hx.threadIdx.x < 4:
        hx.atomic_add(s, hx.threadIdx.x, 1)  # here


def test_shared_memory_that_nothing_else_touches_is_refused():
    function = hx.device(never_filled)

    @hx.kernel(cache=False)
    def kernel(y: i32[4]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        function(y)

    with pytest.raises(hx.errors.HexcuteError) as caught:
        kernel.compile("sm_80").thread
    assert "nothing is ever copied to or from `s`" in str(caught.value)
    assert caught.value.span is not None and "hx.fill(s, 0)" in str(caught.value)


@pytest.mark.parametrize("dtype", [f16, f32], ids=str)
def test_another_blocks_memory_is_not_updated(dtype):
    @hx.kernel(cache=False)
    def kernel(y: f32[4]):
        hx.attrs.cuda.cluster_dim = 2
        hx.attrs.cuda.grid_dim = 2
        hx.attrs.cuda.block_dim = 32
        s = hx.shared_tensor(dtype, (4,))
        hx.fill(s, 0.0)
        hx.cluster_sync()
        hx.atomic_add(hx.remote(s, 0), 1.0)
        hx.cluster_sync()

    with pytest.raises(hx.errors.FrontendError, match="only the block's own shared memory"):
        kernel.compile("sm_90").tile
