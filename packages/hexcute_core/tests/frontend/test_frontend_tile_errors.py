"""What tile operations do not take is refused at its line, with what to write instead."""

# ruff: noqa: B007, F841
import pytest
from refusals import Refusals, check_tile_refused, k

import hexcute_core as hx
from hexcute_core import f16, f32, i32

refused = Refusals()


@refused.case("hx.copy between different shapes", "`s` (16, 8)", "`r` (8, 8)")
def copy_shapes(a, r, q, s, n):
    hx.copy(s, r[0:8, :])  # here


@refused.case("different element types", "f32 register tile `q`", "hx.cast(x, f16)")
def copy_types(a, r, q, s, n):
    hx.copy(q, s)  # here


@refused.case("cannot move", "two copies through a register tensor")
def copy_between_shared_tensors(a, r, q, s, n):
    t = hx.shared_tensor(f16, s.shape)
    hx.copy(s, t)  # here


@refused.case("hint= speaks of L2", "leave hint= out")
def copy_between_registers_with_a_hint(a, r, q, s, n):
    t = hx.register_tensor(f16, r.shape)
    hx.copy(r, t, hint="evict_first")  # here


@refused.case("a temporary", "name a tensor")
def copy_into_a_temporary(a, r, q, s, n):
    hx.copy(s, r * 2.0)  # here


@refused.case("expects a tile, got the tensor parameter `a`")
def copy_of_a_parameter(a, r, q, s, n):
    hx.copy(a, r)  # here


@refused.case("gemm shapes do not agree", "c is (M, N)")
def gemm_shapes(a, r, q, s, n):
    hx.gemm(q, r, r)  # here


@refused.case("a in shared memory", "b in shared memory")
def gemm_of_shared_a_alone(a, r, q, s, n):
    hx.gemm(q, s, r)  # here


@refused.case("works on registers", "shared tile `s`")
def gemm_into_shared(a, r, q, s, n):
    hx.gemm(s, r, r)  # here


@refused.case("two positive ints", "warps=(2, 2)")
def gemm_warps(a, r, q, s, n):
    c = hx.register_tensor(f32, (16, 16))
    hx.gemm(c, r, r, warps=(1, 2, 3))  # here


@refused.case("do not broadcast", "(16, 8)", "(8, 8)")
def shapes_do_not_broadcast(a, r, q, s, n):
    t = r + q[0:8, :]  # here


@refused.case("not in registers", "copy it to a register tensor")
def arithmetic_on_shared(a, r, q, s, n):
    t = s + 1.0  # here


@refused.case("in place on f16 shared tile")
def in_place_on_shared(a, r, q, s, n):
    s += r  # here


@refused.case("shape and type must agree")
def in_place_type(a, r, q, s, n):
    r += q  # here


@refused.case("element of the register tile", "hx.elements")
def element_outside_the_loop(a, r, q, s, n):
    x = r[0, 1]  # here


@refused.case("indexed by (j, i)", "own coordinates, in order")
def element_transposed(a, r, q, s, n):
    for i, j in hx.elements(r):
        r[j, i] = 0.0  # here


@refused.case("tile operation or barrier inside the loop over elements")
def barrier_in_elements(a, r, q, s, n):
    for i, j in hx.elements(r):
        hx.syncthreads()  # here


@refused.case("condition depends on the thread", "depend on the block")
def barrier_for_some_threads(a, r, q, s, n):
    lane = hx.threadIdx.x % 32
    if n > 2:
        first = lane == 0
        if first:
            hx.syncthreads()  # here


@refused.case("condition depends on the thread")
def copy_a_thread_dependent_number_of_times(a, r, q, s, n):
    steps = 0
    steps = hx.threadIdx.x
    for i in range(n):
        steps = steps + 1
    for i in range(steps):
        hx.copy(r, s)  # here


@refused.case("condition depends on the thread", "depend on the block or the role alone")
def copy_under_a_condition_that_a_later_assignment_makes_differ(a, r, q, s, n):
    row = 0
    for _ in range(n):
        if row > 3:
            hx.copy(r, s)  # here
        row = row + hx.threadIdx.x


