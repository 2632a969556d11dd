"""A register tile and its parts are one tensor: every operation on either, mixed in one program."""

from dataclasses import replace

import numpy as np
import pytest
import tile_builder
import tile_runs

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.arch import Fragment, Mode
from hexcute_core.errors import VerifyError
from hexcute_core.simulator import interpret
from hexcute_core.synthesis.proof.check import check

m, n = hx.dims("m n")
TARGETS = ("sm_80", "sm_90")
cases = []


def case(reference, targets=TARGETS):
    """Marks a body whose result is `reference` of its operand, an array of [64, 32, 2]."""

    def mark(body):
        cases.extend(pytest.param(body, reference, t, id=f"{body.__name__}-{t}") for t in targets)
        return body

    return mark


def kernel_of(body):
    """The kernel whose operand is `r`, in parts of 32 columns, and its result `gy`."""
    body = hx.device(body)

    @hx.kernel(cache=False)
    def kern(x: f32[m, n], y: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f32, (64, 32, 2))
        gy = hx.global_view(y, ((64, 32, 2), (n, 1, 32)))
        hx.copy(hx.global_view(x, ((64, 32, 2), (n, 1, 32))), r)
        body(r, gy)

    return kern


def parted(a):
    """[64, 64] as [64, 32, 2]."""
    return a.reshape(64, 2, 32).transpose(0, 2, 1)


def joined(*parts):
    return np.stack(parts, 2)


@case(lambda x: 2 * x)
def whole_in_place(r, gy):
    r *= 2.0
    for i in hx.static_range(2):
        hx.copy(r[:, :, i], gy[:, :, i])


@case(lambda x: joined(x[:, :, 1], x[:, :, 0]))
def moved_by_numbers_of_the_run(r, gy):
    s = hx.shared_tensor(f32, (64, 32, 2))
    q, last = hx.register_tensor(f32, (64, 32, 2)), hx.register_tensor(f32, (64, 32, 2))
    for i in range(2):
        hx.copy(r[:, :, i], s[:, :, i])
    hx.syncthreads()
    for i in range(2):
        hx.copy(s[:, :, i], q[:, :, 1 - i])
    for i in range(2):
        hx.copy(q[:, :, i], last[:, :, i])
    for i in range(2):
        hx.copy(last[:, :, i], gy[:, :, i])


@case(lambda x: joined(2 * x[:, :, 0], x[:, :, 1] + 1))
def parts_in_place(r, gy):
    r[:, :, 0] *= 2.0
    r[:, :, 1] += 1.0
    hx.copy(r, gy)


@case(lambda x: 2 * x)
def parts_of_unrolled_and_run_time_loops(r, gy):
    q = hx.register_tensor(f32, (64, 32, 2))
    for i in hx.unroll(2):
        hx.copy(r[:, :, i], q[:, :, i])
    for i in range(2):
        q[:, :, i] *= 2.0
    hx.copy(q, gy)


@case(lambda x: joined(x[:, :, 1], x[:, :, 0]))
def filled_by_parts(r, gy):
    q = hx.register_tensor(f32, (64, 32, 2))
    hx.fill(q, 1.0)
    hx.fill(q[:, :, 0], 0.0)
    q[:, :, 1] -= 1.0
    for i in hx.static_range(2):
        q[:, :, 1 - i] += r[:, :, i]
    hx.copy(q, gy)


@case(lambda x: joined(x[:, :, 0], x[:, :, 0]))
def between_registers(r, gy):
    hx.copy(r[:, :, 0], r[:, :, 1])
    q = hx.register_tensor(f32, (64, 32, 2))
    hx.copy(r, q)
    hx.copy(q, gy)


@case(lambda x: joined(x[:, :, 1], x[:, :, 0]))
def through_shared_memory(r, gy):
    s = hx.shared_tensor(f32, (64, 32, 2))
    q = hx.register_tensor(f32, (64, 32, 2))
    hx.copy(r, s)
    hx.syncthreads()
    for i in hx.static_range(2):
        hx.copy(s[:, :, i], q[:, :, 1 - i])
    hx.copy(q, gy)


