"""Roles that are one text but for numbers have one machine code, and do what they did apart."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.errors import FrontendError
from hexcute_core.thread import Prim, ThreadProgram
from hexcute_core.thread.visit import statements

m, k = hx.dims("m k")


@hx.device
def own_rows(a, c, sa, pipe, order, bm, tiles, me, factor):
    """Role `me`: its 64 rows times `factor`, summed, a block of columns at a time and in turns."""
    total = hx.register_tensor(f32, (64, 1))
    hx.fill(total, 0.0)
    for _ in range(tiles):
        ra = hx.register_tensor(f16, (64, 64))
        with order.turn(me), pipe.consume() as s:
            hx.copy(sa[me * 64 : (me + 1) * 64, :, s], ra)
        total += hx.sum(hx.cast(ra, f32) * factor, 1)
    hx.copy(total, hx.global_view(c[bm + me * 64 :, :], ((64, 1), (1, 1))))


@hx.kernel
def row_sums(
    a: f16[m, k], c: f32[m, 1], *, ROLES: int = 3, MERGED: bool = True, FACTORS: tuple = (1, 1, 1)
):
    hx.attrs.cuda.merge_roles = MERGED
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64 * ROLES)
    bm, tiles = hx.blockIdx.x * (64 * ROLES), hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((64 * ROLES, 64, tiles), (k, 1, 64)))
    sa = hx.shared_tensor(f16, (64 * ROLES, 64, 2))
    pipe, order = hx.pipeline(2), hx.turns(ROLES)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    for me in hx.static_range(ROLES):
        with hx.warp_groups_consumer():
            own_rows(a, c, sa, pipe, order, bm, tiles, me, FACTORS[me])


def meetings(program: ThreadProgram) -> int:
    """How many statements say that a turn begins."""
    found = (s for s in statements(program.body) if isinstance(s, Prim))
    return sum(s.name == "bar.named.sync" for s in found)


@pytest.mark.parametrize(("roles", "factors"), [(2, (1, 1)), (3, (2, 4, 6)), (3, (3, 5, 8))])
def test_roles_that_differ_in_numbers_are_one(roles: int, factors: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (300, 200)).astype(np.float16)
    each = np.resize(np.repeat(factors, 64), 300)
    want = a.astype(np.float32).sum(1) * each
    counts = []
    for merged in (False, True):
        compiled = row_sums.compile(
            "sm_90", ROLES=roles, MERGED=merged, FACTORS=factors, verify=True
        )
        c = np.full((300, 1), np.nan, np.float32)
        compiled.simulate(a, c, schedules=2)
        np.testing.assert_array_equal(c[:, 0], want)
        counts.append(meetings(compiled.thread))
    assert counts == [roles * counts[1], counts[1]]


@hx.kernel
def two_texts(a: f16[m, k], c: f32[m, 2]):
    hx.attrs.cuda.merge_roles = True
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    bm = hx.blockIdx.x * 64
    sa, pipe = hx.shared_tensor(f16, (64, 64, 1)), hx.pipeline(1)
    with hx.warp_groups_producer(), pipe.produce() as s:
        hx.copy(hx.global_view(a[bm:, :], ((64, 64), (k, 1))), sa[:, :, s])
    for me in hx.static_range(2):
        with hx.warp_groups_consumer():
            ra = hx.register_tensor(f16, (64, 64))
            with pipe.consume() as s:
                hx.copy(sa[:, :, s], ra)
            wide = hx.cast(ra, f32)
            found = hx.max(wide, 1) if me == 0 else hx.min(wide, 1)
            hx.copy(found, hx.global_view(c[bm:, me:], ((64, 1), (2, 1))))


def test_roles_of_two_texts_stay_apart() -> None:
    a = np.random.default_rng(1).normal(size=(128, 64)).astype(np.float16)
    c = np.zeros((128, 2), np.float32)
    two_texts.compile("sm_90", verify=True).simulate(a, c)
    np.testing.assert_array_equal(c, np.stack([a.max(1), a.min(1)], 1).astype(np.float32))


@hx.kernel
def subtle(c: f32[m, 1], *, KIND: str, MERGED: bool = True):
    hx.attrs.cuda.merge_roles = MERGED
    hx.attrs.cuda.grid_dim = 1
    s = hx.shared_tensor(f32, (64, 1))
    with hx.warp_groups_producer():
        hx.fill(s, 0.0)
    for me in hx.static_range(2):
        with hx.warp_groups_consumer():
            x, y = hx.register_tensor(f32, (64, 1)), hx.register_tensor(f32, (64, 1))
            hx.fill(x, 1.0)
            if KIND == "tiles":
                other = x if me == 0 else y
                hx.fill(other, 2.0)
                x = x * other
            elif KIND == "zeros":
                hx.fill(x, (0.0, -0.0)[me])
                x = 1.0 / x
            else:
                x += hx.cast(hx.cast(m, hx.i64) * (2**40, 2**42)[me] >> 36, f32)
            hx.copy(x, hx.global_view(c[me * 64 :, :], ((64, 1), (1, 1))))


@pytest.mark.parametrize(
    ("kind", "want"),
    [("tiles", (4.0, 2.0)), ("zeros", (np.inf, -np.inf)), ("wide", (2049.0, 8193.0))],
)
def test_differences_that_are_easily_missed(kind: str, want: tuple[float, float]) -> None:
    """Two tiles where the other role has one, zeros of two signs, numbers wider than 32 bits."""
    for merged in (False, True):
        c = np.full((128, 1), np.nan, np.float32)
        subtle.compile("sm_90", KIND=kind, MERGED=merged).simulate(c)
        np.testing.assert_array_equal(c[:, 0], np.repeat(np.float32(want), 64))


def test_merging_is_decided_when_the_kernel_is_compiled() -> None:
    @hx.kernel
    def unsure(c: f32[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.merge_roles = 1

    with pytest.raises(FrontendError, match="merge_roles is True or False") as raised:
        unsure.compile("sm_90").source()
    assert raised.value.span is not None
    assert raised.value.fix == "write hx.attrs.cuda.merge_roles = True"
