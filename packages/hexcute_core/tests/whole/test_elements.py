"""Loops, branches and conditions over a thread's own elements: compiled, proved, run and costed."""

from dataclasses import replace

import numpy as np
import pytest
from tile_builder import TileBuilder

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core import thread as th
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import Call, Var, as_scalar, compare
from hexcute_core.simulator import interpret
from hexcute_core.synthesis.dead import remove_dead
from hexcute_core.synthesis.proof.check import check
from hexcute_core.tile import Assign, CallStmt, ForElements, If, MbarrierOp, SetElement


@hx.kernel(cache=False)
def while_another(a: f32[16, 24], b: f32[16, 24]):
    """The condition alone reads the other tile."""
    ra, rb = tiles(a, b)
    for i, j in hx.elements(ra):
        x = 0.0
        while x < rb[i, j]:
            x = x + 1.0
        ra[i, j] = x
    hx.copy(ra, hx.global_view(a, ((16, 24), (24, 1))))


@hx.kernel(cache=False)
def while_its_own(a: f32[16, 24], b: f32[16, 24]):
    """What the condition reads changes in the loop."""
    ra, rb = tiles(a, b)
    for i, j in hx.elements(ra):
        ra[i, j] = rb[i, j]
        while ra[i, j] > 3.0:
            ra[i, j] = ra[i, j] - 2.0
    hx.copy(ra, hx.global_view(a, ((16, 24), (24, 1))))


@hx.kernel(cache=False)
def everything(a: f32[16, 24], b: f32[16, 24]):
    """A `for` in an `if` in a `while`, all of which read elements."""
    ra, rb = tiles(a, b)
    for i, j in hx.elements(ra):
        while ra[i, j] < rb[i, j]:
            if rb[i, j] > 5.0:
                for _ in range(hx.cast(rb[i, j], i32)):
                    ra[i, j] = ra[i, j] + 0.25
            else:
                ra[i, j] = ra[i, j] + 1.0
    hx.copy(ra, hx.global_view(a, ((16, 24), (24, 1))))


@hx.device
def tiles(a, b):
    """Both matrices in registers."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 64
    ra, rb = hx.register_tensor(f32, (16, 24)), hx.register_tensor(f32, (16, 24))
    hx.copy(hx.global_view(a, ((16, 24), (24, 1))), ra)
    hx.copy(hx.global_view(b, ((16, 24), (24, 1))), rb)
    return ra, rb


def counted(a, b):
    return float(max(0, int(np.ceil(b))))


def lowered(a, b):
    while b > 3:
        b -= 2
    return b


def climbed(a, b):
    while a < b:
        a += 0.25 * int(b) if b > 5 else 1.0
    return a


CASES = [(while_another, counted), (while_its_own, lowered), (everything, climbed)]


@hx.kernel(cache=False)
def numbered(x: i32[33, 7], y: i32[33, 7]):
    """Of 32 threads 21 hold the tile, the others repeat the first of them."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(i32, (33, 7))
    hx.copy(hx.global_view(x, ((33, 7), (7, 1))), r)
    for i, j in hx.elements(r):
        r[i, j] = r[i, j] + 10 * i + j
    hx.copy(r - hx.max(r, 1), hx.global_view(y, ((33, 7), (7, 1))))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_threads_that_repeat_others_see_their_coordinates(target):
    x = np.random.default_rng(0).integers(-9, 10, (33, 7)).astype(np.int32)
    y = np.zeros_like(x)
    numbered.compile(target, verify=True).simulate(x, y)
    i, j = np.indices(x.shape)
    want = x + 10 * i + j
    np.testing.assert_array_equal(y, want - want.max(1, keepdims=True))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("kernel", "means"), CASES, ids=lambda f: getattr(f, "__name__", ""))
def test_control_over_elements_runs_as_python_would(kernel, means, target):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 12, (16, 24)).astype(np.float32) for _ in "ab")
    want = np.vectorize(means, otypes=[np.float32])(a, b)
    compiled = kernel.compile(target, verify=True)
    tile = {"a": a.copy(), "b": b.copy()}
    interpret(compiled.tile, tile, {})
    compiled.simulate(a, b)
    np.testing.assert_array_equal(a, want)
    np.testing.assert_array_equal(tile["a"], want)
    assert "while" in compiled.source()


@pytest.mark.parametrize("name", ["ra", "rb"])
def test_the_proof_wants_the_elements_of_all_tiles_among_a_threads_own(name):
    solution = while_another.compile("sm_80", verify=True).solution
    f = solution.fragments[name]
    turned = replace(f, thread=f.thread[::-1], value=f.value)
    with pytest.raises(VerifyError):
        check(replace(solution, fragments={**solution.fragments, name: turned}))


