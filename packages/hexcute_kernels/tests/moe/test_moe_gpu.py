"""Weights of four bits on a GPU: random problems against float32."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hexcute_kernels.gpus import gpu_of
from hexcute_kernels.moe import (
    moe,
    pack,
    pack_bytes,
    pack_e4m3,
    pack_experts,
    pack_mxfp4,
    unpack,
    w4a16_matmul,
)
from hexcute_kernels.moe.configs import DENSE, FEW, JOINED, ROUTED, STREAMED

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def hopper() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    if "wgmma" not in gpu_of(0).features:
        pytest.skip("no wgmma on this GPU")


def quantized(*shape: int, group: int = 128) -> tuple[Any, Any, Any]:
    """q of this shape, scales and zero points, of weights of about unit size after k products."""
    *batch, k, n = shape
    q = torch.randint(0, 16, shape, dtype=torch.uint8, device="cuda")
    scale = (torch.rand((*batch, k // group, n), device="cuda") + 0.5) / (6 * k**0.5)
    zero = torch.randint(0, 16, scale.shape, dtype=torch.uint8, device="cuda")
    return q, scale.half(), zero


def wide(q: Any, scale: Any, zero: Any) -> Any:
    group = q.shape[-2] // scale.shape[-2]
    over = scale.float().repeat_interleave(group, -2)
    return (q.float() - zero.float().repeat_interleave(group, -2)) * over


def close(got: Any, want: Any, bits: int = 9) -> None:
    error = (got.float() - want).abs().max() / want.abs().max().clamp(min=1e-6)
    assert error < 2.0**-bits, error


def dense(
    m: int, n: int, k: int, group: int = 128, dtype: Any = torch.float16, **how: Any
) -> None:
    numbers = quantized(k, n, group=group)
    w = pack(*numbers)
    assert all(torch.equal(a, b) for a, b in zip(unpack(w), numbers))
    x = torch.randn(m, k, device="cuda").to(dtype)
    out = torch.full((m, n), torch.nan, device="cuda").to(dtype)
    w4a16_matmul(x, w, out=out, **how)
    close(out, x.float() @ wide(*numbers), 9 if dtype == torch.float16 else 6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("group", [32, 64, 128])
def test_groups_and_types(group: int, dtype: Any) -> None:
    for m in (1, 16, 33, 150):
        dense(m, 320, 640, group, dtype)
    layer("random", 5, 8, 2, 384, 128, group=group, dtype=dtype)
    layer("random", 90, 8, 2, 384, 128, group=group, dtype=dtype)


@pytest.mark.parametrize("seed", range(8))
def test_random_products(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    # Kernels of few rows are compiled for the weights' sizes.
    few = 64 * draw.randrange(1, 20), 128 * draw.randrange(1, 12)
    for _ in range(20):
        m = draw.choice([1, 2, 7, 16, 17, 32, 50, 64, 65, 128, 129, 300])
        any_size = 64 * draw.randrange(1, 20), 128 * draw.randrange(1, 12)
        dense(m, *(few if m <= 16 else any_size))


@pytest.mark.parametrize("config", list(DENSE), ids=str)
def test_every_dense_configuration(config: Any) -> None:
    dense(200, 448, 1024, config=config)


@pytest.mark.parametrize("config", list(JOINED), ids=str)
def test_every_configuration_whose_clusters_share_k(config: Any) -> None:
    for m, n, k in ((200, 448, 1024), (1, 64, 384), (1000, 1600, 1152), (64, 320, 128)):
        dense(m, n, k, config=config)
    dense(70, 448, 640, 32, torch.bfloat16, config=config)


def test_calls_whose_clusters_share_k() -> None:
    """Sizes of which it is chosen, ragged ones too; more of them than run together; and a graph."""
    for m, n, k in ((128, 4096, 4096), (100, 4032, 4224), (256, 4096, 4096), (20, 14336, 4096)):
        dense(m, n, k)
        dense(m, n, k, variant="joined")
    numbers = quantized(4096, 4096)
    w, x = pack(*numbers), torch.randn(128, 4096, device="cuda").half()
    out = torch.empty(128, 4096, device="cuda").half()
    again = [w4a16_matmul(x, w, variant="joined") for _ in range(20)]
    assert all(torch.equal(again[0], one) for one in again)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            w4a16_matmul(x, w, out=out, variant="joined")
    x.copy_(torch.randn(128, 4096, device="cuda"))
    out.fill_(torch.nan)
    graph.replay()
    close(out, x.float() @ wide(*numbers))
    assert torch.equal(out, w4a16_matmul(x, w, variant="joined"))


@pytest.mark.parametrize("config", list(FEW), ids=str)
def test_every_configuration_of_few_rows(config: Any) -> None:
    dense(5, 448, 1024, config=config)
    dense(16, 448, 1024, config=config)


def test_parts_of_a_long_k() -> None:
    for m in (20, 64, 200):
        dense(m, 512, 128 * 37)


def layer(
    kind: str, tokens: int, experts: int, top_k: int, hidden: int, width: int, group: int = 128,
    dtype: Any = torch.float16, **how: Any,
) -> None:  # fmt: skip
    first = quantized(experts, hidden, 2 * width, group=group)
    second = quantized(experts, width, hidden, group=group)
    x = torch.randn(tokens, hidden, device="cuda").to(dtype)
    bits = 8 if dtype == torch.float16 else 5
    pairs = tokens * top_k
    ids = {
        "random": torch.rand(tokens, experts, device="cuda").topk(top_k, 1).indices,
        "one": torch.full((tokens, top_k), experts - 1, device="cuda"),
        "few": torch.randint(0, min(2, experts), (tokens, top_k), device="cuda"),
    }[kind].int()
    gates = torch.softmax(torch.randn(tokens, top_k, device="cuda"), 1)
    args = (x, pack_experts(*first), pack_experts(*second), ids, gates)
    flat, c2 = ids.reshape(-1), torch.empty(pairs, hidden, device="cuda")
    for e in flat.unique().tolist():
        at = (flat == e).nonzero()[:, 0]
        c1 = x.float()[at // top_k] @ wide(*(part[e] for part in first))
        h = torch.nn.functional.silu(c1[:, :width]) * c1[:, width:]
        c2[at] = h @ wide(*(part[e] for part in second)) * gates.reshape(-1)[at, None]
    close(moe(*args, scope="gemms", **how), c2, bits)
    out = torch.full((tokens, hidden), torch.nan, device="cuda").to(dtype)
    moe(*args, out=out, **how)
    close(out, c2.view(tokens, top_k, hidden).sum(1), bits)


@pytest.mark.parametrize("kind", ["random", "one", "few"])
@pytest.mark.parametrize("seed", range(4))
def test_random_layers(kind: str, seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(6):
        experts = draw.choice([1, 3, 8, 40, 64])
        top_k = min(draw.choice([1, 2, 8]), experts)
        tokens = draw.choice([1, 5, 16, 100, 500])
        sizes = 128 * draw.randrange(1, 6), 128 * draw.randrange(1, 4)
        layer(kind, tokens, experts, top_k, *sizes)


@pytest.mark.parametrize("config", list(ROUTED), ids=str)
def test_every_routed_configuration(config: Any) -> None:
    layer("random", 150, 16, 4, 512, 256, config=config)


@pytest.mark.parametrize("config", list(STREAMED), ids=str)
@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(1, 8, 8), (2, 32, 8), (100, 256, 5)])
def test_every_streamed_configuration(config: Any, tokens: int, experts: int, top_k: int) -> None:
    layer("random", tokens, experts, top_k, 1024, 256, config=config)
    layer("few", tokens, experts, top_k, 896, 384, config=config)


def other(form: str, *shape: int, group: int) -> tuple[Any, Any]:
    """Packed weights of a form, and their values in float32."""
    *batch, k, n = shape
    q = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
    scale = ((torch.rand((*batch, k // group, n), device="cuda") + 0.5) / k**0.5).half()
    over = scale.float().repeat_interleave(group, -2)
    if form == "u8":
        zero = torch.randint(0, 256, scale.shape, dtype=torch.uint8, device="cuda")
        less = zero.float().repeat_interleave(group, -2)
        return pack_bytes(q, scale / 128, zero), (q.float() - less) * over / 128
    if form == "e4m3":
        w = (torch.randn(shape, device="cuda")).to(torch.float8_e4m3fn)
        return pack_e4m3(w, scale), w.float() * over
    exponent = torch.randint(118, 124, scale.shape, dtype=torch.uint8, device="cuda")
    codes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
    power = torch.exp2(exponent.float() - 127).repeat_interleave(group, -2)
    q &= 15
    values = codes[(q & 7).long()] * torch.where(q > 7, -1, 1) * power
    return pack_mxfp4(q, exponent), values


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("form", "group"), [("u8", 64), ("e4m3", 64), ("e2m1", 32)])
def test_other_forms(form: str, group: int, dtype: Any) -> None:
    w, values = other(form, 640, 320, group=group)
    for m in (1, 16, 33, 150):
        x = torch.randn(m, 640, device="cuda").to(dtype)
        for how in ({}, {"variant": "joined"}):
            close(w4a16_matmul(x, w, **how), x.float() @ values, 9 if dtype == torch.float16 else 6)
    (w13, first), (w2, second) = (
        other(form, 6, k, n, group=group) for k, n in ((384, 512), (256, 384))
    )
    for tokens in (5, 90):
        x = torch.randn(tokens, 384, device="cuda").to(dtype)
        ids = torch.rand(tokens, 6, device="cuda").topk(2, 1).indices.int()
        gates = torch.rand(tokens, 2, device="cuda")
        want = torch.zeros(tokens, 384, device="cuda")
        for e in range(6):
            c1 = x.float() @ first[e]
            h = torch.nn.functional.silu(c1[:, :256]) * c1[:, 256:]
            want += ((ids == e) * gates).sum(1, keepdim=True) * (h.to(dtype).float() @ second[e])
        got = moe(x, w13, w2, ids, gates)
        close(got, want, 8 if dtype == torch.float16 else 5)


def test_sums_of_few_tokens_repeat_bit_by_bit() -> None:
    first, second = quantized(8, 256, 512), quantized(8, 256, 256)
    ids = torch.randint(0, 8, (9, 2), dtype=torch.int32, device="cuda")
    x, gates = torch.randn(9, 256, device="cuda").half(), torch.rand(9, 2, device="cuda")
    args = (x, pack_experts(*first), pack_experts(*second), ids, gates)
    again = [moe(*args, variant="streamed") for _ in range(20)]
    assert all(torch.equal(again[0], one) for one in again)


def test_a_graph_holds_the_layer() -> None:
    first, second = quantized(8, 256, 512), quantized(8, 256, 256)
    args = [pack_experts(*first), pack_experts(*second)]
    x = torch.randn(30, 256, device="cuda").half()
    ids = torch.randint(0, 8, (30, 2), dtype=torch.int32, device="cuda")
    gates, out = torch.rand(30, 2, device="cuda"), torch.empty(30, 256, device="cuda").half()
    moe(x, *args, ids, gates, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        moe(x, *args, ids, gates, out=out)
    ids.copy_(torch.randint(0, 2, (30, 2), device="cuda"))
    graph.replay()
    assert torch.equal(out, moe(x, *args, ids, gates))
