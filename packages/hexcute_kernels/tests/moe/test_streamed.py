"""Few rows per expert: tables, products and sums, every lane of every block, and their code."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from four_bits import packed, quantized, strips, weights, words

from hexcute_core import bf16, f16, f32
from hexcute_kernels.moe.arrange import arrange
from hexcute_kernels.moe.configs import FewConfig, most_blocks
from hexcute_kernels.moe.few import few_rows
from hexcute_kernels.moe.forms import U4, Weights
from hexcute_kernels.moe.streamed import gated_product, weighted_product
from hexcute_kernels.moe.summing import add_up

HOW: dict[str, Any] = {"target": "sm_90"}
GARBAGE = -7


def routes(kind: str, tokens: int, experts: int, top_k: int) -> np.ndarray:
    """Each token's experts, all of its own; "ends" are the first and the last few, "masked" choices
    are no expert's."""
    rng = np.random.default_rng(2)
    spread = {"ends": np.arange(experts) % (experts - 1) == 0}.get(kind, np.full(experts, True))
    chances = rng.dirichlet(np.ones(experts)) * spread + 1e-6
    chances /= chances.sum()
    ids = np.stack([rng.choice(experts, top_k, False, chances) for _ in range(tokens)])
    if kind == "masked":
        ids[rng.random(ids.shape) < 0.5] = rng.choice([-1, experts])
    return ids.reshape(-1).astype(np.int32)


def tables(ids: np.ndarray, experts: int, top_k: int, high: int = 8) -> tuple[np.ndarray, ...]:
    """expert, pair and token, as the kernel fills them."""
    blocks = most_blocks(ids.size, experts, high)
    rows = high * blocks
    expert, pair, token = (np.full(n, GARBAGE, np.int32) for n in (blocks, rows, rows))
    arrange(experts, top_k, ids.size).simulate(ids, expert, pair, token, BM=high, **HOW)
    return expert, pair, token


