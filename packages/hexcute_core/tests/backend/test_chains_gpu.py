"""Attention as a chain of two gemms in roles, on a Hopper GPU against torch's float32."""

from __future__ import annotations

import math
from typing import Any

import chain_kernels as ck
import pytest

from hexcute_core.runtime import device_target

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

SHAPES = [(128, 128), (128, 1024), (1024, 1024), (1000, 520), (129, 130), (77, 1023), (4096, 999)]


@pytest.fixture(autouse=True)
def hopper() -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")


def attend(q: Any, k: Any, v: Any, scale: float) -> Any:
    return torch.softmax(q.float() @ k.float().t() * scale, dim=1) @ v.float()


def run(rows: int, n: int, d: int, spread: float = 1.0, **constants: int) -> Any:
    generator = torch.Generator(device="cuda").manual_seed(rows + n + d)
    q, k, v = (torch.randn(x, d, device="cuda", generator=generator).half() for x in (rows, n, n))
    scale = spread / math.sqrt(d)
    o = torch.full((rows, d), math.nan, device="cuda", dtype=torch.float16)
    ck.attention(q, k, v, o, scale * math.log2(math.e), D=d, **constants)
    error = (o.float() - attend(q, k, v, scale)).abs().max()
    assert error < 2.0**-10 * v.abs().max()
    return o


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize(("rows", "n"), SHAPES)
def test_attention(rows: int, n: int, d: int) -> None:
    run(rows, n, d)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("keys", [128, 64])
def test_tiles_of_keys(d: int, keys: int) -> None:
    run(512, 700, d, KEYS=keys, STAGES=3 if d == 64 else 2)


def test_scores_that_would_overflow_without_the_maximum() -> None:
    run(256, 512, 64, spread=40.0)


def test_the_same_bits_every_time() -> None:
    first = run(1000, 777, 128)
    for _ in range(20):
        assert torch.equal(first, run(1000, 777, 128))
