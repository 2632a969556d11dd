"""Scans in the language: what kernels may write, what is refused, what a cache key covers."""

# ruff: noqa: B007, E741, F841
import importlib.util
from functools import partial

import numpy as np
import pytest
from refusals import Refusals, check_tile_refused

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.scalar import Var, free_vars, maximum
from hexcute_core.tile import Scan, digest
from hexcute_core.tile.promise import Promise

m, n = hx.dims("m n")
refused = Refusals()


def larger(l, r):
    return l if l > r else r


@hx.device
def recurrence(al, bl, ar, br):
    decay = al * ar
    carried = ar * bl
    return decay, carried + br


def flipped(function, array, axis):
    return np.flip(function(np.flip(array, axis), axis=axis), axis)


@hx.kernel(cache=False)
def several(a: f32[m, n], b: f32[m, n], c: f32[m, n], d: f32[m, n], e: f32[m, n], f: f32[m, n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 16)
    hx.attrs.cuda.block_dim = 64
    at = hx.blockIdx.x * 16
    x, y = hx.register_tensor(f32, (16, 64)), hx.register_tensor(f32, (16, 64))
    hx.copy(hx.global_view(a[at:, :], ((16, 64), (n, 1))), x)
    hx.copy(hx.global_view(b[at:, :], ((16, 64), (n, 1))), y)
    hx.copy(hx.cumsum(x + 1.0, 1), hx.global_view(c[at:, :], ((16, 64), (n, 1))))
    top = hx.scan(x, -1, larger, reverse=True)
    hx.copy(top, hx.global_view(d[at:, :], ((16, 64), (n, 1))))
    _, total = hx.scan((x, y), 1, recurrence)
    hx.copy(total, hx.global_view(e[at:, :], ((16, 64), (n, 1))))
    for _ in range(2):
        y = hx.cummin(y, 0)
    hx.copy(y, hx.global_view(f[at:, :], ((16, 64), (n, 1))))


def test_a_kernel():
    rng = np.random.default_rng(0)
    a = rng.integers(-1, 2, (32, 64)).astype(np.float32)
    b = rng.integers(-4, 5, (32, 64)).astype(np.float32)
    c, d, e, f = (np.zeros_like(a) for _ in range(4))
    several.compile("sm_80").simulate(a, b, c, d, e, f)
    np.testing.assert_array_equal(c, np.cumsum(a + 1, axis=1))
    np.testing.assert_array_equal(d, flipped(np.maximum.accumulate, a, 1))
    x = np.zeros(32, np.float32)
    for t in range(64):
        x = a[:, t] * x + b[:, t]
        np.testing.assert_array_equal(e[:, t], x)
    want = np.concatenate([np.minimum.accumulate(b[i : i + 16], axis=0) for i in (0, 16)])
    np.testing.assert_array_equal(f, want)


@hx.kernel(cache=False)
def side_by_side(a: f32[m, n], c: f32[m, n], d: f32[m, n]):
    hx.attrs.cuda.grid_dim = 1
    with hx.warp_groups_consumer(1):
        x = hx.register_tensor(f32, (4, 256), threads=(1, 128))
        hx.copy(hx.global_view(a, ((4, 256), (n, 1))), x)
        hx.copy(hx.cumsum(x, 1), hx.global_view(c, ((4, 256), (n, 1))))
    with hx.warp_groups_consumer(1):
        x = hx.register_tensor(f32, (4, 256), threads=(1, 128))
        hx.copy(hx.global_view(a, ((4, 256), (n, 1))), x)
        hx.copy(hx.cumsum(x, 1, reverse=True), hx.global_view(d, ((4, 256), (n, 1))))


def test_roles_scan_side_by_side():
    a = np.random.default_rng(0).integers(-4, 5, (4, 256)).astype(np.float32)
    c, d = np.zeros_like(a), np.zeros_like(a)
    compiled = side_by_side.compile("sm_90")
    compiled.simulate(a, c, d)
    np.testing.assert_array_equal(c, np.cumsum(a, axis=1))
    np.testing.assert_array_equal(d, flipped(np.cumsum, a, 1))
    assert compiled.thread.shared_bytes


def scans(body):
    """The scans of a kernel whose statements are those of `body(r, q)`, an f16 and an f32 tile."""
    function = hx.device(body)

    def kernel(a: f16[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r, q = hx.register_tensor(f16, (16, 8)), hx.register_tensor(f32, (16, 8))
        function(r, q)

    program = trace(define(kernel), {}, Promise())
    return [s for s in program.body if isinstance(s, Scan)]


LONGER = lambda l, r: hx.maximum(l, r)  # noqa: E731


@pytest.mark.parametrize("combine", [hx.maximum, LONGER, partial(hx.maximum)])
def test_functions_whose_text_is_not_read(combine):
    def body(r, q):
        t = hx.scan(q, 0, combine)

    (found,) = scans(body)
    assert found.combine == (maximum(Var("$l0", f32), Var("$r0", f32)),)


def test_types_that_scans_compute_in():
    def body(r, q):
        t = hx.cumprod(r, 0)
        u = hx.scan(r, 1, larger, reverse=True)
        v = hx.cummax(q, -2)

    first, second, third = scans(body)
    assert [s.combine[0].dtype for s in (first, second, third)] == [f32, f16, f32]
    assert [s.axis for s in (first, second, third)] == [0, 1, 0]
    assert [s.reverse for s in (first, second, third)] == [False, True, False]


def test_parts_that_a_combination_names_are_put_in_their_place():
    def long(l, r):
        first = (l + r) * l + (r + l) * r + l * r + l + r
        second = first * l + r * first
        return second + first

    def body(r, q):
        t = hx.scan(q, 0, long)

    (found,) = scans(body)
    assert free_vars(found.combine[0]) == {"$l0", "$r0"}


def test_outside_a_kernel():
    with pytest.raises(FrontendError, match="only meaningful while"):
        hx.cumsum(1, 0)


@refused.case("hx.cumsum along mode 2", "f32 register tile `q` (16, 8)", "from 0 to 1")
def no_such_mode(a, r, q, s, n):
    hx.cumsum(q, 2)  # here


@refused.case("hx.scan along mode -3")
def no_such_mode_of_a_scan(a, r, q, s, n):
    hx.scan(q, -3, larger)  # here


@refused.case("works on registers", "shared tile `s`", "hx.copy(tile, registers)")
def not_in_registers(a, r, q, s, n):
    hx.cummax(s, 0)  # here


@refused.case("works on registers", "shared tile `s`")
def one_not_in_registers(a, r, q, s, n):
    hx.scan((r, s), 0, recurrence)  # here


@refused.case("a register tile or a tuple of them", "run-time i32")
def a_scalar(a, r, q, s, n):
    hx.scan((n, q), 0, recurrence)  # here


@refused.case("different shapes", "(16, 8)", "(8, 8)", "one shape")
def shapes(a, r, q, s, n):
    t = hx.register_tensor(f32, (8, 8))
    hx.scan((q, t), 0, recurrence)  # here


def compares(l, r):
    return l < r


@refused.case("`compares` combines f32 and gives bool", "hx.cast(x, f32)")
def another_type(a, r, q, s, n):
    hx.scan(q, 0, compares)  # here


def forgets(al, bl, ar, br):
    return al * ar


@refused.case("`forgets` combines f32, f32 and gives f32", "one scalar per tile")
def too_few_results(a, r, q, s, n):
    hx.scan((q, q), 0, forgets)  # here


def promotes(al, bl, ar, br):
    return al * ar, ar * bl + br


@refused.case("`promotes` combines f32, f16 and gives f32, f32", "return (f32, f16)")
def a_wider_type(a, r, q, s, n):
    hx.scan((q, r), 0, promotes)  # here


@refused.case("a function of scalars", "f32 register tile `q`", "def add(l, r)")
def no_function(a, r, q, s, n):
    hx.scan(q, 0, q)  # here


@refused.case("too many positional arguments", "call <lambda>(l)")
def too_few_arguments(a, r, q, s, n):
    hx.scan(q, 0, ONE)  # here


ONE = lambda l: l  # noqa: E731


def by_thread(l, r):
    return l + hx.cast(hx.threadIdx.x, f32) * r


@refused.case("`by_thread` depends on threadIdx.x", "the arguments alone")
def depends_on_the_thread(a, r, q, s, n):
    hx.scan(q, 0, by_thread)  # here


def test_a_combination_that_acts_is_refused_where_it_does():
    def acting(l, r):
        x = l
        if l > r:
            x = r
        return x

    def body(r, q):
        t = hx.scan(q, 0, acting)

    with pytest.raises(FrontendError, match="is an expression") as caught:
        scans(body)
    assert "hx.select" in caught.value.fix and caught.value.span is not None


@refused.case("inside the loop over elements")
def within_elements(a, r, q, s, n):
    for i, j in hx.elements(q):
        t = hx.cumsum(q, 0)  # here


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_what_is_refused(body, expected, threads):
    check_tile_refused(body, expected)


KERNEL = """
import hexcute_core as hx
from hexcute_core import f32

m, n = hx.dims("m n")
SCALE = 2.0

def inner(x):
    return x * SCALE

def combine(l, r):
    return l + r

def other(l, r):
    return inner(l) + r

TABLE = {"first": combine}

def kernel(a: f32[m, n]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    x = hx.register_tensor(f32, (8, 8))
    x = hx.scan(x, 0, combine)
    x = hx.scan(x, 1, other)
"""


def key_of(tmp_path, number, *change):
    path = tmp_path / f"scanned_{number}.py"
    path.write_text(KERNEL.replace(*change) if change else KERNEL)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return digest(trace(define(module.kernel), {}, Promise()))


def test_a_cache_key_covers_what_combines(tmp_path):
    base = key_of(tmp_path, 0)
    assert key_of(tmp_path, 1) == base
    changes = [("return l + r", "return r + l"), ("SCALE = 2.0", "SCALE = 3.0"),
               ("return inner(l) + r", "return r + inner(l)"), ("x * SCALE", "SCALE * x"),
               ("(x, 0, combine)", "(x, 0, combine, reverse=True)")]  # fmt: skip
    found = [key_of(tmp_path, i + 2, *change) for i, change in enumerate(changes)]
    assert len({base, *found}) == len(found) + 1
