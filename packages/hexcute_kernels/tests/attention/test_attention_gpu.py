"""The attention operators on a GPU: random problems against float32, errors, long rows, graphs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hexcute_kernels.attention import attention, attention_with_lse
from hexcute_kernels.attention.configs import WGMMA
from hexcute_kernels.gpus import gpu_of

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
from attention_float32 import exact, reference  # noqa: E402


def problem(draw: random.Random) -> tuple[tuple[Any, Any, Any], dict[str, Any], str | None]:
    """Tensors, options and variant of a random call."""
    d, dv = draw.choice([(64, 64), (128, 128), (128, 128), (40, 24), (192, 128), (256, 256)])
    hk = draw.choice([1, 2, 3])
    h, b = hk * draw.choice([1, 2, 4]), draw.choice([1, 1, 2, 5])
    sizes = [1, 2, 63, 64, 65, 127, 128, 130, 191, 200, 257, 500, 1000, 1031]
    sq, sk = (draw.choice([draw.choice(sizes), draw.randrange(1, 700)]) for _ in range(2))
    dtype = draw.choice([torch.float16, torch.bfloat16])
    q, k, v = (
        torch.randn(b, s, heads, width, device="cuda", dtype=dtype)
        for s, heads, width in ((sq, h, d), (sk, hk, d), (sk, hk, dv))
    )
    options: dict[str, Any] = {"scale": draw.choice([None, 0.3])}
    match draw.randrange(4):
        case 1:
            options["causal"] = True
        case 2:
            options |= {"left": draw.choice([0, 5, 130]), "right": draw.choice([0, 17, 300])}
        case 3:
            options |= {"causal": True, "left": draw.choice([1, 64, 700])}
    if draw.random() < 0.2:
        options["softcap"] = 4.0
    return (q, k, v), options, draw.choice([None, None, "mma"])


def compare(tensors: tuple[Any, Any, Any], options: dict[str, Any], **how: Any) -> None:
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


@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    exact()
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(25):
        tensors, options, variant = problem(draw)
        compare(tensors, options, variant=variant)


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


def test_outliers_cost_no_accuracy() -> None:
    """A thousandth of large values: the error stays near that of rounding exact results."""
    torch.manual_seed(0)
    tensors = []
    for _ in range(3):
        x = torch.randn(1, 1024, 8, 128, device="cuda")
        x += torch.where(torch.rand_like(x) < 1e-3, 10 * torch.randn_like(x), 0.0)
        tensors.append(x.half())
    q, k, v = (x.double().transpose(1, 2) for x in tensors)
    want = (torch.softmax(q @ k.mT * 128**-0.5, 3) @ v).transpose(1, 2)
    got = attention(*tensors).double()
    assert (got - want).square().mean().sqrt() < 2e-4


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
    torch.library.opcheck(torch.ops.hexcute.attention.default, (q, k, v), {"causal": True})
