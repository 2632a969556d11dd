"""The scans as torch knows them: results in the order of what they are made of, arguments that are
written to, checked by torch's own machinery with stand-ins on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

import hexcute_kernels
from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402

from hexcute_kernels.scan import selective_state_update  # noqa: E402

hexcute_kernels.register()
OPS = torch.ops.hexcute


def like(x: Any) -> Any:
    """What stands in for a result: of x's order, but no part of it."""
    return torch.empty_like(x).copy_(x) * 2


def scanned(u: Any, *args: Any, variant: Any = None) -> Any:
    return like(u)


def with_state(u: Any, delta: Any, a: Any, *args: Any, variant: Any = None) -> Any:
    return like(u), a.expand(u.shape[0], *a.shape) * 2


def chunked(x: Any, *args: Any, variant: Any = None) -> Any:
    return like(x)


def chunked_with_state(
    x: Any, dt: Any, a: Any, b: Any, *args: Any, variant: Any = None
) -> tuple[Any, Any]:
    return like(x), torch.ones(x.shape[0], *x.shape[2:], b.shape[3])


def updated(state: Any, x: Any, *args: Any, variant: Any = None) -> Any:
    state.mul_(0.5)
    return like(x)


def convolved(x: Any, weight: Any, *args: Any, variant: Any = None) -> Any:
    return like(x)


def stepped(x: Any, conv_state: Any, *args: Any, variant: Any = None) -> Any:
    conv_state.copy_(conv_state.roll(-1, 2))
    return like(x)


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu() -> Any:
    library = torch.library.Library("hexcute", "IMPL")
    library.impl("selective_scan", scanned, "CPU")
    library.impl("selective_scan_with_state", with_state, "CPU")
    library.impl("ssd_scan", chunked, "CPU")
    library.impl("ssd_scan_with_state", chunked_with_state, "CPU")
    library.impl("selective_state_update", updated, "CPU")
    library.impl("causal_conv1d", convolved, "CPU")
    library.impl("causal_conv1d_update", stepped, "CPU")
    yield library
    library._destroy()


def half(*shape: int) -> Any:
    return torch.randn(shape).half()


@pytest.mark.parametrize("last", [False, True])
def test_opcheck_of_sequences(last: bool) -> None:
    u = half(2, 20, 64).mT if last else half(2, 64, 20)
    bs, a = half(2, 16, 20), -torch.rand(64, 16)
    for name in ("selective_scan", "selective_scan_with_state"):
        torch.library.opcheck(getattr(OPS, name).default, (u, u, a, bs, bs))
    torch.library.opcheck(OPS.causal_conv1d.default, (u, half(64, 4)))


def test_opcheck_of_chunks() -> None:
    x, bs, dt, a = half(2, 20, 4, 32), half(2, 20, 2, 16), torch.rand(2, 20, 4), -torch.rand(4)
    for name in ("ssd_scan", "ssd_scan_with_state"):
        torch.library.opcheck(getattr(OPS, name).default, (x, dt, a, bs, bs))


def test_opcheck_of_steps() -> None:
    x, one, a = half(2, 64), half(2, 16), -torch.rand(64, 16)
    state, line = torch.randn(2, 64, 16), half(2, 64, 3)
    torch.library.opcheck(OPS.selective_state_update.default, (state, x, x, a, one, one))
    torch.library.opcheck(OPS.causal_conv1d_update.default, (x, line, half(64, 4)))


def test_a_step_has_no_gradient_either() -> None:
    x, one, a = on_gpu(half(2, 64)), on_gpu(half(2, 16)), on_gpu(-torch.rand(64, 16))
    state = on_gpu(torch.randn(2, 64, 16))
    learned = on_gpu(half(2, 64)).requires_grad_()
    with gpu("h200", "sm_90"):
        selective_state_update(state, x, x, a, one, one)
        with pytest.raises(LaunchError, match="has no gradient, and x requires one"):
            selective_state_update(state, learned, x, a, one, one)
