"""The operators as torch sees them, on a GPU: opcheck, one graph when compiled, CUDA graphs, and
the time of a call."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import hexcute_kernels
from hexcute_kernels.gemm import bmm, grouped_matmul, linear, matmul
from hexcute_kernels.gemm.candidates import MMA, THIN, WGMMA
from hexcute_kernels.gemm.grouped_operator import GROUPED

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
ACTIVATIONS = [None, "relu", "gelu", "silu"]


def whole(*shape: int, dtype: Any = torch.float16) -> Any:
    """Small whole numbers, whose products and sums every type here holds exactly."""
    return torch.randint(-2, 3, shape, device="cuda").to(dtype)


def turned(tensor: Any) -> Any:
    """The same matrix, stored the other way around."""
    return tensor.mT.contiguous().mT


def dense(x: Any, w: Any, bias: Any = None, activation: str | None = None) -> Any:
    """The layer in float32."""
    made = torch.nn.functional.linear(x.float(), w.float(), None if bias is None else bias.float())
    return getattr(torch.nn.functional, activation)(made) if activation else made


@pytest.mark.parametrize("shape", [(3, 136, 72, 24), (2, 33, 25, 65), (1, 300, 264, 512)])
@pytest.mark.parametrize("orders", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("variant", [None, "mma"])
def test_bmm(shape: tuple[int, ...], orders: tuple[bool, bool], variant: str | None) -> None:
    batch, m, n, k = shape
    operands = whole(batch, m, k), whole(batch, n, k)
    a, b = (turned(t) if x else t for t, x in zip(operands, orders))
    assert torch.equal(bmm(a, b, variant=variant).float(), a.float() @ b.float().mT)


@pytest.mark.parametrize("lead", [(), (1,), (17,), (3, 5), (300,)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_linear(lead: tuple[int, ...], activation: str | None, biased: bool, dtype: Any) -> None:
    x, w = whole(*lead, 128, dtype=dtype), whole(72, 128, dtype=dtype)
    bias = whole(72, dtype=dtype) if biased else None
    want = dense(x, w, bias, activation)
    got = linear(x, w, bias, activation)
    assert got.shape == (*lead, 72) and got.dtype == dtype
    torch.testing.assert_close(got.float(), want.to(dtype).float(), rtol=2**-7, atol=2**-12)


@pytest.mark.parametrize("config", [*MMA, *(WGMMA if HOPPER else ())], ids=str)
def test_every_configuration_with_an_epilogue(config: Any) -> None:
    for k in (160, 1088):
        x, w, bias = whole(300, k), whole(200, k), whole(200)
        got = linear(x, w, bias, "relu", config=config)
        assert torch.equal(got.float(), dense(x, w, bias, "relu"))


@pytest.mark.skipif(not HOPPER, reason="the kernel for thin results is Hopper's")
@pytest.mark.parametrize("config", list(THIN), ids=str)
def test_every_thin_configuration_with_an_epilogue(config: Any) -> None:
    for x, w in ((whole(40, 160), whole(200, 160)), (whole(200, 160), whole(40, 160))):
        bias = whole(w.shape[0])
        got = linear(x, w, bias, "relu", config=config)
        assert torch.equal(got.float(), dense(x, w, bias, "relu"))


def test_no_rows_and_no_matrices() -> None:
    assert linear(whole(0, 64), whole(8, 64)).shape == (0, 8)
    assert bmm(whole(0, 16, 64), whole(0, 8, 64)).shape == (0, 16, 8)
    bias = whole(8)
    assert torch.equal(linear(whole(16, 0), whole(8, 0), bias), bias.expand(16, 8))


def ends(*rows: int) -> Any:
    """Where experts' rows begin, and the last's end."""
    return torch.tensor(rows, dtype=torch.int32, device="cuda")


@pytest.mark.skipif(not HOPPER, reason="the kernel is Hopper's")
@pytest.mark.parametrize("config", [None, *GROUPED], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_grouped_products(config: Any, dtype: Any) -> None:
    """Rows of many lengths, none too; those of no expert stay as they were."""
    rng = random.Random(0)
    rows = [3]
    for _ in range(40):
        rows.append(rows[-1] + rng.choice([0, 1, 7, 64, 128, 130, 500]))
    a, b = whole(rows[-1] + 9, 200, dtype=dtype), whole(40, 264, 200, dtype=dtype)
    out = torch.full((len(a), 264), math.nan, device="cuda", dtype=dtype)
    grouped_matmul(a, b, ends(*rows), out=out, config=config)
    for expert, (first, last) in enumerate(pairwise(rows)):
        want = a[first:last].float() @ b[expert].float().t()
        assert torch.equal(out[first:last], want.to(dtype))
    assert out[:3].isnan().all() and out[rows[-1] :].isnan().all()


def calls() -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Operators with arguments, matrices in all orders among them."""
    a, b, bias = whole(64, 128), whole(72, 128), whole(72)
    made: dict[str, tuple[str, tuple[Any, ...]]] = {
        "matmul": ("matmul", (a, b)),
        "matmul turned": ("matmul", (turned(a), turned(b))),
        "bmm": ("bmm", (whole(3, 64, 128), turned(whole(3, 72, 128)))),
        "grouped": ("grouped_matmul", (a, whole(3, 72, 128), ends(0, 5, 5, 64))),
        "linear": ("linear", (a, b, bias, "gelu")),
        "linear of rows": ("linear", (whole(2, 3, 128), b)),
        "linear turned": ("linear", (turned(a), b, None, "relu")),
    }
    return made


