"""Reductions, cache hints and prefetches of the language on a Hopper GPU, against torch.

Elements are small whole numbers, whose sums every type holds: the order of blocks does not show.
"""

from __future__ import annotations

from typing import Any

import bulk_kernels as bk
import pytest

from hexcute_core import bf16, f16, f32, i32, i64, u32, u64
from hexcute_core.dtypes import DType
from hexcute_core.errors import NoLayout
from hexcute_core.runtime import device_target

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

SUMS = [f16, bf16, f32, i32, u32, u64]
ORDERED = [f16, bf16, i32, u32, i64, u64]
COMBINE = {"min": "amin", "max": "amax", "add": "sum"}


@pytest.fixture(autouse=True)
def hopper() -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")


def whole(dtype: DType, *shape: int, seed: int = 0) -> Any:
    """Whole numbers from -4 to 4, from 0 for unsigned types."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    low = 0 if dtype.kind == "uint" else -4
    numbers = torch.randint(low, 5, shape, device="cuda", generator=generator)
    kind = "bfloat" if dtype is bf16 else dtype.kind
    return numbers.to(getattr(torch, f"{kind}{dtype.bits}"))


def numbers(tensor: Any) -> Any:
    """Elements as i64: torch computes little with unsigned types."""
    return tensor.to(torch.int64)


@pytest.mark.parametrize(
    ("dtype", "op"),
    [(d, "add") for d in SUMS] + [(d, op) for d in ORDERED for op in ("min", "max")],
)
@pytest.mark.parametrize("columns", [64, 200])
@pytest.mark.parametrize("blocks", [1, 9])
def test_reductions(dtype: DType, op: str, columns: int, blocks: int) -> None:
    x, y = whole(dtype, 64 * blocks, columns), whole(dtype, 64, columns, seed=1)
    both = torch.cat([numbers(x).view(blocks, 64, columns), numbers(y)[None]])
    meant = getattr(torch, COMBINE[op])(both, dim=0)
    bk.folded(dtype, op)(x, y)
    assert torch.equal(numbers(y), meant)


def test_many_blocks_add_to_one_tile_again_and_again() -> None:
    x, y = whole(f32, 64 * 1000, 128), torch.zeros(64, 128, device="cuda")
    kernel = bk.folded(f32, "add", "evict_last")
    for _ in range(5):
        kernel(x, y)
    assert torch.equal(y, 5 * x.view(1000, 64, 128).sum(0))


@pytest.mark.parametrize(("rows", "columns"), [(64, 32), (64, 0), (200, 1000), (4096, 4096)])
def test_slots_are_added_to_memory_where_they_are(rows: int, columns: int) -> None:
    x, y = whole(i32, rows, columns), whole(i32, rows, 32, seed=1)
    blocks = -(-columns // 32)
    wide = torch.nn.functional.pad(x, (0, -columns % 32)).view(rows, blocks, 32)
    meant = y + wide.sum(1, dtype=torch.int32)
    bk.accumulated(x, y)
    assert torch.equal(y, meant)


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (130, 72, 328), (1024, 1000, 2048)])
def test_hints_and_prefetches_in_roles(m: int, n: int, k: int, cluster: int) -> None:
    a, b = whole(f16, m, k), whole(f16, n, k, seed=1)
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    bk.hinted(a, b, c, CLUSTER=cluster)
    assert torch.equal(c, (a.double() @ b.double().t()).half())


@pytest.mark.parametrize("columns", [512, 501, 8])
def test_a_prefetch_changes_nothing(columns: int) -> None:
    """Rows of 501 elements have no tensor map: nothing is brought ahead."""
    x = whole(f16, 1000, columns)
    y = torch.full_like(x, float("nan"))
    bk.ahead(x, y)
    assert torch.equal(y, x + x)


def test_rows_that_tma_cannot_address_are_refused() -> None:
    x, y = whole(f16, 64, 65), whole(f16, 64, 65)
    with pytest.raises(NoLayout, match="rows of `y` are not known to be multiples of 16 bytes"):
        bk.folded(f16, "add")(x, y)
