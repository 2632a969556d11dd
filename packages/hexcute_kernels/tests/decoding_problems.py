"""Random calls of decode_attention, and what they should give, in float32 by torch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Drawn:
    """One call: its sizes, the lengths of its sequences where they have their own, its options."""

    b: int
    sq: int
    h: int
    hk: int
    sk: int
    d: int
    dtype: Any
    cached: Any
    lengths: tuple[int, ...] | None
    page: int | None
    left: int | None
    cap: float
    scale: float | None
    seed: int

    @property
    def used(self) -> list[int]:
        """How many keys each sequence has."""
        if self.lengths is None:
            return [self.sk] * self.b
        return [min(max(n, 0), self.sk) for n in self.lengths]

    @property
    def options(self) -> dict[str, Any]:
        scales = {"k_scale": 0.5, "v_scale": 1.5} if self.cached != self.dtype else {}
        return {"scale": self.scale, "left": self.left, "softcap": self.cap, **scales}


def drawn(seed: int, many: int) -> Iterator[Drawn]:
    """So many calls of one kind: what kernels are made for is drawn once, sizes each time."""
    draw = random.Random(seed)
    group, sq = draw.choice([1, 1, 2, 4, 5, 8, 71]), draw.choice([1, 1, 1, 2, 3, 5, 8])
    d = draw.choice([64, 128, 128, 40, 96, 192, 256])
    dtype = draw.choice([torch.float16, torch.bfloat16])
    cached = torch.float8_e4m3fn if d % 16 == 0 and draw.random() < 0.25 else dtype
    page, windowed = draw.choice([None, None, 1, 4, 16, 16, 64, 256]), draw.random() < 0.3
    cap, ragged = draw.choice([0.0, 0.0, 3.0]), draw.random() < 0.6
    for i in range(many):
        hk, b = draw.choice([1, 2, 3, 8]), draw.choice([1, 1, 2, 5, 40, 130])
        sk = draw.choice([1, 5, 64, 100, 257, 1000, 4099, draw.randrange(1, 600)])
        sk = min(sk, 600) if b > 5 or group > 8 else sk
        sk = sk if page is None else -(-sk // page) * page
        lengths = tuple(draw.choice([draw.randint(0, sk), 1, 0, sk]) for _ in range(b))
        yield Drawn(
            b, sq, hk * group, hk, sk, d, dtype, cached,
            lengths if ragged or page is not None else None, page,
            draw.randrange(sk + 2) if windowed else None, cap, draw.choice([None, 0.3]),
            seed * 1000 + i,
        )  # fmt: skip


def tensors(p: Drawn, device: str) -> tuple[Any, ...]:
    """(q, k, v, seq_lens, page_table, k_cache, v_cache): keys and values one after another, and as
    the cache has them, where nobody may look at what lies behind a sequence."""
    random_of = torch.Generator(device).manual_seed(p.seed) if device != "meta" else None

    def normal(*shape: int) -> Any:
        return torch.randn(shape, device=device, generator=random_of)

    q = normal(p.b, p.sq, p.h, p.d).to(p.dtype)
    k, v = (normal(p.b, p.sk, p.hk, p.d).to(p.cached) for _ in range(2))
    if device != "meta":
        for z, n in enumerate(p.used):
            k[z, n:] = v[z, n:] = torch.nan
    given = None
    if p.lengths is not None:
        given = torch.tensor(p.lengths, dtype=torch.int32, device=device)
    if p.page is None:
        return q, k, v, given, None, k, v
    most = p.sk // p.page
    order = torch.randperm(p.b * most + 3, device=device, generator=random_of)[: p.b * most]
    caches = [torch.full((p.b * most + 3, p.page, p.hk, p.d), torch.nan, device=device).to(p.cached)
              for _ in range(2)]  # fmt: skip
    table = order.view(p.b, most).int()
    if device != "meta":
        for cache, x in zip(caches, (k, v)):
            cache.view(torch.uint8)[order] = x.view(p.b * most, p.page, p.hk, p.d).view(torch.uint8)
        for z, n in enumerate(p.used):
            table[z, -(-n // p.page) :] = -(2**31) + 17
    return q, k, v, given, table, *caches


def reference(p: Drawn, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """The result and the logarithms of the sums in float32, sequence by sequence."""
    out = torch.zeros((*q.shape[:3], v.shape[3]), dtype=torch.float32, device=q.device)
    logs = torch.full((p.b, p.h, p.sq), -torch.inf, device=q.device)
    options, group = p.options, p.h // p.hk
    scale = (p.scale or p.d**-0.5) * options.get("k_scale", 1.0)
    for z, n in enumerate(p.used):
        if n == 0:
            continue
        keys, values = (x[z, :n].float().repeat_interleave(group, 1) for x in (k, v))
        s = torch.einsum("ihd,jhd->hij", q[z].float(), keys) * scale
        if p.cap:
            s = p.cap * torch.tanh(s / p.cap)
        i = torch.arange(p.sq, device=q.device)[:, None] + n - p.sq
        j = torch.arange(n, device=q.device)[None, :]
        hidden = (j > i) if p.left is None else (j > i) | (j < i - p.left)
        s = s.masked_fill(hidden, -torch.inf)
        logs[z] = torch.logsumexp(s, 2)
        weights = torch.softmax(s, 2).nan_to_num(0.0)
        out[z] = torch.einsum("hij,jhd->ihd", weights, values)
    return out * options.get("v_scale", 1.0), logs


def compare(p: Drawn, given: tuple[Any, ...], out: Any, logs: Any = None) -> None:
    """A result against the reference."""
    want, sums = reference(p, *given[:3])
    bits = 11 if p.dtype == torch.float16 else 8
    torch.testing.assert_close(out.float(), want, atol=8 * 2.0**-bits, rtol=2 * 2.0**-bits)
    if logs is not None:
        torch.testing.assert_close(logs, sums, atol=2e-3, rtol=1e-3)
