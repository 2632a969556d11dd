"""selective_scan(u, delta, A, B, C, ...): Mamba's recurrence over a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.scan.configs import SCAN
from hexcute_kernels.scan.selective import selective_scan_kernel
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_contiguous, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "selective_scan"
DTYPES = (hx.f16, hx.bf16, hx.f32)
STATES = (4, 8, 16, 32, 64)
"""How many states a channel may have: a thread holds them in registers."""
GROUP = 32
"""Channels that share B and C, where not all do, come in multiples of this."""


@dataclass(frozen=True, kw_only=True)
class Scan(Problem):
    """b sequences of d channels, `length` steps; `groups` of channels share B and C."""

    b: int
    d: int
    length: int
    groups: int
    states: int
    dtype: hx.DType
    skips: bool
    gated: bool
    biased: bool
    soft: bool


def describe(
    u: torch.Tensor, delta: torch.Tensor, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor,
    D: torch.Tensor | None, z: torch.Tensor | None, delta_bias: torch.Tensor | None,
    delta_softplus: bool,
) -> Scan:  # fmt: skip
    """The problem that a call asks for. Raises LaunchError."""
    many = {"u": u, "delta": delta, "B": B, "C": C} | ({} if z is None else {"z": z})
    channels = {"A": A}
    channels |= {name: t for name, t in (("D", D), ("delta_bias", delta_bias)) if t is not None}
    dtype = dtype_of(NAME, DTYPES, **many)
    dtype_of(NAME, (hx.f32,), **channels)
    check_contiguous(NAME, **many, **channels)
    if u.dim() != 3 or A.dim() != 2 or B.dim() not in (3, 4):
        shapes = f"{tuple(u.shape)}, {tuple(A.shape)} and {tuple(B.shape)}"
        raise LaunchError(
            f"{NAME} takes u (batch, channels, length), A (channels, states) and B (batch, "
            f"[groups,] states, length); got {shapes}"
        )
    (b, d, length), states = u.shape, A.shape[1]
    groups = B.shape[1] if B.dim() == 4 else 1
    shared = (b, groups, states, length) if B.dim() == 4 else (b, states, length)
    expected = {
        "delta": (b, d, length), "z": (b, d, length), "A": (d, states), "B": shared, "C": shared,
        "D": (d,), "delta_bias": (d,),
    }  # fmt: skip
    for name, tensor in (many | channels).items():
        if tuple(tensor.shape) != expected.get(name, (b, d, length)):
            raise LaunchError(
                f"{NAME}: {name} is to be {expected.get(name)} beside u {(b, d, length)}, got "
                f"{tuple(tensor.shape)}"
            )
    if states not in STATES:
        raise LaunchError(f"{NAME} takes {', '.join(map(str, STATES))} states, got {states}")
    if groups != 1 and (groups == 0 or d % groups or d // groups % GROUP):
        raise LaunchError(
            f"{NAME}: {d} channels are no {groups} groups of a multiple of {GROUP} channels"
        )
    return Scan(
        b=b, d=d, length=length, groups=groups, states=states, dtype=dtype, skips=D is not None,
        gated=z is not None, biased=delta_bias is not None, soft=delta_softplus,
    )  # fmt: skip


def launch(p: Scan, config: Config) -> Launch | Run:
    """The launch of a problem by this configuration."""
    if p.b == 0 or p.d == 0 or p.length == 0:
        return lambda *args: None
    kernel = selective_scan_kernel(p.dtype, p.states, p.skips, p.gated, p.biased, p.soft)
    shared = (p.b, p.groups, p.states, p.length)
    # What is left out is not read: any tensor of the type and shape will do.
    unread: Argument = ("A", lambda a: a.view(-1)[: p.d])
    arguments: tuple[Argument, ...] = (
        "u", "delta", "A", ("B", lambda b: b.view(shared)), ("C", lambda c: c.view(shared)),
        "D" if p.skips else unread, "z" if p.gated else "u",
        "delta_bias" if p.biased else unread, "out",
    )  # fmt: skip
    return Launch(kernel, config, arguments)


selective_scan = Operator(
    "selective_scan(Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D=None, "
    "Tensor? z=None, Tensor? delta_bias=None, bool delta_softplus=False) -> Tensor",
    describe=describe,
    outputs=lambda p: Output((p.b, p.d, p.length), p.dtype),
    variants=(Variant("channels", ("mma.sync",), SCAN, launch),),
    doc="""The selective state-space recurrence, each step and channel:

        h = exp(dt A) h + dt u B,   y = (sum over states of C h) + D u,   y silu(z)

    with dt = delta + delta_bias, through softplus where `delta_softplus`; states in float32.

    u, delta, z: (batch, channels, length); B, C: (batch, states, length), or (batch, groups,
    states, length) where groups of channels, multiples of 32, have their own; float16, bfloat16 or
    float32, all of one type. A: (channels, states), D, delta_bias: (channels,), float32. All on
    one GPU, row-major. 4, 8, 16, 32 or 64 states.

    Gives (batch, channels, length). Variant: "channels", a thread walks a channel's time.
    """,
)