@refused.case("condition depends on the thread", "depend on the block")
def barrier_by_what_each_thread_put_into_one_element(a, r, q, s, n):
    one, row = hx.register_tensor(i32, (1,)), 0
    for (i,) in hx.elements(one):
        one[i] = hx.threadIdx.x
    two = one + 1
    for (i,) in hx.elements(two):
        row = two[i]
    if row > 3:
        hx.syncthreads()  # here


@refused.case("condition depends on the thread", "depend on the block")
def as_many_copies_as_an_element_of_many_says(a, r, q, s, n):
    many, row = hx.register_tensor(i32, (128,)), 0
    for (i,) in hx.elements(many):
        row = many[i]
    for i in range(row):
        hx.copy(r, s)  # here


@refused.case("name 2 coordinates")
def wrong_number_of_coordinates(a, r, q, s, n):
    for i in hx.elements(r):  # here
        pass


@refused.case("out of range", "[12, 20)", "extent is 16")
def slice_out_of_range(a, r, q, s, n):
    t = r[12:20, :]  # here


@refused.case("3 subscripts for a tile of 2 modes")
def too_many_subscripts(a, r, q, s, n):
    t = s[0, 0, 0]  # here


@refused.case("size known at compile time", "hx.ds")
def slice_of_run_time_size(a, r, q, s, n):
    t = s[0:n, :]  # here


@refused.case("extent known only at run time", "index it by an integer")
def run_time_mode(a, r, q, s, n):
    v = hx.global_view(a, ((16, 8, hx.cdiv(k, 8)), (k, 1, 8)))
    hx.copy(v, r)  # here


@refused.case("positive ints known at compile time", "keyword-only")
def run_time_shape(a, r, q, s, n):
    t = hx.register_tensor(f16, (n, 8))  # here


@refused.case("expects an element type first")
def missing_type(a, r, q, s, n):
    t = hx.register_tensor((16, 8), f16)  # here


@refused.case("hx.fill: missing a required argument: 'value'", "call hx.fill(dst, value)")
def missing_argument(a, r, q, s, n):
    hx.fill(r)  # here


@refused.case("hx.sum: it has no argument `axis`", "write d= for axis=: call hx.sum(a, d, keep)")
def another_name_for_an_argument(a, r, q, s, n):
    x = hx.sum(r, axis=1)  # here


@refused.case("hx.iota: it has no argument `dim`", "for dim=: call hx.iota(")
def another_name_beside_a_given_one(a, r, q, s, n):
    x = hx.iota((1, 8), dim=1)  # here


@refused.case("hx.where: it has no argument `other`", "write b= for other=")
def another_name_for_the_last_argument(a, r, q, s, n):
    x = hx.where(r > 0.0, r, other=0.0)  # here


@refused.case("hx.copy: it has no argument `mask`", "call hx.copy(src, dst,")
def an_argument_too_many(a, r, q, s, n):
    hx.copy(r, s, mask=1)  # here


@hx.device
def scaled(t, factor=2.0):
    return t * factor


@refused.case("`scaled`: it has no argument `faktor`", "write factor= for faktor=: call scaled(t")
def a_keyword_of_an_own_function(a, r, q, s, n):
    x = scaled(r, faktor=3.0)  # here


@refused.case("`None` in a subscript of the tile `r`", "write hx.reshape(r, (16, 1, 8))")
def a_mode_by_none(a, r, q, s, n):
    t = r[:, None, :]  # here


@refused.case("do not broadcast", "hx.reshape(t, (BM, 1, BN))")
def a_mode_that_lacks(a, r, q, s, n):
    t = hx.reshape(r, (16, 1, 8)) + r  # here


@refused.case("what is written into `cut` is read by nobody", "into the tile that was renamed")
def a_write_into_other_names(a, r, q, s, n):
    cut = hx.reshape(r, (16, 2, 4))
    hx.fill(cut[:, 0, :], 1.0)  # here
    hx.copy(r, s)


