"""The hand-written warp-specialised GEMM on a Hopper GPU: bit for bit, ragged and repeated.

A barrier that nobody completes would hang the GPU. The first launches, of one block and few
rounds of the ring, are of a copy whose waits trap after two seconds; where one fails, nothing
else is launched.
"""

from __future__ import annotations

from typing import Any

import pytest
from hopper_gemm import BK, BM, BN, STAGES, gemm
from hopper_runs import load

from hexcute_core.errors import LaunchError
from hexcute_core.runtime import (
    LoadedKernel,
    Signature,
    SymbolParam,
    TensorParam,
    device_target,
)

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

SIGNATURE = Signature(
    "hopper_gemm",
    (TensorParam("a", "f16", ("m", "k")), TensorParam("b", "f16", ("n", "k")),
     TensorParam("c", "f16", ("m", "n"))),
    (SymbolParam("m"), SymbolParam("n"), SymbolParam("k")),
)  # fmt: skip
def check(kernel: LoadedKernel, m: int, n: int, k: int) -> None:
    """Small integers: every product and sum is exact in f32, and rounds once to f16."""
    generator = torch.Generator(device="cuda").manual_seed(m * 7919 + n * 31 + k)
    a, b = (
        torch.randint(-3, 4, (rows, k), device="cuda", generator=generator).half()
        for rows in (m, n)
    )
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    kernel.launch((-(-m // BM), -(-n // BN), 1), a, b, c)
    torch.cuda.synchronize()
    expected = (a.double() @ b.double().T).half()
    assert torch.equal(c, expected), f"{(c != expected).sum().item()} elements differ"


@pytest.fixture(scope="module")
def kernel() -> LoadedKernel:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")
    first = load(gemm(), SIGNATURE)
    check(first, BM, BN, BK)
    check(first, BM, BN, BK * STAGES)
    check(first, BM, BN, BK * (2 * STAGES + 3))
    check(first, BM + 1, BN + 2, BK * STAGES + 8)
    return load(gemm(), SIGNATURE, guard=False)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (128, 256, 64), (1, 2, 8), (64, 128, 64), (129, 258, 72), (100, 130, 520), (127, 254, 256),
        (300, 514, 200), (1000, 1000, 1000), (17, 4098, 1032), (2049, 770, 96), (4096, 4096, 4096),
    ],
)  # fmt: skip
def test_integers_are_multiplied_exactly(kernel: LoadedKernel, m: int, n: int, k: int) -> None:
    check(kernel, m, n, k)


@pytest.mark.parametrize(("m", "n"), [(128, 256), (300, 514)])
def test_no_columns_give_zeros(kernel: LoadedKernel, m: int, n: int) -> None:
    check(kernel, m, n, 0)


def test_random_numbers_are_as_near_as_torchs(kernel: LoadedKernel) -> None:
    a, b = (torch.randn(rows, 2048, device="cuda").half() for rows in (777, 1026))
    c = torch.empty(777, 1026, device="cuda", dtype=torch.float16)
    kernel.launch((7, 5, 1), a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-3, atol=1e-2)


def test_the_same_bits_over_and_over(kernel: LoadedKernel) -> None:
    a, b = (torch.randn(1024, 1024, device="cuda").half() for _ in range(2))
    results = [torch.empty(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(100)]
    for c in results:
        kernel.launch((8, 4, 1), a, b, c)
    assert all(torch.equal(c, results[0]) for c in results)


def test_tensors_change_and_maps_follow(kernel: LoadedKernel) -> None:
    for _ in range(3):
        check(kernel, 256, 512, 128)
        check(kernel, 384, 256, 192)


def test_rows_that_tma_cannot_move_are_refused(kernel: LoadedKernel) -> None:
    a, b = (torch.zeros(rows, 65, device="cuda").half() for rows in (128, 256))
    c = torch.zeros(128, 256, device="cuda").half()
    with pytest.raises(LaunchError, match=r"'a': TMA moves rows .* 130"):
        kernel.launch((1, 1, 1), a, b, c)
    shifted = torch.zeros(128 * 64 + 4, device="cuda").half()[4:].view(128, 64)
    with pytest.raises(LaunchError, match=r"'a': a tensor moved by TMA starts at"):
        kernel.launch((1, 1, 1), shifted, torch.zeros(256, 64, device="cuda").half(), c)
