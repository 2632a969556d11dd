"""Tensors with strides of their own: parts of packed arrays, transposes, expanded dimensions."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from strided_kernels import (
    COLUMNS,
    ROWS,
    boxes,
    counted,
    d,
    expanded,
    gathered,
    halves,
    heads_of,
    m,
    n,
    pairs,
    product,
    rows,
    sm,
    staged,
    zero,
)

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import Signature, SymbolParam, TensorParam, bind, decode
from hexcute_core.runtime.tensor_maps import map_of
from hexcute_core.strides import apart, reach
from hexcute_core.thread import TensorMap
from hexcute_core.thread import show_program as show_thread
from hexcute_core.tile.printer import show_program

PAIRS = pairs()


# Roles are for sm_90.
TARGETS = [(n, t) for n in PAIRS for t in ("sm_80", "sm_90") if t == "sm_90" or n != "by boxes"]


@pytest.mark.parametrize("name, target", TARGETS)
def test_elements_are_found_by_their_strides(name: str, target: str) -> None:
    kernel, x, y, factor = PAIRS[name]
    parent = y if y.base is None else y.base
    before = parent.copy()
    report = kernel.simulate(x, y, target=target, compare=True)
    assert not report.findings and np.array_equal(y, factor * x)
    y[...] = 0
    assert np.array_equal(parent, before), "what lies between the rows was written"
    assert kernel.compile(target, aligned=False, verify=True).thread.params


def test_a_row_of_known_strides_moves_16_bytes_and_others_what_they_can() -> None:
    def width(kernel: hx.Kernel, x: np.ndarray, y: np.ndarray) -> int:
        key = bind(kernel.signature, (x, y), kernel.divisors).key
        solution = kernel.specialise("sm_90", key, {"BM": 64, "BN": 64}).solution
        return min(plan.row.bytes for plan in solution.copies.values())

    out = np.zeros((ROWS, COLUMNS), np.float16)
    wide = halves(ROWS, 256)
    assert width(rows, wide[:, :COLUMNS], out) == 16
    assert width(rows, halves(ROWS, 252)[:, :COLUMNS], out) == 8
    assert width(rows, halves(ROWS, 250)[:, :COLUMNS], out) == 4
    assert width(rows, halves(ROWS, 251)[:, :COLUMNS], out) == 2


def test_cp_async_takes_rows_of_4_and_8_bytes() -> None:
    for length, name in ((252, "cp.async.8"), (250, "cp.async.4")):
        x, y = halves(ROWS, length)[:, :64], np.zeros((ROWS, length), np.float16)[:, :64]
        key = bind(staged.signature, (x, y), staged.divisors).key
        compiled = staged.specialise("sm_80", key, {"BM": 64, "BN": 64})
        assert name in compiled.explain(rejected=0)
        compiled.simulate(x, y, compare=True)
        assert np.array_equal(x, y)


def test_tma_takes_transposes_and_says_what_it_does_not() -> None:
    compiled = boxes.compile("sm_90", verify=True)
    assert {m.dims for m in compiled.thread.maps} == {(1, 0)}
    names = [plan.name for plan in compiled.solution.bulk.values()]
    assert names == ["tma.load", "tma.store"]
    text = boxes.compile("sm_90", aligned=False).explain()
    assert "is not known to be aligned to 16 bytes" in text
    x, y = halves(COLUMNS, 108)[:, :ROWS].T, np.zeros((COLUMNS, ROWS), np.float16).T
    key = bind(boxes.signature, (x, y), boxes.divisors).key
    text = boxes.specialise("sm_90", key, {}).explain()
    assert "the stride sn of dimension 1 of `x` is not known to be a multiple of 16 bytes" in text


def test_heads_of_a_packed_projection_are_multiplied_where_they_lie() -> None:
    tokens, count, depth = 70, 3, 72
    packed = halves(tokens, 3 * count * depth) // 3
    q, k = (heads_of(packed, which, count, depth) for which in (0, 1))
    c = np.zeros((count, tokens, tokens), np.float32)
    compiled = product.compile("sm_90", verify=True)
    assert [p.name for p in compiled.solution.bulk.values()] == ["tma.load"] * 2
    product.simulate(q, k, c, compare=True)
    assert np.array_equal(c, np.einsum("hid,hjd->hij", q.astype(np.float32), k.astype(np.float32)))


def test_one_head_may_stand_for_all() -> None:
    one = np.random.default_rng(0).normal(size=(1, 40, 72)).astype(np.float32)
    x, y = np.broadcast_to(one, (3, 40, 72)), np.zeros((3, 40, 72), np.float32)
    for target in ("sm_80", "sm_90"):
        y[...] = 0
        expanded.simulate(x, y, target=target, compare=True)
        assert np.array_equal(x, y)
    q, c = np.broadcast_to(halves(1, 64, 64) // 3, (2, 64, 64)), np.zeros((2, 64, 64), np.float32)
    product.simulate(q, q, c, compare=True)
    assert np.array_equal(c[0], q[0].astype(np.float32) @ q[0].astype(np.float32).T)
    assert np.array_equal(c[0], c[1])


def test_numbers_updates_and_gathers_by_strides() -> None:
    x, bins = np.array([[3, 9], [1, 9], [3, 9], [7, 9]], np.int32)[:, 0], np.zeros((4, 5), np.int32)
    counted.simulate(x, bins[:, 2], target="sm_80", compare=True)
    assert bins.tolist() == [[0] * 5, [0, 0, 1, 0, 0], [0] * 5, [0, 0, 2, 0, 0]]
    table, picks = halves(50, 192)[:, 64:128], np.array([[4, 0], [-1, 0], [49, 0]], np.int32)[:, 0]
    y = np.zeros((3, 64), np.float16)
    gathered.simulate(table, picks, y, target="sm_90", compare=True)
    assert np.array_equal(y, np.stack([table[4], 0 * table[0], table[49]]))


def test_a_program_shows_strides() -> None:
    assert repr(rows) == "<kernel rows(x: f16[m:sm, n:1], y: f16[m, n], *, BM=64, BN=64)>"
    assert str(rows.signature.tensors[0]) == "f16[m:sm, n:1]"
    assert "kernel rows(x: f16[m:sm, n:1], y: f16[m, n])" in show_program(rows.compile().tile)
    text = show_thread(boxes.compile().thread)
    assert "x: f16[m:1, n:sn] aligned" in text
    assert "map x_map0: (64, 64) along (1, 0) of x, swizzle 128" in text


def test_a_key_tells_strides_that_elements_share_memory_and_how_far_they_reach() -> None:
    signature = Signature(
        "f", (TensorParam("a", "f16", ("m", "k"), ("s", 1)),), tuple(map(SymbolParam, "mks"))
    )
    line, divisors = np.zeros(4096, np.float16), {"k": 8, "s": 8}

    def found(shape: tuple[int, int], step: int) -> object:
        array = as_strided(line, shape, (2 * step, 2))
        return decode(signature, divisors, bind(signature, (array,), divisors).key)

    assert found((4, 16), 16).apart == ("a",)
    assert found((4, 16), 12).apart == ()
    assert found((4, 16), 0).apart == ()
    assert found((1, 16), 3).apart == ("a",)
    assert dict(found((4, 16), 20).multiples) == {"k": 8, "s": 4}
    assert not found((3, 8), 2**30 - 5).wide
    assert found((3, 8), 2**30 - 4).wide


@pytest.mark.parametrize("shape, strides, far, own", [
    ((3, 4), (4, 1), 12, True), ((3, 4), (1, 3), 12, True), ((3, 4), (9, 2), 25, True),
    ((3, 4), (3, 1), 10, False), ((3, 4), (0, 1), 4, False), ((1, 4), (0, 1), 4, True),
    ((0, 4), (4, 1), 0, True), ((2, 3, 4), (4, 8, 1), 24, True),
])  # fmt: skip
def test_how_far_elements_reach_and_whether_they_lie_apart(shape, strides, far, own) -> None:
    assert reach(shape, strides) == far
    assert apart(shape, strides) == own
    if far:
        cells = np.zeros(far, int)
        for place in np.ndindex(*shape):
            cells[np.dot(place, strides)] += 1
        assert cells[-1] and (cells.max() == 1) == own


def test_a_map_is_made_of_strides() -> None:
    class Driver:
        def tensor_map(self, *what: object) -> bytes:
            self.what = what
            return b""

    driver = Driver()
    signature = Signature(
        "f", (TensorParam("x", "f16", ("h", "m", "n"), ("sh", 1, "sn")),),
        tuple(map(SymbolParam, ("h", "m", "n", "sh", "sn"))),
    )  # fmt: skip
    encode = map_of(TensorMap("x_map", "x", (1, 8, 64), 128, (0, 2, 1)), signature, driver)  # type: ignore[arg-type]
    encode((4096, 3, 100, 40, 8000, 104))
    assert [list(what) for what in driver.what[2:5]] == [[100, 40, 3], [208, 16000], [64, 8, 1]]
    encode((4096, 1, 100, 40, 0, 104))
    assert list(driver.what[3]) == [208, 16]
    with pytest.raises(LaunchError, match="TMA moves rows of a multiple of 16 bytes"):
        encode((4096, 3, 100, 40, 8000, 100))


def test_a_kernel_with_strides_is_saved_and_loaded(tmp_path) -> None:
    compiled = boxes.compile("sm_90")
    loaded = hx.load(compiled.save(tmp_path / "boxes.hexcute"))
    assert loaded.signature.tensors == compiled.signature.tensors
    assert loaded._parts.built.maps == compiled.built.maps
    assert loaded._parts.promise.apart == {"y"}


def test_symbols_may_promise_strides() -> None:
    step = hx.dim("step", multiple_of=8)

    @hx.kernel(cache=False)
    def promised(x: f32[m:step, n:1], y: f32[m, n]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 8)
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (8, 64))
        hx.copy(hx.global_view(x[hx.blockIdx.x * 8 :, :], ((8, 64), (step, 1))), r)
        hx.copy(r, hx.global_view(y[hx.blockIdx.x * 8 :, :], ((8, 64), (n, 1))))

    x, y = np.ones((9, 72), np.float32), np.zeros((9, 64), np.float32)
    promised.simulate(x[:, :64], y)
    assert (y == 1).all()
    with pytest.raises(LaunchError, match="step is not a multiple of 8"):
        promised.simulate(np.ones((9, 68), np.float32)[:, :64], y)


def test_strides_of_parameters_may_be_asked_for() -> None:
    @hx.kernel(cache=False)
    def asked(x: f16[m:sm, 64:1], y: f16[m, n, d], z: f16[3:0, 4:1], w: f16[1:zero]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        assert x.strides[1] == 1 and z.strides == (0, 1) and y.strides[2] == 1
        hx.global_view(x, ((8, 64), x.strides))
        hx.global_view(y[0, :, :], ((8, 8), y.strides[1:]))

    assert len(asked.compile("sm_80").tile.tensors) == 2
