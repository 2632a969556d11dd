"""Tiles declared again on one of several paths: what the compiler copies need not be written yet,
what a kernel uses must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.errors import HexcuteError

N = 64


def tile() -> Any:
    return hx.register_tensor(f32, (N,))


def filled(value: float) -> Any:
    r = tile()
    hx.fill(r, value)
    return r


def first_half() -> Any:
    r = tile()
    hx.fill(r[:32], 5.0)
    return r


@hx.kernel
def in_both_branches(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    if n > 2:
        u, v = tile(), tile()
        hx.fill(u, 1.0)
        hx.fill(v, 2.0)
    else:
        u, v = tile(), filled(4.0)
        hx.fill(u, 3.0)
    hx.copy(u + v, hx.global_view(y, ((N,), (1,))))


@hx.kernel
def again_in_one(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    u = filled(7.0)
    if n > 2:
        u = tile()
        hx.fill(u, 3.0)
    hx.copy(u, hx.global_view(y, ((N,), (1,))))


@hx.kernel
def in_each_iteration(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    u, total = filled(0.0), filled(0.0)
    for i in range(n):
        total += u
        u = tile()
        hx.fill(u, hx.cast(i + 1, f32))
    while n > 5:
        u = tile()
        hx.fill(u, 1.0)
        n -= 1
    hx.copy(total + u, hx.global_view(y, ((N,), (1,))))


@hx.kernel
def of_an_alias(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    u = tile()
    v = u
    if n > 2:
        u = filled(3.0)
        hx.fill(v, 1.0)
    else:
        hx.fill(u, 7.0)
        v = filled(0.0)
    hx.copy(u + v, hx.global_view(y, ((N,), (1,))))


@hx.kernel
def half_by_half(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    u = filled(7.0)
    if n > 2:
        u = first_half()
        hx.fill(u[32:], 5.0)
    hx.copy(u, hx.global_view(y, ((N,), (1,))))


@hx.kernel
def only_half(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    u = filled(7.0)
    if n > 2:
        u = first_half()
    hx.copy(u, hx.global_view(y, ((N,), (1,))))  # used


@hx.kernel
def not_at_all(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    u = filled(7.0)
    if n > 2:
        u = tile()
    u += 1.0  # used
    hx.copy(u, hx.global_view(y, ((N,), (1,))))


@hx.kernel
def copied_twice(y: f32[N], n: i32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    u, v = tile(), tile()
    if n > 2:
        hx.copy(u, v)
    else:
        hx.fill(v, 7.0)
    hx.copy(v, hx.global_view(y, ((N,), (1,))))  # used


def named(value: Any) -> Any:
    return value.definition.name if hasattr(value, "definition") else None


RIGHT = [
    (in_both_branches, 3, 7), (again_in_one, 3, 7), (in_each_iteration, 6, 7),
    (of_an_alias, 4, 7), (half_by_half, 5, 7),
]  # fmt: skip


@pytest.mark.parametrize("n", [3, 1])
@pytest.mark.parametrize("kernel, taken, other", RIGHT, ids=named)
def test_a_tile_declared_on_a_path_is_what_was_written_there(
    kernel: Any, taken: float, other: float, n: int
) -> None:
    y = np.zeros(N, np.float32)
    if kernel is in_each_iteration:
        # The sum of 0, 1, ..., n - 1, and the last value, n.
        taken, other, n = 6, 1, n
    kernel.simulate(y, n)
    assert y.tolist() == [taken if n > 2 else other] * N


@pytest.mark.parametrize("kernel", [only_half, not_at_all, copied_twice], ids=named)
def test_what_no_path_wrote_is_found_where_it_is_used(kernel: Any) -> None:
    y = np.zeros(N, np.float32)
    kernel.simulate(y, 1)
    assert set(y.tolist()) <= {7.0, 8.0}
    with pytest.raises(HexcuteError, match="uninitialised read") as caught:
        kernel.simulate(y, 3)
    assert caught.value.span is not None
    with open(caught.value.span.file) as file:
        assert "# used" in file.readlines()[caught.value.span.line - 1]
