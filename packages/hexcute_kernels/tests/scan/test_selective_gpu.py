"""The selective scan on a GPU: random problems against the recurrence in float32."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hexcute_kernels.scan import selective_scan
from hexcute_kernels.scan.configs import SCAN

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def reference(
    u: Any, delta: Any, a: Any, b: Any, c: Any, skip: Any, z: Any, bias: Any, soft: bool
) -> Any:
    dt = delta.float() if bias is None else delta.float() + bias[:, None]
    dt = torch.nn.functional.softplus(dt) if soft else dt
    b, c = (x[:, None] if x.dim() == 3 else x for x in (b, c))
    b, c = (x.float().repeat_interleave(u.shape[1] // x.shape[1], 1) for x in (b, c))
    h, columns = torch.zeros(*u.shape[:2], a.shape[1], device="cuda"), []
    for t in range(u.shape[2]):
        decay = torch.exp(dt[:, :, t, None] * a)
        h = h * decay + (dt[:, :, t] * u[:, :, t].float())[:, :, None] * b[:, :, :, t]
        columns.append((h * c[:, :, :, t]).sum(2))
    y = torch.stack(columns, 2)
    y = y if skip is None else y + skip[:, None] * u.float()
    return y if z is None else y * torch.nn.functional.silu(z.float())


def compare(draw: random.Random, b: int, d: int, length: int, states: int, **how: Any) -> None:
    dtype = draw.choice([torch.float16, torch.bfloat16, torch.float32])

    def normal(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=dtype)

    u, delta, z = normal(b, d, length), normal(b, d, length) - 1, normal(b, d, length)
    shape = draw.choice([(b, states, length), (b, 1, states, length)])
    if d % 64 == 0:
        shape = draw.choice([shape, (b, 2, states, length)])
    bs, cs = normal(*shape), normal(*shape)
    a = -torch.rand(d, states, device="cuda") * 4 - 0.5
    skip, bias = (draw.choice([None, torch.randn(d, device="cuda")]) for _ in range(2))
    z = draw.choice([None, z])
    args = (u, delta, a, bs, cs, skip, z, bias, True)
    out = torch.full_like(u, torch.nan)
    selective_scan(*args, out=out, **how)
    want = reference(*args)
    bits = {torch.float16: 9, torch.bfloat16: 6, torch.float32: 15}[dtype]
    assert (out.float() - want).abs().max() / want.abs().max() < 2.0**-bits


@pytest.mark.parametrize("seed", range(8))
def test_random_problems(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(15):
        d = draw.choice([1, 31, 32, 64, 100, 128, 192, 500])
        length = draw.choice([1, 2, 15, 16, 17, 64, 100, 257])
        compare(draw, draw.choice([1, 2, 5]), d, length, draw.choice([4, 8, 16, 32]))


@pytest.mark.parametrize("config", list(SCAN), ids=str)
def test_every_configuration(config: Any) -> None:
    compare(random.Random(0), 2, 300, 200, 16, config=config)
