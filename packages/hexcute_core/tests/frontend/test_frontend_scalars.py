# ruff: noqa: B007, SIM108  -- the control flow as written is what is tested
"""Scalar code means what Python says: functions traced and run against Python's own execution."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.simulator import interpret
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify


def program_of(logic, results):
    """A kernel that writes the integers `logic(n)` returns to its output."""
    function = hx.device(logic)

    def kernel(out: i32[results], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        values = function(n)
        for place, value in enumerate(values):
            r = hx.register_tensor(i32, 1)
            hx.fill(r, value)
            hx.copy(r, hx.global_view(out[place:], (1, 1)))

    program = trace(define(kernel), {}, Promise())
    verify(program)
    return program


def check(logic, *arguments):
    """Runs the traced `logic` for each n and compares with calling it."""
    expected = [logic(n) for n in arguments]
    program = program_of(logic, len(expected[0]))
    for n, values in zip(arguments, expected):
        out = np.full(len(values), -7, np.int32)
        got = interpret(program, {"out": out}, {"n": n})["out"]
        assert list(got) == [int(v) for v in values], show_program(program)


def loop_carried(n):
    total, last = 0, -1
    for i in range(n):
        total += i * i
        last = i
    return total, last, n


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a, b


def previous_value(n):
    x, changes = 0, 0
    for i in range(n):
        before = x
        x = x + i * 3
        changes = changes * 2 + (x - before)
    return x, changes


def branch_values(n):
    if n > 3:
        kind = 1
        size = n * 2
    elif n > 1:
        kind = 2
        size = n + 5
    else:
        kind = 3
        size = 0
    return kind, size


def branch_keeps_old(n):
    x, y = 5, 6
    if n > 2:
        x = y + 1
    return x, y


def nested(n):
    count, best = 0, -1
    for i in range(n):
        for j in range(i, n, 2):
            if j > i:
                count = count + 1
                if i * j > best:
                    best = i * j
            else:
                count = count + 10
    return count, best


def while_loop(n):
    steps, x = 0, n
    while x > 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    return steps, x


def first_assigned_inside(n):
    for i in range(4):
        if i > 2 - n:
            found = i
        else:
            found = 100 + i
    return (found,)


def survives_an_iteration(n):
    kept = -1
    result = 0
    for i in range(n):
        if i % 3 == 0:
            kept = i
        result = result * 2 + kept
    return (result,)


def reused_names(n):
    out = 0
    for i in range(n):
        t = i * 2
        out = out + t
    for i in range(n):
        t = i + 100
        out = out + t
    t = 7
    return out, t


def loop_variable_after(n):
    i = -5
    for i in range(n):
        pass
    return (i,)


def loop_variable_changed(n):
    seen = 0
    for i in range(n):
        i = i * 10
        seen = seen + i
    return (seen,)


def bound_changes(n):
    limit, count = n, 0
    for _ in range(limit):
        limit = limit + 1
        count = count + 1
    return count, limit


def python_numbers_stay(n):
    width = 4
    table = [1, 2, 3, 4]
    picked = table[width - 1]
    for i in range(n):
        picked = picked + table[2] + i
    width = width * 2
    return picked, width


def expanded_loops(n):
    total = 0
    for weight in (3, 5, 7):
        for i in range(n):
            if weight == 5:
                continue_here = 1
            else:
                continue_here = 0
            total = total + weight * i + continue_here
    return (total,)


def expanded_break(n):
    total = 0
    for weight in [1, 2, 3, 4]:
        if weight == 2:
            continue
        if weight == 4:
            break
        total = total + weight * n
    return (total,)


def conditions(n):
    a = 1 if n > 2 else 0
    b = 1 if 1 < n < 5 else 0
    c = 1 if n == 3 or not n > 1 else 0
    d = 1 if n != 3 and n >= 2 and True else 0
    e = min(n, 3) + max(n, 4, 2) * 10 + abs(2 - n) * 100
    return a, b, c, d, e


def bits(n):
    return n & 6, n | 9, n ^ 5, n << 2, n >> 1, ~n, -n


def comprehension(n):
    parts = [n * k for k in range(4) if k != 2]
    return parts[0] + parts[1] + parts[2], sum(parts), len(parts)


def swap_in_branch(n):
    a, b = 1, 2
    if n > 2:
        a, b = b, a
    return a * 10 + b, a


def assigned_before_read_each_time(n):
    x, total = 1000, 0
    for i in range(n):
        x = i
        if i > 1:
            x = x * 2
        total += x
    return (total,)


LOGIC = [
    first_assigned_inside,
    loop_carried, fibonacci, previous_value, branch_values, branch_keeps_old, nested,
    survives_an_iteration, reused_names, loop_variable_changed, bound_changes,
    python_numbers_stay, expanded_loops, expanded_break, conditions, bits, comprehension,
    swap_in_branch, assigned_before_read_each_time, loop_variable_after,
]  # fmt: skip


@pytest.mark.parametrize("logic", LOGIC, ids=lambda f: f.__name__)
def test_traced_code_gives_the_numbers_python_gives(logic):
    check(logic, 0, 1, 2, 3, 4, 7)


def test_a_while_loop():
    check(while_loop, 1, 2, 7, 9)


def test_a_name_first_assigned_in_a_loop_is_declared_before_it():
    check(first_assigned_inside, 1, 2, 5)
    text = show_program(program_of(first_assigned_inside, 1))
    assert text.index("var found: i32 = 0") < text.index("for i in range")


def helper(x, y):
    return x * 2 + y


def equal_helper(x, y):
    if x == y:
        chosen = 1
    else:
        chosen = 2
    return chosen


def calls_helpers(n):
    total = 0
    for i in range(n):
        total = total + helper(i, y=1) + equal_helper(i, 2)
    return (total,)


def test_plain_functions_run_at_trace_time_and_equality_means_numbers():
    check(calls_helpers, 0, 1, 5)


def returns_early(x):
    if x is None:
        return 0
    return x + 1


def with_static_return(n):
    return returns_early(None), hx.device(returns_early)(n) if False else returns_early(n)


def test_returns_decided_at_compile_time():
    check(with_static_return, 3)


def grid_and_unroll(n):
    raise AssertionError("not called by Python")


def test_grid_unroll_and_typed_variables():
    def kernel(out: i32[3], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        cells, wide, typed = 0, 0, 0
        big: hx.i64 = 0
        for i, j in hx.grid(n, 3):
            cells = cells + i * 3 + j
        for u in hx.unroll(2, 8, 3):
            wide = wide + u
        for i in range(n):
            big = big + 2147483647
        if big > 4294967290:
            typed = 1
        r = hx.register_tensor(i32, 1)
        for place, value in enumerate((cells, wide, typed)):
            hx.fill(r, value)
            hx.copy(r, hx.global_view(out[place:], (1, 1)))

    program = trace(define(kernel), {}, Promise())
    verify(program)
    out = interpret(program, {"out": np.zeros(3, np.int32)}, {"n": 3})["out"]
    assert list(out) == [sum(range(9)), 2 + 5, 1]
    text = show_program(program)
    assert "in unroll(2, 8, 3)" in text and "var big: i64 = 0" in text


def test_values_read_before_a_change_are_held():
    text = show_program(program_of(previous_value, 2))
    assert "var before: i32 = x" in text


def test_names_needed_by_nobody_stay_expressions():
    def kernel(out: i32[64], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i32, 4)
        hx.fill(r, 0)
        for i in range(n):
            at = i * 4
            hx.copy(r, hx.global_view(out[at:], (4, 1)))
        for i in range(n):
            at = i * 8
            hx.copy(r, hx.global_view(out[at:], (4, 1)))

    text = show_program(trace(define(kernel), {}, Promise()))
    assert "view out(i * 4)" in text and "view out(i_1 * 8)" in text and "var" not in text


def test_every_name_of_a_program_is_unique():
    program = program_of(nested, 2)
    verify(program)
    assert "for j in range(i, n, 2)" in show_program(program)


def test_a_lossy_assignment_is_refused():
    def logic(n):
        x = 0
        for _ in range(n):
            x = x + 0.5
        return (x,)

    with pytest.raises(FrontendError, match=r"f32 value.*variable of type i32"):
        program_of(logic, 1)
