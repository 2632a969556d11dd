"""Tensors with strides of their own on a real GPU: torch's own views, and the arrays that are
simulated elsewhere, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_mirror import on_gpu
from strided_kernels import (
    anyhow,
    counted,
    expanded,
    gathered,
    halves,
    heads_of,
    pairs,
    product,
    rows,
)

from hexcute_core.errors import FrontendError, LaunchError
from hexcute_core.runtime import device_target

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

PAIRS = pairs()


def hopper() -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")


@pytest.mark.parametrize("name", PAIRS)
def test_elements_are_found_by_their_strides(name: str) -> None:
    kernel, x, y, factor = PAIRS[name]
    if name == "by boxes":
        hopper()
    there, left = on_gpu(x), on_gpu(y)
    kernel(there, left)
    np.testing.assert_array_equal(left.cpu().numpy(), factor * x)


@pytest.mark.parametrize("tokens, heads, depth", [(70, 3, 72), (128, 2, 64), (300, 5, 128)])
def test_heads_of_a_packed_projection(tokens: int, heads: int, depth: int) -> None:
    hopper()
    packed = halves(tokens, 3 * heads * depth) // 3
    whole = torch.from_numpy(packed).cuda().view(tokens, 3, heads, depth)
    q, k = (whole[:, which].transpose(0, 1) for which in (0, 1))
    c = torch.zeros(heads, tokens, tokens, device="cuda")
    product(q, k, c)
    wide = (heads_of(packed, which, heads, depth).astype(np.float32) for which in (0, 1))
    np.testing.assert_array_equal(c.cpu().numpy(), np.einsum("hid,hjd->hij", *wide))


def test_an_expanded_dimension_moves_by_tma_and_by_threads() -> None:
    one = torch.randn(1, 40, 72, device="cuda")
    y = torch.zeros(3, 40, 72, device="cuda")
    expanded(one.expand(3, 40, 72), y)
    assert torch.equal(y, one.expand(3, 40, 72))
    hopper()
    a = torch.from_numpy(halves(1, 100, 64) // 3).cuda()
    b = torch.from_numpy(halves(4, 80, 64, seed=1) // 3).cuda()
    for left, right in ((a.expand(4, 100, 64), b), (a.expand(4, 100, 64), b[:1].expand(4, 80, 64))):
        c = torch.zeros(4, 100, 80, device="cuda")
        product(left, right, c)
        assert torch.equal(c, left.float() @ right.float().transpose(1, 2))


def test_numbers_updates_and_gathers() -> None:
    x = torch.tensor([[3, 9], [1, 9], [3, 9], [7, 9]], dtype=torch.int32, device="cuda")[:, 0]
    bins = torch.zeros(4, 5, dtype=torch.int32, device="cuda")
    counted(x, bins[:, 2])
    assert bins[:, 2].tolist() == [0, 1, 0, 2] and int(bins.sum()) == 3
    table = torch.from_numpy(halves(50, 192)).cuda()[:, 64:128]
    picks = torch.tensor([[4, 0], [-1, 0], [49, 0]], dtype=torch.int32, device="cuda")[:, 0]
    y = torch.ones(3, 64, dtype=torch.float16, device="cuda")
    gathered(table, picks, y)
    assert torch.equal(y, torch.stack([table[4], 0 * table[0], table[49]]))


def test_parts_of_one_tensor_interlock() -> None:
    whole = torch.from_numpy(halves(90, 160)).cuda()
    anyhow(whole[:, :80], whole[:, 80:])
    assert torch.equal(whole[:, :80], whole[:, 80:])


def test_what_shares_memory_is_not_written() -> None:
    x = torch.zeros(64, 64, dtype=torch.float16, device="cuda")
    with pytest.raises(FrontendError, match="`y` is written, and several of its elements"):
        anyhow(x, x[:1].clone().expand(64, 64))
    with pytest.raises(LaunchError, match="expected 1 as in f16"):
        rows(x.t(), x.clone())
