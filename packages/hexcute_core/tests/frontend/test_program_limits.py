"""Programs that are long or deep: what takes no more than its share, and the limits of the rest.

Work is counted in calls of functions, so that no test depends on a clock."""

from __future__ import annotations

import cProfile
import itertools
import linecache
import pstats
import sys
import textwrap
import warnings

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.backend.hidet import shim
from hexcute_core.errors import FrontendError, HexcuteError, NoLayout, RearrangeWarning
from hexcute_core.frontend.functions.flow import flow_of
from hexcute_core.frontend.functions.source import function_source
from hexcute_core.frontend.interpreter import engine
from hexcute_core.frontend.interpreter.settle import LARGE_OF_SYMBOLS, LONGEST
from hexcute_core.frontend.language import launch
from hexcute_core.lowering import alive
from hexcute_core.scalar.visit import walk
from hexcute_core.synthesis.held import held
from hexcute_core.tile import Assign, Elementwise
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.visit import scalars, statements

m, k = hx.dims("m k")
_files = itertools.count()


def kernel(body, before="", signature="x: f32[m, k], y: f32[m, k]"):
    """A kernel with these statements, whose lines can be looked up like a file's."""
    name = f"<long {next(_files)}>"
    text = (
        "import hexcute_core as hx\nfrom hexcute_core import f16, f32, i32\nm, k = hx.dims('m k')\n"
        f"{before}\n@hx.kernel(cache=False)\ndef kernel({signature}):\n"
        + textwrap.indent("\n".join(body), "    ")
    )
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": __name__}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


LAUNCH = ["hx.attrs.cuda.grid_dim = 1", "hx.attrs.cuda.block_dim = 32"]
LOAD = ["r = hx.register_tensor(f32, (8, 32))", "hx.copy(hx.global_view(x, ((8, 32), (k, 1))), r)"]
STORE = ["hx.copy(r, hx.global_view(y, ((8, 32), (k, 1))))"]


def through(body, before=""):
    """A tile goes through these statements."""
    return kernel([*LAUNCH, *LOAD, *body, *STORE], before)


def calls(run):
    """How many functions of ours `run` calls."""
    profile = cProfile.Profile()
    profile.runcall(run)
    return sum(
        count
        for (file, _, _), (_, count, *_rest) in pstats.Stats(profile).stats.items()
        if "hexcute_core" in file
    )


def run(compiled, size=(8, 32)):
    """What becomes of 0, 1, 2, ... in the tile."""
    x = np.arange(size[0] * size[1], dtype=np.float32).reshape(size)
    y = np.zeros_like(x)
    compiled.simulate(x, y)
    return x, y


def test_numbers_made_of_the_one_before_twice_stay_short():
    body = ["a = k - 31", *(f"a = a * a - {i % 3}" for i in range(40)), "r += a"]
    compiled = through(body).compile("sm_80")
    longest = max(
        sum(1 for _ in walk(e)) for s in statements(compiled.tile.body) for e in scalars(s)
    )
    # One statement is written with at most two of what a name may stand for.
    assert longest <= 2 * LARGE_OF_SYMBOLS + 3
    x, y = run(compiled)
    a = 1
    for i in range(40):
        a = (a * a - i % 3 + 2**31) % 2**32 - 2**31
    assert np.array_equal(y, x + np.float32(a))


def test_bounds_of_numbers_that_square_themselves_end():
    compiled = through(["a = k", *["a = a * a + 1"] * 60, "r += a"]).compile("sm_80")
    facts = Facts(compiled.tile)
    held = [s.var for s in statements(compiled.tile.body) if isinstance(s, Assign)]
    assert held
    for var in held:
        assert all(end is None or abs(end) < 1 << 200 for end in facts.bounds(var))
        assert facts.divisor(var) < 1 << 200


