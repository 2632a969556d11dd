"""The blockwise FP8 operator on a GPU: random shapes and scales against float32."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hexcute_kernels.fp8 import fp8_blockwise_matmul
from hexcute_kernels.fp8.configs import BLOCKWISE, THIN_BLOCKWISE
from hexcute_kernels.gpus import gpu_of

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def hopper() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    if "wgmma" not in gpu_of(0).features:
        pytest.skip("no wgmma on this GPU")


def operands(m: int, n: int, k: int) -> tuple[Any, Any, Any, Any]:
    a, b = (torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
    groups, columns = -(-k // 128), -(-n // 128)
    sa = torch.rand(m, groups, device="cuda") + 0.5
    return a, b, sa, torch.rand(columns, groups, device="cuda") + 0.5


def reference(a: Any, b: Any, sa: Any, sb: Any) -> Any:
    (_, k), n = a.shape, b.shape[0]
    wide = sa.repeat_interleave(128, 1)[:, :k]
    square = sb.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    return (a.float() * wide) @ (b.float() * square).t()


def compare(args: tuple[Any, Any, Any, Any], out: Any = None, **how: Any) -> None:
    out = out or random.choice([torch.bfloat16, torch.float16, torch.float32])
    poisoned = torch.full((args[0].shape[0], args[1].shape[0]), torch.nan, device="cuda", dtype=out)
    name = str(out).removeprefix("torch.")
    fp8_blockwise_matmul(*args, out_dtype=name, out=poisoned, **how)
    want = reference(*args)
    error = (poisoned.float() - want).abs().max() / want.abs().max().clamp(min=1e-6)
    # The Tensor Core's sums of FP8 keep 14 bits.
    assert error < (2.0**-8 if out == torch.bfloat16 else 2.0**-10), error


@pytest.mark.parametrize("seed", range(10))
def test_random_shapes_and_scales(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(50):
        m = draw.choice([1, 3, 16, 63, 64, 100, 128, 129, 500])
        n, k = 16 * draw.randrange(1, 40), 16 * draw.randrange(1, 70)
        a, b, sa, sb = operands(m, n, k)
        compare((a, b, sa.t().contiguous().t() if draw.random() < 0.7 else sa, sb))


@pytest.mark.parametrize("config", list(BLOCKWISE), ids=str)
def test_every_configuration(config: Any) -> None:
    compare(operands(500, 400, 1040), torch.bfloat16, config=config)


@pytest.mark.parametrize("config", list(THIN_BLOCKWISE), ids=str)
@pytest.mark.parametrize("m", [1, 40, 64])
def test_every_configuration_for_few_rows(config: Any, m: int) -> None:
    compare(operands(m, 400, 1040), torch.bfloat16, config=config)
    compare(operands(m, 144, 272), torch.float32, config=config)


@pytest.mark.parametrize("m", [40, 200])
def test_the_same_bits_and_what_is_no_number(m: int) -> None:
    a, b, sa, sb = operands(m, 256, 512)
    first = fp8_blockwise_matmul(a, b, sa, sb)
    assert all(torch.equal(fp8_blockwise_matmul(a, b, sa, sb), first) for _ in range(100))
    sa[3, 1] = torch.nan
    sb[1, 2] = torch.inf
    c = fp8_blockwise_matmul(a, b, sa, sb)
    assert c[3].isnan().all() and not c[4:, :128].isnan().any()
    assert not c[:, 128:].isfinite().any()


def test_nothing_to_multiply() -> None:
    a, b, sa, sb = operands(16, 32, 128)
    assert fp8_blockwise_matmul(a[:0], b, sa[:0], sb).shape == (0, 32)
