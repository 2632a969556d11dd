"""Products with weights of four bits, and the layer made of them: every lane of every block."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from four_bits import packed, quantized, strips, weights, words

from hexcute_core import bf16, f16, f32
from hexcute_kernels.moe.configs import W4A16Config, most_blocks
from hexcute_kernels.moe.forms import U4, Weights
from hexcute_kernels.moe.gathering import gather
from hexcute_kernels.moe.grouped import w4a16_gemm
from hexcute_kernels.moe.sorting import count_used, sort
from hexcute_kernels.moe.summing import add_up

SMALL = W4A16Config(16, 128, 3, 1, EXACT=True)


F16, BF16 = np.float16, ml_dtypes.bfloat16
TYPES = {F16: f16, BF16: bf16}


def close(got: np.ndarray, want: np.ndarray, bits: int = 10) -> None:
    scale = np.sqrt(np.mean(want**2)) * 2.0**-bits
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2.0**-bits, atol=scale)


@pytest.mark.parametrize(
    ("m", "n", "k", "config"),
    [
        (16, 128, 256, SMALL),
        (1, 64, 128, SMALL),
        (3, 192, 384, W4A16Config(16, 128, 4, 1)),
        (40, 192, 512, W4A16Config(32, 256, 5)),
        (70, 320, 256, W4A16Config(64, 256, 3, RUN=2)),
        (130, 128, 256, W4A16Config(128, 256, 3)),
        (20, 576, 256, W4A16Config(16, 384, 4, 3)),
        (121, 64, 384, W4A16Config(120, 128, 2, 1, EXACT=True)),
    ],
    ids=str,
)
def test_dense_against_float64(m: int, n: int, k: int, config: W4A16Config) -> None:
    numbers = quantized(0, 1, k, n)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(np.float16)
    w, c = packed(*numbers), np.full((m, n), np.nan, np.float16)
    kernel = w4a16_gemm()
    kernel.simulate(x, words(w), strips(w), c, target="sm_90", **asdict(config))
    close(c, x.astype(np.float64) @ weights(*numbers)[0], 10 if config.EXACT else 9)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("group", "kind"), [(64, F16), (32, F16), (128, BF16), (32, BF16)])
def test_groups_and_types_against_float64(group: int, kind: Any, exact: bool) -> None:
    """Weights that are not rounded give the product to the last rounding; rounded ones, where the
    scale is of x's type too, to one more a weight."""
    m, n, k = 11, 192, 256
    q, scale, zero = quantized(0, 1, k, n, group=group)
    numbers = q, scale.astype(kind).astype(np.float16), zero
    x = np.random.default_rng(1).normal(size=(m, k)).astype(kind)
    w, c = packed(*numbers), np.full((m, n), np.nan, kind)
    config = asdict(replace(SMALL, EXACT=exact))
    w4a16_gemm("dense", Weights(U4, group), TYPES[kind]).simulate(
        x, words(w), strips(w), c, target="sm_90", **config
    )
    digits = 10 if kind == F16 else 7
    close(c, x.astype(np.float64) @ weights(*numbers)[0], digits if exact else digits - 1)


@pytest.mark.parametrize("group", [128, 32])
def test_sums_in_units_of_scales_that_are_zero_and_below(group: int) -> None:
    """Tiles of many tokens have no tile for a group's own sums: scales of any sign and size, none
    of which may be divided by where it is zero, change the units of one sum."""
    m, n, k = 3, 64, 512
    q, scale, zero = quantized(0, 1, k, n, group=group)
    rng = np.random.default_rng(4)
    scale = (scale * rng.choice([0, -1, 1, 2.0**-6, 2.0**6], scale.shape)).astype(np.float16)
    scale[:, :, :4], scale[:, -1, 4:8] = 0, 0
    x = rng.normal(size=(m, k)).astype(np.float16)
    w, c = packed(q, scale, zero), np.full((m, n), np.nan, np.float16)
    w4a16_gemm("dense", Weights(U4, group)).simulate(
        x, words(w), strips(w), c, target="sm_90", **asdict(W4A16Config(120, 128, 2, 1, EXACT=True))
    )
    close(c, x.astype(np.float64) @ weights(q, scale, zero)[0])
    assert not c[:, :4].any()


@pytest.mark.parametrize(("k", "parts"), [(256, 2), (640, 3)])
def test_parts_of_k_and_their_sum(k: int, parts: int) -> None:
    m, n, numbers = 21, 192, quantized(0, 1, k, 192)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(np.float16)
    w, c = packed(*numbers), np.full((m, n), np.nan, np.float16)
    sums = np.full((m, parts, n), np.nan, np.float32)
    config = asdict(replace(SMALL, SPLIT=parts))
    w4a16_gemm("parts").simulate(x, words(w), strips(w), sums, target="sm_90", **config)
    add_up(parts, f32).simulate(sums.reshape(-1, n), c, target="sm_90")
    close(c, x.astype(np.float64) @ weights(*numbers)[0])