def test_a_grid_of_a_long_expression_is_what_was_written():
    """A number of symbols alone is held in a variable, which no launch knows."""
    long = " + ".join(f"(m + {i}) // {i + 3}" for i in range(30))
    body = [f"tiles = {long}", "hx.attrs.cuda.grid_dim = hx.cdiv(tiles, 8)", LAUNCH[1], *LOAD,
            "r += tiles", *STORE]  # fmt: skip
    compiled = kernel(body).compile("sm_80")
    assert any(isinstance(s, Assign) for s in statements(compiled.tile.body))
    x, y = run(compiled)
    assert np.array_equal(y, x + sum((8 + i) // (i + 3) for i in range(30)))


def test_a_grid_that_no_launch_could_compute_is_refused():
    body = ["a = m", *["a = a * a + a"] * 20, "hx.attrs.cuda.grid_dim = a", LAUNCH[1]]
    with pytest.raises(FrontendError, match=f"more than {launch.MOST_OF_GRID} operations") as at:
        assert kernel(body).compile("sm_80").tile
    assert at.value.fix.startswith("compute it before the launch and give it to the kernel as a")
    assert at.value.span.line == 6 + 1 + 20 + 1


@pytest.mark.parametrize("terms, of_tiles", [(100, False), (100, True)])
def test_long_expressions_are_cut(terms, of_tiles):
    part = "r * {i}.0" if of_tiles else "(k + {i})"
    body = ["r = r + " + " + ".join(part.format(i=i) for i in range(terms))]
    compiled = through(body).compile("sm_80")
    for stmt in statements(compiled.tile.body):
        lengths = [sum(1 for _ in walk(e)) for e in scalars(stmt)]
        assert max(lengths, default=0) <= LONGEST + 8
    if of_tiles:
        assert sum(isinstance(s, Elementwise) for s in statements(compiled.tile.body)) > 1
    x, y = run(compiled)
    added = x * (terms * (terms - 1) // 2) if of_tiles else sum(32 + i for i in range(terms))
    assert np.allclose(y, x + added, rtol=1e-6)


def test_a_sum_of_a_thousand_numbers_compiles():
    compiled = through(["r += sum([k + i for i in range(1000)])"]).compile("sm_80")
    x, y = run(compiled)
    assert np.array_equal(y, x + (32 * 1000 + 999 * 500))
    assert compiled.thread


def test_calls_nest_deeper_than_python_goes_in_the_code_generator_alone():
    before = sys.getrecursionlimit()
    with shim.ours():
        shim.load()
        assert sys.getrecursionlimit() >= shim.DEEP > before
    assert sys.getrecursionlimit() == before


def test_a_kernel_of_no_module_is_traced():
    made = through(["r += 1.0"])
    made.definition.fn.__module__ = None
    x, y = run(made.compile("sm_80"))
    assert np.array_equal(y, x + 1)


def test_an_expression_deeper_than_python_goes_is_refused_where_it_stands():
    with pytest.raises(FrontendError, match="`kernel` nests deeper than Python goes") as caught:
        through(["r += " + " + ".join("k" for _ in range(800))])
    assert caught.value.fix == "give the parts of long expressions names"
    assert caught.value.span.line == 5


def test_a_stage_that_goes_too_deep_says_so_at_the_kernel(monkeypatch):
    def deep(*_):
        raise RecursionError

    monkeypatch.setattr("hexcute_core.driver.pipeline.lower", deep)
    with pytest.raises(HexcuteError, match="nests deeper than Python goes, in the lowering") as at:
        assert through(["r += 1.0"]).compile("sm_80").thread
    assert at.value.fix.startswith("give parts of long expressions names, and let loops and")
    assert at.value.span.line == 6


def test_a_trace_without_end_is_refused_where_it_stands(monkeypatch):
    monkeypatch.setattr(engine, "MOST_STATEMENTS", 5000)
    twice = "@hx.device\ndef f(a, d):\n    if d == 0:\n        return a\n" \
            "    return f(a + 1, d - 1) + f(a + 2, d - 1)\n"  # fmt: skip
    assert through(["r += f(k, 8)"], twice).compile("sm_80").tile
    with pytest.raises(FrontendError, match="more than 5000 statements are traced by here") as at:
        assert through(["r += f(k, 30)"], twice).compile("sm_80").tile
    assert at.value.fix == "use range for long loops, and let functions call fewer others"
    assert 5 <= at.value.span.line <= 8


def nested(depth, inner, loop="for i{d} in range(2):"):
    """`inner` in loops that contain one another."""
    lines = [" " * d + loop.format(d=d) for d in range(depth)]
    return [*lines, *(" " * depth + line for line in inner)]


@pytest.mark.parametrize(
    "inner, target",
    [
        (["r *= 0.5"], "sm_80"),
        (["b = b + i0", "r += b"], "sm_80"),
        (["hx.copy(r, hx.global_view(y, ((8, 32), (k, 1))))"], "sm_90"),
    ],
)
def test_work_on_nested_loops_grows_with_their_number(inner, target):
    """Each analysis that goes through a loop's body twice would double at every level."""

    def work(depth):
        made = through(["b = m", *nested(depth, inner)])
        compiled = made.compile(target)
        return calls(lambda: compiled.tile), calls(lambda: compiled.thread)

    work(2)
    for few, many in zip(work(4), work(16)):
        assert many < 6 * few


def test_loops_around_a_product_that_runs_on_take_no_more_than_their_number():
    signature = "x: f16[m, k], y: f16[m, k]"
    view = "hx.global_view({}, ((64, 16), (k, 1)))"

    def made(depth):
        body = ["hx.attrs.cuda.grid_dim = 1", "hx.attrs.cuda.block_dim = 128",
                "a, b = hx.shared_tensor(f16, (64, 16)), hx.shared_tensor(f16, (64, 16))",
                f"hx.copy({view.format('x')}, a)", f"hx.copy({view.format('x')}, b)",
                "hx.syncthreads()", "c = hx.register_tensor(f32, (64, 64))", "hx.fill(c, 0.0)",
                *nested(depth, ["hx.gemm(c, a, b, asynchronous=True)"]), "hx.wait_gemm(0)",
                "hx.copy(hx.cast(c, f16), hx.global_view(y, ((64, 64), (k, 1))))"]  # fmt: skip
        return kernel(body, signature=signature).compile("sm_90")

    def work(depth):
        compiled = made(depth)
        return calls(lambda: compiled.tile), calls(lambda: compiled.thread)

    work(2)
    for few, many in zip(work(4), work(16)):
        assert many < 9 * few
    x = np.random.default_rng(0).integers(-2, 3, (64, 16)).astype(np.float16)
    y = np.zeros((64, 64), np.float16)
    made(3).simulate(np.pad(x, ((0, 0), (0, 48))), y)
    assert np.array_equal(y, 8 * (x.astype(np.float32) @ x.astype(np.float32).T))


def test_names_of_nested_loops_are_those_found_apart():
    """The names that a loop carries are kept while the loops around it look for theirs."""

    def nest(a, b, c):
        for i in range(4):
            for j in range(4):
                c = a + i
                for _ in range(4):
                    a = b + j
                b = c
        return a

    found = flow_of(function_source(nest).node)
    sizes = sorted(len(names) for names in found.carried.values())
    assert len(found.carried) == 3 and sizes[-1] >= 3


def test_four_hundred_statements_take_no_more_than_their_share():
    def work(count):
        compiled = through([f"r = r * {i % 7}.0 + 1.0" for i in range(count)]).compile("sm_80")
        return [calls(lambda: compiled.tile), calls(lambda: compiled.solution),
                calls(lambda: compiled.thread)]  # fmt: skip

    work(10)
    for few, many in zip(work(50), work(400)):
        assert many < 10 * few


def test_products_that_each_need_a_rearrange_are_all_mended():
    """As many as there are: each is mended where it breaks, and what was worked out for the others
    is kept."""

    @hx.kernel(cache=False)
    def chain(x: f16[m, k], y: f16[m, k], *, N: int = 10):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f16, (64, 64))
        hx.copy(hx.global_view(x, ((64, 64), (k, 1))), r)
        for i in hx.static_range(N):
            c = hx.register_tensor(f32, (64, 64))
            hx.fill(c, 0.0)
            hx.gemm(c, r, r, warps=((4, 1), (1, 4))[i % 2])
            r = hx.cast(c, f16)
        hx.copy(r, hx.global_view(y, ((64, 64), (k, 1))))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RearrangeWarning)
        few = chain.compile("sm_80", N=2).solution
        many = chain.compile("sm_80", N=10).solution
    assert len(many.inserted) > 4 * len(few.inserted) > 0


def test_a_chain_of_sixteen_products_has_one_arrangement():
    @hx.kernel(cache=False)
    def chain(x: f16[m, k], y: f16[m, k], *, N: int = 16):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        r, b = hx.register_tensor(f16, (32, 32)), hx.register_tensor(f16, (32, 32))
        hx.copy(hx.global_view(x, ((32, 32), (k, 1))), r)
        hx.copy(hx.global_view(x, ((32, 32), (k, 1))), b)
        for _ in hx.static_range(N):
            c = hx.register_tensor(f32, (32, 32))
            hx.fill(c, 0.0)
            hx.gemm(c, r, b)
            r = hx.cast(c, f16)
        hx.copy(r, hx.global_view(y, ((32, 32), (k, 1))))

    solution = chain.compile("sm_80").solution
    assert not solution.inserted and len(solution.gemms) == 16
    assert len({plan.groups for plan in solution.gemms.values()}) == 1


def crowd(count, words):
    """As many tiles alive at once, each of so many registers of a thread."""
    body = [f"a{i} = hx.register_tensor(f32, (32, {words}))" for i in range(count)]
    tile = f"((32, {words}), (k, 1))"
    body += [f"hx.copy(hx.global_view(x[{i}:, :], {tile}), a{i})" for i in range(count)]
    body += [f"hx.copy(a{i}, hx.global_view(y[{i}:, :], {tile}))" for i in range(count)]
    return kernel([*LAUNCH, *body])


def test_tiles_that_no_thread_can_hold_together_are_refused_where_they_are_most():
    room = 255
    assert crowd(alive.TIMES, room // 2).compile("sm_80").thread
    with pytest.raises(NoLayout, match=r"\d+ register tiles in use here take \d+ registers") as at:
        assert crowd(alive.TIMES * 2 + 2, 128).compile("sm_80").thread
    assert "of each of 32 threads" in str(at.value) and "which have 255" in str(at.value)
    assert at.value.fix.startswith("use them one after another, or keep some in hx.shared_tensor")
    # The first store, before which all are held.
    assert at.value.span.line == 6 + 2 + 2 * (alive.TIMES * 2 + 2) + 1


def test_tiles_one_after_another_are_no_crowd():
    body = []
    for _ in range(4 * alive.TIMES):
        body += ["a = hx.register_tensor(f32, (32, 128))",
                 "hx.copy(hx.global_view(x, ((32, 128), (k, 1))), a)",
                 "hx.copy(a, hx.global_view(y, ((32, 128), (k, 1))))"]  # fmt: skip
    assert kernel([*LAUNCH, *body]).compile("sm_80").thread


def test_loops_around_a_store_by_tma_take_no_more_than_their_number():
    def work(depth):
        store = ["hx.syncthreads()", "hx.copy(r, s)", "hx.syncthreads()",
                 "hx.copy(s, hx.global_view(y, ((64, 64), (k, 1))))"]  # fmt: skip
        body = ["hx.attrs.cuda.grid_dim = 1", "hx.attrs.cuda.block_dim = 128",
                "r, s = hx.register_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))",
                "hx.fill(r, 1.0)", *nested(depth, store)]  # fmt: skip
        compiled = kernel(body, signature="y: f16[m, k]").compile("sm_90")
        assert "tma.store" in compiled.explain()
        return calls(lambda: compiled.thread)

    assert work(16) < 9 * work(4)


def test_what_is_held_in_nested_loops_is_found_in_their_number():
    def work(depth):
        solution = through(nested(depth, ["r *= 0.5"])).compile("sm_80").solution
        return calls(lambda: held(solution))

    assert work(16) < 6 * work(4)
