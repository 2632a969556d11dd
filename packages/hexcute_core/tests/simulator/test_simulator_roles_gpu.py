"""The same bits from a GPU and from the simulator: the kernels of roles and clusters."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_kernels import ROLE_KERNELS, leaves_the_same_bits

from hexcute_core.runtime import device_target

pytestmark = pytest.mark.gpu
pytest.importorskip("torch")


@pytest.mark.parametrize("case", ROLE_KERNELS, ids=str)
def test_a_kernel_leaves_the_same_bits(case: Any) -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")
    leaves_the_same_bits(case)