@case(lambda x: joined(x[:, :, 1], x[:, :, 0]))
def casts(r, gy):
    q = hx.cast(r, f16)
    hx.copy(hx.cast(q[:, :, 1], f32), gy[:, :, 0])
    hx.copy(hx.cast(q, f32)[:, :, 0], gy[:, :, 1])


@case(lambda x: x - x.sum(2, keepdims=True))
def sum_of_parts(r, gy):
    total = hx.sum(r, 2)
    for i in hx.static_range(2):
        r[:, :, i : i + 1] -= total
    hx.copy(r, gy)


@case(lambda x: x - x[:, :, :1].max(1, keepdims=True) + x.min(0, keepdims=True))
def reductions_of_whole_and_part(r, gy):
    hx.copy(r - hx.max(r[:, :, 0:1], 1) + hx.min(r, 0), gy)


@case(lambda x: joined(np.cumsum(x, 2)[:, :, 1], np.cumsum(x[:, ::-1, 1], 1)[:, ::-1]))
def scans(r, gy):
    hx.copy(hx.cumsum(r, 2)[:, :, 1], gy[:, :, 0])
    hx.copy(hx.cumsum(r[:, :, 1], 1, reverse=True), gy[:, :, 1])


@case(lambda x: x - x[:, :, :1])
def a_part_broadcast_over_the_whole_that_is_written(r, gy):
    r -= r[:, :, 0:1]
    hx.copy(r, gy)


@case(lambda x: np.concatenate([x[16:48], x[32:]]))
def parts_that_overlap(r, gy):
    r[0:32, :, :] = r[16:48, :, :]
    hx.copy(r, gy)


@case(lambda x: joined(x.sum(2), x[:, :, 1]))
def a_result_put_into_a_part_of_its_operand(r, gy):
    r[:, :, 0:1] = hx.sum(r, 2)
    hx.copy(r, gy)


@case(lambda x: joined(x[:, :, 1], 2 * x[:, :, 0]))
def rearranges(r, gy):
    hx.copy(hx.rearrange(r[:, :, 1]), gy[:, :, 0])
    hx.copy(hx.rearrange(r)[:, :, 0] * 2.0, gy[:, :, 1])


@case(lambda x: joined(2 * x[:, :, 1] + np.arange(64)[:, None], x[:, :, 1]))
def elements_of_named_parts(r, gy):
    p, q = r[:, :, 0], r[:, :, 1]
    for i, j in hx.elements(p):
        p[i, j] = q[i, j] * 2.0 + i
    hx.copy(r, gy)


@case(lambda x: joined(x[:, :, 0] + 1, x[:, :, 0]))
def elements_of_other_parts(r, gy):
    q = hx.register_tensor(f32, (64, 32, 2))
    for i, j in hx.elements(q[:, :, 0]):
        for p in hx.static_range(2):
            q[i, j, p] = r[i, j, 0] + (1 - p)
    hx.copy(q, gy)


@case(lambda x: x + 1)
def elements_at_a_number_of_the_loop(r, gy):
    for i, j in hx.elements(r[:, :, 0]):
        for p in range(2):
            r[i, j, p] = r[i, j, p] + 1.0
    hx.copy(r, gy)


@case(lambda x: np.concatenate([x[:16], np.zeros_like(x[:16]) + np.arange(16)[:, None, None],
                                x[32:]]))  # fmt: skip
def elements_of_rows(r, gy):
    t = r[16:32, :, :]
    for i, j, p in hx.elements(t):
        t[i, j, p] = i
    hx.copy(r, gy)


@case(lambda x: np.maximum(x, 0))
def elements_of_the_whole(r, gy):
    for i, j, p in hx.elements(r):
        if r[i, j, p] < 0.0:
            r[i, j, p] = 0.0
    for i in hx.static_range(2):
        hx.copy(r[:, :, i], gy[:, :, i])


