"""decode_attention on a GPU: random problems against float32, ragged and paged caches, graphs,
torch."""

from __future__ import annotations

from typing import Any

import pytest

import hexcute_kernels
from hexcute_kernels.attention import (
    append_to_cache,
    decode_attention,
    decode_attention_with_lse,
    latent_decode_attention,
)
from hexcute_kernels.attention.decode_configs import SPLIT

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
from decoding_problems import Drawn, compare, drawn, tensors  # noqa: E402


@pytest.fixture(autouse=True)
def exact() -> None:
    """float32 products of the reference are float32."""
    torch.backends.cuda.matmul.allow_tf32 = False


def check(p: Drawn, **how: Any) -> None:
    """One call against the reference, its results poisoned before; again, it gives the same."""
    given = tensors(p, "cuda")
    q, _, _, lengths, table, k, v = given
    out = torch.full_like(q, torch.nan)
    logs = torch.full((p.b, p.h, p.sq), torch.nan, device="cuda")
    decode_attention_with_lse(q, k, v, lengths, table, out=(out, logs), **p.options, **how)
    compare(p, given, out, logs)
    assert torch.equal(decode_attention(q, k, v, lengths, table, **p.options, **how), out)


def plain(b: int, h: int, hk: int, sk: int, d: int, **more: Any) -> Drawn:
    fields = {
        "sq": 1, "dtype": torch.float16, "cached": torch.float16, "lengths": None, "page": None,
        "left": None, "cap": 0.0, "scale": None, "seed": 0,
    }  # fmt: skip
    return Drawn(b=b, h=h, hk=hk, sk=sk, d=d, **{**fields, **more})


@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    for p in drawn(seed, 12):
        check(p)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(1000, 1024))
def test_three_thousand_random_problems(seed: int) -> None:
    # Kernels are compiled for a kind, so many problems share one: compiling takes the time.
    for p in drawn(seed, 125):
        given = tensors(p, "cuda")
        q, _, _, lengths, table, k, v = given
        out = torch.full_like(q, torch.nan)
        logs = torch.full((p.b, p.h, p.sq), torch.nan, device="cuda")
        decode_attention_with_lse(q, k, v, lengths, table, out=(out, logs), **p.options)
        compare(p, given, out, logs)


@pytest.mark.parametrize("config", list(SPLIT), ids=str)
@pytest.mark.parametrize("d", [64, 128])
def test_every_configuration(config: Any, d: int) -> None:
    check(plain(2, 8, 8, 3000, d, lengths=(3000, 777)), config=config)
    check(plain(1, 8, 2, 3000, d, sq=4), config=config)
    check(plain(2, 8, 2, 3008, d, lengths=(3000, 777), page=16), config=config)


def test_without_dependent_launches() -> None:
    check(plain(3, 8, 2, 1000, 128, lengths=(1000, 0, 1)), variant="splits")


def test_more_heads_than_a_tile_has_rows() -> None:
    check(plain(2, 71, 1, 500, 64, sq=2, lengths=(500, 499)))


@pytest.mark.parametrize("page", [None, 1, 16])
@pytest.mark.parametrize("paired", [False, True])
def test_appended_keys_are_those_of_the_cache(page: int | None, paired: bool) -> None:
    p = plain(3, 8, 2, 64, 128, sq=2, lengths=(64, 2, 17), page=page)
    q, k, v, lengths, table, k_cache, v_cache = tensors(p, "cuda")
    places = torch.tensor(p.lengths, device="cuda")[:, None] - 2 + torch.arange(2, device="cuda")
    new = [torch.stack([x[z, places[z]] for z in range(3)]) for x in (k, v)]
    angles = torch.rand(64, 64, device="cuda") * 6
    # Turned by the angles of their places, keys are to be those of the cache: turned back first.
    c, s = (f(angles)[places][:, :, None] for f in (torch.cos, torch.sin))
    cut = [(..., slice(0, None, 2)), (..., slice(1, None, 2))] if paired else [
        (..., slice(0, 64)), (..., slice(64, None))]  # fmt: skip
    a, b = (new[0].float()[half] for half in cut)
    back = torch.empty_like(new[0])
    back[cut[0]], back[cut[1]] = (a * c + b * s).half(), (b * c - a * s).half()
    want = k_cache.clone(), v_cache.clone()
    z = torch.arange(3, device="cuda")[:, None]
    rows = z * 64 + places
    if page is not None:
        rows = table[z, places // page].long() * page + places % page
    for cache in (k_cache, v_cache):
        cache.view(-1, 2, 128)[rows] = torch.nan
    cos, sin = torch.cos(angles), torch.sin(angles)
    out = append_to_cache(q, back, new[1], k_cache, v_cache, lengths, table, cos, sin, paired)
    a, b = (q.float()[half] for half in cut)
    torch.testing.assert_close(out[cut[0]].float(), a * c - b * s, atol=4e-3, rtol=4e-3)
    torch.testing.assert_close(out[cut[1]].float(), b * c + a * s, atol=4e-3, rtol=4e-3)
    torch.testing.assert_close(k_cache, want[0], atol=4e-3, rtol=4e-3, equal_nan=True)
    torch.testing.assert_close(v_cache, want[1], atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("heads", [16, 40, 128])
@pytest.mark.parametrize("page", [None, 1, 64])
def test_a_latent_head_is_keys_and_values(heads: int, page: int | None) -> None:
    p = plain(5, heads, 1, 1024, 576, sq=2, lengths=(1024, 0, 1, 777, 40), page=page, scale=0.07)
    given = tensors(p, "cuda")
    q, k, _, lengths, table, cache, _ = given
    o = latent_decode_attention(q, cache[..., 0, :], lengths, table, scale=p.scale)
    compare(p, (q, k, k[..., :512]), o)
    assert torch.equal(latent_decode_attention(q, cache[..., 0, :], lengths, table, 512, 0.07), o)


def test_repeated_calls_give_the_same_bits() -> None:
    q, k, v, *_ = tensors(plain(1, 32, 32, 5000, 128), "cuda")
    first = decode_attention(q, k, v)
    assert all(torch.equal(decode_attention(q, k, v), first) for _ in range(100))


def test_a_graph_replays_it_with_other_lengths() -> None:
    q, k, v, *_ = tensors(plain(2, 4, 4, 3000, 64), "cuda")
    lengths = torch.tensor([3000, 10], dtype=torch.int32, device="cuda")
    decode_attention.warm_up(q, k, v, lengths)
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(q)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        decode_attention(q, k, v, lengths, out=out)
    lengths.copy_(torch.tensor([7, 2999], dtype=torch.int32))
    graph.replay()
    assert torch.equal(out, decode_attention(q, k, v, lengths))


def test_torch_compiles_and_checks_it() -> None:
    q, k, v, *_ = tensors(plain(2, 4, 2, 3000, 64), "cuda")
    lengths = torch.tensor([3000, 10], dtype=torch.int32, device="cuda")

    @torch.compile(fullgraph=True)
    def step(q: Any, k: Any, v: Any, lengths: Any) -> Any:
        return decode_attention(q, k, v, lengths) * 2

    want = decode_attention(q, k, v, lengths) * 2
    torch.testing.assert_close(step(q, k, v, lengths), want)
    hexcute_kernels.register()
    torch.library.opcheck(torch.ops.hexcute.decode_attention.default, (q, k, v, lengths))
    torch.library.opcheck(torch.ops.hexcute.decode_attention.default, (q, k, v))
