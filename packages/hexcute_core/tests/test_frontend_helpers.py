"""Whatever a kernel calls means what Python says: it is traced, or refused at its line."""

# ruff: noqa: B007, E731, F632, F841
import functools
import itertools
import math
import operator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from refusals import Refusals, check_tile_refused
from test_frontend_scalars import check, program_of

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.errors import FrontendError, HexcuteError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.ir import Promise

refused = Refusals()
is_three = lambda x: x == 3
half = lambda x: x // 2
both = (lambda x: x // 3, lambda x: x % 3)


def plain_half(x):
    return x // 2


def plain_rest(x, by=3):
    return x % by


def apply(f, *args, **named):
    return f(*args, **named)


def compose(f, g):
    return lambda x: f(g(x))


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args) * 2

    return wrapper


@doubled
def wrapped(x):
    return x // 2


@functools.lru_cache
def cached(x):
    return x // 2


@functools.cache
def cached_too(x):
    return 1 if x == 3 else x % 4


@dataclass(frozen=True)
class Halver:
    by: object = 2

    def __call__(self, x):
        return x // self.by

    def method(self, x):
        return -1 if x == self.by else x // self.by

    @staticmethod
    def static(x):
        return x // 2

    @classmethod
    def made(cls, x):
        return cls(2)(x)

    @property
    def rest(self):
        return self.by % 3 if self.by != 4 else 7


class Pair(NamedTuple):
    a: object
    b: object

    def quotient(self):
        return self.a // self.b


class Counter:
    def __init__(self, start):
        self.start = start - 1
        self.half = start // 2

    def is_two(self):
        return self.start == 2


def nested_calls(x):
    return plain_half(plain_half(x)) + both[1](x)


part, method, halver = functools.partial(plain_half), Halver().method, Halver()
by_keyword = functools.partial(plain_rest, by=5)
twice = functools.partial(apply, plain_half)
composed = compose(half, plain_half)


def lambdas(n):
    return (1 if is_three(n) else 0), half(n), both[0](n), both[1](n), composed(n)


def partials(n):
    return part(n), by_keyword(n), twice(n), functools.partial(divmod, n)(3)[1]


def decorated(n):
    return wrapped(n), cached(n), cached_too(n), cached(n + 1)


def methods(n):
    return halver(n), method(n), Halver.static(n), Halver.made(n), Halver().static(n)


def functions_as_values(n):
    return apply(plain_half, n), apply(plain_rest, n, by=4), apply(half, x=n), apply(halver, n)


def objects(n):
    p, c = Pair(n, 3), Counter(n)
    return p.quotient(), p.a % 2, c.start, c.half, (1 if c.is_two() else 0), Halver(n + 2).rest


def operators(n):
    return (
        (1 if operator.eq(n, 3) else 0), operator.floordiv(n, 2), operator.mod(n, 3),
        operator.sub(1, n), operator.neg(n), operator.mul(n, n), (1 if operator.lt(n, 2) else 5),
        (1 if operator.not_(n) else 0), operator.and_(n, 6), operator.lshift(n, 2),
        operator.itemgetter(1)((5, n)), (1 if operator.ne(n, 3) else 0),
    )  # fmt: skip


