"""What Hopper's instructions do, on a GPU: boxes, swizzles, products of every kind, clusters."""

from __future__ import annotations

from typing import Any

import pytest
from hopper_programs import (
    Case,
    asynchronous_arrival,
    bulk_round_trip,
    generic_to_async,
    multicast,
    product,
    round_trip,
    stored_matrices,
    swizzled_box,
)
from hopper_runs import load

from hexcute_core import dtypes as dt
from hexcute_core.dtypes import DType
from hexcute_core.runtime import device_target
from hexcute_core.runtime.storage import TENSOR_STORAGE

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")


def tensor(t: DType, *shape: int, seed: int = 1) -> Any:
    """Small integers, exact in every type and in every sum here."""
    low = 0 if t.kind == "uint" else -2
    generator = torch.Generator(device="cuda").manual_seed(seed)
    values = torch.randint(low, 3, shape, device="cuda", generator=generator)
    return values.to(getattr(torch, TENSOR_STORAGE[t.name].torch))


def run(case: Case, grid: tuple[int, int, int], *tensors: Any) -> None:
    load(*case).launch(grid, *tensors)
    torch.cuda.synchronize()


BOXES = [
    ((1000,), (256,), 0, dt.f16), ((1000,), (64,), 128, dt.f16), ((40, 72), (16, 64), 128, dt.f16),
    ((33, 96), (8, 32), 64, dt.bf16), ((33, 48), (8, 16), 32, dt.f16),
    ((20, 52), (8, 32), 128, dt.f32), ((19, 144), (256, 128), 128, dt.u8),
    ((5, 21, 80), (5, 16, 64), 128, dt.f16),
    ((2, 3, 17, 24), (2, 3, 8, 8), 0, dt.f16), ((2, 3, 2, 20, 72), (2, 3, 2, 8, 64), 128, dt.f16),
    ((7, 12), (4, 4), 0, dt.i32), ((7, 10), (4, 2), 0, dt.i64), ((7, 112), (8, 64), 64, dt.i8),
]  # fmt: skip