@pytest.mark.parametrize("kind", ["ragged", "ends", "masked"])
@pytest.mark.parametrize(
    ("tokens", "experts", "top_k"), [(1, 8, 8), (1, 3, 1), (33, 5, 3), (60, 40, 5), (7, 256, 8)]
)
@pytest.mark.parametrize("high", [8, 16])
def test_tables_of_any_routing(
    kind: str, tokens: int, experts: int, top_k: int, high: int
) -> None:
    ids = routes(kind, tokens, experts, top_k)
    expert, pair, token = tables(ids, experts, top_k, high)
    assert ((expert >= -1) & (expert < experts)).all()
    met = []
    for block in np.flatnonzero(expert >= 0):
        rows, owners = (t[high * block : high * (block + 1)] for t in (pair, token))
        real = rows < ids.size
        assert real[0] and (np.diff(real.astype(int)) <= 0).all()
        assert (ids[rows[real]] == expert[block]).all()
        assert np.array_equal(owners, np.where(real, rows // top_k, -1))
        met += rows[real].tolist()
    # All that chose an expert, each once, an expert's in their order and after those before it.
    chosen = np.flatnonzero((ids >= 0) & (ids < experts))
    assert met == chosen[np.argsort(ids[chosen], kind="stable")].tolist()


def test_one_kernel_for_all_numbers_of_pairs_up_to_a_power_of_two() -> None:
    kernels = [arrange(8, 2, most) for most in range(1, 130)]
    assert [len(set(kernels[:most])) for most in (32, 64, 128, 129)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("kind", "tokens", "experts", "top_k", "hidden", "width", "first", "second"),
    [
        ("ragged", 3, 5, 2, 256, 128, {}, {}),
        ("ends", 9, 6, 3, 384, 128, {"BN": 64, "DEPTH": 1, "SPLIT": 4}, {"BN": 128, "DEPTH": 1}),
        ("ragged", 20, 5, 1, 128, 256, {"WARPS": 8, "DEPTH": 1}, {"WARPS": 8, "DEPTH": 1}),
        ("apart", 1, 4, 4, 256, 256, {"SPLIT": 4, "DEPTH": 1}, {"BN": 128, "BLOCKS": 4}),
        ("ragged", 4, 2, 1, 128, 384, {"SPLIT": 1, "DEPTH": 1}, {"DEPTH": 1, "SPLIT": 4}),
        ("ends", 9, 3, 2, 128, 128, {"BM": 16, "TOGETHER": True}, {"BM": 16, "TOGETHER": True}),
    ],
)
def test_a_layer_against_float64(
    kind: str, tokens: int, experts: int, top_k: int, hidden: int, width: int,
    first: dict[str, int], second: dict[str, int],
) -> None:  # fmt: skip
    pairs = tokens * top_k
    w13, w2 = quantized(4, experts, hidden, 2 * width), quantized(5, experts, width, hidden)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(tokens, hidden)).astype(np.float16)
    gates = rng.uniform(0, 1, pairs).astype(np.float32)
    ids = routes(kind, tokens, experts, top_k)
    expert, pair, token = tables(ids, experts, top_k, first.get("BM", 8))
    h = np.full((pair.size, width), np.nan, np.float16)
    w = packed(*w13)
    gated_product(experts, hidden, width).simulate(
        x, words(w), strips(w), expert, token, h, **first, **HOW
    )
    rows = np.repeat(x.astype(np.float64), top_k, 0)
    both = np.einsum("pk,pkn->pn", rows, weights(*w13)[ids])
    mid = both[:, :width] / (1 + np.exp(-both[:, :width])) * both[:, width:]
    want = np.einsum("pk,pkn->pn", mid, weights(*w2)[ids]) * gates[:, None]
    w = packed(*w2)
    for result in (f16, f32):
        c = np.full((pairs, hidden), np.nan, np.float16 if result == f16 else np.float32)
        weighted_product(experts, width, hidden, result).simulate(
            h, words(w), strips(w), expert, pair, gates, c, **second, **HOW
        )
        assert np.abs(c - want).max() < 2.0**-10 * np.abs(want).max()
    out = np.full((tokens, hidden), np.nan, np.float16)
    add_up(top_k, f32).simulate(c, out, **HOW)
    exact = c.reshape(tokens, top_k, hidden).astype(np.float64).sum(1)
    np.testing.assert_allclose(out, exact, rtol=2.0**-10, atol=2.0**-20)


@pytest.mark.parametrize(("group", "kind"), [(64, np.float16), (32, ml_dtypes.bfloat16)])
def test_groups_and_types_against_float64(group: int, kind: Any) -> None:
    """Both products of a layer, each from what it is given."""
    experts, hidden, width, pairs, gates = 3, 256, 128, 5, np.linspace(0.2, 1, 5, dtype=np.float32)
    dtype = f16 if kind is np.float16 else bf16
    w13 = quantized(4, experts, hidden, 2 * width, group=group)
    w2 = quantized(5, experts, width, hidden, group=group)
    x = np.random.default_rng(3).normal(size=(pairs, hidden)).astype(kind)
    ids = routes("ragged", pairs, experts, 1)
    expert, pair, token = tables(ids, experts, 1)
    w, h = packed(*w13), np.full((pair.size, width), np.nan, kind)
    how = {"BN": 64, "DEPTH": 1, **HOW}
    gated_product(experts, hidden, width, Weights(U4, group), dtype).simulate(
        x, words(w), strips(w), expert, token, h, **how
    )
    both = np.einsum("pk,pkn->pn", x.astype(np.float64), weights(*w13)[ids])
    mid = both[:, :width] / (1 + np.exp(-both[:, :width])) * both[:, width:]
    used = pair[np.repeat(expert, 8) >= 0]
    rows = np.flatnonzero(np.repeat(expert, 8) >= 0)[used < pairs]
    bits = 10 if dtype == f16 else 7
    assert np.abs(h[rows] - mid[pair[rows]]).max() < 2.0**-bits * np.abs(mid).max()
    w, c = packed(*w2), np.full((pairs, hidden), np.nan, np.float32)
    weighted_product(experts, width, hidden, f32, Weights(U4, group), dtype).simulate(
        h, words(w), strips(w), expert, pair, gates, c, **how
    )
    given = np.zeros((pairs, width))
    given[pair[rows]] = h[rows]
    want = np.einsum("pk,pkn->pn", given, weights(*w2)[ids]) * gates[:, None]
    assert np.abs(c - want).max() < 2.0**-18 * np.abs(want).max()


@pytest.mark.parametrize(
    ("kernel", "strip"),
    [(gated_product(256, 7168, 256), 16), (weighted_product(256, 256, 7168, f16), 8)],
)
def test_weights_stream_by_sixteen_bytes_and_nothing_beside_them(kernel: Any, strip: int) -> None:
    """A strip of two groups of 256 rows has no more than eight bytes for each thread."""
    compiled = kernel.compile("sm_90")
    copies = [line for line in compiled.explain(rejected=0).splitlines() if " copy " in line]
    for tensor, to, width in (
        ("gq", "r", 16), ("gs", "s", strip), ("gz", "s", strip), ("view", "sx", 16),
    ):  # fmt: skip
        some = [line for line in copies if re.search(rf" copy {tensor}\w* -> {to}(_\d+)?:", line)]
        moved = [int(re.findall(r"(\d+) bytes per", line)[0]) for line in some]
        assert moved and min(moved) >= width, tensor
    # Weights never meet shared memory: what threads write there is sums alone.
    written = [line.split(" -> ")[1] for line in copies if "st.shared" in line]
    assert written and all(to.startswith("sums:") for to in written)
    assert not compiled.built.local_memory
    sass = compiled.sass()
    assert "HMMA.16816.F32" in sass and not {"I2F.U16", "I2FP"} & set(
        sass.replace(".F32", " ").split()
    )
    # Two groups of 128 rows before the loop and two in it; two groups of 256 rows and no loop.
    assert sass.count("LDG.E.128") == 16 and "LDG.E.U16" not in sass


@pytest.mark.parametrize(
    ("m", "n", "k", "config"),
    [
        (11, 256, 1024, FewConfig(8, 128, 2, 2, 4, 3)),
        (1, 64, 384, FewConfig(8, 64, 4, 4, 4, 4)),
        (16, 192, 640, FewConfig(16, 256, 2, 4, 8, 2)),
    ],
    ids=str,
)
def test_dense_products_of_few_rows(m: int, n: int, k: int, config: FewConfig) -> None:
    """Groups of k that no block of the cluster has are nothing."""
    numbers = quantized(0, 1, k, n)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(np.float16)
    w, c = packed(*numbers), np.full((m, n), np.nan, np.float16)
    few_rows(n, k).simulate(x, words(w), strips(w), c, **asdict(config), **HOW)
    want = x.astype(np.float64) @ weights(*numbers)[0]
    assert np.abs(c - want).max() < 2.0**-10 * np.abs(want).max()
