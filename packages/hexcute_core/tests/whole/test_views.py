"""Views of every kind, along every path of a copy, against numpy: origins before the tensor,
sub-modes, modes that repeat elements or step over them, parts that begin anywhere."""

import re

import numpy as np
import pytest
from view_kernels import View, adding, loads, stores

import hexcute_core as hx
from hexcute_core import f16, f32, i8
from hexcute_core.driver.simulation import compare_with_tile_program
from hexcute_core.errors import NoLayout, SimulationError

NUMPY = {f16: np.float16, f32: np.float32, i8: np.int8}
TARGETS = {"registers": ("sm_80",), "shared": ("sm_80", "sm_90"), "pipeline": ("sm_90",)}


def simple(shape, origin, tile):
    return View(shape, origin, (((tile[0], 1, 0),), ((tile[1], 1, 1),)))


def numbers(dtype, shape):
    """No zero, so that what is read as zero is seen; exact in every type."""
    return (np.arange(np.prod(shape)).reshape(shape) % 61 + 1).astype(NUMPY[dtype])


def check_load(dtype, view, path, target):
    a, o = numbers(dtype, view.shape), np.full(view.tile, 77, NUMPY[dtype])
    compiled = loads(dtype, view)[path].compile(target, verify=True)
    report = compiled.simulate(a, o, *view.begin)
    assert not report.findings
    np.testing.assert_array_equal(o, view.read(a))
    return compiled


def check_store(dtype, view, path, target):
    a, o = numbers(dtype, view.shape), np.full(view.tile, 77, NUMPY[dtype])
    o[...] = np.arange(o.size).reshape(o.shape) % 50 + 70
    meant = view.written(a, o)
    report = stores(dtype, view)[path].compile(target, verify=True).simulate(a, o, *view.begin)
    assert not report.findings
    np.testing.assert_array_equal(a, meant)


ORIGINS = [(0, -8), (-3, 0), (2, -3), (-5, -16), (-40, 0), (9, 60), (0, -64), (-(2**20), 8)]
SHAPES = [(20, 64), (20, 63)]


@pytest.mark.parametrize("path, target", [(p, t) for p, ts in TARGETS.items() for t in ts])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_view_that_begins_before_its_tensor_reads_zeros(path, target, shape, origin):
    compiled = check_load(f16, simple(shape, origin, (16, 64)), path, target)
    wide = shape[1] % 8 == 0 and origin[1] % 8 == 0
    text = compiled.explain(rejected=0)
    used = next(line for line in text.splitlines() if "copy" in line and ": " in line)
    assert ("16 bytes per instruction" in used or "tma.load" in used) == wide, used


