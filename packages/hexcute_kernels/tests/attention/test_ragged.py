"""Attention of sequences packed one behind the other, every lane of every block, against the
definition of each alone, beside neighbours that hold no numbers."""

from __future__ import annotations

from dataclasses import asdict
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pytest
from attention_reference import attention
from hypothesis import given, settings
from hypothesis import strategies as st

import hexcute_core as hx
from hexcute_kernels.attention.configs import WGMMA
from hexcute_kernels.attention.operators import Attention
from hexcute_kernels.attention.pipelined import pipelined_attention
from hexcute_kernels.attention.ragged import PLACE, most_places, place_blocks
from hexcute_kernels.attention.warp_specialized import warp_specialized_attention

Lengths = list[tuple[int, int]]
"""Queries and keys of each sequence."""


class Heads(NamedTuple):
    h: int
    hk: int
    d: int
    dv: int


class Mask(NamedTuple):
    right: int | None = None
    left: int | None = None
    cap: float = 0.0


def ends_of(lengths: Lengths) -> tuple[np.ndarray, np.ndarray]:
    """0 and where each sequence ends, of queries and of keys."""
    return tuple(  # type: ignore[return-value]
        np.array([0, *accumulate(pair[i] for pair in lengths)], np.int32) for i in range(2)
    )


def placed(lengths: Lengths, bm: int, behind: int = 0) -> np.ndarray:
    """The table as the kernel writes it, of so many rows of queries behind the last end."""
    at_q, at_k = ends_of(lengths)
    place = np.full((most_places(int(at_q[-1]) + behind, len(lengths), bm), PLACE), -7, np.int32)
    compiled = place_blocks.compile("sm_80", constants={"BM": bm}, aligned=False)
    if len(place):
        compiled.simulate(at_q, at_k, place)
    return place