NAMES = ["matmul", "matmul turned", "bmm", "grouped", "linear", "linear of rows", "linear turned"]


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(name: str) -> None:
    hexcute_kernels.register()
    called, args = calls()[name]
    packet = getattr(torch.ops.hexcute, called)
    torch.library.opcheck(packet.default, args)
    out = torch.empty_like(packet(*args))
    torch.library.opcheck(packet.out, args, {"out": out})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_with_torch_in_one_graph(name: str, dynamic: bool) -> None:
    called, args = calls()[name]
    operator = hexcute_kernels.operator_named(called)

    def step(*given: Any) -> Any:
        return operator(*given) * 2 + 1

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, dynamic=dynamic)
    assert torch.equal(compiled(*args), step(*args))


@pytest.mark.parametrize("name", NAMES)
def test_captured_in_a_cuda_graph(name: str) -> None:
    called, args = calls()[name]
    operator = hexcute_kernels.operator_named(called)
    want = operator(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = operator(*args)
    got.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(got, want)


def test_calls_on_many_streams_do_not_mix() -> None:
    pairs = [(whole(64, 128), whole(72, 128)) for _ in range(8)]
    streams = [torch.cuda.Stream() for _ in pairs]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    got = []
    for _ in range(20):
        for (a, b), stream in zip(pairs, streams):
            with torch.cuda.stream(stream):
                got.append((matmul(a, b), a, b))
    torch.cuda.synchronize()
    assert all(torch.equal(c.float(), a.float() @ b.float().t()) for c, a, b in got)


def host_times(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds of each call on the host: the median of batches that do not fill the queue, in
    turns, so that whatever else the machine does meets all of them."""
    batches: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(61):
        for name, call in calls.items():
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(50):
                call()
            batches[name].append((time.perf_counter() - started) / 50)
    return {name: sorted(taken)[len(taken) // 2] * 1e6 for name, taken in batches.items()}


def test_a_call_takes_no_more_host_time_than_torchs() -> None:
    a, b = whole(64, 4096), whole(4096, 4096)
    t, out = b.t(), torch.empty(64, 4096, device="cuda", dtype=torch.float16)
    measured = host_times(
        {
            "torch.mm": lambda: torch.mm(a, t),
            "matmul": lambda: matmul(a, b),
            "torch.mm out": lambda: torch.mm(a, t, out=out),
            "matmul out": lambda: matmul(a, b, out=out),
        }
    )
    print(measured)
    assert measured["matmul"] <= measured["torch.mm"], measured
    assert measured["matmul out"] <= measured["torch.mm out"], measured
