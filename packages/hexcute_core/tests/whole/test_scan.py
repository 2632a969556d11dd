"""Scans: lane by lane as the interpreter, and both as numpy."""

import warnings

import numpy as np
import pytest
import tile_builder
import tile_runs
from random_scans import random_scan

from hexcute_core import bf16, f8e4m3, f16, f32, i4, i8, i16, i32, i64, u8
from hexcute_core.arch import Fragment, Mode, arch
from hexcute_core.errors import LayoutConflict, RearrangeWarning, VerifyError
from hexcute_core.lowering.scan_plan import plan_scan
from hexcute_core.scalar import Const, Var, maximum, minimum
from hexcute_core.synthesis import synthesize
from hexcute_core.synthesis.compute_cost import compute_clocks
from hexcute_core.synthesis.proof.check import check
from hexcute_core.tile import Scan
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.verify import verify as verify_tile

SHAPES = [(8, 64), (96, 80), (48, 24), (24, 229), (229, 8), (1, 1000), (5, 3), (16, 1), (64, 48)]


def cumulated(shape, axis, threads, dtype=f32, op="add", reverse=False, major=(0, 1)):
    b = tile_builder.TileBuilder(threads=threads)
    a, c = b.tile("a", dtype, *shape), b.tile("c", dtype, *shape, major=major)
    r, s = b.register("r", dtype, *shape), b.register("s", dtype, *shape)
    b.copy(a, r)
    b.cumulate(r, s, axis, op, reverse)
    b.copy(s, c)
    return b.program()


def flipped(function, array, axis, reverse):
    if not reverse:
        return function(array, axis=axis)
    return np.flip(function(np.flip(array, axis), axis=axis), axis)


@pytest.mark.parametrize("threads", [32, 64, 96, 128, 160, 256])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_axis_both_ways(shape, threads):
    for axis in (0, 1):
        for reverse in (False, True):
            found = tile_runs.run(cumulated(shape, axis, threads, reverse=reverse))
            want = flipped(np.cumsum, found.outputs["a"], axis, reverse)
            np.testing.assert_array_equal(found.outputs["c"], want)


def test_three_modes():
    b = tile_builder.TileBuilder(threads=64)
    a, c = b.tile("a", i32, 4, 12, 16), b.tile("c", i32, 4, 12, 16)
    r, s = b.register("r", i32, 4, 12, 16), b.register("s", i32, 4, 12, 16)
    b.copy(a, r)
    b.cumulate(r, s, 1)
    b.copy(s, c)
    found = tile_runs.run(b.program())
    np.testing.assert_array_equal(found.outputs["c"], np.cumsum(found.outputs["a"], axis=1))


@pytest.mark.parametrize("op, function", [
    ("mul", np.cumprod), ("max", np.maximum.accumulate), ("min", np.minimum.accumulate),
])  # fmt: skip
@pytest.mark.parametrize("reverse", [False, True])
def test_other_operations(op, function, reverse):
    rng = np.random.default_rng(1)
    a = rng.choice([-2, -1, 1, 1, 1], (24, 40)).astype(np.int32)
    program = cumulated((24, 40), 1, 64, i32, op, reverse)
    found = tile_runs.run(program, arrays={"a": a, "c": np.zeros_like(a)})
    np.testing.assert_array_equal(found.outputs["c"], flipped(function, a, 1, reverse))