AT = SourceSpan("k.py", 1)
i, x = Var("i", i32), Var("x", f32)
ACTS = {
    "a barrier": (MbarrierOp("arrive", "b", as_scalar(0), None, AT), True),
    "a call": (CallStmt("f", (as_scalar(1),), AT), True),
    "a call in a value": (Assign(x, Call("f", (), f32), True, AT), True),
    "a variable of its own": (Assign(x, as_scalar(1.0), True, AT), False),
    "an element": (SetElement("r", (i,), as_scalar(1.0), AT), False),
}


@pytest.mark.parametrize("what", ACTS)
def test_a_loop_whose_tile_nobody_reads_stays_for_what_else_it_does(what):
    stmt, stays = ACTS[what]
    b = TileBuilder()
    r = b.register("r", f32, 32)
    b.add(ForElements(0, r, (i,), (If(compare("lt", i, 4), (stmt,), (), AT),), AT))
    left = remove_dead(b.program()).body
    assert bool(left) == stays


@hx.device
def number(of, at):
    """of[at], which all threads read: the only element of a register tile is one number."""
    one, value = hx.register_tensor(i32, (1,)), 0
    hx.copy(hx.global_view(of[at:], ((1,), (1,))), one)
    for (i,) in hx.elements(one):
        value = one[i]
    return value


blocks, rows = hx.dims("blocks rows")


@hx.kernel(cache=False)
def sums_of_runs(x: f32[rows, 64], first: i32[blocks], count: i32[blocks], y: f32[blocks, 64]):
    """Block b adds up count[b] rows from first[b] on, through shared memory; of none it leaves."""
    hx.attrs.cuda.grid_dim = blocks
    hx.attrs.cuda.block_dim = 64
    left = number(count, hx.blockIdx.x)
    if left > 0:
        row = number(first, hx.blockIdx.x)
        s, total = hx.shared_tensor(f32, (1, 64)), hx.register_tensor(f32, (1, 64))
        r = hx.register_tensor(f32, (1, 64))
        hx.fill(total, 0.0)
        for i in range(left):
            hx.copy(hx.global_view(x[row + i :, :], ((1, 64), (64, 1))), r)
            hx.copy(r, s)
            hx.syncthreads()
            hx.copy(s, r)
            hx.syncthreads()
            total += r
        hx.copy(total, hx.global_view(y[hx.blockIdx.x :, :], ((1, 64), (64, 1))))


@hx.kernel(cache=False)
def sums_by_roles(x: f32[rows, 64], first: i32[blocks], count: i32[blocks], y: f32[blocks, 64]):
    """The same by a role that loads and one that adds, each of which reads the numbers itself."""
    hx.attrs.cuda.grid_dim = blocks
    sx = hx.shared_tensor(f32, (1, 64, 2))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        row = number(first, hx.blockIdx.x)
        for i in range(number(count, hx.blockIdx.x)):
            with pipe.produce() as s:
                hx.copy(hx.global_view(x[row + i :, :], ((1, 64), (64, 1))), sx[:, :, s])
    with hx.warp_groups_consumer():
        left = number(count, hx.blockIdx.x)
        if left > 0:
            total, r = hx.register_tensor(f32, (1, 64)), hx.register_tensor(f32, (1, 64))
            hx.fill(total, 0.0)
            for _ in range(left):
                with pipe.consume() as s:
                    hx.copy(sx[:, :, s], r)
                total += r
            hx.copy(total, hx.global_view(y[hx.blockIdx.x :, :], ((1, 64), (64, 1))))


@pytest.mark.parametrize(
    "kernel, target",
    [(sums_of_runs, "sm_80"), (sums_of_runs, "sm_90"), (sums_by_roles, "sm_90")],
)
def test_a_number_that_all_threads_read_decides_what_they_do_together(kernel, target):
    x = np.random.default_rng(0).integers(-9, 9, (20, 64)).astype(np.float32)
    first, count = np.array([0, 3, 5, 19], np.int32), np.array([2, 0, 5, 1], np.int32)
    y = np.zeros((4, 64), np.float32)
    kernel.compile(target, verify=True).simulate(x, first, count, y)
    assert np.array_equal(y, [x[f : f + c].sum(0) for f, c in zip(first, count)])