@refused.case("what is written into `turned` is read by nobody", "or read `turned` afterwards")
def a_sum_into_other_names(a, r, q, s, n):
    turned = hx.transpose(r)
    turned[0:4, :] += 1.0  # here


@refused.case("hx.exp of the i32", "cast it first")
def exp_of_an_int(a, r, q, s, n):
    x = hx.exp(n)  # here


@refused.case("`/` on the integers", "use `//`")
def integer_division(a, r, q, s, n):
    x = n / 2  # here


@refused.case("is not used", "assign it to a name")
def unused_result(a, r, q, s, n):
    hx.cast(r, f32)  # here


@refused.case("as a condition", "hx.where")
def tile_condition(a, r, q, s, n):
    if r > 0.0:  # here
        pass


@refused.case("operator `@`", "hx.gemm")
def matmul_operator(a, r, q, s, n):
    t = r @ r  # here


@refused.case("f16 register tile `r` (16, 8) cannot be iterated", "hx.elements")
def iterate_over_a_tile(a, r, q, s, n):
    for x in r:  # here
        pass


@refused.case("takes scalars")
def primitive_of_a_tile(a, r, q, s, n):
    hx.primitive("shfl", r)  # here


@refused.case("count known at compile time")
def wait_for_run_time(a, r, q, s, n):
    hx.cp_async_wait(n)  # here


@refused.case("has no operation 'mean'")
def unknown_reduction(a, r, q, s, n):
    t = hx.reduce(q, 1, op="mean")  # here


@refused.case("reduces a tile along a mode", "hx.maximum")
def max_of_scalars(a, r, q, s, n):
    x = hx.max(n, 3)  # here


@refused.case("starts at the constant -3", "m - 3", "a[bm - 1 :]")
def constant_start_before_the_tensor(a, r, q, s, n):
    hx.copy(hx.global_view(a[-3:, :], ((16, 8), (k, 1))), r)  # here


@refused.case("starts at the constant -1", "k - 1")
def constant_index_before_the_tensor(a, r, q, s, n):
    hx.global_view(a[:, -1], ((64,), (k,)))  # here


@refused.case("dimension 0 of `view_a`", "differs between threads", "agrees on")
def origin_by_thread(a, r, q, s, n):
    lane = hx.threadIdx.x % 32
    hx.copy(hx.global_view(a[lane * 2 :, :], ((16, 8), (k, 1))), r)  # here


@refused.case("dimension 1 of `view_a`", "differs between threads")
def origin_by_an_element(a, r, q, s, n):
    column = 0
    for i, j in hx.elements(q):
        column = i
    hx.copy(hx.global_view(a[:, column:], ((16, 8), (k, 1))), r)  # here


@refused.case("differs between threads")
def origin_that_a_later_assignment_makes_differ(a, r, q, s, n):
    row = 0
    for _ in range(n):
        hx.copy(hx.global_view(a[row:, :], ((16, 8), (k, 1))), r)  # here
        row = row + hx.threadIdx.x


@refused.case("differs between threads")
def origin_under_a_condition_of_the_thread(a, r, q, s, n):
    row = 0
    if hx.threadIdx.x > 5:
        row = 1
    hx.copy(hx.global_view(a[row:, :], ((16, 8), (k, 1))), r)  # here


@refused.case("mode 0 of `s`", "differs between threads")
def part_by_thread(a, r, q, s, n):
    hx.copy(s[hx.ds(hx.threadIdx.x, 1), :], hx.register_tensor(f16, (1, 8)))  # here


@refused.case("differs between threads")
def origin_by_what_each_thread_put_into_one_element(a, r, q, s, n):
    one, row = hx.register_tensor(i32, (1,)), 0
    for (i,) in hx.elements(one):
        one[i] = hx.threadIdx.x
    for (i,) in hx.elements(one):
        row = one[i]
    hx.copy(hx.global_view(a[row:, :], ((16, 8), (k, 1))), r)  # here


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_refused_with_its_line_and_a_way_out(body, expected, threads):
    check_tile_refused(body, expected)