@pytest.mark.parametrize("dtype", [f16, bf16, f8e4m3, i8, u8, i16, i4, i64], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_narrow_and_wide_types(dtype, axis):
    """Narrow ones accumulate in 32 bits; 64 bits do not go through shuffles."""
    found = tile_runs.run(cumulated((16, 32), axis, 64, dtype))
    if dtype.bits == 64:
        assert not any(name.startswith("shfl") for name in found.counters.instructions)


def test_half_sums_are_rounded_once():
    """2048 + 1 is no f16, 2048 + 2 is: sums that were rounded on the way would stay at 2048."""
    a = np.ones((1, 64), np.float16)
    a[0, 0] = 2048
    found = tile_runs.run(cumulated((1, 64), 1, 32, f16), arrays={"a": a, "c": np.zeros_like(a)})
    np.testing.assert_array_equal(
        found.outputs["c"], np.cumsum(a.astype(np.float32), axis=1).astype(np.float16)
    )
    assert found.outputs["c"][0, -1] > 2100


def recurrence(al, bl, ar, br):
    """b after a step of x -> a x + b, and the factor of x."""
    return al * ar, ar * bl + br


def paired(shape, axis, threads, dtype=i32, reverse=False, same_major=True):
    b = tile_builder.TileBuilder(threads=threads)
    ga, gb = b.tile("a", dtype, *shape), b.tile("b", dtype, *shape)
    major = None if same_major else (1, 0)
    gc, gd = b.tile("c", dtype, *shape), b.tile("d", dtype, *shape, major=major)
    ra, rb, rc, rd = (b.register(f"r{i}", dtype, *shape) for i in range(4))
    b.copy(ga, ra)
    b.copy(gb, rb)
    b.scan((ra, rb), (rc, rd), axis, recurrence, reverse)
    b.copy(rc, gc)
    b.copy(rd, gd)
    return b.program()


def recurred(a, b, reverse):
    """Both results along axis 1, by the recurrence itself."""
    c, d = np.empty_like(a), np.empty_like(b)
    places = range(a.shape[1])
    factor, x = np.ones_like(a[:, 0]), np.zeros_like(b[:, 0])
    for t in reversed(places) if reverse else places:
        factor, x = factor * a[:, t], a[:, t] * x + b[:, t]
        c[:, t], d[:, t] = factor, x
    return c, d


@pytest.mark.parametrize("shape", [(4, 128), (16, 80), (229, 6), (3, 229), (1, 512)], ids=str)
@pytest.mark.parametrize("threads", [32, 96, 128])
@pytest.mark.parametrize("reverse", [False, True])
def test_pairs_in_their_order(shape, threads, reverse):
    """The selective scan's combination is not commutative: integers wrap alike in any grouping."""
    for axis in (0, 1):
        found = tile_runs.run(paired(shape, axis, threads, reverse=reverse))
        a, b = (np.moveaxis(found.outputs[x], axis, 1) for x in "ab")
        with np.errstate(over="ignore"):
            c, d = recurred(a, b, reverse)
        np.testing.assert_array_equal(np.moveaxis(found.outputs["c"], axis, 1), c)
        np.testing.assert_array_equal(np.moveaxis(found.outputs["d"], axis, 1), d)


@pytest.mark.parametrize("dtype", [i8, i64, f32], ids=str)
def test_pairs_in_the_tiles_own_types(dtype):
    program = paired((8, 96), 1, 64, dtype)
    arrays = None
    if dtype == f32:
        rng = np.random.default_rng(0)
        arrays = {x: rng.choice([0.5, 1, 2, -1], (8, 96)).astype(np.float32) for x in "abcd"}
    found = tile_runs.run(program, arrays=arrays, exact=dtype != f32)
    if dtype == f32:
        np.testing.assert_allclose(found.outputs["d"], found.expected["d"], rtol=1e-4)


def test_three_tiles_of_different_types():
    b = tile_builder.TileBuilder(threads=96)
    types = (f32, i8, i64)
    held = [b.register(f"r{i}", t, 12, 48) for i, t in enumerate(types)]
    made = [b.register(f"s{i}", t, 12, 48) for i, t in enumerate(types)]
    for i, t in enumerate(types):
        b.copy(b.tile(f"a{i}", t, 12, 48), held[i])
    b.scan(held, made, 1, lambda *x: (x[0] + x[3], maximum(x[1], x[4]), minimum(x[2], x[5])))
    for i, t in enumerate(types):
        b.copy(made[i], b.tile(f"c{i}", t, 12, 48))
    got = tile_runs.run(b.program()).outputs
    np.testing.assert_array_equal(got["c0"], np.cumsum(got["a0"], axis=1))
    np.testing.assert_array_equal(got["c1"], np.maximum.accumulate(got["a1"], axis=1))
    np.testing.assert_array_equal(got["c2"], np.minimum.accumulate(got["a2"], axis=1))


LAYOUTS = {
    "lanes between values": "((4,8),(2,2)):((2,8),(1,64))",
    "lanes below and above values": "((4,8),(2,2)):((1,16),(4,8))",
    "the last lanes first": "((8,4),(2,2)):((4,1),(32,64))",
    "a value digit in two": "((32),(2,2)):((2),(64,1))",
    "replicated lanes": "((4,8),(2,16)):((1,0),(4,8))",
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("reverse", [False, True])
def test_any_layout(layout, reverse):
    b = tile_builder.TileBuilder(threads=32)
    shape = (1, 128)
    a, c = b.tile("a", i32, *shape), b.tile("c", i32, *shape)
    r, q, s, w = (b.register(x, i32, *shape) for x in "rqsw")
    b.copy(a, r)
    b.rearrange(r, q, layout)
    b.cumulate(q, s, 1, "add", reverse)
    b.rearrange(s, w)
    b.copy(w, c)
    found = tile_runs.run(b.program())
    want = flipped(np.cumsum, found.outputs["a"], 1, reverse)
    np.testing.assert_array_equal(found.outputs["c"], want)


WARPS = {
    "warps below lanes": "((32,4),(2)):((4,1),(128))",
    "warps above values above lanes": "((32,4),(2)):((1,64),(32))",
    "values above warps": "((32,4),(2,4)):((2,64),(1,256))",
    "many values above warps": "((32,4),(32)):((1,32),(128))",
    "warps in two": "((32,2,2),(2)):((2,1,64),(128))",
    "three warps, values above": "((32,3),(4)):((1,32),(96))",
}


@pytest.mark.parametrize("layout", WARPS.values(), ids=WARPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_any_layout_of_warps(layout, reverse):
    threads = 96 if "(32,3)" in layout else 128
    sizes = [int(x) for x in layout.split(":")[0].replace("(", " ").replace(")", " ")
             .replace(",", " ").split()]  # fmt: skip
    shape = (1, int(np.prod(sizes)))
    b = tile_builder.TileBuilder(threads=threads)
    a, c = b.tile("a", i32, *shape), b.tile("c", i32, *shape)
    r, q, s, w = (b.register(x, i32, *shape) for x in "rqsw")
    b.copy(a, r)
    b.rearrange(r, q, layout)
    b.cumulate(q, s, 1, "add", reverse)
    b.rearrange(s, w)
    b.copy(w, c)
    found = tile_runs.run(b.program())
    want = flipped(np.cumsum, found.outputs["a"], 1, reverse)
    np.testing.assert_array_equal(found.outputs["c"], want)


def test_after_a_product_in_the_layout_of_its_accumulators():
    b = tile_builder.TileBuilder(threads=128)
    shape = (64, 32)
    x, y = b.register("x", f16, 64, 32), b.register("y", f16, 32, 32)
    b.copy(b.tile("a", f16, 64, 32), x)
    b.copy(b.tile("b", f16, 32, 32), y)
    total = b.register("total", f32, *shape)
    b.fill(total, 0.0, f32)
    b.gemm(total, x, y)
    for axis in (0, 1):
        s = b.register(f"s{axis}", f32, *shape)
        b.cumulate(total, s, axis, reverse=axis == 0)
        b.copy(s, b.tile(f"c{axis}", f32, *shape))
    found = tile_runs.run(b.program())
    assert found.solution.fragments["s0"] == found.solution.fragments["total"]
    assert not found.solution.inserted
    product = found.outputs["a"].astype(np.float32) @ found.outputs["b"].astype(np.float32).T
    np.testing.assert_array_equal(found.outputs["c1"], np.cumsum(product, axis=1))


def test_unread_results_live_with_their_scan_and_dead_scans_go():
    b = tile_builder.TileBuilder(threads=64)
    ra, rb, rc, rd, re = (b.register(x, i32, 8, 32) for x in ("ra", "rb", "rc", "rd", "re"))
    b.copy(b.tile("a", i32, 8, 32), ra)
    b.copy(b.tile("b", i32, 8, 32), rb)
    b.scan((ra, rb), (rc, rd), 1, recurrence)
    b.cumulate(ra, re, 0)
    b.copy(rd, b.tile("d", i32, 8, 32))
    found = tile_runs.run(b.program())
    assert {"rc", "rd"} <= set(found.solution.fragments) and "re" not in found.solution.fragments


def test_the_cost_of_a_scan_grows_with_the_threads_that_share_it():
    def clocks(f):
        b = tile_builder.TileBuilder()
        r, s = b.register("r", f32, *f.shape), b.register("s", f32, *f.shape)
        b.cumulate(r, s, 1)
        program = b.program()
        return compute_clocks(program.body[0], {"r": f, "s": f}, Facts(program), 4)

    rows = Fragment((128, 32), (Mode(128, 1, 0),), (Mode(32, 1, 1),))
    lanes = Fragment((128, 32), (Mode(32, 1, 1), Mode(4, 1, 0)), (Mode(32, 4, 0),))
    warps = Fragment((128, 32), (Mode(32, 1, 0), Mode(4, 1, 1)), (Mode(4, 32, 0), Mode(8, 4, 1)))
    assert 0 < clocks(rows) < clocks(lanes) < clocks(warps)


def test_the_proof_wants_equal_layouts():
    program = cumulated((8, 64), 1, 64)
    solution = synthesize(program, arch("sm_80"))
    check(solution)
    f = solution.fragments["s"]
    turned = Fragment(f.shape, tuple(reversed(f.thread)), f.value)
    if turned == f:
        turned = Fragment(f.shape, (Mode(64, 1, 1),), (Mode(8, 1, 0),))
    solution.fragments["s"] = turned
    with pytest.raises(VerifyError):
        check(solution)


def test_elements_held_twice_have_no_order():
    program = cumulated((1, 3), 1, 32)
    op = next(s for s in program.body if isinstance(s, Scan))
    f = Fragment((1, 3), (Mode(2, 1, 1), Mode(2, 1, 1), Mode(8, 0, 0)), ())
    with pytest.raises(LayoutConflict, match="more than once"):
        plan_scan(op, {"r": f, "s": f})


def test_how_it_is_printed():
    text = show_program(paired((8, 32), 1, 32, reverse=True))
    line = next(x for x in text.splitlines() if " scan " in x)
    assert line.strip() == (
        "%3 scan r0, r1 along 1 from the end by $l0 * $r0, ($r0 * $l1) + $r1 -> r2, r3"
    )


def test_the_verifier_of_tile_programs():
    def broken(**changes):
        b = tile_builder.TileBuilder(threads=32)
        r, s = b.register("r", f32, 8, 8), b.register("s", f32, 8, 8)
        thin, shared = b.register("thin", f32, 8, 1), b.shared("shared", f32, 8, 8)
        half = b.register("half", f16, 8, 8)
        refs = {"r": r, "s": s, "thin": thin, "shared": shared, "half": half}
        sum_ = Var("$l0", f32) + Var("$r0", f32)
        given = {"dsts": ("s",), "srcs": ("r",), "axis": 1, "combine": (sum_,)} | changes
        dsts, srcs = (tuple(refs[x] for x in given[side]) for side in ("dsts", "srcs"))
        b.add(Scan(9, dsts, srcs, given["axis"], given["combine"], False, b.span()))
        with pytest.raises(VerifyError) as caught:
            verify_tile(b.program())
        return str(caught.value)

    assert "along mode 2" in broken(axis=2)
    assert "shapes (8, 8) and (8, 1)" in broken(dsts=("thin",))
    assert "no RegisterTensor" in broken(srcs=("shared",))
    assert "writes twice" in broken(dsts=("r",))
    assert "f32 into f16" in broken(dsts=("half",))
    assert "1 tiles into 1" in broken(combine=())
    assert "i32 result" in broken(combine=(Const(1, i32),))
    assert "used before declared" in broken(combine=(Var("$l1", f32),))


def attempt(seed):
    case = random_scan(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RearrangeWarning)
            tile_runs.run(case.program, case.sizes, "sm_89", arrays=case.arrays)
    except Exception as error:
        raise AssertionError(f"seed {seed} ({case.kind}): {error}") from error


@pytest.mark.parametrize("block", range(0, 80, 20))
def test_a_sample_of_random_scans(block):
    for seed in range(block, block + 20):
        attempt(seed)


@pytest.mark.fuzz
def test_many_random_scans():
    for seed in range(1000, 2000):
        attempt(seed)
