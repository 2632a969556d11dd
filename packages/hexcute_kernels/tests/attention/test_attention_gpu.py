"""The attention operators on a GPU: random problems against float32, errors, long rows, graphs."""

from __future__ import annotations

import random
from typing import Any

import pytest

import hexcute_kernels
from hexcute_kernels.attention import attention, attention_with_lse
from hexcute_kernels.attention.configs import WGMMA
from hexcute_kernels.gpus import gpu_of

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
from attention_float32 import exact, reference  # noqa: E402

WIDTHS = ((64, 64), (128, 128), (128, 128), (40, 24), (192, 128), (256, 256))
KINDS = 24
"""Of problems: each is a few kernels, which any number of its problems share."""


def drawn(draw: random.Random, kind: int) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """Sizes and type, options and variant of a random call of a kind."""
    d, dv = WIDTHS[kind % 6]
    hk = draw.choice([1, 2, 3])
    h, b = hk * draw.choice([1, 2, 4]), draw.choice([1, 1, 2, 5])
    lengths = [1, 2, 63, 64, 65, 127, 128, 130, 191, 200, 257, 500, 1000, 1031]
    sq, sk = (draw.choice([draw.choice(lengths), draw.randrange(1, 700)]) for _ in range(2))
    dtype = (torch.float16, torch.bfloat16)[kind // 6 % 2]
    options: dict[str, Any] = {"scale": draw.choice([None, 0.3])}
    match (kind + kind // 6) % 4:
        case 1:
            options["causal"] = True
        case 2:
            options |= {"left": draw.choice([0, 5, 130]), "right": draw.choice([0, 17, 300])}
        case 3:
            options |= {"causal": True, "left": draw.choice([1, 64, 700])}
    if kind % 5 == 0:
        options["softcap"] = 4.0
    sizes = {"b": b, "sq": sq, "sk": sk, "h": h, "hk": hk, "d": d, "dv": dv, "dtype": dtype}
    return sizes, options, "mma" if kind % 7 == 3 else None


def tensors_of(
    b: int, sq: int, sk: int, h: int, hk: int, d: int, dv: int, dtype: Any, device: str = "cuda"
) -> tuple[Any, ...]:
    """q, k and v of random numbers."""
    return tuple(
        torch.randn(b, s, heads, width, device=device, dtype=dtype)
        for s, heads, width in ((sq, h, d), (sk, hk, d), (sk, hk, dv))
    )


def compare(tensors: tuple[Any, ...], options: dict[str, Any], **how: Any) -> None:
    """One call against the reference, its outputs poisoned before."""
    q, k, v = tensors
    o = torch.full((*q.shape[:3], v.shape[3]), torch.nan, device="cuda", dtype=q.dtype)
    lse = torch.full((q.shape[0], q.shape[2], q.shape[1]), torch.nan, device="cuda")
    attention_with_lse(q, k, v, **options, out=(o, lse), **how)
    scale = options.get("scale") or q.shape[3] ** -0.5
    right = 0 if options.get("causal") else options.get("right")
    want, logs = reference(q, k, v, scale, right, options.get("left"), options.get("softcap", 0.0))
    bits = 11 if q.dtype == torch.float16 else 8
    torch.testing.assert_close(o.float(), want, atol=6 * 2.0**-bits, rtol=2 * 2.0**-bits)
    torch.testing.assert_close(lse, logs, atol=2e-3, rtol=1e-3)
    torch.testing.assert_close(attention(q, k, v, **options, **how), o, atol=0, rtol=0)


@pytest.mark.parametrize("seed", range(KINDS))
def test_random_problems(seed: int) -> None:
    exact()
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(12 if seed < KINDS else 25):
        sizes, options, variant = drawn(draw, seed % KINDS)
        compare(tensors_of(**sizes), options, variant=variant)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(1000, 1120))
def test_three_thousand_random_problems(seed: int) -> None:
    test_random_problems(seed)


@pytest.mark.parametrize("config", list(WGMMA), ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_every_configuration(config: Any, causal: bool) -> None:
    exact()
    if "wgmma" not in gpu_of(0).features:
        pytest.skip("no wgmma on this GPU")
    q, k, v = (torch.randn(1, 777, h, 64, device="cuda").half() for h in (4, 2, 2))
    compare((q, k, v), {"causal": causal}, config=config)


def test_repeated_calls_give_the_same_bits() -> None:
    q, k, v = (torch.randn(2, 1000, h, 128, device="cuda").half() for h in (4, 2, 2))
    first = attention(q, k, v, causal=True)
    assert all(torch.equal(attention(q, k, v, causal=True), first) for _ in range(100))


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_outliers_cost_no_accuracy(d: int, dtype: Any) -> None:
    """A hundredth of large values, so that single keys outweigh all others, also late ones: the
    largest error is at most 1.1 times that of weights over exact maxima, before it is rounded."""
    torch.manual_seed(0)
    tensors = []
    for _ in range(3):
        x = torch.randn(1, 2048, 8, d, device="cuda")
        x += torch.where(torch.rand_like(x) < 1e-2, 10 * torch.randn_like(x), 0.0)
        tensors.append(x.to(dtype))
    q, k, v = (x.double().transpose(1, 2) for x in tensors)
    scores = q @ k.mT * d**-0.5
    want = (torch.softmax(scores, 3) @ v).transpose(1, 2)
    weights = torch.exp(scores - scores.amax(3, keepdim=True))
    rounded = weights.to(dtype).double() @ v / weights.sum(3, keepdim=True)
    best = (rounded.transpose(1, 2).to(dtype).double() - want).abs().max()
    assert (attention(*tensors).double() - want).abs().max() <= 1.1 * best


def test_nothing_to_see_and_nothing_to_do() -> None:
    q = torch.randn(1, 5, 2, 64, device="cuda").half()
    empty = q[:, :0]
    o, lse = attention_with_lse(q, empty, empty)
    assert (o == 0).all() and torch.isneginf(lse).all()
    assert attention(empty, q, q).shape == (1, 0, 2, 64)


def test_a_graph_replays_it() -> None:
    q, k, v = (torch.randn(1, 300, 2, 64, device="cuda").half() for _ in range(3))
    want = attention(q, k, v, causal=True)
    graph, out = torch.cuda.CUDAGraph(), torch.empty_like(q)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        attention(q, k, v, causal=True, out=out)
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, want)


def test_torch_compiles_and_checks_it() -> None:
    q, k, v = (torch.randn(1, 70, 2, 64, device="cuda").half() for _ in range(3))

    @torch.compile(fullgraph=True)
    def step(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, True) * 2

    torch.testing.assert_close(step(q, k, v), attention(q, k, v, causal=True) * 2)
    hexcute_kernels.register()
    torch.library.opcheck(torch.ops.hexcute.attention.default, (q, k, v), {"causal": True})
