"""Quantizers, grouped and row-scaled FP8 products on a GPU, against float32 and one another."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hexcute_kernels.fp8 import (
    fp8_blockwise_matmul,
    fp8_grouped_matmul,
    fp8_rowwise_matmul,
    quantize_blockwise,
    quantize_weights,
)
from hexcute_kernels.fp8.configs import GROUPED, QUANTIZE, QUANTIZE_WEIGHTS
from hexcute_kernels.gpus import gpu_of

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def hopper() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    if "wgmma" not in gpu_of(0).features:
        pytest.skip("no wgmma on this GPU")


def spread(s: Any, high: int, m: int, k: int) -> Any:
    """A scale for each number."""
    return s.repeat_interleave(high, -2)[..., :m, :].repeat_interleave(128, -1)[..., :k]


def quantized(x: Any, high: int, power_of_two: bool) -> tuple[Any, Any]:
    """The same in torch."""
    m, k = x.shape[-2:]
    padded = torch.nn.functional.pad(x.float(), (0, -k % 128, 0, -m % high))
    cut = padded.unflatten(-1, (-1, 128)).unflatten(-3, (-1, high))
    s = (cut.abs().amax((-1, -3)) / 448).clamp(min=2.0**-126)
    s = torch.exp2(torch.ceil(torch.log2(s.double()))).float() if power_of_two else s
    return x.float() / spread(s, high, m, k), s


def check_quantized(operator: Any, x: Any, high: int, *how: Any, config: Any = None) -> None:
    numbers, scales = quantized(x, high, how[-1])
    q, s = operator(x, *how, config=config)
    torch.testing.assert_close(s, scales, rtol=2.0**-21, atol=0)
    # Half a step of e4m3, and a little for the inverse's error.
    error, most = (q.float() - numbers).abs(), numbers.abs() * (2.0**-4 + 2.0**-18) + 2.0**-10
    assert (error <= most).all()


@pytest.mark.parametrize("shape", [(1000, 7168), (3, 7), (3, 333, 520), (1, 128)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("power_of_two", [False, True])
def test_quantizers(shape: tuple[int, ...], dtype: str, power_of_two: bool) -> None:
    x = torch.randn(shape, device="cuda").to(getattr(torch, dtype))
    for major in ("m", "k"):
        check_quantized(quantize_blockwise, x, 1, major, power_of_two)
    check_quantized(quantize_weights, x, 128, power_of_two)


def test_every_configuration_of_quantizers() -> None:
    x = torch.randn(3, 333, 528, device="cuda").bfloat16()
    for config in QUANTIZE:
        check_quantized(quantize_blockwise, x, 1, "m", False, config=config)
    for config in QUANTIZE_WEIGHTS:
        check_quantized(quantize_weights, x, 128, False, config=config)


def test_quantized_numbers_that_are_special() -> None:
    x = torch.ones(8, 256, device="cuda")
    x[0], x[1, 5], x[2, 7], x[2, 8] = 0, torch.nan, torch.inf, -torch.inf
    for power_of_two in (False, True):
        q, s = quantize_blockwise(x, power_of_two=power_of_two)
        n = q.float()
        assert (s[0] == 2.0**-126).all() and s[2, 0].isinf() and s.isinf().sum() == 1
        assert n[1, 5].isnan() and n.isnan().sum() == 1
        assert n[2, 7] == 448 and n[2, 8] == -448 and n[2, 9] == 0


def grouped(masked: bool, sizes: list[int], n: int, k: int, room: int = 0) -> tuple[Any, ...]:
    """Arguments, with rows of no expert before and behind the others, or `room` more of each."""
    experts = len(sizes)
    count = torch.tensor(sizes, dtype=torch.int32, device="cuda")
    shape: tuple[int, ...] = (experts, max(sizes) + room, k)
    if not masked:
        shape, total = (sum(sizes) + 8, k), count.cumsum(0) + 3
        count = torch.cat((total.new_full((1,), 3), total)).int()
    a, sa = quantize_blockwise(torch.randn(shape, device="cuda"))
    b, sb = quantize_weights(torch.randn(experts, n, k, device="cuda"))
    return a, b, sa, sb, count


def check(args: tuple[Any, ...], sizes: list[int], masked: bool, name: str, **how: Any) -> None:
    a, b, sa, sb, _ = args
    out = torch.full((*a.shape[:-1], b.shape[1]), -7, device="cuda", dtype=getattr(torch, name))
    fp8_grouped_matmul(*args, out_dtype=name, out=out, **how)
    want, begin = torch.full_like(out, -7, dtype=torch.float32), 3
    (k,) = a.shape[-1:]
    for e, size in enumerate(sizes):
        at = (e, slice(0, size)) if masked else slice(begin, begin + size)
        left = a[at].float() * spread(sa[at], 1, size, k)
        want[at] = left @ (b[e].float() * spread(sb[e], 128, b.shape[1], k)).t()
        begin += size
    untouched = want == -7
    assert (out[untouched] == -7).all()
    error = (out.float() - want).abs().max() / want.abs().max()
    assert error < (2.0**-8 if name == "bfloat16" else 2.0**-10), error


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_groups(seed: int, masked: bool) -> None:
    draw = random.Random(seed)
    for _ in range(10):
        experts = draw.choice([1, 2, 8, 37])
        sizes = [draw.choice([0, 1, 5, 63, 64, 128, 200, 300]) for _ in range(experts)]
        sizes[draw.randrange(experts)] = draw.randrange(1, 400)
        n, k = 16 * draw.randrange(1, 24), 16 * draw.randrange(1, 40)
        args = grouped(masked, sizes, n, k, draw.choice([0, 1, 60]))
        name = draw.choice(["bfloat16", "float16", "float32"])
        check(args, sizes, masked, name, expected=draw.choice([None, 1, 200, 5000]))


@pytest.mark.parametrize("config", list(GROUPED), ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_every_configuration(config: Any, masked: bool) -> None:
    sizes = [300, 0, 77, 512, 1]
    check(grouped(masked, sizes, 400, 1040, 5), sizes, masked, "bfloat16", config=config)


@pytest.mark.parametrize("masked", [False, True])
def test_the_same_bits_and_what_is_no_number(masked: bool) -> None:
    """An expert's NaN and infinities stay its own, and its rows'."""
    sizes = [70, 0, 130, 9]
    args = grouped(masked, sizes, 256, 512)

    def call() -> Any:
        out = torch.zeros((*args[0].shape[:-1], 256), device="cuda", dtype=torch.bfloat16)
        return fp8_grouped_matmul(*args, out=out)

    first = call()
    assert all(torch.equal(call(), first) for _ in range(100))
    _, _, sa, sb, _ = args
    row = (2, 5) if masked else (3 + 70 + 5,)
    sa[(*row, 1)], sb[3, 1, 2] = torch.nan, torch.inf
    other = call()
    changed = (other != first) | other.isnan()
    last = (3, slice(0, 9)) if masked else slice(3 + 200, 3 + 209)
    assert other[row].isnan().all() and not other[last][:, 128:].isfinite().any()
    changed[row], changed[last] = False, False
    assert not changed.any()


def test_a_graph_takes_other_groups() -> None:
    """Nothing of how many rows an expert has is known to the host."""
    args = grouped(False, [100, 20, 300], 256, 512)
    fp8_grouped_matmul.warm_up(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fp8_grouped_matmul(*args)
    args[4].copy_(torch.tensor([0, 0, 400, 428], dtype=torch.int32))
    graph.replay()
    assert torch.equal(out, fp8_grouped_matmul(*args))
    one = fp8_blockwise_matmul(args[0][:400], args[1][1], args[2][:400].contiguous(), args[3][1])
    torch.testing.assert_close(out[:400], one)


@pytest.mark.parametrize("name", ["bfloat16", "float32"])
def test_a_scale_for_each_row(name: str) -> None:
    draw = random.Random(0)
    for _ in range(30):
        m, n, k = (
            draw.choice([1, 63, 128, 500]),
            16 * draw.randrange(1, 40),
            16 * draw.randrange(1, 70),
        )
        a, b = (torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
        sa, sb = (torch.rand(rows, 1, device="cuda") + 0.5 for rows in (m, n))
        want = (a.float() * sa) @ (b.float() * sb).t()
        c = fp8_rowwise_matmul(a, b, sa, sb, name)
        assert (c - want).abs().max() / want.abs().max() < 2.0**-8
        sa[0] = torch.nan
        c = fp8_rowwise_matmul(a, b, sa, sb, name)
        assert c[0].isnan().all() and not c[1:].isnan().any()
        assert all(torch.equal(fp8_rowwise_matmul(a, b, sa, sb, name)[1:], c[1:]) for _ in range(4))
