# ruff: noqa: SIM108  -- the control flow as written is what is tested
"""Tile code traced, interpreted on numpy tiles, and compared with the numpy it stands for."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.simulator import interpret
from hexcute_core.tile import CastTile, Elementwise, Fill, Reduce, visit
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify

ROWS, COLS = 8, 16
X = np.random.default_rng(0).normal(size=(ROWS, COLS)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(ROWS, COLS)).astype(np.float32)


def kernel_of(body, shape=(ROWS, COLS), dtype=f32):
    """A kernel that reads x and y into register tiles and writes what `body(x, y, n)` returns."""
    function = hx.device(body)
    m, k = shape

    def kernel(x: f32[ROWS, COLS], y: f32[ROWS, COLS], out: dtype[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        rx, ry = hx.register_tensor(f32, (ROWS, COLS)), hx.register_tensor(f32, (ROWS, COLS))
        hx.copy(hx.global_view(x, ((ROWS, COLS), (COLS, 1))), rx)
        hx.copy(hx.global_view(y, ((ROWS, COLS), (COLS, 1))), ry)
        result = function(rx, ry, n)
        hx.copy(result, hx.global_view(out, ((m, k), (k, 1))))

    return define(kernel)


def program_of(body, shape=(ROWS, COLS), dtype=f32):
    program = trace(kernel_of(body, shape, dtype), {}, Promise())
    verify(program)
    return program


def run(body, n=3, shape=(ROWS, COLS), dtype=f32):
    program = program_of(body, shape, dtype)
    kind = {f32: np.float32, f16: np.float16, i32: np.int32}[dtype]
    arrays = {"x": X, "y": Y, "out": np.zeros(shape, kind)}
    return np.asarray(interpret(program, arrays, {"n": n})["out"])


def close(got, expected, tolerance=1e-5):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def statements(program, kind):
    """All statements of `kind`, in order, at any depth."""
    return [stmt for stmt in visit.statements(program.body) if isinstance(stmt, kind)]


def test_arithmetic_and_math_in_one_statement():
    def body(x, y, n):
        return hx.exp(x * 0.5 - y) + hx.abs(x) / (1.0 + y * y) - hx.maximum(x, y)

    close(run(body), np.exp(X * 0.5 - Y) + np.abs(X) / (1 + Y * Y) - np.maximum(X, Y))
    assert len(statements(program_of(body), Elementwise)) == 1


def test_scalars_of_the_kernel_join_in():
    def body(x, y, n):
        scale = hx.cast(n, f32) * 0.25
        return -x * scale + n

    close(run(body, n=5), -X * 1.25 + 5)


def test_comparison_and_where():
    def body(x, y, n):
        return hx.where(x > y, x, hx.where((x < 0) & (y < 0), 0.0, y))

    close(run(body), np.where(X > Y, X, np.where((X < 0) & (Y < 0), 0, Y)))


def test_softmax_by_reductions_and_broadcasting():
    def body(x, y, n):
        e = hx.exp(x - hx.max(x, 1))
        return e / hx.sum(e, 1)

    e = np.exp(X - X.max(1, keepdims=True))
    close(run(body), e / e.sum(1, keepdims=True))
    shapes = [s.dst.shape for s in statements(program_of(body), Reduce)]
    assert shapes == [(ROWS, 1), (ROWS, 1)]


def test_reduce_along_rows_and_negative_mode():
    def body(x, y, n):
        return x - hx.reduce(y, 0, op="min") + hx.reduce(y, -1)

    close(run(body), X - Y.min(0, keepdims=True) + Y.sum(1, keepdims=True), 1e-4)


def test_casts_of_tiles_and_in_arithmetic():
    def body(x, y, n):
        half = hx.cast(x, f16)
        return hx.cast(half, f32) + y

    close(run(body), X.astype(np.float16).astype(np.float32) + Y)
    assert len(statements(program_of(body), CastTile)) == 2

    def mixed(x, y, n):
        return hx.cast(x, f16) * 2.0 + y

    close(run(mixed), X.astype(np.float16) * np.float16(2) + Y, 1e-3)


def test_in_place_updates_change_every_name_as_numpy_does():
    def body(x, y, n):
        other = x
        x += y
        x[:, 0:4] *= 2.0
        x[0:2, :] = 1.5
        return other

    expected = X + Y
    expected[:, :4] *= 2
    expected[:2] = 1.5
    close(run(body), expected)


def test_two_names_of_one_assignment_share_a_tile():
    def body(x, y, n):
        a = b = x + y
        a += 1.0
        return b

    close(run(body), X + Y + 1)


def test_rebinding_leaves_other_names_alone():
    def body(x, y, n):
        old = x
        x = x * 2.0
        return old + x

    close(run(body), X * 3)


def test_a_loop_updates_the_tile_in_place():
    def body(x, y, n):
        acc = x * 1.0
        for _ in range(n):
            acc = acc * 2.0 + y
        return acc

    expected = X
    for _ in range(3):
        expected = expected * 2 + Y
    close(run(body), expected)
    inner = statements(program_of(body), Elementwise)[1]
    assert inner.dst.tensor == inner.srcs[0].tensor == "acc"


def test_the_value_before_an_update_can_be_kept():
    def body(x, y, n):
        total = x * 0.0
        m = x * 1.0
        for i in range(n):
            before = m
            m = hx.maximum(m, y * (hx.cast(i, f32) + 1.0))
            total = total + (m - before)
        return total

    m, total = X, 0 * X
    for i in range(3):
        before, m = m, np.maximum(m, Y * (i + 1))
        total = total + (m - before)
    close(run(body), total)


def test_an_outside_alias_keeps_its_value():
    def body(x, y, n):
        acc = x
        pair = (acc, y)
        for _ in range(n):
            acc = acc + 1.0
        return acc * 100.0 + pair[0] + x

    close(run(body), (X + 3) * 100 + 2 * X, 1e-4)


def test_an_alias_kept_across_a_branch():
    def body(x, y, n):
        acc = x * 1.0
        for i in range(n):
            before = acc
            if i > 0:
                acc = before + acc * y
            acc = acc + before
        return acc

    acc = X
    for i in range(3):
        before = acc
        if i > 0:
            acc = before + acc * Y
        acc = acc + before
    close(run(body), acc, 1e-3)


def test_reading_broadcast_parts_of_the_tile_being_written():
    def body(x, y, n):
        for _ in range(n):
            x = x - x[:, 0:1] * 0.5
        x += x[0:1, :]
        return x

    expected = X
    for _ in range(3):
        expected = expected - expected[:, :1] * 0.5
    close(run(body), expected + expected[:1])


def test_tiles_chosen_by_a_branch():
    def body(x, y, n):
        if n > 2:
            t = x + y
        else:
            t = hx.cast(hx.cast(x, f16), f32)
        return t

    close(run(body, n=3), X + Y)
    close(run(body, n=2), X.astype(np.float16))


def test_swapping_tiles_in_a_loop():
    def body(x, y, n):
        a, b = x, y
        for _ in range(n):
            a, b = b, a
        return a - b * 2.0

    close(run(body, n=3), Y - 2 * X)
    close(run(body, n=2), X - 2 * Y)


def test_functions_with_tiles():
    def scaled(t, by=2.0):
        return t * by

    def body(x, y, n):
        z = scaled(x)
        z = scaled(z + y, by=0.5)
        return z

    close(run(body), (X * 2 + Y) * 0.5)


@hx.device
def accumulate(acc, t, *, times=2):
    for _ in hx.static_range(times):
        acc += t


def test_device_functions_change_their_tiles():
    def body(x, y, n):
        for _ in range(n):
            accumulate(x, y, times=3)
        return x

    close(run(body), X + 9 * Y, 1e-4)


def test_elements_are_read_and_written():
    def body(x, y, n):
        for i, j in hx.elements(x):
            if i == j:
                x[i, j] = 0.0
            elif j > i:
                value = x[i, j]
                x[i, j] = y[i, j]
                y[i, j] = value
            else:
                x[i, j] += hx.cast(i * 100 + j, f32)
        with hx.elements(y) as (r, c):
            y[r, c] = y[r, c] * hx.select(r < n, 2.0, 3.0)
        return x + y

    expected, other = X.copy(), Y.copy()
    for i, j in np.ndindex(X.shape):
        if i == j:
            expected[i, j] = 0
        elif j > i:
            expected[i, j], other[i, j] = Y[i, j], X[i, j]
        else:
            expected[i, j] += i * 100 + j
    other[:3] *= 2
    other[3:] *= 3
    close(run(body), expected + other, 1e-4)


def test_elements_with_a_count_of_their_own():
    def body(x, y, n):
        for i, j in hx.elements(x):
            best = 0.0
            for k in range(n):
                best = hx.maximum(best, x[i, j] * hx.cast(k, f32))
            x[i, j] = best
        return x

    close(run(body), np.maximum(0, X * 2))


def test_views_of_shared_memory_stages_and_slices():
    def body(x, y, n):
        s = hx.shared_tensor(f32, (ROWS, COLS, 2))
        hx.copy(x, s[:, :, 0])
        hx.copy(y, s[..., 1])
        hx.syncthreads()
        stage = 1
        view = s[:, :, stage]
        r = hx.register_tensor(f32, (ROWS, COLS))
        for i in range(n):
            view = s[:, :, stage]
            stage = (stage + 1) % 2
            hx.copy(view[hx.ds(0, 4), :], r[0:4, :])
            hx.copy(view[i + 1 : i + 5, :], r[4:8, :])
        return r

    got = run(body, n=3)
    last = Y
    close(got[:4], last[:4])
    close(got[4:], last[3:7])


def test_fill_writes_the_tiles_type():
    def body(x, y, n):
        hx.fill(
            x[
                :,
                :,
            ],
            n,
        )
        x[0:1, :] = 7
        return x

    expected = np.full_like(X, 3)
    expected[0] = 7
    close(run(body), expected)
    assert all(s.value.dtype == f32 for s in statements(program_of(body), Fill))


def test_rearrange_keeps_the_values():
    def body(x, y, n):
        return hx.rearrange(x, "((4,8),(2,2)):((16,1),(8,64))") + hx.rearrange(y)

    close(run(body), X + Y)


def test_names_follow_the_source():
    def body(x, y, n):
        left, right = hx.exp(x), hx.exp(y)
        both = left + right
        return both

    text = show_program(program_of(body))
    assert "both = $0 + $1 where $0 = left, $1 = right" in text


def test_changing_a_tile_later_in_the_same_expression_is_refused():
    @hx.device
    def bump(t):
        t += 1.0
        return t

    def body(x, y, n):
        return x * 2.0 + bump(x)

    with pytest.raises(FrontendError, match=r"reads `rx`.*call later"):
        program_of(body)


def test_what_a_broadcast_repeats_is_computed_once() -> None:
    @hx.kernel
    def normalised(x: f32[64, 32], y: f32[64, 32]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        r = hx.register_tensor(f32, (64, 32))
        hx.copy(hx.global_view(x, ((64, 32), (32, 1))), r)
        hx.copy(r * (1.0 / hx.sum(r, 1) + 2.0), hx.global_view(y, ((64, 32), (32, 1))))

    program = normalised.compile("sm_80").tile
    steps = [op for op in program.body if isinstance(op, Elementwise)]
    shapes = [program.tensor(op.dst.tensor).shape for op in steps]
    assert shapes == [(64, 1), (64, 32)], "the quotient of a row is one, not 32"
