"""Products of parts of register tiles, and what is refused of parts."""

import warnings

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.errors import FrontendError, HexcuteError, LayoutConflict, NoLayout
from hexcute_core.simulator import interpret

m, n, k = hx.dims("m n k")
TARGETS = ("sm_80", "sm_90")


def parted(a):
    """[64, 64] as [64, 32, 2]."""
    return a.reshape(64, 2, 32).transpose(0, 2, 1)


gemms = []


def gemm_case(reference, targets=TARGETS):
    """Marks a body whose result is `reference` of operands [64, 32] and [64, 32]."""

    def mark(body):
        gemms.extend(pytest.param(body, reference, t, id=f"{body.__name__}-{t}") for t in targets)
        return body

    return mark


def gemm_kernel(body):
    body = hx.device(body)

    @hx.kernel(cache=False)
    def kern(a: f16[m, k], b: f16[n, k], c: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        ga = hx.global_view(a, ((64, 16, 2), (k, 1, 16)))
        gb = hx.global_view(b, ((64, 16, 2), (k, 1, 16)))
        gc = hx.global_view(c, ((64, 32, 2), (n, 1, 32)))
        body(ga, gb, gc)

    return kern


def product(a, b):
    return a @ b.T


@gemm_case(lambda a, b: 4 * product(a, b))
def operands_in_parts_changed_as_wholes(ga, gb, gc):
    ra, rb = hx.register_tensor(f16, (64, 16, 2)), hx.register_tensor(f16, (64, 16, 2))
    hx.copy(ga, ra)
    for i in hx.static_range(2):
        hx.copy(gb[:, :, i], rb[:, :, i])
    rb *= 2.0
    rx = hx.cast(hx.cast(ra, f32) * 2.0, f16)
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    for i in hx.static_range(2):
        hx.gemm(rc, rx[:, :, i], rb[:, :, i])
    for i in hx.static_range(2):
        hx.copy(rc[:, i * 32 : (i + 1) * 32], gc[:, :, i])


def in_rows(c):
    """[64, 32, 2] as [64, 64]."""
    return c.transpose(0, 2, 1).reshape(64, 64)


@gemm_case(lambda a, b: in_rows((lambda c: c * c.max(1, keepdims=True))(parted(product(a, b)))))
def an_accumulator_in_parts_scaled_as_a_whole(ga, gb, gc):
    ra, rb = hx.register_tensor(f16, (64, 16, 2)), hx.register_tensor(f16, (32, 16, 2, 2))
    hx.copy(ga, ra)
    for p in hx.static_range(2):
        hx.copy(gb[p * 32 : (p + 1) * 32, :, :], rb[:, :, :, p])
    rc = hx.register_tensor(f32, (64, 32, 2))
    for p in hx.static_range(2):
        hx.fill(rc[:, :, p], 0.0)
        for q in hx.static_range(2):
            hx.gemm(rc[:, :, p], ra[:, :, q], rb[:, :, q, p])
    rc *= hx.max(rc, 1)
    hx.copy(rc, gc)


@gemm_case(lambda a, b: 2 * product(a, b))
def parts_by_numbers_of_the_run(ga, gb, gc):
    ra, rb = hx.register_tensor(f16, (64, 16, 2)), hx.register_tensor(f16, (32, 16, 2, 2))
    rc = hx.register_tensor(f32, (64, 32, 2))
    for q in range(2):
        hx.copy(ga[:, :, q], ra[:, :, q])
        for p in hx.static_range(2):
            hx.copy(gb[p * 32 : (p + 1) * 32, :, q], rb[:, :, q, p])
    for p in range(2):
        hx.fill(rc[:, :, p], 0.0)
        for q in range(2):
            hx.gemm(rc[:, :, p], ra[:, :, q], rb[:, :, q, p])
        rc[:, :, p] *= 2.0
        hx.copy(rc[:, :, p], gc[:, :, p])


@gemm_case(lambda a, b: np.roll(product(a, b), 32, 0))
def blocks_of_an_accumulator(ga, gb, gc):
    ra, rb = hx.register_tensor(f16, (64, 16, 2)), hx.register_tensor(f16, (64, 16, 2))
    hx.copy(ga, ra)
    hx.copy(gb, rb)
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    for i in hx.static_range(2):
        hx.gemm(rc, ra[:, :, i], rb[:, :, i])
    for i in hx.static_range(2):
        for p in hx.static_range(2):
            there = gc[(1 - i) * 32 : (2 - i) * 32, :, p]
            block = rc[i * 32 : (i + 1) * 32, p * 32 : (p + 1) * 32]
            if p == 0:
                hx.copy(block, there)
            else:
                hx.copy(hx.rearrange(block), there)


def in_shared(ga, gb):
    sa, sb = hx.shared_tensor(f16, (64, 16, 2)), hx.shared_tensor(f16, (64, 16, 2))
    hx.copy(ga, sa)
    hx.copy(gb, sb)
    hx.syncthreads()
    return sa, sb


@gemm_case(lambda a, b: product(a, b) * np.repeat([4, 2], 32), ("sm_90",))
def unfinished_parts_beside_finished_ones(ga, gb, gc):
    sa, sb = in_shared(ga, gb)
    rc = hx.register_tensor(f32, (64, 32, 2))
    hx.fill(rc, 0.0)
    for p in hx.static_range(2):
        for q in hx.static_range(2):
            hx.gemm(rc[:, :, p], sa[:, :, q], sb[p * 32 : (p + 1) * 32, :, q], asynchronous=True)
    hx.wait_gemm(2)
    rc[:, :, 0] *= 2.0
    hx.wait_gemm(0)
    rc *= 2.0
    hx.copy(rc, gc)


@gemm_case(lambda a, b: 2 * product(a, b), ("sm_90",))
def parts_of_a_register_operand(ga, gb, gc):
    _, sb = in_shared(ga, gb)
    ra = hx.register_tensor(f16, (64, 16, 2))
    hx.copy(ga, ra)
    ra *= 2.0
    rc = hx.register_tensor(f32, (64, 32, 2))
    for p in hx.static_range(2):
        for q in hx.static_range(2):
            columns = sb[p * 32 : (p + 1) * 32, :, q]
            hx.gemm(rc[:, :, p], ra[:, :, q], columns, accumulate=q > 0)
    hx.copy(rc, gc)


@gemm_case(lambda a, b: product(a, b) * np.repeat([1, 3], 32), ("sm_90",))
def unfinished_parts_by_numbers_of_the_run(ga, gb, gc):
    sa, sb = in_shared(ga, gb)
    rc = hx.register_tensor(f32, (64, 32, 2))
    hx.fill(rc, 0.0)
    for p in range(2):
        for _ in range(1 + 2 * p):
            for q in hx.static_range(2):
                columns = sb[p * 32 : (p + 1) * 32, :, q]
                hx.gemm(rc[:, :, p], sa[:, :, q], columns, asynchronous=True)
    hx.wait_gemm(0)
    hx.copy(rc, gc)


@gemm_case(lambda a, b: product(a, b) + np.repeat([0, 1], 32)[:, None])
def parts_collected_for_an_accumulator(ga, gb, gc):
    ra, rb = hx.register_tensor(f16, (64, 16, 2)), hx.register_tensor(f16, (64, 16, 2))
    hx.copy(ga, ra)
    hx.copy(gb, rb)
    start = hx.register_tensor(f32, (64, 64))
    hx.fill(start[0:32, :], 0.0)
    hx.fill(start[32:64, :], 1.0)
    rc = hx.rearrange(start)
    for i in hx.static_range(2):
        hx.gemm(rc, ra[:, :, i], rb[:, :, i])
    q = hx.rearrange(rc)
    for i in hx.static_range(2):
        hx.copy(q[:, i * 32 : (i + 1) * 32], gc[:, :, i])


@pytest.mark.parametrize("body, reference, target", gemms)
def test_products_of_parts(body, reference, target):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 32)).astype(np.float16) for _ in range(2))
    c, d = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hx.RearrangeWarning)
        compiled = gemm_kernel(body).compile(target, verify=True)
        compiled.simulate(a, b, c)
    want = reference(a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_array_equal(c, want)
    interpret(compiled.tile, {"a": a, "b": b, "c": d}, {"m": 64, "n": 64, "k": 32})
    np.testing.assert_array_equal(c, d)
    assert compiled.source()


@pytest.mark.parametrize("target", TARGETS)
def test_any_number_of_columns_of_a_product(target):
    """Each goes to a view of its own; all of them are read from shared memory, or none is."""

    @hx.kernel(cache=False)
    def kern(a: f16[16, 16], b: f16[8, 16], c: f32[8, 16]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        ra, rb = hx.register_tensor(f16, (16, 16)), hx.register_tensor(f16, (8, 16))
        rc = hx.register_tensor(f32, (16, 8))
        hx.copy(hx.global_view(a, ((16, 16), (16, 1))), ra)
        hx.copy(hx.global_view(b, ((8, 16), (16, 1))), rb)
        hx.fill(rc, 1.0)
        hx.gemm(rc, ra, rb)
        for i in hx.static_range(8):
            hx.copy(rc[:, i], hx.global_view(c[i, :], ((16,), (1,))))

    a, b = (np.arange(n * 16).reshape(n, 16).astype(np.float16) % 5 for n in (16, 8))
    c = np.zeros((8, 16), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kern.compile(target, verify=True).simulate(a, b, c)
    assert np.array_equal(c, product(b.astype(np.float32), a.astype(np.float32)) + 1)


def twice_in_different_ways(ga, gb, gc):
    t = hx.register_tensor(f32, (32, 32, 2, 2))
    hx.fill(t, 0.0)
    t[:, :, 0, :] += 1.0
    t[:, :, :, 0] += 1.0  # here
    hx.copy(t[:, :, 0, 0], gc[0:32, :, 0])


def two_ranges_at_once(ga, gb, gc):
    t = hx.register_tensor(f32, (32, 32, 4, 4))
    hx.fill(t, 0.0)
    t[:, :, 1:3, 1:3] += 1.0  # here
    hx.copy(t[:, :, 0, 0], gc[0:32, :, 0])


@pytest.mark.parametrize("body", [twice_in_different_ways, two_ranges_at_once])
def test_parts_that_no_registers_hold_in_one_piece(body):
    with pytest.raises(NoLayout, match=r"no order of the registers of `t` has t\[") as caught:
        _ = gemm_kernel(body).compile("sm_80").solution
    assert "cut modes 2, 3 of `t` together, by integers" in caught.value.fix
    assert _line(caught.value).endswith("# here")


def rows_filled(ga, gb, gc):
    ra, rb = hx.register_tensor(f16, (64, 16, 2)), hx.register_tensor(f16, (64, 16, 2))
    hx.copy(ga, ra)
    hx.copy(gb, rb)
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc[0:32, :], 0.0)
    hx.fill(rc[32:64, :], 1.0)
    hx.gemm(rc, ra[:, :, 0], rb[:, :, 0])  # here
    hx.copy(hx.rearrange(rc)[:, 0:32], gc[:, :, 0])


def elements_of_some_rows(ga, gb, gc):
    ra, rb = hx.register_tensor(f16, (64, 16, 2)), hx.register_tensor(f16, (64, 16, 2))
    hx.copy(ga, ra)
    hx.copy(gb, rb)
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    hx.gemm(rc, ra[:, :, 0], rb[:, :, 0])  # here
    top = rc[0:32, :]
    for i, j in hx.elements(top):
        top[i, j] = 0.0
    hx.copy(hx.rearrange(rc)[:, 0:32], gc[:, :, 0])


@pytest.mark.parametrize("body", [rows_filled, elements_of_some_rows])
@pytest.mark.parametrize("target", TARGETS)
def test_parts_written_of_what_threads_share_among_them(body, target):
    with pytest.raises(LayoutConflict, match="taken in parts along mode 0") as caught:
        _ = gemm_kernel(body).compile(target).solution
    assert "hx.rearrange(rc)" in caught.value.fix
    assert _line(caught.value).endswith("# here")


def a_product_that_reads_its_result(ga, gb, gc):
    x = hx.register_tensor(f32, (16, 16, 3))
    hx.fill(x, 1.0)
    hx.gemm(x[:, :, 0], x[:, :, 1], x[:, :, 2])
    hx.gemm(x[:, :, 0], x[:, :, 0], x[:, :, 2])  # here


def an_element_of_a_part_that_differs(ga, gb, gc):
    x = hx.register_tensor(f32, (16, 16, 3))
    hx.fill(x, 1.0)
    for i, j in hx.elements(x[:, :, 0]):
        x[i, j, i % 3] = 0.0  # here


def an_element_beside_the_loop(ga, gb, gc):
    x = hx.register_tensor(f32, (16, 16, 3))
    hx.fill(x, 1.0)
    for i, j in hx.elements(x[:, :, 0]):
        x[i, j, 3] = 0.0  # here


def an_unfinished_part_read_with_the_whole(ga, gb, gc):
    sa, sb = in_shared(ga, gb)
    rc = hx.register_tensor(f32, (64, 32, 2))
    hx.fill(rc, 0.0)
    for p in hx.static_range(2):
        part = sb[p * 32 : (p + 1) * 32, :, 0]
        hx.gemm(rc[:, :, p], sa[:, :, 0], part, asynchronous=True)
    hx.wait_gemm(1)
    rc *= 2.0  # here


def an_element_of_an_unfinished_part(ga, gb, gc):
    sa, sb = in_shared(ga, gb)
    rc = hx.register_tensor(f32, (64, 32, 2))
    hx.fill(rc, 0.0)
    for p in hx.static_range(2):
        part = sb[p * 32 : (p + 1) * 32, :, 0]
        hx.gemm(rc[:, :, p], sa[:, :, 0], part, asynchronous=True)
    hx.wait_gemm(1)
    for i, j in hx.elements(rc[:, :, 0]):  # here
        rc[i, j, 0] = rc[i, j, 1]


@pytest.mark.parametrize(
    "body, text",
    [
        (a_product_that_reads_its_result, "of the same tensor, which may overlap"),
        (an_element_of_a_part_that_differs, "the same in all threads"),
        (an_element_beside_the_loop, "out of range for mode 2"),
        (an_unfinished_part_read_with_the_whole, "hx.wait_gemm(0)"),
        (an_element_of_an_unfinished_part, "hx.wait_gemm(0)"),
    ],
)
def test_what_is_refused_as_it_is_written(body, text):
    with pytest.raises(FrontendError) as caught:
        _ = gemm_kernel(body).compile("sm_90").tile
    assert text in str(caught.value)
    assert _line(caught.value).endswith("# here")


def _line(error: HexcuteError) -> str:
    with open(error.span.file) as file:
        return file.read().splitlines()[error.span.line - 1]
