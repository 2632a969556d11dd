"""The row operators on a GPU: random shapes, types and alignments against float64."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hexcute_kernels.norms import layer_norm, rms_norm, softmax

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
BITS = {torch.float16: 9, torch.bfloat16: 6, torch.float32: 16}


def reference(name: str, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    x = x.double()
    if name == "softmax":
        return x.softmax(-1)
    x = x - x.mean(-1, keepdim=True) if name == "layer_norm" else x
    y = x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
    y = y if weight is None else y * weight.double()
    return y if bias is None else y + bias.double()


def drawn(dtype: Any, *shape: int) -> Any:
    """Numbers that begin at any multiple of an element's bytes."""
    count = 1
    for extent in shape:
        count *= extent
    start = random.choice([0, 0, 1, 5])
    flat = torch.randn(count + start, device="cuda").mul_(3).add_(1).to(dtype)
    return flat[start:].view(shape)


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_rows_of_any_size(name: str, dtype: Any, seed: int) -> None:
    random.seed(seed)
    columns = random.choice([1, 7, 64, 100, 768, 1000, 1024, 4096, 5120, 8192, 9999, 16384, 40001])
    shape = (random.randint(1, 40), random.randint(1, 8), columns)
    x, given = drawn(dtype, *shape), random.choice([dtype, torch.float32])
    weight, bias = (random.choice([None, drawn(given, columns)]) for _ in range(2))
    if name == "softmax":
        got = softmax(x)
    elif name == "rms_norm":
        got = rms_norm(x, weight, eps=1e-3)
    else:
        got = layer_norm(x, weight, bias, eps=1e-3)
    want = reference(name, x, weight, bias if name == "layer_norm" else None, 1e-3)
    assert got.shape == x.shape and got.dtype == dtype
    scale = want.abs() + want.square().mean().sqrt()
    # One column's layer_norm is 0, exactly.
    assert ((got.double() - want).abs() <= scale * 2.0 ** -BITS[dtype]).all()
