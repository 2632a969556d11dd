"""Products with weights of four bits, and the layer made of them: every lane of every block."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from four_bits import packed, quantized, strips, weights, words

from hexcute_kernels.moe.configs import W4A16Config, most_blocks
from hexcute_kernels.moe.grouped import w4a16_gemm
from hexcute_kernels.moe.routing import (
    combine,
    count_pairs,
    gate_rows,
    gather,
    route,
)

SMALL = W4A16Config(16, 128, 3)


def close(got: np.ndarray, want: np.ndarray, bits: int = 10) -> None:
    scale = np.sqrt(np.mean(want**2)) * 2.0**-bits
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2.0**-bits, atol=scale)


@pytest.mark.parametrize(
    ("m", "n", "k", "config"),
    [
        (16, 128, 256, SMALL),
        (1, 64, 128, SMALL),
        (3, 192, 384, W4A16Config(16, 64, 4, 1)),
        (40, 192, 512, W4A16Config(32, 128, 5)),
        (70, 320, 256, W4A16Config(64, 256, 3)),
        (130, 128, 256, W4A16Config(128, 128, 4)),
        (20, 576, 256, W4A16Config(16, 256, 6, 4, True)),
    ],
    ids=str,
)
def test_dense_against_float64(m: int, n: int, k: int, config: W4A16Config) -> None:
    numbers = quantized(0, 1, k, n)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(np.float16)
    w, c = packed(*numbers), np.full((m, n), np.nan, np.float16)
    kernel = w4a16_gemm()
    kernel.simulate(x, words(w), strips(w), c, target="sm_90", **asdict(config))
    close(c, x.astype(np.float64) @ weights(*numbers)[0])


def routes(kind: str, pairs: int, experts: int) -> np.ndarray:
    rng = np.random.default_rng(2)
    match kind:
        case "ragged":
            return rng.choice(experts, pairs, p=rng.dirichlet(np.ones(experts)))
        case "one":
            return np.full(pairs, experts - 1)
        case "apart":
            return rng.permutation(pairs) * experts // pairs
        case _:
            return rng.integers(0, 2, pairs) * (experts - 1)


def tables(ids: np.ndarray, experts: int, high: int, target: str) -> tuple[np.ndarray, ...]:
    """expert, start and pair, as the kernels fill them."""
    blocks = most_blocks(ids.size, experts, high)
    counts = np.full(experts, -7, np.int32)
    expert, start = np.full(blocks, -7, np.int32), np.full(blocks, -7, np.int32)
    pair = np.full(blocks * high, -7, np.int32)
    count_pairs.simulate(ids, counts, target=target)
    route(experts).simulate(ids, counts, expert, start, pair, target=target, BM=high)
    return expert, start, pair


@pytest.mark.parametrize("kind", ["ragged", "one", "apart", "ends"])
@pytest.mark.parametrize(
    ("pairs", "experts", "high"), [(64, 8, 16), (2, 3, 16), (1500, 40, 64), (130, 256, 32)]
)
def test_tables_of_any_routing(kind: str, pairs: int, experts: int, high: int) -> None:
    ids = routes(kind, pairs, experts).astype(np.int32)
    expert, start, pair = tables(ids, experts, high, "sm_90")
    order, used, sorted_before = np.argsort(ids, kind="stable"), 0, 0
    for e in range(experts):
        mine = order[ids[order] == e]
        for begin in range(0, mine.size, high):
            part = mine[begin : begin + high]
            rows = pair[used * high : (used + 1) * high]
            assert expert[used] == e and start[used] == sorted_before + begin
            assert np.array_equal(rows[: part.size], part) and (rows[part.size :] >= pairs).all()
            used += 1
        sorted_before += mine.size
    assert (expert[used:] == -1).all()


@pytest.mark.parametrize(
    ("kind", "tokens", "experts", "top_k", "scope"),
    [
        ("ragged", 20, 5, 2, "layer"),
        ("one", 24, 3, 1, "gemms"),
        ("apart", 1, 8, 4, "layer"),
        ("ends", 9, 6, 3, "gemms"),
    ],
)
def test_a_layer_against_float64(
    kind: str, tokens: int, experts: int, top_k: int, scope: str
) -> None:
    hidden, width, pairs = 256, 128, tokens * top_k
    rng = np.random.default_rng(3)
    first, second = quantized(4, experts, hidden, 2 * width), quantized(5, experts, width, hidden)
    x = rng.normal(size=(tokens, hidden)).astype(np.float16)
    ids = routes(kind, pairs, experts).astype(np.int32)
    gates = rng.uniform(0, 1, pairs).astype(np.float32)
    expert, start, pair = tables(ids, experts, SMALL.BM, "sm_90")
    how: dict[str, Any] = {"target": "sm_90"}

    def half(*shape: int) -> np.ndarray:
        return np.full(shape, np.nan, np.float16)

    ordered, place = half(pairs, hidden), np.full(pairs, -7, np.int32)
    gather(top_k).simulate(x, expert, start, pair, ordered, place, BM=SMALL.BM, **how)
    assert np.array_equal(ordered, x[np.argsort(ids, kind="stable") // top_k])
    c1, h = half(pair.size, 2 * width), half(pair.size, width)
    c2, constants = half(pair.size, hidden), asdict(SMALL)
    w = packed(*first)
    w4a16_gemm(True, True).simulate(
        ordered, words(w), strips(w), expert, start, c1, **constants, **how
    )
    gate_rows.simulate(c1, expert, h, BM=SMALL.BM, **how)
    w = packed(*second)
    staying = asdict(W4A16Config(16, 256, 4, 4, True)) if kind == "ragged" else constants
    w4a16_gemm(True).simulate(h, words(w), strips(w), expert, c2, **staying, **how)
    out = half(tokens if scope == "layer" else pairs, hidden)
    combine(top_k if scope == "layer" else 1).simulate(c2, place, gates, out, **how)
    rows = x[np.arange(pairs) // top_k].astype(np.float64)
    both = np.einsum("pk,pkn->pn", rows, weights(*first)[ids])
    mid = both[:, :width] / (1 + np.exp(-both[:, :width])) * both[:, width:]
    want = np.einsum("pk,pkn->pn", mid, weights(*second)[ids]) * gates[:, None]
    close(out, want.reshape(tokens, top_k, -1).sum(1) if scope == "layer" else want, 8)


def test_weights_come_by_tma_and_become_numbers_without_conversions() -> None:
    compiled = w4a16_gemm(True, True).compile("sm_90", **asdict(SMALL))
    copies = [line for line in compiled.explain(rejected=0).splitlines() if " copy " in line]
    (load,) = (line for line in copies if " gq -> sq" in line)
    (take,) = (line for line in copies if " sq -> rq" in line)
    assert "tma.load" in load and "ldmatrix.x4 x2" in take and "0 bank conflicts" in take
    assert not compiled.built.local_memory
    sass = compiled.sass()
    assert "HGMMA.64x16x16" in sass and not {"I2F.U16", "I2FP"} & set(
        sass.replace(".F32", " ").split()
    )
    # A group's 64 weights of a thread: one difference a pair, besides its two scales in f32.
    assert (sass.count("HADD2 "), sass.count("HMUL2")) == (32, 0)
