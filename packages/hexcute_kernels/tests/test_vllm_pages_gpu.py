"""Keys and values in turns in one memory, as the plugin of vLLM keeps them: written, read by single
tokens and by prompts, on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from attention_float32 import exact, reference  # noqa: E402

from hexcute_kernels.attention import attention, decode_attention  # noqa: E402
from hexcute_kernels.integrations.vllm.pages import caches, gathered, store  # noqa: E402

pytestmark = pytest.mark.gpu
LENGTHS = (700, 1, 64, 333)


def filled(page: int, heads: int, d: int, dtype: Any) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """Pages of sequences, the tables of their keys, and the keys and values themselves."""
    torch.manual_seed(page + d)
    exact()
    most = -(-max(LENGTHS) // page)
    blocks = 1 + torch.randperm(most * len(LENGTHS)).view(len(LENGTHS), most)
    kv = torch.full((1 + blocks.numel(), 2, page, heads * d), torch.nan).cuda().to(dtype)
    own = []
    for z, n in enumerate(LENGTHS):
        k, v = (torch.randn(2, n, heads, d) / 2).cuda().to(dtype)
        place = torch.arange(n)
        slots = blocks[z, place // page] * page + place % page
        # One more that has no slot.
        slots = torch.cat([slots, -slots[:1] - 1]).cuda()
        store(kv, *(torch.cat([t, t[:1]]) for t in (k, v)), slots)
        own.append((k, v))
    return kv, (2 * blocks).int().cuda(), own


@pytest.mark.parametrize(
    ("page", "heads", "d", "dtype"),
    [(16, 2, 64, torch.float16), (64, 8, 128, torch.bfloat16), (16, 1, 256, torch.float16)],
)
def test_single_tokens_and_prompts_read_them(page: int, heads: int, d: int, dtype: Any) -> None:
    kv, tables, own = filled(page, heads, d, dtype)
    both, bound = caches(kv, heads), 2e-2 if dtype == torch.bfloat16 else 3e-3
    q = torch.randn(len(LENGTHS), 1, 4 * heads, d).cuda().to(dtype)
    lengths = torch.tensor(LENGTHS).int().cuda()
    got = decode_attention(q, *both, seq_lens=lengths, page_table=tables)
    for z, pair in enumerate(own):
        k, v = (t[None] for t in pair)
        want, _ = reference(q[z : z + 1], k, v, d**-0.5, 0, None, 0.0)
        assert (got[z : z + 1].float() - want).abs().max() < bound
    ends = torch.zeros(len(LENGTHS) + 1).int().cuda()
    ends[1:] = lengths.cumsum(0)
    total, new = sum(LENGTHS), [min(n, 40) for n in LENGTHS]
    k, v = gathered(kv, heads, tables, ends, total + 3)
    assert torch.equal(k[:total], torch.cat([pair[0] for pair in own]))
    assert torch.equal(v[:total], torch.cat([pair[1] for pair in own]))
    starts = torch.tensor([0, *new]).cumsum(0).int().cuda()
    rows = torch.randn(sum(new), 4 * heads, d).cuda().to(dtype)
    got = attention(rows, k, v, causal=True, cu_seqlens_q=starts, cu_seqlens_k=ends)
    at = 0
    for n, pair in zip(new, own):
        k, v = (t[None] for t in pair)
        want, _ = reference(rows[None, at : at + n], k, v, d**-0.5, 0, None, 0.0)
        assert (got[None, at : at + n].float() - want).abs().max() < bound
        at += n
