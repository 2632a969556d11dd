"""What a kernel calls on run-time values and has no answer is refused at its line; so is a symbol
outside a kernel that is asked for a number."""

# ruff: noqa: B007, E731, F632, F841
import functools
import math
import operator
from dataclasses import dataclass

import numpy as np
import pytest
from refusals import Refusals, check_tile_refused

import hexcute_core as hx
from hexcute_core import f32
from hexcute_core.errors import HexcuteError

refused = Refusals()
half = lambda x: x // 2


@functools.lru_cache
def cached(x):
    return x // 2


@refused.case("`sorted(", "hx.minimum")
def sorting(a, r, q, s, n):
    x = sorted([n, 2])  # here


@refused.case("on run-time values", "write a ** b, or (a ** b) % c")
def a_power_with_a_modulus(a, r, q, s, n):
    x = pow(n, 2, 5)  # here


@refused.case("`round(n)`")
def rounding(a, r, q, s, n):
    x = round(n)  # here


@refused.case("of a run-time value", "hx.cast")
def converting(a, r, q, s, n):
    x = float(n)  # here


@refused.case("truth value")
def membership(a, r, q, s, n):
    x = 3 in [n, 4]  # here


@refused.case("on run-time values", "compare with ==")
def membership_of_a_scalar(a, r, q, s, n):
    x = n in (1, 2)  # here


@refused.case("truth value")
def comparing_tuples(a, r, q, s, n):
    x = (n, 1) == (3, 1)  # here


@refused.case("which object", "compare with ==")
def identity(a, r, q, s, n):
    x = n is 3  # here


@refused.case("known only at run time")
def a_key(a, r, q, s, n):
    x = {n: 1}  # here


@refused.case("the hash of")
def a_tuple_as_key(a, r, q, s, n):
    x = {(n, 1): 1}  # here


@refused.case("the hash of")
def looked_up(a, r, q, s, n):
    x = {1: 2}.get(n)  # here


@refused.case("on run-time values")
def hashed(a, r, q, s, n):
    x = hash(n)  # here


@refused.case("on run-time values", "a += b")
def changed_by_an_operator(a, r, q, s, n):
    x = operator.iadd(r, 1.0)  # here


@refused.case("truth value")
def searched(a, r, q, s, n):
    x = [4, n + 1].index(n)  # here


@refused.case("as a float", "hx.cast")
def a_library_of_floats(a, r, q, s, n):
    x = math.floor(n)  # here


@refused.case("keyword arguments", "hx.where")
def the_least_by_a_key(a, r, q, s, n):
    x = min([n, 2], key=half)  # here


@refused.case("on run-time values", "out of the text")
def its_text(a, r, q, s, n):
    x = 1 if str(n) == "3" else 2  # here


@refused.case("the text of the run-time", "out of the text")
def formatted(a, r, q, s, n):
    x = f"{n}" == "3"  # here


class Truth:
    def __init__(self, x):
        self.x = x

    def __bool__(self):
        return self.x > 2


@refused.case("the truth of", "compare what it holds")
def the_truth_of_an_object(a, r, q, s, n):
    if Truth(n):  # here
        x = 1


@refused.case("threadIdx.x)` differs between threads", "hx.elements")
def filled_by_each_thread(a, r, q, s, n):
    hx.fill(q, hx.cast(hx.threadIdx.x, f32))  # here


@refused.case("differs between threads", "the role agrees on")
def added_by_each_thread(a, r, q, s, n):
    q += hx.cast(hx.threadIdx.x, f32)  # here


@refused.case("differs between threads")
def what_a_loop_over_elements_left(a, r, q, s, n):
    last = 0
    for i, j in hx.elements(q):
        last = i
    hx.fill(q, hx.cast(last, f32))  # here


@refused.case("differs between threads")
def a_part_that_each_thread_chooses(a, r, q, s, n):
    hx.copy(s[hx.ds(hx.threadIdx.x % 2 * 8, 8), :], hx.register_tensor(hx.f16, (8, 8)))  # here


@refused.case("differs between threads")
def a_choice_of_tiles_by_threads(a, r, q, s, n):
    q = hx.where(hx.threadIdx.x > 3, q, q * 2.0)  # here


@dataclass
class Held:
    a: object


@refused.case("a Held holds the tile", "x * 1")
def an_object_made_in_a_loop(a, r, q, s, n):
    total = q * 0.0
    for i in range(n):
        held = Held(q)
        for j in range(n):  # here
            q = q + 1.0
        total += held.a


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_refused_at_its_line(body, expected, threads):
    check_tile_refused(body, expected)


m, n = hx.dims("m n")
OUTSIDE = {
    "equal to a number": lambda: m == 3,
    "equal to a symbol": lambda: m == n,
    "equal to an expression": lambda: m * 2 == m + 1,
    "unequal": lambda: m != 3,
    "number first": lambda: 3 == m,  # noqa: SIM300
    "condition": lambda: bool(m),
    "compared in a condition": lambda: 1 if m > 3 else 2,
    "not": lambda: not m,
    "chained": lambda: 1 < m < 5,
    "int": lambda: int(m),
    "float": lambda: float(m + 1),
    "index": lambda: [1, 2][m],
    "range": lambda: range(m),
    "round": lambda: round(m),
    "in a tuple": lambda: m in (1, 2),
    "a number in a list": lambda: 3 in [m],
    "hash": lambda: hash(m),
    "set": lambda: {m, n},
    "dict": lambda: {m * 2: 1},
    "dict lookup": lambda: {1: 2}.get(m),
    "sorted": lambda: sorted([m, n]),
    "min": lambda: min(m, n),
    "floordiv": lambda: m // 2,
    "mod": lambda: (m - 5) % 2,
    "division": lambda: m / 2,
    "divmod": lambda: divmod(m, 2),
    "iteration": lambda: list(m),
    "count": lambda: [1, m + 1].count(m),
    "cache": lambda: cached(m),
    "math": lambda: math.sqrt(m),
    "numpy": lambda: np.float32(m),
    "thread": lambda: hx.threadIdx.x == 3,
}


@pytest.mark.parametrize("use", OUTSIDE)
def test_a_run_time_value_outside_a_kernel_gives_no_answer(use):
    with pytest.raises(HexcuteError) as caught:
        OUTSIDE[use]()
    assert caught.value.fix
