"""The same bits from a GPU and from the simulator: hand-written programs, kernels of mma.sync."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_kernels import MMA_KERNELS, leaves_the_same_bits
from gpu_mirror import replay
from gpu_programs import CASES

from hexcute_core.simulator import simulate

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_program_leaves_the_same_bits(case: Any) -> None:
    if torch.cuda.get_device_capability() < case.needs:
        pytest.skip(f"needs compute capability {case.needs}")
    program, arrays = case.program(), case.arrays()
    before = {name: array.copy() for name, array in arrays.items()}
    report = simulate(program, arrays, case.scalars, schedules=2)
    replay(str(case), program, before, case.scalars, arrays, report)


@pytest.mark.parametrize("case", MMA_KERNELS, ids=str)
def test_a_kernel_leaves_the_same_bits(case: Any) -> None:
    leaves_the_same_bits(case)