LENGTHS = st.tuples(st.integers(0, 200), st.integers(0, 300))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(LENGTHS, min_size=1, max_size=150),
    st.sampled_from([16, 64, 192]),
    st.sampled_from([0, 1, 1000]),
)
def test_every_block_has_a_place_and_the_longest_sequences_come_first(
    lengths: Lengths, bm: int, behind: int
) -> None:
    """Those of a sequence beside one another: L2 brings them the same keys. However many rows lie
    behind the last end, their blocks have nothing to do."""
    at_q, at_k = ends_of(lengths)
    wanted: list[tuple[int, ...]] = []
    for z in sorted(range(len(lengths)), key=lambda z: (-lengths[z][1], z)):
        nq, nk = lengths[z]
        wanted += [(at_q[z], nq, at_k[z], nk, len(wanted))] * -(-nq // bm)
    place = placed(lengths, bm, behind)
    assert [tuple(p) for p in place[: len(wanted), :5]] == wanted
    assert (place[len(wanted) :, [1, 3]] == 0).all()


def check(
    make: Any, constants: dict[str, Any], lengths: Lengths, heads: Heads, mask: Mask
) -> None:
    """Both times every second sequence holds no numbers, and the others are right."""
    h, hk, d, dv = heads
    rng = np.random.default_rng(0)
    at_q, at_k = ends_of(lengths)
    # Rows behind the last end, up to what was compiled for.
    total_q, total_k = int(at_q[-1]) // 4 * 4 + 4, int(at_k[-1]) + 3
    target = "sm_90" if make is warp_specialized_attention else "sm_80"
    bounded = mask.right is not None, mask.left is not None, mask.cap > 0
    compiled = make(hx.f16, d, dv, *bounded, True, True).compile(target, constants=constants)
    place = placed(lengths, constants["BM"])
    scale = d**-0.5
    clean = [
        rng.normal(size=(1, *s)).astype(np.float16)
        for s in ((total_q, h, d), (total_k, hk, d), (total_k, hk, dv))
    ]
    for poisoned in range(2):
        q, k, v = (x.copy() for x in clean)
        for x, at in ((q, at_q), (k, at_k), (v, at_k)):
            x[:, at[-1] :] = np.nan
            for z in range(poisoned, len(lengths), 2):
                x[:, at[z] : at[z + 1]] = np.nan
        o = np.full((1, total_q, h, dv), 7.0, np.float16)
        lse = np.full((1, h, total_q), 7.0, np.float32)
        numbers = (scale, mask.right or 0, mask.left or 0, mask.cap)
        compiled.simulate(q, k, v, o, lse, place, *numbers)
        for z in range(1 - poisoned, len(lengths), 2):
            rows, keys = slice(at_q[z], at_q[z + 1]), slice(at_k[z], at_k[z + 1])
            want, logs = attention(q[:, rows], k[:, keys], v[:, keys], scale, *mask)
            got, sums = o[:, rows].astype(np.float64), lse[:, :, rows]
            np.testing.assert_allclose(got, want, atol=3 * 2.0**-11, rtol=2.0**-11)
            np.testing.assert_allclose(sums, logs, rtol=1e-5, atol=1e-5)
        assert (o[0, at_q[-1] :] == 7).all() and (lse[..., at_q[-1] :] == 7).all()


ONE = {"BM": 64, "BN": 64, "GROUPS": 1, "STAGES": 3}
TURNS = {"BM": 128, "BN": 64}
NARROW = {"BM": 128, "BN": 48}
THREE = {"BM": 192, "BN": 64, "GROUPS": 3}
SKIP = {"BM": 192, "BN": 48, "GROUPS": 3, "STAGES": 3, "GUESS": True, "EARLY": True, "SKIP": True}
SKIP_FOUR = {**SKIP, "BM": 256, "BN": 64, "GROUPS": 4, "STAGES": 4}
HEADS = {**TURNS, "ORDER": "heads"}
FOUR, EIGHT = {"BM": 64}, {"BM": 128, "BN": 32, "WARPS": 8}
READ_AGAIN = {"BM": 64, "HELD": False}
MIXED = [(5, 100), (0, 7), (130, 33), (1, 0), (70, 129)]
LONG = [(192, 200), (0, 9), (260, 160), (1, 70)]
"""Rows of one or two blocks, whole ones and not, and some that see no key."""
CASES = (
    (warp_specialized_attention, TURNS, MIXED, Heads(2, 1, 64, 64), Mask(right=0)),
    (warp_specialized_attention, ONE, MIXED, Heads(2, 2, 64, 40), Mask(left=20, cap=3.0)),
    (warp_specialized_attention, NARROW, [(40, 47), (3, 48)], Heads(2, 1, 24, 128), Mask()),
    (warp_specialized_attention, THREE, [(1, 1), (200, 65)], Heads(1, 1, 128, 64), Mask(20, 70)),
    (warp_specialized_attention, HEADS, MIXED, Heads(2, 1, 64, 64), Mask(right=0)),
    (warp_specialized_attention, SKIP, LONG, Heads(2, 1, 64, 64), Mask(right=0)),
    (warp_specialized_attention, SKIP, MIXED, Heads(3, 3, 64, 64), Mask()),
    (warp_specialized_attention, SKIP, MIXED, Heads(1, 1, 128, 128), Mask(right=0)),
    (warp_specialized_attention, SKIP_FOUR, LONG, Heads(2, 1, 64, 64), Mask(right=0)),
    (pipelined_attention, FOUR, MIXED, Heads(2, 1, 64, 64), Mask(right=0)),
    (pipelined_attention, FOUR, MIXED, Heads(2, 2, 40, 24), Mask(left=20, cap=3.0)),
    (pipelined_attention, READ_AGAIN, MIXED, Heads(2, 1, 40, 24), Mask(right=0)),
    (pipelined_attention, EIGHT, [(40, 31), (3, 32), (1, 33)], Heads(2, 1, 128, 128), Mask()),
)


@pytest.mark.parametrize(("make", "constants", "lengths", "heads", "mask"), CASES)
def test_each_sequence_is_its_own(
    make: Any, constants: dict[str, Any], lengths: Lengths, heads: Heads, mask: Mask
) -> None:
    check(make, constants, lengths, heads, mask)


def packed(d: int, sq: int, right: int | None = None) -> Attention:
    return Attention(
        b=1, sq=sq, sk=sq, h=16, hk=16, d=d, dv=d, dtype=hx.f16, scale=1.0, right=right, left=None,
        cap=0.0, sequences=3,
    )  # fmt: skip


@pytest.mark.parametrize("sq", [100, 100_000])
@pytest.mark.parametrize("d", [64, 96, 128, 192, 256])
def test_chosen_configurations_hold_names_of_rows_too(d: int, sq: int) -> None:
    """Beside tiles that fill shared memory."""
    config = WGMMA.choose("h200", packed(d, sq))
    kernel = warp_specialized_attention(hx.f16, d, d, with_lse=True, ragged=True)
    thread = kernel.compile("sm_90", constants=asdict(config)).thread
    assert thread.shared_bytes <= 232448


@pytest.mark.parametrize(("d", "right", "skip", "bn"), [
    (64, 0, True, 64), (128, None, True, 80), (256, 0, False, 64), (256, None, False, 80),
])  # fmt: skip
def test_many_blocks_run_in_rows(d: int, right: int | None, skip: bool, bn: int) -> None:
    config = WGMMA.choose("h200", packed(d, 100_000, right))
    assert ("rows", skip, bn) == (config.ORDER, config.SKIP, config.BN)


SHORT = st.tuples(st.integers(0, 140), st.integers(0, 140))
BOUND = st.sampled_from([None, 0, 9, 100])


@settings(max_examples=6, deadline=None)
@given(st.lists(SHORT, min_size=1, max_size=4), BOUND, BOUND, st.sampled_from([0.0, 4.0]))
@pytest.mark.parametrize(
    ("make", "constants"), [(warp_specialized_attention, ONE), (pipelined_attention, FOUR)]
)
def test_random_lengths(
    make: Any,
    constants: dict[str, Any],
    lengths: Lengths,
    right: int | None,
    left: int | None,
    cap: float,
) -> None:
    if sum(nq for nq, _ in lengths):
        check(make, constants, lengths, Heads(2, 1, 64, 64), Mask(right, left, cap))
