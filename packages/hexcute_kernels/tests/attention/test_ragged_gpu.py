"""Attention of packed sequences on a GPU: random lengths against float32, each sequence alone."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise
from typing import Any

import pytest

import hexcute_kernels
from hexcute_kernels.attention import attention, attention_with_lse

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
from attention_float32 import exact, reference  # noqa: E402


def ends_of(lengths: list[int]) -> Any:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device="cuda")


def lengths_of(draw: random.Random, count: int) -> list[int]:
    """Lengths of all sizes, some of them nothing."""
    sizes = [0, 1, 63, 64, 65, 128, 191, 500]
    return [
        draw.choice([draw.choice(sizes), int(2 ** draw.uniform(0, 10.5))]) for _ in range(count)
    ]


def compare(draw: random.Random, **how: Any) -> None:
    """One call, in which every third sequence and what lies behind the last hold no numbers."""
    d, dv = draw.choice([(64, 64), (128, 128), (40, 24), (192, 128), (256, 256)])
    hk, count = draw.choice([1, 2, 3]), draw.choice([1, 2, 7, 70])
    h, dtype = hk * draw.choice([1, 2, 4]), draw.choice([torch.float16, torch.bfloat16])
    lq, lk = lengths_of(draw, count), lengths_of(draw, count)
    at_q, at_k = ends_of(lq), ends_of(lk)
    total_q, total_k = sum(lq) + draw.randrange(1, 70), sum(lk) + draw.randrange(1, 70)
    q, k, v = (
        torch.randn(n, heads, width, device="cuda", dtype=dtype)
        for n, heads, width in ((total_q, h, d), (total_k, hk, d), (total_k, hk, dv))
    )
    # Numbers, so that nothing here waits for the GPU.
    starts_q, starts_k = [0, *accumulate(lq)], [0, *accumulate(lk)]
    for x, at in ((q, starts_q), (k, starts_k), (v, starts_k)):
        x[at[-1] :] = torch.nan
        for z in range(2, count, 3):
            x[at[z] : at[z + 1]] = torch.nan
    left, right = (draw.choice([None, None, 0, 17, 130]) for _ in range(2))
    cap = draw.choice([0.0, 0.0, 4.0])
    o = torch.full((total_q, h, dv), 7.0, device="cuda", dtype=dtype)
    lse = torch.full((h, total_q), 7.0, device="cuda")
    options = {"left": left, "right": right, "softcap": cap, **how}
    options |= {"cu_seqlens_q": at_q, "cu_seqlens_k": at_k}
    attention_with_lse(q, k, v, **options, out=(o, lse))
    bits = 11 if dtype == torch.float16 else 8
    for z in range(count):
        rows = slice(starts_q[z], starts_q[z + 1])
        keys = slice(starts_k[z], starts_k[z + 1])
        if z % 3 == 2 or not lq[z]:
            continue
        want, logs = reference(
            q[None, rows], k[None, keys], v[None, keys], d**-0.5, right, left, cap
        )
        close = {"atol": 6 * 2.0**-bits, "rtol": 2 * 2.0**-bits}
        torch.testing.assert_close(o[rows].float(), want[0], **close)
        torch.testing.assert_close(lse[:, rows], logs[0], atol=2e-3, rtol=1e-3)
    assert (o[sum(lq) :] == 7).all() and (lse[:, sum(lq) :] == 7).all()


@pytest.mark.parametrize("variant", [None, "mma"])
@pytest.mark.parametrize("seed", range(12))
def test_random_sequences(seed: int, variant: str | None) -> None:
    exact()
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(4):
        compare(draw, variant=variant)


def test_a_graph_replays_it_with_other_lengths() -> None:
    """Lengths stay on the GPU: a captured call follows them, and leaves rows behind the last end as
    they are, whatever it was replayed with before."""
    q, k, v = (torch.randn(300, 2, 64, device="cuda").half() for _ in range(3))
    at, out = ends_of([10, 200, 90]), torch.empty_like(q)
    attention(q, k, v, causal=True, cu_seqlens_q=at, cu_seqlens_k=at)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        attention(q, k, v, causal=True, cu_seqlens_q=at, cu_seqlens_k=at, out=out)
    for lengths in ([10, 200, 90], [0, 1, 299], [100, 100, 100], [5, 0, 30]):
        at.copy_(ends_of(lengths))
        out.fill_(torch.nan)
        graph.replay()
        rows = [0, *accumulate(lengths)]
        for first, end in pairwise(rows):
            alone = [x[None, first:end].contiguous() for x in (q, k, v)]
            if end > first:
                assert torch.allclose(out[first:end], attention(*alone, causal=True)[0], atol=2e-3)
        assert out[rows[-1] :].isnan().all()


def test_torch_checks_it() -> None:
    hexcute_kernels.register()
    q, k, v = (torch.randn(70, 2, 64, device="cuda").half() for _ in range(3))
    at = ends_of([5, 0, 65])  # All rows, since those behind the last end may hold anything.
    torch.library.opcheck(
        torch.ops.hexcute.attention.default, (q, k, v),
        {"causal": True, "cu_seqlens_q": at, "cu_seqlens_k": at},
    )  # fmt: skip