@case(lambda x: joined(x[:, :, 0] + 3, x[:, :, 1]))
def a_name_of_a_part_changes_it(r, gy):
    p = r[:, :, 0]
    for _ in range(3):
        p += 1.0
    hx.copy(r, gy)


@case(lambda x: joined(x[:, :, 0] + 3, x[:, :, 0]))
def a_new_value_leaves_the_whole_alone(r, gy):
    p = r[:, :, 0]
    for _ in range(3):
        p = p + 1.0
    hx.copy(p, gy[:, :, 0])
    hx.copy(r[:, :, 0], gy[:, :, 1])


@case(lambda x: x)
def a_mode_of_parts_in_the_middle(r, gy):
    t = hx.register_tensor(f32, (64, 2, 32))
    for i in hx.static_range(2):
        hx.copy(r[:, :, i], t[:, i, :])
    t += 0.0
    for i in hx.static_range(2):
        hx.copy(t[:, i, :], gy[:, :, i])


@case(lambda x: np.concatenate([x[:, :16] + 1, x[:, 16:] * 2], 1) + x)
def two_modes_of_parts(r, gy):
    t = hx.register_tensor(f32, (64, 16, 2, 2))
    for i in hx.static_range(2):
        for j in hx.static_range(2):
            hx.copy(r[:, j * 16 : (j + 1) * 16, i], t[:, :, j, i])
    q = t + 0.0
    t[:, :, 0, :] += 1.0
    t[:, :, 1, 0] *= 2.0
    t[:, :, 1, 1] *= 2.0
    t += q
    for i in hx.static_range(2):
        for j in hx.static_range(2):
            hx.copy(t[:, :, j, i], gy[:, j * 16 : (j + 1) * 16, i])


@case(lambda x: np.cumsum(x, 0)[63:] + np.roll(x, 1, 0) * 0)
def the_last_row_of_a_scan(r, gy):
    last = hx.cumsum(r, 0)[63:64, :, :]
    hx.copy(r * 0.0 + last, gy)


@pytest.mark.parametrize("body, reference, target", cases)
def test_wholes_and_parts(body, reference, target):
    kern = kernel_of(body)
    x = np.random.default_rng(0).integers(-8, 9, (64, 64)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    compiled = kern.compile(target, verify=True)
    compiled.simulate(x, y)
    np.testing.assert_array_equal(parted(y), reference(parted(x)))
    interpret(compiled.tile, {"x": x, "y": z}, {"m": 64, "n": 64})
    np.testing.assert_array_equal(y, z)
    assert compiled.source()


def solved_parts():
    """A tensor of 16 x 32 in two parts, written as a whole and read in parts."""
    b = tile_builder.TileBuilder(threads=32)
    a, c = b.tile("a", f32, 16, 32, 2), b.tile("c", f32, 16, 32)
    r = b.register("r", f32, 16, 32, 2)
    b.copy(a, r)
    b.copy(b.part(r, None, None, 1), c)
    return tile_runs.solve(b.program())


def test_a_solution_has_the_whole_and_its_parts_in_one_layout():
    solution = solved_parts()
    f = solution.fragments["r"]
    assert f.shape == (16, 32, 2)
    assert f.value[-1] == Mode(2, 1, 2)


def spread(f):
    return Fragment(f.shape, (*f.thread[:-1], Mode(2, 1, 2)), f.value[:-1])


@pytest.mark.parametrize(
    "differ",
    [
        # Parts side by side in the registers, spread over threads, forgotten, and one of two.
        lambda f: Fragment(f.shape, f.thread, (f.value[-1], *f.value[:-1])),
        spread,
        lambda f: Fragment(f.shape[:2], f.thread, f.value[:-1]),
        lambda f: Fragment(f.shape, f.thread, f.value[:-1]),
    ],
)
def test_the_proof_refuses_parts_that_differ_from_the_whole(differ):
    solution = solved_parts()
    f = solution.fragments["r"]
    with pytest.raises(VerifyError, match="`r`|`a`|ld.global|st.global"):
        check(replace(solution, fragments={**solution.fragments, "r": differ(f)}))
