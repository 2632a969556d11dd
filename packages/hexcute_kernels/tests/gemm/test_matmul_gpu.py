"""The GEMM operator on a GPU: results, specialisation, streams, graphs, errors, launch time."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from pathlib import Path

import pytest

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm import matmul
from hexcute_kernels.gemm.candidates import MMA, THIN, WGMMA
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.simple import simple_gemm

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def exact(m: int, n: int, k: int, dtype=None):
    """Integer operands whose product every type holds exactly, and the product."""
    dtype = dtype or torch.float16
    a = torch.randint(-2, 3, (m, k), device="cuda").to(dtype)
    b = torch.randint(-2, 3, (n, k), device="cuda").to(dtype)
    return a, b, (a.float() @ b.float().t())


HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


@pytest.mark.parametrize("config", [*MMA, *(WGMMA if HOPPER else ())], ids=str)
def test_every_configuration(config) -> None:
    a, b, want = exact(300, 200, 160)
    out = torch.full((300, 200), math.nan, device="cuda", dtype=torch.float16)
    matmul(a, b, out=out, config=config)
    assert torch.equal(out.float(), want)


@pytest.mark.skipif(not HOPPER, reason="the kernel for thin results is Hopper's")
@pytest.mark.parametrize("config", list(THIN), ids=str)
@pytest.mark.parametrize("shape", [(5, 300), (300, 24), (64, 200)])
def test_every_configuration_for_thin_results(config, shape) -> None:
    for k in (160, 2048, 8):
        a, b, want = exact(*shape, k)
        out = torch.full(shape, math.nan, device="cuda", dtype=torch.float16)
        matmul(a, b, out=out, config=config)
        assert torch.equal(out.float(), want)


def test_products_of_products() -> None:
    """Launches that may come early read what the ones ahead wrote: each turns the columns."""
    for rows in (1, 16, 32, 64, 100):
        x, _, _ = exact(rows, 8, 4096)
        start = x.clone()
        turn = torch.eye(4096, device="cuda", dtype=torch.float16).roll(1, 0)
        for _ in range(64):
            x = matmul(x, turn)
        assert torch.equal(x, start.roll(64, 1)), rows


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("variant", [None, "mma"])
@pytest.mark.parametrize("shape", [(136, 72, 24), (33, 25, 65)])
def test_operand_orders(dtype: str, turned: tuple[bool, bool], variant, shape) -> None:
    a, b, want = exact(*shape, getattr(torch, dtype))
    a, b = (t.t().contiguous().t() if x else t for t, x in zip((a, b), turned))
    assert torch.equal(matmul(a, b, variant=variant).float(), want)


def test_divisible_k_moves_16_bytes_and_compiles_once_a_class() -> None:
    kernel = pipelined_gemm(hx.bf16)
    before = kernel.compilations
    for k in (64, 72, 80, 65, 67):
        a, b, want = exact(64, 64, k, torch.bfloat16)
        out = torch.empty((64, 64), device="cuda", dtype=torch.bfloat16)
        kernel(a, b, out)
        assert torch.equal(out.float(), want)
    assert kernel.compilations - before == 2


def test_unaligned_pointers_are_right() -> None:
    a, b, want = exact(64, 64, 64)
    shifted = torch.empty(64 * 64 + 1, device="cuda", dtype=torch.float16)[1:].view(64, 64)
    shifted.copy_(a)
    out = torch.empty((64, 64), device="cuda", dtype=torch.float16)
    simple_gemm(shifted, b, out)
    assert torch.equal(out.float(), want)


def test_captured_in_a_graph_on_another_stream() -> None:
    a, b, want = exact(256, 256, 128)
    out = torch.zeros((256, 256), device="cuda", dtype=torch.float16)
    matmul(a, b, out=out)
    out.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        matmul(a, b, out=out)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out.float(), want)


def test_wrong_tensors_are_named() -> None:
    a, b, _ = exact(64, 64, 64)
    out = torch.empty((64, 63), device="cuda", dtype=torch.float16)
    with pytest.raises(LaunchError, match="n"):
        simple_gemm(a, b, out)
    with pytest.raises(LaunchError, match="float16"):
        matmul(a.float(), b.float())


def test_launch_takes_less_host_time_than_triton() -> None:
    triton_kernel = pytest.importorskip("triton") and _triton_copy()
    a, b, _ = exact(64, 64, 64)
    out = torch.empty((64, 64), device="cuda", dtype=torch.float16)

    def ours() -> None:
        simple_gemm(a, b, out)

    def theirs() -> None:
        triton_kernel[(1,)](a, b, out, 64, 64, 64, BLOCK=64)

    # Whatever else the machine does makes a batch longer, never shorter: the least of each counts.
    batches = [(_batch(ours), _batch(theirs)) for _ in range(60)]
    assert min(our for our, _ in batches) < min(their for _, their in batches)


def _batch(call) -> float:
    """Seconds of the host for 50 launches, which do not fill the queue."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(50):
        call()
    return time.perf_counter() - started


def _triton_copy():
    """A Triton kernel with the GEMM's arguments, doing next to nothing."""
    path = Path(__file__).with_name("triton_launch.py")
    spec = importlib.util.spec_from_file_location("triton_launch", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["triton_launch"] = module
    spec.loader.exec_module(module)
    return module.nothing