@hx.kernel(cache=False)
def by_rows(x: f32[33, 48], d: f32[33, 1], e: f32[33, 8], y: f32[33, 48]):
    """Rows times their factor, but for those whose factor is 1; then each adds what its row of `e`
    has in column 5."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 64
    r, f = hx.register_tensor(f32, (33, 48)), hx.register_tensor(f32, (33, 1))
    g = hx.register_tensor(f32, (33, 8))
    hx.copy(hx.global_view(x, ((33, 48), (48, 1))), r)
    hx.copy(hx.global_view(d, ((33, 1), (1, 1))), f)
    hx.copy(hx.global_view(e, ((33, 8), (8, 1))), g)
    for i, j in hx.elements(r):
        if f[i, 0] != 1.0:
            r[i, j] = r[i, j] * f[i, 0]
    for i, j in hx.elements(r):
        r[i, j] = r[i, j] + g[i, 5] * g[i, -1]
    hx.copy(r, hx.global_view(y, ((33, 48), (48, 1))))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_an_index_that_is_no_coordinate_repeats(target):
    rng = np.random.default_rng(5)
    x, d, e = (rng.integers(-3, 4, (33, n)).astype(np.float32) for n in (48, 1, 8))
    y = np.zeros_like(x)
    compiled = by_rows.compile(target, verify=True)
    compiled.simulate(x, d, e, y)
    assert np.array_equal(y, x * d + e[:, 5:6] * e[:, 7:])
    expected = np.zeros_like(x)
    interpret(compiled.tile, {"x": x, "d": d, "e": e, "y": expected}, {})
    assert np.array_equal(y, expected)


def rows_apart(condition):
    """Whether a branch on `condition` stands outside of the loop over a row's values."""

    @hx.kernel(cache=False)
    def kernel(x: f32[64, 64], d: f32[64, 1]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r, f = hx.register_tensor(f32, (64, 64)), hx.register_tensor(f32, (64, 1))
        hx.copy(hx.global_view(x, ((64, 64), (64, 1))), r)
        hx.copy(hx.global_view(d, ((64, 1), (1, 1))), f)
        for i, j in hx.elements(r):
            if condition(r, f, i, j):
                r[i, j] = r[i, j] * f[i, 0]
        hx.copy(r, hx.global_view(x, ((64, 64), (64, 1))))

    compiled = kernel.compile("sm_90")
    x, d = (np.random.default_rng(n).integers(0, 3, (64, n)).astype(np.float32) for n in (64, 1))
    meant = x.copy()
    for i, j in np.ndindex(x.shape):
        if condition(x, d, i, j):
            meant[i, j] = x[i, j] * d[i, 0]
    compiled.simulate(x, d)
    assert np.array_equal(x, meant)

    def within(body):
        for stmt in body:
            if isinstance(stmt, th.For):
                yield from within(stmt.body)
            elif isinstance(stmt, th.If) and stmt.then:
                yield isinstance(stmt.then[0], th.For)

    return any(within(compiled.thread.body))


@pytest.mark.parametrize(
    ("condition", "outside"),
    [
        (lambda r, f, i, j: f[i, 0] != 1.0, True),
        (lambda r, f, i, j: i % 3 == 1, True),
        (lambda r, f, i, j: j % 3 == 1, False),
        (lambda r, f, i, j: r[i, j] != 1.0, False),
    ],
)
def test_threads_go_past_what_a_condition_leaves_out_at_once(condition, outside):
    assert rows_apart(condition) == outside


def test_what_repeats_is_read_only():
    @hx.kernel(cache=False)
    def kernel(x: f32[64, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r, f = hx.register_tensor(f32, (64, 64)), hx.register_tensor(f32, (64, 1))
        hx.fill(r, 0.0)
        hx.fill(f, 0.0)
        for i, j in hx.elements(r):
            f[i, 0] = r[i, j]
        hx.copy(f, hx.global_view(x, ((64, 1), (64, 1))))

    with pytest.raises(hx.errors.FrontendError, match=r"`f` .* is indexed by \(i, 0\)") as raised:
        kernel.compile("sm_80").tile  # noqa: B018
    assert "only read" in raised.value.fix


def test_what_repeats_is_not_what_the_loop_writes():
    @hx.kernel(cache=False)
    def kernel(x: f32[64, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f32, (64, 64))
        hx.copy(hx.global_view(x, ((64, 64), (64, 1))), r)
        for i, j in hx.elements(r):
            r[i, j] = r[i, j] - r[i, 0]
        hx.copy(r, hx.global_view(x, ((64, 64), (64, 1))))

    with pytest.raises(hx.errors.FrontendError, match="`r` is written in this loop") as raised:
        kernel.compile("sm_80").tile  # noqa: B018
    assert "read a copy" in raised.value.fix
