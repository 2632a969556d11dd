"""Launches on a real GPU: right numbers, torch's stream, CUDA graphs, devices, and host time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hexcute_core.errors import LaunchError
from hexcute_core.runtime import (
    KernelImage,
    LoadedKernel,
    ScalarParam,
    Signature,
    SymbolParam,
    TensorParam,
    device_count,
    device_target,
    make_binder,
)
from hexcute_core.toolchain import compile_cubin

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

SHARED_BYTES = 96 * 1024
SOURCE = """
extern "C" __global__ void __launch_bounds__(128) scaled_row_sums(
    const float* __restrict__ a, float* __restrict__ sums, float scale, int m, long long k) {
  extern __shared__ float staged[];
  const int row = blockIdx.x;
  float* last = staged + 24 * 1024 - 128;  // the end of 96 KB
  float sum = 0.0f;
  for (long long i = threadIdx.x; i < k; i += 128) sum += a[row * k + i];
  last[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0 && row < m) {
    for (int i = 1; i < 128; ++i) sum += last[i];
    sums[row] = sum * scale;
  }
}
extern "C" __global__ void add_one(float* x, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
"""
SUMS = Signature(
    "scaled_row_sums",
    (TensorParam("a", "f32", ("m", "k")), TensorParam("sums", "f32", ("m",)),
     ScalarParam("scale", "f32")),
    (SymbolParam("m"), SymbolParam("k", "i64")),
)  # fmt: skip
ADD_ONE = Signature("add_one", (TensorParam("x", "f32", ("n",)),), (SymbolParam("n"),))


@pytest.fixture(scope="module")
def cubin() -> bytes:
    return compile_cubin(SOURCE, device_target()).cubin


@pytest.fixture
def sums(cubin: bytes) -> LoadedKernel:
    target = device_target()
    return LoadedKernel(
        KernelImage("scaled_row_sums", cubin, target, SHARED_BYTES, (128, 1, 1), SUMS)
    )


@pytest.fixture
def add_one(cubin: bytes) -> LoadedKernel:
    return LoadedKernel(KernelImage("add_one", cubin, device_target(), 0, (256, 1, 1), ADD_ONE))


@pytest.mark.parametrize(("m", "k"), [(1, 1), (17, 333), (64, 4096)])
def test_numbers_are_right(sums: LoadedKernel, m: int, k: int) -> None:
    a = torch.randn(m, k, device="cuda")
    out = torch.full((m,), float("nan"), device="cuda")
    sums.launch((m, 1, 1), a, out, 0.5)
    torch.testing.assert_close(out, a.double().sum(1).mul(0.5).float(), rtol=1e-4, atol=1e-3)


def test_launches_go_to_torchs_current_stream(add_one: LoadedKernel) -> None:
    """On a stream that is busy sleeping, the launch must wait behind the sleep."""
    x = torch.zeros(1000, device="cuda")
    add_one.launch((4, 1, 1), x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.mul_(10)
        add_one.launch((4, 1, 1), x)
    assert not stream.query()
    stream.synchronize()
    assert torch.equal(x, torch.full_like(x, 11))


def test_a_cuda_graph_captures_and_replays(add_one: LoadedKernel) -> None:
    """The first launch, and so the loading, happens inside the capture."""
    x = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add_one.launch((4, 1, 1), x)
        add_one.launch((4, 1, 1), x)
    torch.cuda.synchronize()
    assert torch.count_nonzero(x) == 0
    for _ in range(3):
        graph.replay()
    assert torch.equal(x, torch.full_like(x, 6))


def test_a_fresh_thread_can_launch(add_one: LoadedKernel) -> None:
    x = torch.zeros(1000, device="cuda")
    failures: list[Exception] = []

    def work() -> None:
        try:
            add_one.launch((4, 1, 1), x)
        except Exception as error:
            failures.append(error)

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert failures == []
    torch.cuda.synchronize()
    assert torch.equal(x, torch.full_like(x, 2))


def test_threads_launching_at_once_keep_their_arguments(add_one: LoadedKernel) -> None:
    tensors = [torch.zeros(256 * (i + 1), device="cuda") for i in range(4)]

    def work(x: Any) -> None:
        for _ in range(500):
            add_one.launch((len(x) // 256, 1, 1), x)

    threads = [threading.Thread(target=work, args=(x,)) for x in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert all(torch.equal(x, torch.full_like(x, 500)) for x in tensors)


@pytest.mark.skipif(device_count() < 2, reason="needs two GPUs")
def test_tensors_on_another_device_launch_there(add_one: LoadedKernel) -> None:
    x = torch.zeros(1000, device="cuda:1")
    with torch.cuda.device(0):
        add_one.launch((4, 1, 1), x)
        assert torch.cuda.current_device() == 0
        assert torch.zeros(1, device="cuda").device.index == 0
    torch.cuda.synchronize(1)
    assert torch.equal(x, torch.ones_like(x))
    with pytest.raises(LaunchError, match="like 'a'"):
        make_binder(SUMS)((x.view(10, 100), torch.zeros(10, device="cuda:0"), 1.0))


def test_wrong_tensors_are_named(sums: LoadedKernel) -> None:
    a, out = torch.zeros(8, 6, device="cuda"), torch.zeros(8, device="cuda")
    for args, words in (
        ((a.half(), out, 1.0), r"'a': expected dtype float32 \(f32\), got float16"),
        ((a.cpu(), out, 1.0), r"'a': expected a tensor on a GPU, got one on cpu"),
        ((a.t(), out, 1.0), r"'a': expected a contiguous .* strides \(8, 1\), got .* \(1, 6\)"),
        ((a, out[:5], 1.0), r"'sums': .* m = 8 .* dimension 0 is 5"),
        ((a, out), "expected 3 arguments"),
        ((a, out, out), "'scale': expected a Python int or float"),
    ):
        with pytest.raises(LaunchError, match=words):
            sums.launch((8, 1, 1), *args)


def test_empty_tensors_launch_nothing(add_one: LoadedKernel) -> None:
    add_one.launch((0, 1, 1), torch.zeros(0, device="cuda"))
    torch.cuda.synchronize()


def test_too_large_a_grid_and_a_foreign_cubin_are_refused(cubin: bytes) -> None:
    x = torch.zeros(8, device="cuda")
    fine = LoadedKernel(KernelImage("add_one", cubin, device_target(), 0, (256, 1, 1), ADD_ONE))
    with pytest.raises(LaunchError, match="70000 blocks along y"):
        fine.launch((1, 70_000, 1), x)
    wrong = LoadedKernel(KernelImage("missing", cubin, device_target(), 0, (256, 1, 1), ADD_ONE))
    with pytest.raises(LaunchError, match="CUDA_ERROR_NOT_FOUND"):
        wrong.launch((1, 1, 1), x)
    broken = LoadedKernel(
        KernelImage("add_one", b"not a cubin", device_target(), 0, (256, 1, 1), ADD_ONE)
    )
    with pytest.raises(LaunchError, match="cuModuleLoadData failed"):
        broken.launch((1, 1, 1), x)
    torch.cuda.synchronize()


def _host_microseconds(call: Callable[[], Any], rounds: int = 400) -> float:
    """The best mean of several bursts short enough not to fill the launch queue."""
    best = float("inf")
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        best = min(best, (time.perf_counter() - start) / rounds)
    torch.cuda.synchronize()
    return best * 1e6


def test_a_launch_takes_less_host_time_than_tritons(add_one: LoadedKernel) -> None:
    triton = pytest.importorskip("triton")
    peer = _triton_add_one(triton)
    x = torch.zeros(1024, device="cuda")
    peer[(4,)](x, 1024)
    add_one.launch((4, 1, 1), x)
    torch.cuda.synchronize()
    assert torch.equal(x, torch.full_like(x, 2))
    theirs = _host_microseconds(lambda: peer[(4,)](x, 1024))
    ours = _host_microseconds(lambda: add_one.launch((4, 1, 1), x))
    assert ours < theirs, f"{ours:.2f} us a launch, Triton {theirs:.2f} us"


def _triton_add_one(triton: Any) -> Any:
    tl = pytest.importorskip("triton.language")
    globals()["tl"] = tl

    @triton.jit
    def add_one_kernel(x, n):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * 256 + tl.arange(0, 256)
        tl.store(x + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)

    return add_one_kernel