def built_ins(n):
    return (
        min(n, 3), max((n, 4)), sum([n, 2, n]), sum((n, 1), 5), abs(2 - n), divmod(n, 3)[0],
        divmod(n, 3)[1], divmod(7, n * n + 1)[0], (1 if any([n > 3, n == 1]) else 0),
        (1 if all((n > 1, n < 7, True)) else 0), len([n, n]), sum(x // 2 for x in (n, 5, -n)),
        min(x % 3 for x in (n, n + 1)), (1 if any(x == n for x in (1, 3)) else 0),
    )  # fmt: skip


def library_functions(n):
    return (
        functools.reduce(operator.mul, [n, 2, n]), functools.reduce(lambda_max, [1, n, 3]),
        next(map(plain_half, (n, 9))), sum(map(half, [n, -n])), math.prod([n, 3]),
        [*itertools.accumulate([n, 2, 3])][2], list(zip((n, 1), (2, n)))[1][1],
        [i * v for i, v in enumerate([5, n])][1], list(reversed([n, 1]))[1],
    )  # fmt: skip


class DoubledHalf:
    def __call__(self, a, b):
        return (a + b) * 2.0 * 0.5


doubled_half = DoubledHalf()


def lambda_max(a, b):
    return a if a > b else b


def closures(n):
    return adder(3)(n), adder(-4)(n), nested_calls(n)


def adder(k):
    return lambda x: (x + k) // 2


def comparisons(n):
    return (
        (1 if 1 < n < 5 else 0), (1 if not (n - 3) else 0), (1 if 2 < n + 1 == 4 else 0),
        (1 if n is None else 0), (1 if n is not None else 0), (1 if (n > 2) != (n > 4) else 0),
    )  # fmt: skip


LOGIC = [
    lambdas, partials, decorated, methods, functions_as_values, objects, operators, built_ins,
    library_functions, closures, comparisons,
]  # fmt: skip


@pytest.mark.parametrize("logic", LOGIC, ids=lambda f: f.__name__)
def test_helpers_give_the_numbers_that_python_gives(logic):
    check(logic, 0, 1, 2, 3, 4, 7, -7)


def test_a_wrapper_of_tiles_keeps_its_code():
    def kernel(x: f32[8, 8]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (8, 8))
        hx.fill(r, 3.0)
        r = scaled(r)
        hx.copy(r, hx.global_view(x, ((8, 8), (8, 1))))

    from hexcute_core.simulator import interpret

    out = interpret(trace(define(kernel), {}, Promise()), {"x": np.zeros((8, 8), np.float32)}, {})
    assert (out["x"] == 12).all()


@doubled
def scaled(r):
    return r + r


@functools.cache
def stored(r):
    r += 1.0
    return r


def test_a_cached_function_of_tiles_is_traced_each_time():
    def logic(n):
        r = hx.register_tensor(f32, (8, 8))
        hx.fill(r, 0.0)
        stored(r)
        stored(r)
        return (n,)

    writes = [s for s in program_of(logic, 1).body if type(s).__name__ == "Elementwise"]
    assert len(writes) == 2


@refused.case("`sorted(", "hx.minimum")
def sorting(a, r, q, s, n):
    x = sorted([n, 2])  # here


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


@refused.case("differs between threads", "the block agrees on")
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


def test_expressions_of_symbols_may_be_written_outside():
    assert str(hx.cdiv(m, 64) * 2 + n) == "(cdiv(m, 64) * 2) + n"
    assert m is m and (m == m) is True and (m == None) is False  # noqa: E711


def test_what_has_no_text_is_refused():
    names = {}
    exec("def helper(x): return x // 2", names)
    helper = names["helper"]

    def logic(n):
        return (helper(n),)

    with pytest.raises(FrontendError, match="source text of `helper` is not available"):
        program_of(logic, 1)
    assert i32.bits == 32


@pytest.mark.parametrize("combine", [
    operator.add, lambda a, b: a + b, functools.partial(lambda k, a, b: a + b + k, 0.0),
    doubled_half,
], ids=range(4))  # fmt: skip
def test_what_a_scan_combines_by(combine):
    @hx.kernel(cache=False)
    def kernel(x: f32[1, 32], y: f32[1, 32]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (1, 32))
        hx.copy(hx.global_view(x, ((1, 32), (32, 1))), r)
        hx.copy(hx.scan(r, 1, combine), hx.global_view(y, ((1, 32), (32, 1))))

    x, y = np.ones((1, 32), np.float32), np.zeros((1, 32), np.float32)
    kernel.compile("sm_80").simulate(x, y)
    assert (y[0] == np.arange(1, 33)).all()


def test_a_lambda_made_of_run_time_values_is_refused_where_it_is_made():
    def logic(n):
        return (adder(n)(4),)

    with pytest.raises(FrontendError, match="Lambda") as caught:
        program_of(logic, 1)
    assert caught.value.span.line == adder.__code__.co_firstlineno + 1
