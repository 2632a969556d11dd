"""Mamba layers whose convolutions and scans are our operators.

    forward of the model's own text, in which four names mean ours:
    causal_conv1d_fn, causal_conv1d_update, mamba_selective_scan, mamba_selective_state_update

transformers finds these functions by name when a layer runs, and keeps what is around them to
itself: caches, padding, projections, norms. So one layer is given its own forward with other
functions behind the names; other models in the process are not touched.
"""

from __future__ import annotations

import inspect
from types import FunctionType, MethodType
from typing import Any

import torch

from hexcute_core.errors import LaunchError
from hexcute_kernels.scan import (
    causal_conv1d,
    causal_conv1d_update,
    selective_scan,
    selective_scan_with_state,
    selective_state_update,
)

BY = "causal_conv1d, selective_scan and their updates"
INSIDE = "conv1d"
"""The module within a layer whose weights our convolution reads."""
STATES = (4, 8, 16, 32, 64, 128)
WIDTHS = range(2, 10)
_NAME = "hexcute in transformers' Mamba"


def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    **named: Any,
) -> torch.Tensor:
    """causal_conv1d_fn: x (batch, channels, length), and the same. Raises LaunchError."""
    _refuse_packed(named)
    return causal_conv1d(_channels_last(x), weight, bias, activation=activation)


def convolution_step(
    x: torch.Tensor,
    conv_state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
) -> torch.Tensor:
    """causal_conv1d_update: x (batch, channels, 1), and the same; conv_state is changed."""
    made: torch.Tensor = causal_conv1d_update(
        x[:, :, 0].contiguous(), conv_state, weight, bias, activation=activation
    )
    return made.unsqueeze(2)


def scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **named: Any,
) -> Any:
    """mamba_selective_scan: u (batch, channels, length), B and C (batch, states, length), and the
    same as u; with `return_last_state` also the last state, in float32. Raises LaunchError."""
    _refuse_packed(named)
    many = [None if t is None else _channels_last(t) for t in (u, delta, B, C, z)]
    operator = selective_scan_with_state if return_last_state else selective_scan
    return operator(
        many[0], many[1], A, many[2], many[3], D=D, z=many[4], delta_bias=delta_bias,
        delta_softplus=delta_softplus,
    )  # fmt: skip


def scan_step(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    dt_bias: torch.Tensor | None = None,
    dt_softplus: bool = False,
    z: torch.Tensor | None = None,
    **named: Any,
) -> torch.Tensor:
    """mamba_selective_state_update: x (batch, channels), and the same; `state` is changed."""
    rows = [None if t is None else t.contiguous() for t in (x, dt, B, C, z)]
    made: torch.Tensor = selective_state_update(
        state, rows[0], rows[1], A, rows[2], rows[3], D=None if D is None else D.float(),
        z=rows[4], dt_bias=dt_bias, dt_softplus=dt_softplus,
    )  # fmt: skip
    return made


OURS = {
    "causal_conv1d_fn": convolution,
    "causal_conv1d_update": convolution_step,
    "mamba_selective_scan": scan,
    "mamba_selective_state_update": scan_step,
}


def is_mamba(module: torch.nn.Module) -> bool:
    """Whether this is a layer of the first Mamba's kind: with A for every channel and state."""
    a = getattr(module, "A_log", None)
    return isinstance(a, torch.nn.Parameter) and a.dim() == 2 and hasattr(module, INSIDE)


def take(module: torch.nn.Module) -> str | None:
    """Gives a layer a forward in which our functions stand, or says why it is as it was."""
    if getattr(module.forward, "_hexcute", False):
        return None
    forward = inspect.unwrap(type(module).forward)
    if "forward" in vars(module) or not isinstance(forward, FunctionType):
        return "its forward was changed"
    missing = [name for name in OURS if name not in forward.__code__.co_names]
    if missing:
        return f"its forward calls no {missing[0]}: a version of transformers that we do not know"
    states, width = module.A_log.shape[1], module.conv1d.kernel_size[0]
    if states not in STATES:
        return f"it has {states} states, not {', '.join(map(str, STATES))}"
    if width not in WIDTHS:
        return f"its convolution is {width} wide, not {WIDTHS[0]} to {WIDTHS[-1]}"
    if getattr(module, "activation", None) not in ("silu", "swish"):
        return f"its activation is {getattr(module, 'activation', None)!r}, not silu"
    names = {**forward.__globals__, **OURS}
    ours = FunctionType(
        forward.__code__, names, forward.__name__, forward.__defaults__, forward.__closure__
    )
    ours.__kwdefaults__ = forward.__kwdefaults__
    ours._hexcute = True  # type: ignore[attr-defined]
    module.forward = MethodType(ours, module)
    return None


def _channels_last(t: torch.Tensor) -> torch.Tensor:
    """The same (batch, channels, length), each step's channels side by side."""
    return t if t.mT.is_contiguous() else t.mT.contiguous().mT


def _refuse_packed(named: dict[str, Any]) -> None:
    for name in ("cu_seqlens", "seq_idx"):
        if named.get(name) is not None:
            raise LaunchError(
                f"{_NAME}: {name} packs several sequences into one, which is not computed here",
                fix="pass a batch, with an attention mask where sequences are padded",
            )
