# ruff: noqa: F841, RUF021  -- the choices as written are what is tested
"""`and`, `or` and `if else` give the operand that Python gives, and compute no other."""

import numpy as np
import pytest
from refusals import Refusals, check_tile_refused
from test_frontend_scalars import check

import hexcute_core as hx
from hexcute_core import i32
from hexcute_core.errors import SimulationError

refused = Refusals()


def root(x):
    """A function that takes statements of its own, endless below zero and failing at zero."""
    t = 0
    while t * t < x:
        t += 1
    return 100 // x + t


def values(n):
    return n or 7, n and 7, None or n, 0 or n, 5 and n, n and 0, n or 0, "" or n, [] or n + 1


def chains(n):
    return (
        0 or n or 3, n and n - 1 and n - 2, (n > 1 and n) or (n > 0 and -1) or 9,
        n - 1 or n - 2 or n - 3, n and (n - 3 or 8), not n or n - 1,
    )  # fmt: skip


def booleans(n):
    a = n > 1 and n < 5
    b = n > 3 or n == 0
    return (1 if a else 0), (1 if b else 0), (n > 3) or 7, (n > 3) and 7, (1 if not n else 2)


def guarded_divisions(n):
    a = 1 if n != 0 and 10 // n > 2 else 0
    b = 1 if n == 0 or 10 // n > 2 else 0
    c = 10 // n if n != 0 else -1
    d = n and 20 % n
    e = 0
    if n and 6 // n == 2 or n == 1:
        e = 5
    f = -1 if not n else (7 // n if n > 2 else 8 // n)
    return a, b, c, d, e, f


def operands_with_statements(n):
    a = 1 if n != 0 and root(n) > 20 else 0
    b = root(n) if n else -5
    c = (n - 2) and root(n + 1)
    d = n == 0 or root(n) > 12
    return a, b, c, (1 if d else 0)


def what_an_operand_changes_later(n):
    t, total = n, 0
    for i in range(4):
        total += (t and root(t)) or i
        t = t - 1 if t > 0 else 0
    return total, t


def conditions_of_loops(n):
    t, steps = n, 0
    while t and 12 // t < 5:
        t -= 1
        steps += 1
    return t, steps


def quotients_of_choices(n):
    x = (n > 2 and -n) or n
    return x // 2, x % 3, (n or -7) // 2, (-n if n > 1 else n) % 4


LOGIC = [
    values, chains, booleans, guarded_divisions, operands_with_statements, conditions_of_loops,
    what_an_operand_changes_later, quotients_of_choices,
]  # fmt: skip


@pytest.mark.parametrize("logic", LOGIC, ids=lambda f: f.__name__)
def test_the_operand_that_python_gives(logic):
    check(logic, 0, 1, 2, 3, 4, 9)


@hx.kernel(cache=False)
def of_elements(a: i32[64], b: i32[64], out: i32[64]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    ra, rb, r = (hx.register_tensor(i32, 64) for _ in range(3))
    hx.copy(hx.global_view(a, (64, 1)), ra)
    hx.copy(hx.global_view(b, (64, 1)), rb)
    hx.fill(r, 0)
    for (i,) in hx.elements(r):
        x = ra[i] // rb[i] if rb[i] != 0 else -1
        if rb[i] != 0 and ra[i] % rb[i] == 0 or ra[i] == 5:
            x = x + 100
        r[i] = x + (rb[i] and 1000 // rb[i])
    hx.copy(r, hx.global_view(out, (64, 1)))


def test_threads_that_do_not_want_an_operand_do_not_fail_in_it():
    a = np.arange(64, dtype=np.int32) - 20
    b = (np.arange(64, dtype=np.int32) % 5) - 1
    out = np.zeros(64, np.int32)
    of_elements.compile("sm_80").simulate(a, b, out)
    for x, y, got in zip(a.tolist(), b.tolist(), out.tolist()):
        q = x // y if y != 0 else -1
        if y != 0 and x % y == 0 or x == 5:
            q = q + 100
        assert got == q + (y and 1000 // y)


@hx.kernel(cache=False)
def unguarded(out: i32[32], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(i32, 32)
    hx.fill(r, 0)
    for (i,) in hx.elements(r):
        r[i] = 5 if i > 40 or 10 // n > 2 else 6
    hx.copy(r, hx.global_view(out, (32, 1)))


def test_threads_that_want_it_fail_in_it():
    with pytest.raises(SimulationError, match="division by zero"):
        unguarded.compile("sm_80").simulate(np.zeros(32, np.int32), 0)


def test_a_constant_decides_before_a_tile():
    @hx.kernel(cache=False)
    def kernel(out: i32[32], *, GIVEN: object = None):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i32, 32)
        hx.fill(r, 3)
        t = GIVEN or r
        hx.copy(t, hx.global_view(out, (32, 1)))

    out = np.zeros(32, np.int32)
    kernel.compile("sm_80").simulate(out)
    assert (out == 3).all()


@hx.kernel(cache=False)
def counted(out: i32[2], n: i32, *, KNOWN: int = 0):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r, total = hx.register_tensor(i32, 2), 0
    hx.fill(r, 0)
    for i in range(n) if KNOWN == 0 else hx.static_range(KNOWN) if KNOWN < 3 else (10, 20):
        total += i + 1
    for (i,) in hx.elements(r):
        r[i] = total
    hx.copy(r, hx.global_view(out, (2, 1)))


@pytest.mark.parametrize(("known", "want"), [(0, 15), (2, 3), (3, 32)])
def test_a_loop_runs_over_what_is_chosen_while_tracing(known, want):
    out = np.zeros(2, np.int32)
    counted.compile("sm_80", KNOWN=known).simulate(out, 5)
    assert (out == want).all()


@refused.case("iteration over", "write range(n)")
def chosen_at_run_time(a, r, q, s, n):
    for _ in n if n > 2 else 3:  # here
        pass


@refused.case("gives str", "choose between numbers")
def text(a, r, q, s, n):
    x = n or "all"  # here


@refused.case("gives NoneType", "write an `if`")
def nothing(a, r, q, s, n):
    x = n and None  # here


@refused.case("`and`/`or` on tiles", "use & and |")
def the_truth_of_a_tile(a, r, q, s, n):
    x = r or q  # here


@refused.case("as a condition", "hx.where")
def a_tile_in_a_condition(a, r, q, s, n):
    if n > 2 and q > 1.0:  # here
        hx.fill(q, 0.0)


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_refused_at_its_line(body, expected, threads):
    check_tile_refused(body, expected)
