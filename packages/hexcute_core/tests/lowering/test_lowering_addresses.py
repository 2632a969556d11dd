"""Generated addresses against function tables: M(f(t, v)) for every thread and repetition, and
predicates that hold exactly inside the buffer."""

from itertools import product

import numpy as np
import pytest
from scalar_values import value
from tile_builder import TileBuilder

from cute_layout import Layout, Swizzle
from hexcute_core.arch import Mode
from hexcute_core.dtypes import f16, i32
from hexcute_core.errors import SourceSpan
from hexcute_core.lowering.digits import digits
from hexcute_core.lowering.global_address import GlobalAddress
from hexcute_core.lowering.shared_address import SharedAddress, address
from hexcute_core.scalar import Const, Var
from hexcute_core.synthesis.coalesced import coalesced
from hexcute_core.synthesis.solution import SharedLayout
from hexcute_core.tile import TileRef
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.teams import Team

SPAN = SourceSpan("program.py", 1)


def facts(symbols=(), multiples=()):
    builder = TileBuilder(symbols=symbols, promise=Promise(multiples, frozenset()))
    return Facts(builder.program())


def move(modes, index, rank):
    out = [0] * rank
    for m in modes:
        out[m.dim] += index % m.size * m.step
        index //= m.size
    return out


def random_layout(rng, shape):
    """A bijection of `shape` onto its size, its modes cut and ordered at random."""
    pieces = []
    for d, extent in enumerate(shape):
        while extent > 1:
            factors = [f for f in range(2, extent + 1) if extent % f == 0]
            size = int(rng.choice(factors))
            pieces.append([d, size, 0])
            extent //= size
    stride = 1
    for i in rng.permutation(len(pieces)):
        pieces[i][2] = stride
        stride *= pieces[i][1]
    modes = [
        [(s, d) for dim, s, d in pieces if dim == want] or [(1, 0)] for want in range(len(shape))
    ]
    return Layout(
        tuple(tuple(s for s, _ in m) for m in modes), tuple(tuple(d for _, d in m) for m in modes)
    )


def plan(rng, shape, threads):
    """Threads and repetitions that cover a tile element by element."""
    order = tuple(int(d) for d in rng.permutation(len(shape)))
    f = coalesced(shape, order, 1, threads)
    return f.thread, f.value


def check_shared(layout, swizzle, ref, thread, reps, threads, bits, known, names):
    shared = SharedLayout(layout_shape(layout), layout, swizzle, {})
    loops = [Var(f"i{k}", i32) if m.size > 1 else Const(0, i32) for k, m in enumerate(reps)]
    place = SharedAddress(shared, ref, bits / 8, Team(0, threads), known)
    base, xors, adds = place.split(thread, reps, loops)
    whole = address(base, xors, adds, 4096)
    starts = [value(s, names) for s in ref.starts]
    rank = len(ref.kept)
    for t in range(threads):
        for picks in product(*(range(m.size) for m in reps)):
            at = move(thread, t, rank)
            for m, p in zip(reps, picks):
                at[m.dim] += p * m.step
            coords = list(starts)
            for m, c in zip(ref.kept, at):
                coords[m] += c
            offset = layout(*coords)
            want = (swizzle(offset) if swizzle is not None else offset) * bits // 8 + 4096
            env = {**names, "threadIdx.x": t, **{f"i{k}": p for k, p in enumerate(picks)}}
            assert value(whole, env) == want, (t, picks, coords)


def layout_shape(layout):
    return tuple(layout[i].size for i in range(len(layout)))