def blocks(shape: tuple[int, ...], box: tuple[int, ...]) -> tuple[int, int, int]:
    counts = [-(-s // b) for s, b in zip(shape, box)]
    return (counts[-1], counts[-2] if len(box) > 1 else 1, 1)


@pytest.mark.parametrize(("shape", "box", "swizzle", "dtype"), BOXES)
def test_boxes_come_back_clipped_to_their_tensor(
    shape: tuple[int, ...], box: tuple[int, ...], swizzle: int, dtype: DType
) -> None:
    x = tensor(dtype, *shape)
    room = torch.full((x.numel() + 4096,), 7, device="cuda").to(x.dtype)
    y = room[: x.numel()].view(x.shape)
    run(round_trip(shape, box, swizzle, dtype), blocks(shape, box), x, y)
    assert torch.equal(y, x)
    assert torch.equal(room[x.numel() :], torch.full_like(room[x.numel() :], 7))


@pytest.mark.parametrize("dtype", [dt.f16, dt.bf16, dt.f32, dt.i32])
def test_reductions_add(dtype: DType) -> None:
    x, y = tensor(dtype, 40, 72), tensor(dtype, 40, 72, seed=2)
    wanted = x + y
    box = (16, 64) if dtype.bits == 16 else (16, 32)
    case = round_trip((40, 72), box, 128, dtype, "tma.reduce.add")
    run(case, blocks((40, 72), box), x, y)
    assert torch.equal(y, wanted)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_swizzled_box_lies_as_the_manual_says(swizzle: int) -> None:
    """Bits 4 to 6 of an address are xored with its bits 7 to 9, as many as the span has."""
    x = torch.randint(0, 256, (64, swizzle), device="cuda", dtype=torch.uint8)
    y = torch.zeros_like(x)
    run(swizzled_box(swizzle), (1, 1, 1), x, y)
    linear = torch.arange(64 * swizzle)
    place = linear ^ ((linear >> 7) % (swizzle // 16) << 4)
    assert torch.equal(y.flatten().cpu()[place], x.flatten().cpu())


def test_written_by_threads_and_stored_by_tma() -> None:
    x = torch.randint(0, 256, (16, 128), device="cuda", dtype=torch.uint8)
    y = torch.zeros_like(x)
    run(generic_to_async(), (1, 1, 1), x, y)
    assert torch.equal(x, y)


@pytest.mark.parametrize("size", [16, 4096, 30000])
def test_bulk_copies_move_bytes(size: int) -> None:
    x, y, z, w = (torch.randint(0, 256, s, device="cuda", dtype=torch.uint8)
                  for s in ((size + 48,), (size + 48,), (16, 128), (16, 128)))  # fmt: skip
    before = y.clone()
    run(bulk_round_trip(size), (1, 1, 1), x, y, z, w)
    assert torch.equal(y[32 : 32 + size], x[16 : 16 + size])
    assert torch.equal(y[:32], before[:32]) and torch.equal(y[32 + size :], before[32 + size :])
    assert torch.equal(w, z)


def test_asynchronous_copies_arrive_at_a_barrier() -> None:
    x = torch.randint(0, 256, (2048,), device="cuda", dtype=torch.uint8)
    y = torch.zeros_like(x)
    run(asynchronous_arrival(), (1, 1, 1), x, y)
    assert torch.equal(y, x.roll(-16))


def test_a_multicast_reaches_both_blocks() -> None:
    x = tensor(dt.f16, 64, 64)
    y = torch.zeros(2, 64, 64, device="cuda", dtype=torch.float16)
    run(multicast(), (2, 1, 1), x, y)
    assert torch.equal(y[0], x) and torch.equal(y[1], x)


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_are_stored_row_by_row(count: int, trans: str) -> None:
    """Lane l holds row l / 4 and columns l % 4 * 2, + 1 of every matrix, or of its transpose."""
    x = torch.arange(32 * 2 * count, device="cuda").view(32, 2 * count).half()
    y = torch.zeros(8 * count, 8, device="cuda", dtype=torch.float16)
    run(stored_matrices(count, trans), (1, 1, 1), x, y)
    matrices = x.view(8, 4, count, 2).permute(2, 0, 1, 3).reshape(count, 8, 8)
    wanted = matrices.transpose(1, 2) if trans else matrices
    assert torch.equal(y.view(count, 8, 8), wanted)


PRODUCTS = [
    *(("wgmma.64x64x16.f32.f16.f16.kk", swizzle) for swizzle in (0, 32, 64, 128)),
    *(("wgmma.64x128x16.f32.bf16.bf16.mm", swizzle) for swizzle in (128,)),
    ("wgmma.64x64x16.f32.f16.f16.km", 128), ("wgmma.64x64x16.f32.f16.f16.mk", 128),
    ("wgmma.64x128x16.f32.f16.f16.rm", 128), ("wgmma.64x96x16.f32.f16.f16.rk", 128),
    ("wgmma.64x8x16.f16.f16.f16.kk", 128), ("wgmma.64x176x16.f32.bf16.bf16.kk", 128),
    ("wgmma.64x256x16.f32.f16.f16.kk", 64),
    ("wgmma.64x64x8.f32.tf32.tf32.kk", 128), ("wgmma.64x40x8.f32.tf32.tf32.rk", 64),
    ("wgmma.64x64x8.f32.tf32.tf32.kk", 0),
    *((f"wgmma.64x{n}x32.f32.{a}.{b}.{x}k", 128) for a, b, x, n in (
        ("f8e4m3", "f8e4m3", "k", 64), ("f8e4m3", "f8e5m2", "k", 24), ("f8e5m2", "f8e4m3", "r", 64),
        ("f8e5m2", "f8e5m2", "r", 128),
    )),
    ("wgmma.64x64x32.f16.f8e4m3.f8e4m3.kk", 128), ("wgmma.64x64x32.f32.f8e4m3.f8e4m3.kk", 0),
    ("wgmma.64x64x32.i32.i8.i8.kk", 128), ("wgmma.64x24x32.i32.i8.i8.rk", 128),
    ("wgmma.64x112x32.i32.u8.u8.kk", 64), ("wgmma.64x32x32.i32.u8.u8.rk", 32),
]  # fmt: skip


@pytest.mark.parametrize(("name", "swizzle"), PRODUCTS)
def test_products_are_exact_on_integers(name: str, swizzle: int) -> None:
    case = product(name, swizzle)
    signature = case[1]
    shapes = {p.name: (dt.BY_NAME[p.dtype_name], p.shape) for p in signature.tensors}
    a, b = (tensor(*_flat(shapes[x]), seed=i) for i, x in enumerate("ab"))
    c_type, c_shape = shapes["c"]
    c = tensor(c_type, *c_shape, seed=9)
    run(case, (1, 1, 1), a, b, c)
    left, right = a.double(), b.double()
    if name[-2] == "m":
        left = left.T
    if name[-1] == "m":
        right = right.T
    assert torch.equal(c.double(), left @ right.T)


def _flat(typed: tuple[DType, tuple[int | str, ...]]) -> tuple[Any, ...]:
    return (typed[0], *typed[1])
