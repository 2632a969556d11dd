"""Kernels that reach into other blocks on a Hopper GPU, against numpy and torch, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import remote_kernels as rk
from remote_cases import CASES, RemoteCase, exchanged, summed
from remote_runs import launch

from hexcute_core import f16, f32, i8, i32
from hexcute_core.dtypes import DType
from hexcute_core.runtime import device_target

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def hopper() -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")


def whole(dtype: Any, *shape: int) -> Any:
    return torch.randint(-3, 4, shape, device="cuda").to(dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_of_the_simulator(case: RemoteCase) -> None:
    left, meant = launch(case)
    np.testing.assert_array_equal(left, meant)


@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize(("dtype", "total"), [(f16, f32), (f32, f32), (i8, i32)])
def test_sums_of_long_rows(dtype: DType, total: DType, blocks: int) -> None:
    """More clusters than run at once."""
    kind = {f16: torch.float16, f32: torch.float32, i8: torch.int8}[dtype]
    x = whole(kind, 20000, 1000)
    held = torch.int32 if total is i32 else torch.float32
    y = torch.full((20000, 1), 7, device="cuda", dtype=held)
    summed(dtype, total)(x, y, X=blocks)
    assert torch.equal(y.long(), x.long().sum(1, keepdim=True))


def test_halves_of_many_rows_change_places() -> None:
    x = whole(torch.float16, 100000, 128)
    y = torch.full_like(x, torch.nan)
    exchanged(f16)(x, y)
    assert torch.equal(y, x.roll(64, 1))


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_rings_again_and_again(blocks: int) -> None:
    x = whole(torch.int32, 32 * blocks * 1000, 1)
    meant = x.view(1000, blocks, 32).sum(1, keepdim=True).expand(-1, blocks, -1).reshape(-1, 1)
    for _ in range(10):
        y = torch.full_like(x, 7)
        rk.ring(x, y, X=blocks)
        assert torch.equal(y, meant.int())


@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 4096), (1000, 1024, 4096), (333, 520, 72)])
def test_a_product_whose_depth_is_split(m: int, n: int, k: int, blocks: int) -> None:
    a, b = whole(torch.float16, m, k), whole(torch.float16, n, k)
    for _ in range(5):
        c = torch.full((m, n), torch.nan, device="cuda")
        rk.split_k(a, b, c, X=blocks)
        assert torch.equal(c, (a.double() @ b.double().t()).float())


@pytest.mark.parametrize("kernel", [rk.pushed, rk.pushed_by_roles], ids=["threads", "roles"])
def test_halves_of_products_are_pushed(kernel: Any) -> None:
    a, b = whole(torch.float16, 1000, 2048), whole(torch.float16, 1024, 2048)
    for _ in range(10):
        c = torch.full((1000, 1024), torch.nan, device="cuda")
        kernel(a, b, c)
        assert torch.equal(c, (a.double() @ b.double().t()).float())


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_tma_stores_what_another_block_wrote(blocks: int) -> None:
    x = whole(torch.float16, 64 * blocks * 300 - 9, 64)
    for _ in range(5):
        y = torch.full_like(x, torch.nan)
        rk.sent_by_tma(x, y, X=blocks)
        assert torch.equal(y, 2 * x)


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_tensor_cores_read_what_another_block_wrote(blocks: int) -> None:
    a, b = whole(torch.float16, 2000, 64), whole(torch.float16, 3000, 64)
    for _ in range(5):
        c = torch.full((2000, 3000), torch.nan, device="cuda")
        rk.handed_out(a, b, c, X=blocks)
        assert torch.equal(c, (a.double() @ b.double().t()).float())


def test_tma_stores_what_an_mbarrier_told_of() -> None:
    x = whole(torch.float16, 64 * 1000 - 9, 64)
    for _ in range(10):
        y = torch.full_like(x, torch.nan)
        rk.forwarded(x, y)
        assert torch.equal(y, x)


def test_loads_that_were_only_started_are_there_for_others() -> None:
    x = whole(torch.float16, 100000, 128)
    y = torch.full_like(x, torch.nan)
    rk.started(x, y)
    assert torch.equal(y, x)