SHAPES = [(16, 64), (64, 16), (32, 32), (24, 40), (96, 5), (80, 12), (7, 9), (229, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_shared_addresses_under_any_layout(shape, seed):
    rng = np.random.default_rng(seed)
    layout = random_layout(rng, shape)
    size, bits = shape[0] * shape[1], int(rng.choice([8, 16, 32]))
    swizzle = None
    fitting = [
        Swizzle(n, b, s)
        for n, b, s in product((1, 2, 3), (0, 1, 2, 3), (1, 2, 3, 4, 5))
        if s >= n and size % (1 << (n + b + s)) == 0
    ]
    if fitting and seed % 2:
        swizzle = fitting[int(rng.integers(len(fitting)))]
    threads = int(rng.choice([32, 64, 96]))
    thread, reps = plan(rng, shape, threads)
    ref = TileRef("s", (Const(0, i32), Const(0, i32)), shape, (0, 1))
    check_shared(layout, swizzle, ref, thread, reps, threads, bits, facts(), {})


def test_digits_that_stay_in_a_block_may_leave_it_together():
    """Column 13 of 14 columns and the second repetition, column 14, are both in the first block of
    20; column 27 is not."""
    layout = Layout(((4, 2), (20, 2)), ((2, 160), (8, 1)))
    thread = (Mode(4, 1, 0), Mode(2, 4, 0), Mode(14, 1, 1))
    ref = TileRef("s", (Const(0, i32), Const(0, i32)), (8, 28), (0, 1))
    check_shared(layout, None, ref, thread, (Mode(2, 14, 1),), 112, 16, facts(), {})


@pytest.mark.parametrize("seed", range(24))
def test_shared_addresses_of_parts_under_any_layout(seed):
    rng = np.random.default_rng(seed)
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    part = tuple(int(rng.integers(1, extent + 1)) for extent in shape)
    threads = int(rng.choice([32, 64, 96]))
    thread, reps = plan(rng, part, threads)
    ref = TileRef("s", (Const(0, i32), Const(0, i32)), part, (0, 1))
    check_shared(random_layout(rng, shape), None, ref, thread, reps, threads, 16, facts(), {})


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("swizzled", [False, True])
def test_shared_addresses_of_a_slice(seed, dynamic, swizzled):
    """A stage by number, rows from a start; both static and known at run time alone."""
    rng = np.random.default_rng(seed)
    whole, tile = (64, 32, 3), (16, 32)
    layout = random_layout(rng, whole)
    swizzle = Swizzle(2, 3, 3) if swizzled else None
    start, stage = int(rng.choice([0, 16, 32, 48, 5])), int(rng.integers(3))
    names, starts = {}, [Const(start, i32), Const(0, i32), Const(stage, i32)]
    known = facts()
    if dynamic:
        names = {"row": start, "stage": stage}
        starts = [Var("row", i32), Const(0, i32), Var("stage", i32)]
        known = facts(("row", "stage"), (("row", 16 if start % 16 == 0 else 1),))
    ref = TileRef("s", tuple(starts), (16, 32, 1), (0, 1))
    thread, reps = plan(rng, tile, 64)
    check_shared(layout, swizzle, ref, thread, reps, 64, 16, known, names)


@pytest.mark.parametrize("first, threads", [(0, 128), (128, 128), (96, 96)])
def test_addresses_of_a_team_count_from_its_first_thread(first, threads):
    layout, shape = Layout((32, 96), (96, 1)), (32, 96)
    ref = TileRef("s", (Const(0, i32), Const(0, i32)), shape, (0, 1))
    f = coalesced(shape, (1, 0), 1, threads)
    shared = SharedLayout(shape, layout, None, {})
    place = SharedAddress(shared, ref, 2, Team(first, threads), facts())
    base, _, _ = place.split(f.thread, (), ())
    for t in range(threads):
        assert value(base, {"threadIdx.x": first + t}) == 2 * layout(*move(f.thread, t, 2))


def global_case(shape, modes, origin, starts, kept, symbols=()):
    b = TileBuilder(threads=64, symbols=symbols, promise=Promise())
    b.param("p", f16, *(b.symbol(e) if isinstance(e, str) else e for e in shape))
    named = [
        [(b.symbol(e) if isinstance(e, str) else e, s, d) for e, s, d in m]
        if isinstance(m, list)
        else m
        for m in modes
    ]
    b.view("v", "p", named, origin)
    extents = tuple(_extent(m) if i in kept else 1 for i, m in enumerate(modes))
    ref = TileRef("v", tuple(starts), extents, tuple(kept))
    return b.program(), ref


def _extent(mode):
    out = 1
    for e, _, _ in mode if isinstance(mode, list) else [mode]:
        out *= e
    return out


CASES = {
    "inside": ((64, 64), [(16, 1, 0), (32, 1, 1)], (8, 16), (0, 0), (0, 1), {}),
    "ragged": (("m", "k"), [(16, 1, 0), (32, 1, 1)], (8, 16), (0, 0), (0, 1), {"m": 21, "k": 37}),
    "transposed": (("m", "k"), [(16, 1, 1), (32, 1, 0)], (3, 5), (0, 0), (0, 1),
                   {"m": 30, "k": 11}),
    "split": ((40, 64), [[(4, 1, 0), (4, 10, 0)], [(8, 1, 1), (2, 32, 1)]], (1, 3), (0, 0), (0, 1),
              {}),
    "third mode": (("m", "k"), [(16, 1, 0), (8, 1, 1), (4, 8, 1)], (0, 0), (0, 0, 3), (0, 1),
                   {"m": 13, "k": 30}),
    "three dimensions": ((3, 20, 24), [(16, 1, 1), (16, 1, 2), (3, 1, 0)], (0, 2, 4), (0, 0, 2),
                         (0, 1), {}),
    "past the end": (("m", "k"), [(16, 1, 0), (16, 1, 1)], (64, 0), (0, 0), (0, 1),
                     {"m": 33, "k": 16}),
    "before the beginning": (("m", "k"), [(16, 1, 0), (16, 1, 1)], (-3, -16), (0, 0), (0, 1),
                             {"m": 33, "k": 16}),
    "before and behind": ((5, 9), [(16, 1, 0), (16, 1, 1)], (-4, -2), (0, 0), (0, 1), {}),
    "backwards": ((20, 64), [(16, -1, 0), (32, 1, 1)], (9, 8), (0, 0), (0, 1), {}),
    "a part inside a sub-mode": ((40, 64), [[(8, 1, 0), (4, 8, 0)], [(4, 16, 1), (4, 4, 1)]],
                                 (1, 3), (3, 2), (0, 1), {}),
    "sub-modes of six": ((12, 24), [[(6, 2, 0), (2, 1, 0)], (24, 1, 1)], (0, 0), (4, 0), (0, 1),
                         {}),
    "a sub-mode known at run time": (("m", "k"), [(16, 1, 0), (8, 1, 1), [("k", 0, 0), (3, 8, 1)]],
                                     (0, 0), (0, 0, 37), (0, 1), {"m": 13, "k": 30}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_global_addresses_and_predicates(name, dynamic):
    shape, modes, origin, starts, kept, sizes = CASES[name]
    symbols = tuple(sizes)
    given = [Const(s, i32) for s in starts]
    names = dict(sizes)
    if dynamic:
        symbols += tuple(f"at{i}" for i in range(len(starts)))
        given = [Var(f"at{i}", i32) for i in range(len(starts))]
        names |= {f"at{i}": s for i, s in enumerate(starts)}
    program, ref = global_case(shape, modes, origin, given, kept, symbols)
    f = coalesced(ref.shape, tuple(reversed(range(len(ref.shape)))), 1, 64)
    extents = [sizes.get(e, e) for e in shape]
    check_global(program, ref, f.thread, f.value, 64, extents, modes, origin, starts, names)


def global_address(program, ref, thread, reps, loops, threads):
    where = Team(0, threads)
    digits_of = list(zip(reps, loops))
    return GlobalAddress(program, Facts(program), ref, where, thread, digits_of, lambda e: e)


def check_global(program, ref, thread, reps, threads, extents, modes, origin, starts, names):
    """Offset and predicate of every thread and repetition against the view's meaning."""
    loops = [Var(f"i{k}", i32) for k in range(len(reps))]
    offset, predicate = global_address(program, ref, thread, reps, loops, threads).at()
    for t in range(threads):
        for picks in product(*(range(m.size) for m in reps)):
            at = move(thread, t, len(ref.kept))
            for m, p in zip(reps, picks):
                at[m.dim] += p * m.step
            index = list(starts)
            for m, c in zip(ref.kept, at):
                index[m] += c
            coords = list(origin)
            for i, mode in zip(index, modes):
                subs = mode if isinstance(mode, list) else [mode]
                for k, (e, step, d) in enumerate(subs):
                    e = names.get(e, e)
                    digit = i if k == len(subs) - 1 else i % e
                    coords[d] += digit * step
                    i //= e
            env = {**names, "threadIdx.x": t, **{f"i{k}": p for k, p in enumerate(picks)}}
            inside = all(0 <= c < e for c, e in zip(coords, extents))
            assert bool(value(predicate, env)) == inside, (coords, extents)
            if inside:
                linear = 0
                for c, e in zip(coords, extents):
                    linear = linear * e + c
                assert value(offset, env) == linear


def cut(rng, extent):
    """`extent` as factors in any order."""
    out = []
    while extent > 1:
        factor = int(rng.choice([f for f in range(2, extent + 1) if extent % f == 0]))
        out.append(factor)
        extent //= factor
    return out or [1]


@pytest.mark.parametrize("seed", range(60))
def test_global_addresses_of_random_views_and_fragments(seed):
    """Sub-modes of any size, stride 0 among them, parts that begin anywhere, origins before the
    tensor; digits of threads and repetitions cut anyhow."""
    rng = np.random.default_rng(seed)
    sizes = [int(rng.choice([4, 6, 8, 12])) for _ in range(2)]
    modes = [
        [(n, int(rng.choice([0, 1, 2, 3])), int(rng.integers(2))) for n in cut(rng, size)]
        for size in sizes
    ]
    shape = (int(rng.integers(1, 30)), int(rng.integers(1, 30)))
    tile = [int(rng.integers(1, size + 1)) for size in sizes]
    starts = [int(rng.integers(size - n + 1)) for size, n in zip(sizes, tile)]
    origin = [int(rng.integers(-6, 4)) for _ in shape]
    dynamic = bool(rng.integers(2))
    symbols = ("row", "at0", "at1") if dynamic else ()
    b = TileBuilder(threads=32, symbols=symbols, promise=Promise())
    b.param("p", f16, *shape)
    if dynamic:
        names = {"row": abs(origin[0]), "at0": starts[0], "at1": starts[1]}
        begin = (0 - b.symbol("row") if origin[0] < 0 else b.symbol("row"), origin[1])
        given = tuple(Var(f"at{i}", i32) for i in range(2))
    else:
        names, begin, given = {}, origin, tuple(Const(s, i32) for s in starts)
    b.view("v", "p", modes, begin)
    ref = TileRef("v", given, tuple(tile), (0, 1))
    pieces = []
    for d, n in enumerate(tile):
        step = 1
        for factor in cut(rng, n):
            pieces.append(Mode(factor, step, d))
            step *= factor
    order = [pieces[i] for i in rng.permutation(len(pieces))]
    thread, held = [], 1
    for m in [m for m in order if rng.integers(2)]:
        if 32 % (held * m.size) == 0:
            thread.append(m)
            held *= m.size
    if held < 32:
        thread.append(Mode(32 // held, 0, 0))
    reps = [m for m in order if m not in thread]
    check_global(b.program(), ref, thread, reps, 32, shape, modes, origin, starts, names)


def test_a_tile_that_is_certainly_inside_has_no_predicate():
    program, ref = global_case((64, 64), [(16, 1, 0), (32, 1, 1)], (8, 16),
                               (Const(0, i32), Const(0, i32)), (0, 1))  # fmt: skip
    f = coalesced((16, 32), (1, 0), 1, 64)
    loops = [Var(f"i{k}", i32) for k in range(len(f.value))]
    _, predicate = global_address(program, ref, f.thread, f.value, loops, 64).at()
    assert predicate == Const(True, predicate.dtype)


@pytest.mark.parametrize("sizes, total", [((4, 8), 32), ((4, 8), 64), ((3, 5), 15), ((3, 5), 16),
                                          ((1, 7), 32)])  # fmt: skip
def test_digits(sizes, total):
    found = digits(Var("x", i32), sizes, total)
    for x in range(total):
        rest = x
        for digit, size in zip(found, sizes):
            assert value(digit, {"x": x}) == rest % size
            rest //= size


def test_wide_offsets_are_computed_in_64_bits():
    from dataclasses import replace

    program, ref = global_case(("m", "k"), [(16, 1, 0), (16, 1, 1)], (0, 0),
                               (Const(0, i32), Const(0, i32)), (0, 1), ("m", "k"))  # fmt: skip
    program = replace(program, promise=Promise(wide=True))
    offset, _ = global_address(program, ref, (Mode(16, 1, 0), Mode(4, 1, 1)), (), (), 64).at()
    assert offset.dtype.name == "i64"
    env = {"threadIdx.x": 15, "m": 1 << 20, "k": 1 << 20}
    assert value(offset, env) == 15 << 20
