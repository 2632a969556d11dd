"""A name that only some paths assign is refused where it is read, as Python would at run time."""

# ruff: noqa: B007, F841, SIM108
import pytest
from refusals import Refusals, check_tile_refused, k
from test_frontend_scalars import check

import hexcute_core as hx
from hexcute_core import f16, f32

refused = Refusals()


@refused.case("`z` may not have a value", "the run-time `if` at line", "in every branch of it")
def one_branch(a, r, q, s, n):
    if n > 2:
        z = 7
    hx.fill(r, hx.cast(z, f16))  # here


@refused.case("`z` may not have a value", "not on every path")
def all_but_one_branch(a, r, q, s, n):
    if n > 4:
        z = 1
    elif n > 2:
        z = 2
    elif n > 1:
        z = 3
    x = z  # here


@refused.case("`z` may not have a value")
def the_other_branch(a, r, q, s, n):
    if n > 2:
        z = 7
    else:
        x = n
    y = z + 1  # here


@refused.case("`z` may not have a value")
def read_in_the_branch_that_does_not_assign(a, r, q, s, n):
    if n > 2:
        z = 7
    else:
        x = z  # here
    y = z


@refused.case("`i` may not have a value", "may run no time at all", "before the run-time loop")
def the_variable_of_a_loop(a, r, q, s, n):
    for i in range(n):
        pass
    x = i  # here


@refused.case("`j` may not have a value")
def the_variable_of_an_inner_loop(a, r, q, s, n):
    for i in range(4):
        for j in range(i, n):
            pass
    x = i + j  # here


@refused.case("`x` may not have a value", "may run no time at all")
def a_while_loop(a, r, q, s, n):
    left = n
    while left > 0:
        x = left
        left = left - 1
    y = x  # here


@refused.case("`j` may not have a value")
def a_grid(a, r, q, s, n):
    for i, j in hx.grid(4, n):
        pass
    x = j  # here


@refused.case("`tile` may not have a value")
def tiles_that_are_shared_out(a, r, q, s, n):
    for tile in hx.persistent(n):
        pass
    x = tile  # here


@refused.case("`v` may not have a value", "the run-time `if`")
def an_element_of_some(a, r, q, s, n):
    for i, j in hx.elements(q):
        if i % 3 == 0:
            v = i * 100
        q[i, j] = v  # here


@refused.case("`v` may not have a value", "own no element")
def after_the_elements(a, r, q, s, n):
    for i, j in hx.elements(q):
        v = i
    hx.fill(r, hx.cast(v, f16))  # here


@refused.case("`v` may not have a value")
def kept_from_an_earlier_round(a, r, q, s, n):
    for i in range(n):
        if i == 0:
            v = 5
        x = v + i  # here


@refused.case("`v` may not have a value")
def changed_by_itself(a, r, q, s, n):
    if n > 1:
        v = 5
    v += 1  # here


@refused.case("`t` may not have a value")
def a_tile(a, r, q, s, n):
    if n > 1:
        t = q * 2.0
    hx.copy(t, hx.global_view(a[:, :], ((16, 8), (k, 1))))  # here


@refused.case("`t` may not have a value")
def a_tile_changed_in_place(a, r, q, s, n):
    for i in range(n):
        t = q * 2.0
    t += 1.0  # here


@refused.case("`t` may not have a value")
def an_element_of_a_tile(a, r, q, s, n):
    if n > 1:
        t = q * 2.0
    for i, j in hx.elements(q):
        q[i, j] = t[i, j]  # here


@refused.case("`z` may not have a value")
def an_argument(a, r, q, s, n):
    if n > 2:
        z = 7
    hx.maximum(z, 3)  # here


@refused.case("`z` may not have a value")
def a_bound(a, r, q, s, n):
    if n > 2:
        z = 7
    for i in range(z):  # here
        pass


@refused.case("`z` may not have a value")
def in_a_condition(a, r, q, s, n):
    for i in range(n):
        z = i
    if z > 2:  # here
        x = 1


@refused.case("`z` may not have a value")
def inside_a_slot(a, r, q, s, n):
    if n > 2:
        z = 0
    with hx.elements(q) as (i, j):
        q[i, j] = hx.cast(z, f32)  # here


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_refused_where_it_is_read(body, expected, threads):
    check_tile_refused(body, expected)


def assigned_in_every_branch(n):
    if n > 4:
        x, y = 1, n
    elif n > 2:
        x = 2
        y = n if n > 3 else 0
    else:
        for j in range(3):
            x = j + n
        y = x
    return x, y


def assigned_in_a_loop_that_runs(n):
    for i in range(3):
        for j in range(2):
            if i > j + n:
                x = 1
            else:
                x = i * j
    return i, j, x


def assigned_again_before_use(n):
    if n > 2:
        x = n
    x = 5
    for _ in range(n):
        y = x
        x = y + 1
    return (x,)


LOGIC = [assigned_in_every_branch, assigned_in_a_loop_that_runs, assigned_again_before_use]


@pytest.mark.parametrize("logic", LOGIC, ids=lambda f: f.__name__)
def test_a_name_that_every_path_assigns_is_known(logic):
    check(logic, 0, 1, 2, 3, 4, 9)
