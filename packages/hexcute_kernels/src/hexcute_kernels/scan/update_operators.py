"""selective_state_update(state, x, dt, A, B, C, ...): a step of the scan, for decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.scan.configs import UPDATE
from hexcute_kernels.scan.operators import DTYPES, STATES
from hexcute_kernels.scan.update import state_update_kernel
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "selective_state_update"


@dataclass(frozen=True, kw_only=True)
class Update(Problem):
    """A step of `sequences` of d channels, which `groups` of them share B and C."""

    sequences: int
    slots: int
    d: int
    groups: int
    states: int
    dtype: hx.DType
    state_dtype: hx.DType
    skips: bool
    gated: bool
    biased: bool
    soft: bool
    indexed: bool


def describe(
    state: torch.Tensor, x: torch.Tensor, dt: torch.Tensor, A: torch.Tensor, B: torch.Tensor,
    C: torch.Tensor, D: torch.Tensor | None, z: torch.Tensor | None, dt_bias: torch.Tensor | None,
    dt_softplus: bool, state_batch_indices: torch.Tensor | None,
) -> Update:  # fmt: skip
    """The problem that a call asks for. Raises LaunchError."""
    many = {"x": x, "dt": dt, "B": B, "C": C} | ({} if z is None else {"z": z})
    single = {"A": A}
    single |= {name: t for name, t in (("D", D), ("dt_bias", dt_bias)) if t is not None}
    index = {} if state_batch_indices is None else {"state_batch_indices": state_batch_indices}
    dtype = dtype_of(NAME, DTYPES, **many)
    state_dtype = dtype_of(NAME, DTYPES, state=state)
    dtype_of(NAME, (hx.f32,), **single)
    if index:
        dtype_of(NAME, (hx.i32,), **index)
    check_contiguous(NAME, state=state, **many, **single, **index)
    check_rank(NAME, 3, "state (slots, channels, states)", state=state)
    check_rank(NAME, 2, "x (batch, channels); fold heads into channels and groups", x=x)
    (b, d), states = x.shape, state.shape[2]
    groups = B.shape[1] if B.dim() == 3 else 1
    shared = (b, groups, states) if B.dim() == 3 else (b, states)
    expected = {
        "state": (state.shape[0] if index else b, d, states), "A": (d, states), "B": shared,
        "C": shared, "D": (d,), "dt_bias": (d,), "state_batch_indices": (b,),
    }  # fmt: skip
    for name, tensor in ({"state": state} | many | single | index).items():
        if tuple(tensor.shape) != expected.get(name, (b, d)):
            raise LaunchError(
                f"{NAME}: {name} is to be {expected.get(name, (b, d))} beside x {(b, d)}, got "
                f"{tuple(tensor.shape)}"
            )
    if states not in STATES:
        raise LaunchError(f"{NAME} takes {', '.join(map(str, STATES))} states, got {states}")
    if groups == 0 or d % groups:
        raise LaunchError(f"{NAME}: {d} channels are no {groups} groups of as many channels each")
    return Update(
        sequences=b, slots=state.shape[0], d=d, groups=groups, states=states, dtype=dtype,
        state_dtype=state_dtype, skips=D is not None, gated=z is not None,
        biased=dt_bias is not None, soft=dt_softplus, indexed=bool(index),
    )  # fmt: skip


def launch(p: Update, config: Config) -> Launch | Run:
    """The launch of a problem by this configuration."""
    if p.sequences == 0 or p.d == 0:
        return lambda *args: None
    kernel = state_update_kernel(
        p.dtype, p.state_dtype, p.states, skips=p.skips, gated=p.gated, biased=p.biased,
        soft=p.soft, indexed=p.indexed,
    )  # fmt: skip
    groups, width = p.groups, p.d // p.groups

    def many(name: str) -> Argument:
        return name, lambda t: t.view(p.sequences, groups, width)

    def shared(name: str) -> Argument:
        return name, lambda t: t.view(p.sequences, groups, p.states)

    def channels(name: str) -> Argument:
        return name, lambda t: t.view(groups, width, *t.shape[1:])

    state: Argument = ("state", lambda t: t.view(p.slots, groups, width, p.states))
    arguments = [state, many("x"), many("dt"), channels("A"), shared("B"), shared("C")]
    arguments += [channels("D")] * p.skips + [many("z")] * p.gated
    arguments += [channels("dt_bias")] * p.biased + ["state_batch_indices"] * p.indexed
    return Launch(kernel, config, (*arguments, many("out")))


selective_state_update = Operator(
    "selective_state_update(Tensor(a!) state, Tensor x, Tensor dt, Tensor A, Tensor B, Tensor C, "
    "Tensor? D=None, Tensor? z=None, Tensor? dt_bias=None, bool dt_softplus=False, "
    "Tensor? state_batch_indices=None) -> Tensor",
    describe=describe,
    outputs=lambda p: Output((p.sequences, p.d), p.dtype),
    variants=(Variant("slots", ("mma.sync",), UPDATE, launch),),
    doc="""One step of `selective_scan` for each sequence, its state read and written where it lies:

        h = exp(dt A) h + dt x B,   y = (sum over states of C h) + D x,   y silu(z)

    with dt + dt_bias for dt, through softplus where `dt_softplus`; computed in float32.

    state: (slots, channels, states), float16, bfloat16 or float32, changed. x, dt, z: (batch,
    channels); B, C: (batch, states), or (batch, groups, states) where groups of channels have
    their own; float16, bfloat16 or float32, all of one type. A: (channels, states), D, dt_bias:
    (channels,), float32. 4, 8, 16, 32, 64 or 128 states. All on one GPU, row-major.
    state_batch_indices: (batch,), int32: the slot of each sequence, which no other may have; its
    own number where not given. Where there is no such slot, as for -1, is no sequence: nothing is
    changed, and its results are 0.

    Gives (batch, channels). Variant: "slots".
    """,
)
