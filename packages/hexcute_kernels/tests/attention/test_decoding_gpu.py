"""decode_attention on a GPU: random problems against float32, ragged caches, graphs, torch."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hexcute_kernels.attention import decode_attention
from hexcute_kernels.attention.decode_configs import SPLIT

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def reference(q: Any, k: Any, v: Any, lengths: list[int], scale: float) -> Any:
    """The result in float32, sequence by sequence."""
    out = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    sq, group = q.shape[1], q.shape[2] // k.shape[2]
    for z, n in enumerate(lengths):
        keys, values = (x[z, :n].float().repeat_interleave(group, 1) for x in (k, v))
        s = torch.einsum("ihd,jhd->hij", q[z].float(), keys) * scale
        i = torch.arange(sq, device=q.device)[:, None]
        j = torch.arange(n, device=q.device)[None, :]
        p = torch.softmax(s.masked_fill(j > i + n - sq, -torch.inf), 2).nan_to_num(0.0)
        out[z] = torch.einsum("hij,jhd->ihd", p, values)
    return out


def exact() -> None:
    """float32 products of the reference are float32."""
    torch.backends.cuda.matmul.allow_tf32 = False


def tensors(b: int, sq: int, h: int, hk: int, sk: int, d: int, dtype: Any = None) -> Any:
    shapes = ((b, sq, h, d), (b, sk, hk, d), (b, sk, hk, d))
    return tuple(torch.randn(s, device="cuda").to(dtype or torch.float16) for s in shapes)


def compare(q: Any, k: Any, v: Any, lengths: list[int] | None, **how: Any) -> None:
    """One call against the reference, its output poisoned before, as what nobody may look at."""
    used = [k.shape[1]] * q.shape[0] if lengths is None else lengths
    for z, n in enumerate(used):
        k[z, n:] = v[z, n:] = torch.nan
    given = None if lengths is None else torch.tensor(lengths, dtype=torch.int32, device="cuda")
    out = torch.full_like(q, torch.nan)
    decode_attention(q, k, v, given, out=out, **how)
    want = reference(q, k, v, used, how.get("scale") or q.shape[3] ** -0.5)
    bits = 11 if q.dtype == torch.float16 else 8
    torch.testing.assert_close(out.float(), want, atol=6 * 2.0**-bits, rtol=2 * 2.0**-bits)
    assert torch.equal(decode_attention(q, k, v, given, **how), out)


@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    exact()
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(12):
        hk, sk = draw.choice([1, 2, 3, 8]), draw.choice([1, 5, 64, 100, 257, 1000, 4099])
        b, sq = draw.choice([1, 1, 2, 5, 40]), draw.choice([1, 1, 1, 2, 3, 5, 8])
        h, d = hk * draw.choice([1, 1, 2, 4, 5, 8]), draw.choice([64, 128, 128, 40, 256])
        dtype = draw.choice([torch.float16, torch.bfloat16])
        lengths = draw.choice([None, [draw.randint(0, sk) for _ in range(b)]])
        scale = draw.choice([None, 0.3])
        compare(*tensors(b, sq, h, hk, sk, d, dtype), lengths, scale=scale)


@pytest.mark.parametrize("config", list(SPLIT), ids=str)
@pytest.mark.parametrize("d", [64, 128])
def test_every_configuration(config: Any, d: int) -> None:
    exact()
    compare(*tensors(2, 1, 8, 8, 3000, d), [3000, 777], config=config)
    compare(*tensors(1, 4, 8, 2, 3000, d), None, config=config)


def test_more_heads_than_a_tile_has_rows() -> None:
    exact()
    compare(*tensors(2, 2, 71, 1, 500, 64), [500, 499])


def test_repeated_calls_give_the_same_bits() -> None:
    q, k, v = tensors(1, 1, 32, 32, 5000, 128)
    first = decode_attention(q, k, v)
    assert all(torch.equal(decode_attention(q, k, v), first) for _ in range(100))


def test_a_graph_replays_it_with_other_lengths() -> None:
    q, k, v = tensors(2, 1, 4, 4, 3000, 64)
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
    q, k, v = tensors(2, 1, 4, 2, 3000, 64)
    lengths = torch.tensor([3000, 10], dtype=torch.int32, device="cuda")

    @torch.compile(fullgraph=True)
    def step(q: Any, k: Any, v: Any, lengths: Any) -> Any:
        return decode_attention(q, k, v, lengths) * 2

    want = decode_attention(q, k, v, lengths) * 2
    torch.testing.assert_close(step(q, k, v, lengths), want)
    torch.library.opcheck(torch.ops.hexcute.decode_attention.default, (q, k, v, lengths))
    torch.library.opcheck(torch.ops.hexcute.decode_attention.default, (q, k, v))