def test_weights_that_are_not_rounded_give_sums_of_float32() -> None:
    """Numbers for which each product and each sum is exact, and a weight in float16 is not."""
    k, n = 256, 128
    rng = np.random.default_rng(0)
    q, zero = rng.integers(0, 16, (1, k, n)), rng.integers(0, 16, (1, 2, n))
    scale = np.full((1, 2, n), 1 + 2.0**-10, np.float16)
    numbers = q.astype(np.uint8), scale, zero.astype(np.uint8)
    x = rng.integers(-1, 2, (16, k)).astype(np.float16)
    w, c = packed(*numbers), np.full((16, n), np.nan, np.float16)
    w4a16_gemm().simulate(x, words(w), strips(w), c, target="sm_90", **asdict(SMALL))
    want = x.astype(np.float64) @ weights(*numbers)[0]
    assert np.array_equal(c, want.astype(np.float16))


def routes(kind: str, pairs: int, experts: int) -> np.ndarray:
    rng = np.random.default_rng(2)
    match kind:
        case "ragged":
            return rng.choice(experts, pairs, p=rng.dirichlet(np.ones(experts)))
        case "one":
            return np.full(pairs, experts - 1)
        case "apart":
            return rng.permutation(pairs) * experts // pairs
        case "nobody":
            return rng.integers(-1, experts, pairs)
        case _:
            return rng.integers(0, 2, pairs) * (experts - 1)


def tables(ids: np.ndarray, experts: int, top_k: int, high: int) -> tuple[np.ndarray, ...]:
    """table, used, pair and token, as the kernels fill them."""
    blocks = most_blocks(ids.size, experts, high)
    shapes = (3, blocks), (4, blocks), (1,), (blocks * high,), (blocks * high,)
    found, table, used, pair, token = (np.full(shape, -7, np.int32) for shape in shapes)
    sort(experts, top_k).simulate(ids, found, pair, token, target="sm_90", BM=high)
    count_used().simulate(found, table, used, target="sm_90")
    return table, used, pair, token


