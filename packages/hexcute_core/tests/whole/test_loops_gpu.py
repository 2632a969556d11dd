"""Loops run as often on the GPU as in the simulator and in Python, whatever their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import i8, i32, u8
from hexcute_core.dtypes import DType

ENDS = [
    (i32, -(2**31), 2**31 - 1, 2**30), (i32, 2**31 - 1, -(2**31), 1), (i32, -9, 9, 4),
    (u8, 7, 2, 1), (u8, 0, 255, 1), (i8, -100, 100, 1), (i8, 100, -100, 1),
]  # fmt: skip


def counted(dtype: DType, step: int) -> Any:
    @hx.kernel
    def kernel(out: i32[32], first: dtype, last: dtype):  # type: ignore[valid-type]
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        trips = 0
        for _ in range(first, last, step):
            trips += 1
        r = hx.register_tensor(i32, (32,))
        hx.fill(r, trips)
        hx.copy(r, hx.global_view(out, ((32,), (1,))))

    return kernel


@pytest.mark.parametrize(("dtype", "first", "last", "step"), ENDS)
def test_trips_in_the_simulator(dtype: DType, first: int, last: int, step: int) -> None:
    out = np.zeros(32, np.int32)
    counted(dtype, step).compile("sm_80").simulate(out, first, last)
    assert (out == len(range(first, last, step))).all()


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "first", "last", "step"), ENDS)
def test_trips_on_the_gpu(dtype: DType, first: int, last: int, step: int) -> None:
    torch: Any = pytest.importorskip("torch")
    out = torch.zeros(32, dtype=torch.int32, device="cuda")
    counted(dtype, step)(out, first, last)
    assert out.tolist() == [len(range(first, last, step))] * 32
