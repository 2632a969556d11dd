"""Mamba-2's scan by products on a GPU, against the recurrence in float32."""

from __future__ import annotations

import random
from typing import Any

import pytest

import hexcute_kernels
from hexcute_kernels.scan import ssd_scan, ssd_scan_with_state
from hexcute_kernels.scan.configs import CHUNKED

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def reference(
    x: Any, dt: Any, a: Any, b: Any, c: Any, skip: Any, z: Any, bias: Any, soft: bool, start: Any
) -> tuple[Any, Any]:
    dt = dt.float() if bias is None else dt.float() + bias
    dt = torch.nn.functional.softplus(dt) if soft else dt
    heads = x.shape[2]
    b, c = (t.float().repeat_interleave(heads // t.shape[2], 2) for t in (b, c))
    h = torch.zeros(x.shape[0], *x.shape[2:], b.shape[3], device="cuda")
    h, rows = h if start is None else start, []
    for t in range(x.shape[1]):
        grown = (dt[:, t, :, None] * x[:, t].float())[..., None] * b[:, t, :, None]
        h = h * torch.exp(dt[:, t] * a)[..., None, None] + grown
        rows.append((h * c[:, t, :, None]).sum(3))
    y = torch.stack(rows, 1)
    y = y if skip is None else y + skip[:, None] * x.float()
    return y if z is None else y * torch.nn.functional.silu(z.float()), h


BITS = {torch.float16: 8, torch.bfloat16: 5}


def close(got: Any, want: Any, bits: int) -> None:
    assert (got.float() - want).abs().max() / want.abs().max() < 2.0**-bits


def compare(
    draw: random.Random, b: int, length: int, heads: int, width: int, states: int, **how: Any
) -> None:
    """A random problem of these sizes against the reference."""
    dtype = draw.choice(list(BITS))
    groups = draw.choice([g for g in (1, 2, heads) if heads % g == 0])

    def normal(*shape: int, dtype: Any = dtype) -> Any:
        return torch.randn(shape, device="cuda", dtype=dtype)

    def perhaps(t: Any) -> Any:
        return draw.choice([None, t])

    x, z = normal(b, length, heads, width), normal(b, length, heads, width)
    dt = normal(b, length, heads, dtype=draw.choice([dtype, torch.float32]))
    bs, cs = normal(b, length, groups, states), normal(b, length, groups, states)
    a = -torch.rand(heads, device="cuda") * 4 - 0.05
    skip, bias = (perhaps(normal(heads, dtype=torch.float32)) for _ in range(2))
    start = perhaps(normal(b, heads, width, states, dtype=torch.float32))
    args = (x, dt, a, bs, cs, skip, perhaps(z), bias, True, start)
    want, end = reference(*args)
    out = torch.empty_like(x).fill_(torch.nan)
    ssd_scan(*args, out=out, **how)
    close(out, want, BITS[dtype])
    out, state = ssd_scan_with_state(*args, **how)
    close(out, want, BITS[dtype])
    close(state, end, BITS[dtype])


@pytest.mark.parametrize("seed", range(6))
def test_random_problems(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(4):
        length, heads = draw.choice([1, 31, 64, 65, 200, 513]), draw.choice([1, 2, 6, 24])
        width, states = draw.choice([16, 48, 64, 80, 128]), draw.choice([16, 48, 64, 128, 256])
        compare(draw, draw.choice([1, 3]), length, heads, width, states)


@pytest.mark.parametrize("config", [*CHUNKED], ids=str)
def test_every_configuration(config: Any) -> None:
    for width, states in ((32, 16), (64, 128)):
        compare(random.Random(0), 2, 200, 4, width, states, config=config)


def test_opcheck() -> None:
    hexcute_kernels.register()
    x, bs = torch.randn(2, 40, 4, 32).cuda().half(), torch.randn(2, 40, 1, 64).cuda().half()
    dt, a = torch.rand(2, 40, 4).cuda(), -torch.rand(4, device="cuda")
    for name in ("ssd_scan", "ssd_scan_with_state"):
        torch.library.opcheck(getattr(torch.ops.hexcute, name).default, (x, dt, a, bs, bs))