@pytest.mark.parametrize("path", ["registers", "shared"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_view_that_begins_before_its_tensor_writes_nothing_there(path, target, shape, origin):
    check_store(f32, simple(shape, origin, (16, 32)), path, target)


def test_what_tma_writes_does_not_begin_before_its_tensor():
    """A box is read from a negative corner, and written there is a fault of the GPU: a store whose
    origin may be negative goes by threads, and what only TMA can do is refused."""
    view = simple((20, 64), (0, -8), (16, 32))
    with pytest.raises(NoLayout, match="may begin before `a`, where TMA only reads"):
        adding(f32, view).compile("sm_90").explain()
    text = stores(f32, view)["shared"].compile("sm_90").explain(rejected=None)
    assert "tma.store: the tile may begin before `a`, where TMA only reads" in text


@pytest.mark.parametrize("column", [1, 2, 4, 60, -3, -4])
def test_a_box_begins_at_a_multiple_of_16_bytes_of_a_row(column):
    """An H200 takes any other box for an illegal instruction, be it loaded, prefetched, stored or
    added; found by launching each."""
    view = simple((20, 64), (2, column), (16, 64))
    used = loads(f16, view)["pipeline"].compile("sm_90", verify=True).explain(rejected=0)
    assert not re.search(r"tma\.(load|prefetch) x", used)
    narrow = simple((20, 64), (2, abs(column)), (16, 32))
    used = stores(f16, narrow)["shared"].compile("sm_90", verify=True).explain(rejected=0)
    assert "tma.store" not in used
    n = hx.dim("n", multiple_of=8)

    @hx.kernel(cache=False)
    def adds(a: f16[n, n], x: hx.i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        s = hx.shared_tensor(f16, (16, 32))
        hx.fill(s, 1.0)
        begin = hx.maximum(x, 0) * abs(column)
        hx.copy(s, hx.global_view(a[:, begin:], ((16, 32), (n, 1))), reduce="add")

    with pytest.raises(NoLayout, match="TMA takes multiples of 16"):
        adds.compile("sm_90").explain()


def test_a_box_that_is_stored_before_its_tensor_is_a_finding():
    m, n = hx.dims("m n")

    @hx.kernel(cache=False)
    def back(o: f32[n, 64], a: f32[m, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        s = hx.shared_tensor(f32, (16, 32))
        hx.copy(hx.global_view(o, ((16, 32), (64, 1))), s)
        hx.syncthreads()
        hx.copy(s, hx.global_view(a[m - n :, :], ((16, 32), (64, 1))))

    compiled = back.compile("sm_90")
    assert "tma.store" in compiled.explain(rejected=0), "extents alone are taken for a place in it"
    o = numbers(f32, (16, 64))
    a = np.zeros((32, 64), np.float32)
    compiled.simulate(o, a)
    assert np.array_equal(a[16:, :32], o[:, :32])
    with pytest.raises(SimulationError, match="what TMA writes may not begin before its tensor"):
        compiled.simulate(numbers(f32, (48, 64)), a)


REPEATED = {
    "rows": (((32, 0, 0),), ((64, 1, 1),)),
    "columns": (((64, 1, 1),), ((32, 0, 0),)),
    "everything": (((16, 0, 0),), ((32, 0, 0),)),
    "few": (((16, 1, 1),), ((2, 0, 0),)),
    "in a sub-mode": (((4, 1, 1), (4, 0, 0)), ((8, 4, 1),)),
    "first in a sub-mode": (((4, 0, 0), (4, 1, 1)), ((8, 4, 1),)),
    "overlapping": (((16, 1, 1),), ((16, 1, 1),)),
}


@pytest.mark.parametrize("path, target", [(p, t) for p, ts in TARGETS.items() for t in ts])
@pytest.mark.parametrize("dtype", [f16, i8, f32])
@pytest.mark.parametrize("name", REPEATED)
def test_a_view_that_repeats_elements(path, target, dtype, name):
    for origin in ((0, 0), (0, -3)):
        check_load(dtype, View((1, 96), origin, REPEATED[name]), path, target)


SPLIT = {
    "six and two": View((24, 24), (0, 0), (((6, 2, 0), (2, 1, 0)), ((24, 1, 1),))),
    "six and two across": View((24, 24), (0, 0), (((24, 1, 0),), ((6, 2, 1), (2, 1, 1)))),
    "a part inside": View((24, 64), (0, 0), (((8, 1, 0),), ((8, 1, 1), (4, 16, 1))),
                          ((0, 8), (4, 16))),
    "a part inside six": View((24, 64), (0, 0), (((6, 1, 1), (4, 8, 1)), ((16, 1, 0),)),
                              ((3, 12), (1, 8))),
    "tiles of eight": View((32, 64), (0, 0), (((8, 1, 0), (2, 16, 0)), ((8, 1, 1), (4, 16, 1)))),
    "swapped": View((32, 64), (0, 0), (((8, 1, 1), (2, 8, 0)), ((8, 1, 0), (4, 16, 1)))),
}  # fmt: skip


@pytest.mark.parametrize("path, target", [(p, t) for p, ts in TARGETS.items() for t in ts])
@pytest.mark.parametrize("name", SPLIT)
def test_a_view_with_sub_modes(path, target, name):
    check_load(f16, SPLIT[name], path, target)


def random_view(rng, unique=False):
    """A view of any kind; `unique` where no two of its elements are one element of the tensor."""
    sizes = [int(rng.choice([4, 6, 8, 12, 16, 24, 32])) for _ in range(2)]
    shape = (int(rng.integers(1, 40)), int(rng.choice([8, 24, 33, 64, 80])))
    modes = []
    for m, size in enumerate(sizes):
        first = int(rng.choice([f for f in range(1, size + 1) if size % f == 0]))
        cut = [n for n in (first, size // first) if n > 1] or [1]
        if unique:
            turned = bool(rng.integers(2)) and len(cut) == 2
            steps = (cut[1], 1) if turned else (1, cut[0])
            modes.append(tuple((n, s, m) for n, s in zip(cut, steps)))
        else:
            modes.append(
                tuple((n, int(rng.choice([0, 1, 1, 2, 8])), int(rng.integers(2))) for n in cut)
            )
    if rng.integers(2):
        modes = modes[::-1]
        sizes = sizes[::-1]
    parts = []
    for size in sizes:
        n = int(rng.integers(1, size + 1)) if rng.integers(2) else size
        parts.append((int(rng.integers(size - n + 1)), n))
    origin = (int(rng.integers(-12, 8)), int(rng.choice([-16, -8, -3, 0, 0, 1, 8])))
    return View(shape, origin, tuple(modes), tuple(parts))


@pytest.mark.parametrize("seed", range(40))
def test_random_views_are_read_as_numpy_reads_them(seed):
    rng = np.random.default_rng(seed)
    view = random_view(rng)
    path = str(rng.choice(list(TARGETS)))
    target = str(rng.choice(TARGETS[path]))
    dtype = (f16, i8, f32)[int(rng.integers(3))]
    compiled = check_load(dtype, view, path, target)
    a, o = numbers(dtype, view.shape), np.zeros(view.tile, NUMPY[dtype])
    assert compare_with_tile_program(compiled, (a, o, *view.begin))[1] == ()


@pytest.mark.parametrize("seed", range(20))
def test_random_views_are_written_as_numpy_writes_them(seed):
    rng = np.random.default_rng(1000 + seed)
    view = random_view(rng, unique=True)
    path, target = str(rng.choice(["registers", "shared"])), str(rng.choice(["sm_80", "sm_90"]))
    check_store((f16, i8, f32)[int(rng.integers(3))], view, path, target)
