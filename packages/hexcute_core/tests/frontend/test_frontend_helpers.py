"""Whatever a kernel calls means what Python says: it is traced, or refused at its line."""

# ruff: noqa: E731
import functools
import importlib
import itertools
import math
import operator
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from test_frontend_scalars import check, program_of

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.promise import Promise

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


m, n = hx.dims("m n")


def test_expressions_of_symbols_may_be_written_outside():
    assert str(hx.cdiv(m, 64) * 2 + n) == "(cdiv(m, 64) * 2) + n"
    assert m is m and (m == m) is True and (m == None) is False  # noqa: E711


EDITED = """
import hexcute_core as hx
from hexcute_core import f32

@hx.device
def twice(r):
    return r * 2.0

async def later(r):
    return r

@hx.kernel(cache=False)
def k(a: f32[64], *, F: object = None):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (64,))
    r = later(r) if F else twice(r)
"""
HALVED = "@hx.device\ndef halved(r):\n    return r * 0.5\n\n"
EDITS = {
    "a line above": ("@hx.device", "\n@hx.device"),
    "a function above": ("@hx.device", HALVED + "@hx.device"),
    "another number": ("2.0", "3.0"),
    "another operator": ("r * 2.0", "r + 2.0"),
    "another name": ("return r * 2.0", "return hx.exp(r)"),
    "no function": ("def twice(r):\n    return r * 2.0", "class twice: pass\n"),
    "no text": (EDITED, ""),
    "no Python": ("def twice(r):", "def twice(r:"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_edited_after_its_import_is_refused(edit, tmp_path, monkeypatch):
    path = tmp_path / "edited_kernels.py"
    path.write_text(EDITED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "edited_kernels", raising=False)
    module = importlib.import_module("edited_kernels")
    path.write_text(EDITED.replace(*EDITS[edit]))
    with pytest.raises(FrontendError) as caught:
        _ = module.k.compile("sm_80").tile
    assert caught.value.span.file == str(path)
    if path.read_text():
        assert caught.value.fix == "start the process again, or reload the module"
    path.write_text(EDITED)
    assert module.k.compile("sm_80").tile
    with pytest.raises(FrontendError) as caught:
        _ = module.k.compile("sm_80", F=True).tile
    assert caught.value.fix == "write a `def` on lines of its own"


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


@dataclass
class Held:
    a: object


@pytest.mark.parametrize("make, get", [
    (Held, operator.attrgetter("a")), (lambda r: Pair(r, 1), operator.attrgetter("a")),
    (lambda r: [r], operator.itemgetter(0)),
], ids=["dataclass", "named tuple", "list"])  # fmt: skip
def test_an_object_keeps_the_tile_that_a_loop_makes_anew(make, get):
    @hx.kernel(cache=False)
    def kernel(y: f32[8, 8], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (8, 8))
        hx.fill(r, 3.0)
        held = make(r)
        for _ in range(n):
            r = r + 1.0
        hx.copy(get(held) * 10.0 + r, hx.global_view(y, ((8, 8), (8, 1))))

    y = np.zeros((8, 8), np.float32)
    kernel.compile("sm_80").simulate(y, 2)
    assert (y == 35).all()


def test_a_lambda_made_of_run_time_values_is_refused_where_it_is_made():
    def logic(n):
        return (adder(n)(4),)

    with pytest.raises(FrontendError, match="Lambda") as caught:
        program_of(logic, 1)
    assert caught.value.span.line == adder.__code__.co_firstlineno + 1
