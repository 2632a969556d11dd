"""What a step of a scan says of gradients."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402

from hexcute_kernels.scan import selective_state_update  # noqa: E402


def half(*shape: int) -> Any:
    return torch.randn(shape).half()


def test_a_step_has_no_gradient_either() -> None:
    x, one, a = on_gpu(half(2, 64)), on_gpu(half(2, 16)), on_gpu(-torch.rand(64, 16))
    state = on_gpu(torch.randn(2, 64, 16))
    learned = on_gpu(half(2, 64)).requires_grad_()
    with gpu("h200", "sm_90"):
        selective_state_update(state, x, x, a, one, one)
        with pytest.raises(LaunchError, match="has no gradient, and x requires one"):
            selective_state_update(state, learned, x, a, one, one)