@pytest.mark.parametrize("kind", ["ragged", "one", "apart", "ends", "nobody"])
@pytest.mark.parametrize(("pairs", "experts", "high"), [(64, 8, 16), (2, 3, 16), (4500, 12, 64)])
def test_tables_of_any_routing(kind: str, pairs: int, experts: int, high: int) -> None:
    """Tiles that have rows are counted one after another, each expert's where it begins."""
    ids = routes(kind, pairs, experts).astype(np.int32)
    table, used, pair, token = tables(ids, experts, 2, high)
    counts = np.bincount(ids[ids >= 0], minlength=experts)
    tiles = -(-counts // high)
    assert used.tolist() == [tiles.sum()]
    owners, begin, first, many = table[:, : used[0]]
    assert np.array_equal(owners, np.repeat(np.arange(experts), tiles))
    assert np.array_equal(first, np.repeat(np.cumsum(tiles) - tiles, tiles))
    assert np.array_equal(many, np.repeat(tiles, tiles))
    seen: list[int] = []
    for t, e in enumerate(owners):
        rows, tokens = (of.reshape(-1, high)[begin[t] + t - first[t]] for of in (pair, token))
        mine = rows >= 0
        assert mine.any() and (ids[rows[mine]] == e).all()
        assert np.array_equal(tokens, np.where(mine, rows // 2, -1))
        seen += rows[mine].tolist()
    assert sorted(seen) == np.flatnonzero(ids >= 0).tolist()


def test_tiles_of_more_experts_than_are_looked_at_together() -> None:
    found = np.full((3, 2500), -7, np.int32)
    found[0] = np.where(np.arange(2500) % 3 == 1, np.arange(2500), -1)
    found[1:] = np.arange(2)[:, None]
    table, used = np.full((4, 2500), -7, np.int32), np.full(1, -7, np.int32)
    count_used().simulate(found, table, used, target="sm_90")
    (count,), at = used, np.flatnonzero(found[0] >= 0)
    assert np.array_equal(table[:, :count], [at, at, np.arange(at.size), np.ones(at.size)])


@pytest.mark.parametrize(
    ("kind", "tokens", "experts", "top_k", "config"),
    [
        ("ragged", 20, 5, 2, SMALL),
        ("one", 24, 3, 1, replace(SMALL, LOADS=2)),
        ("apart", 1, 8, 4, SMALL),
        ("ends", 9, 6, 3, W4A16Config(16, 256, 3, LOADS=2, RUN=2)),
        ("nobody", 12, 4, 2, replace(SMALL, RUN=2, TEAMS=2, KEPT=1)),
        ("apart", 2, 3, 1, replace(SMALL, ORDERED=True)),
        ("one", 1, 2, 1, replace(SMALL, TRITON="dataflow")),
        ("one", 1, 2, 1, replace(SMALL, TRITON="layout")),
    ],
)
def test_a_layer_against_float64(
    kind: str, tokens: int, experts: int, top_k: int, config: W4A16Config
) -> None:
    hidden, width, pairs = 256, 128, tokens * top_k
    rng = np.random.default_rng(3)
    first, second = quantized(4, experts, hidden, 2 * width), quantized(5, experts, width, hidden)
    x = rng.normal(size=(tokens, hidden)).astype(np.float16)
    ids = routes(kind, pairs, experts).astype(np.int32)
    gates = rng.uniform(0, 1, pairs).astype(np.float32)
    table, used, pair, token = tables(ids, experts, top_k, config.BM)
    how: dict[str, Any] = {"target": "sm_90"}
    h = np.full((pair.size, width), np.nan, np.float16)
    c2, out = np.zeros((pairs, hidden), np.float16), np.full((tokens, hidden), np.nan, np.float16)
    w, tiles = packed(*first), (table, used)
    if config.ORDERED:
        given, x_ordered = x, np.full((pair.size, hidden), np.nan, np.float16)
        gather(f16).simulate(given, *tiles, token, x_ordered, BM=config.BM, **how)
    w4a16_gemm("gated").simulate(
        x_ordered if config.ORDERED else x, words(w), strips(w), *tiles, token, h,
        **asdict(replace(config, KEPT=0)), **how,
    )  # fmt: skip
    w = packed(*second)
    w4a16_gemm("weighted").simulate(
        h, words(w), strips(w), *tiles, pair, gates, c2, **asdict(config), **how
    )
    add_up(top_k, f16).simulate(c2, out, **how)
    rows = x[np.arange(pairs) // top_k].astype(np.float64)
    both = np.einsum("pk,pkn->pn", rows, weights(*first)[ids])
    mid = both[:, :width] / (1 + np.exp(-both[:, :width])) * both[:, width:]
    want = np.einsum("pk,pkn->pn", mid, weights(*second)[ids]) * gates[:, None]
    want[ids < 0] = 0
    close(c2, want, 9 if config.EXACT else 8)
    close(out, want.reshape(tokens, top_k, -1).sum(1), 8)


def test_weights_come_by_tma_and_become_numbers_without_conversions() -> None:
    compiled = w4a16_gemm("gated").compile("sm_90", **asdict(SMALL))
    copies = [line for line in compiled.explain(rejected=0).splitlines() if " copy " in line]
    loads = [line for line in copies if " copy gq" in line]
    takes = [line for line in copies if "-> words" in line]
    assert len(loads) == len(takes) == 2 and all("tma.load" in line for line in loads)
    assert all("ldmatrix.x4" in line and "0 bank conflicts" in line for line in takes)
    strips = [line for line in copies if " copy gs" in line or " copy gz" in line]
    assert len(strips) == 4 and all("tma.load" in line for line in strips)
    # What was unpacked goes from registers to the product: only the result is written back.
    assert [line.split(" -> ")[0].split()[-1] for line in copies if "st.shared" in line] == [
        "numbers"
    ]
    (rows,) = (line for line in copies if " copy gx" in line)
    assert "cp.async.16" in rows
    assert not compiled.built.local_memory
    sass = compiled.sass()
    assert "HGMMA.64x16x16" in sass and not {"I2F.U16", "I2FP"} & set(
        sass.replace(".F32", " ").split()
    )
    # A block's 64 weights of a thread for each half: one difference a pair, no product.
    assert (sass.count("HADD2 "), sass.count("HMUL2")) == (64, 0)


def test_weights_in_bf16_take_as_many_instructions() -> None:
    """A pair's difference is one fma, and where weights are rounded, their product another."""
    for exact, each in ((True, 1), (False, 2)):
        config = asdict(replace(SMALL, EXACT=exact))
        sass = w4a16_gemm("dense", dtype=bf16).compile("sm_90", **config).sass()
        pairs = sum(sass.count(f"{name}.BF16_V2") for name in ("HFMA2", "HADD2", "HMUL2"))
        assert pairs == 64 * each and not {"I2F.U16", "I2FP"} & set(sass.split())
