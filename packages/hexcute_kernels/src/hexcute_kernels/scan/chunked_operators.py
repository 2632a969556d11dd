"""ssd_scan(x, dt, A, B, C, ...): Mamba-2's recurrence over sequences, chunk by chunk, and the same
with the states that it ends in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.scan.chunked import chunked_scan_kernel
from hexcute_kernels.scan.configs import CHUNKED
from hexcute_kernels.scan.operators import stays
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "ssd_scan"
DTYPES = (hx.f16, hx.bf16)
MOST_STATES = 256
"""How many states a row may have: a block holds those of its rows in registers."""


@dataclass(frozen=True, kw_only=True)
class ChunkedScan(Problem):
    """`batch` sequences of `length` steps, of heads of this width, which `groups` of them share B
    and C."""

    batch: int
    length: int
    heads: int
    width: int
    groups: int
    states: int
    dtype: hx.DType
    dt_dtype: hx.DType
    skips: bool
    gated: bool
    biased: bool
    soft: bool
    starts: bool
    ends: bool


def describe(
    x: torch.Tensor, dt: torch.Tensor, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor,
    D: torch.Tensor | None, z: torch.Tensor | None, dt_bias: torch.Tensor | None,
    dt_softplus: bool, initial_states: torch.Tensor | None,
) -> ChunkedScan:  # fmt: skip
    """The problem that a call asks for. Raises LaunchError."""
    many = {"x": x, "B": B, "C": C} | ({} if z is None else {"z": z})
    optional = {"D": D, "dt_bias": dt_bias, "initial_states": initial_states}
    single = {"A": A} | {name: t for name, t in optional.items() if t is not None}
    dtype = dtype_of(NAME, DTYPES, **many)
    dt_dtype = dtype_of(NAME, (*DTYPES, hx.f32), dt=dt)
    dtype_of(NAME, (hx.f32,), **single)
    check_rank(NAME, 4, "x (batch, steps, heads, width)", x=x)
    check_rank(NAME, 4, "B (batch, steps, groups, states)", B=B)
    (b, length, heads, width), (groups, states) = x.shape, B.shape[2:]
    shared = (b, length, groups, states)
    expected = {
        "dt": (b, length, heads), "A": (heads,), "B": shared, "C": shared, "D": (heads,),
        "dt_bias": (heads,), "initial_states": (b, heads, width, states),
    }  # fmt: skip
    for name, tensor in (many | {"dt": dt} | single).items():
        if tuple(tensor.shape) != expected.get(name, tuple(x.shape)):
            raise LaunchError(
                f"{NAME}: {name} is to be {expected.get(name, tuple(x.shape))} beside x "
                f"{tuple(x.shape)} and B {tuple(B.shape)}, got {tuple(tensor.shape)}"
            )
    check_contiguous(NAME, **many, dt=dt, **single)
    if states % 16 or not 16 <= states <= MOST_STATES:
        raise LaunchError(f"{NAME} takes 16 to {MOST_STATES} states by sixteens, got {states}")
    if width % 16 or not width:
        raise LaunchError(f"{NAME} takes heads of a width that 16 divides, got {width}")
    if groups == 0 or heads % groups:
        raise LaunchError(f"{NAME}: {heads} heads are no {groups} groups of as many heads each")
    return ChunkedScan(
        batch=b, length=length, heads=heads, width=width, groups=groups, states=states,
        dtype=dtype, dt_dtype=dt_dtype, skips=D is not None, gated=z is not None,
        biased=dt_bias is not None, soft=dt_softplus, starts=initial_states is not None,
        ends=False,
    )  # fmt: skip


@wraps(describe)
def with_state(*args: Any) -> ChunkedScan:
    """The same problem, with the states among its results."""
    return replace(describe(*args), ends=True)


def launch(p: ChunkedScan, config: Config) -> Launch | Run:
    """The launch of a problem by this configuration."""
    if p.batch == 0 or p.heads == 0 or p.length == 0:
        return stays if p.ends else lambda *args: None
    kernel = chunked_scan_kernel(
        p.dtype, p.dt_dtype, p.width, p.states, skips=p.skips, gated=p.gated, biased=p.biased,
        soft=p.soft, starts=p.starts, ends=p.ends,
    )  # fmt: skip
    arguments: list[Argument] = ["x", "dt", "A", "B", "C", *["D"] * p.skips, *["z"] * p.gated]
    arguments += ["dt_bias"] * p.biased + ["initial_states"] * p.starts
    return Launch(kernel, config, (*arguments, *(["out0", "out1"] if p.ends else ["out"])))


def outputs(p: ChunkedScan) -> tuple[Output, ...]:
    """The result, and where asked for the states."""
    result = Output((p.batch, p.length, p.heads, p.width), p.dtype)
    if not p.ends:
        return (result,)
    return result, Output((p.batch, p.heads, p.width, p.states), hx.f32)


_PARAMETERS = (
    "Tensor x, Tensor dt, Tensor A, Tensor B, Tensor C, Tensor? D=None, Tensor? z=None, "
    "Tensor? dt_bias=None, bool dt_softplus=False, Tensor? initial_states=None"
)
_VARIANTS = (Variant("chunks", ("mma.sync", "cp.async"), CHUNKED, launch),)
_DOC = """Mamba-2's state-space recurrence, each step and head, h being (width, states):

        h = exp(dt A) h + dt x B^T,   y = (h C + D x) silu(z)

    with dt + dt_bias for dt, through softplus where `dt_softplus`. States, decays and sums in
    float32; h and the weights of earlier steps are rounded to x's type where the Tensor Core
    multiplies by them. How many steps it takes at a time, BT of the configuration, changes rounding
    alone.

    x, z: (batch, steps, heads, width), B, C: (batch, steps, groups, states), as many heads for each
    group; float16 or bfloat16, all of one type. dt: (batch, steps, heads), of these or float32. A,
    D, dt_bias: (heads,), float32. Any number of steps, a width that 16 divides, 16 to 256 states by
    sixteens. All on one GPU, row-major.
    initial_states: (batch, heads, width, states), float32: h before the first step, zeros where not
    given.
"""

ssd_scan = Operator(
    f"ssd_scan({_PARAMETERS}) -> Tensor", describe=describe, outputs=outputs, variants=_VARIANTS,
    doc=_DOC + """
    Gives (batch, steps, heads, width). Variant: "chunks" everywhere, by mma.sync, a block per 64
    rows of a head, which walks all of its steps: many heads and sequences fill a GPU, few do not.
    """,
)  # fmt: skip

ssd_scan_with_state = Operator(
    f"ssd_scan_with_state({_PARAMETERS}) -> (Tensor, Tensor)",
    describe=with_state, outputs=outputs, variants=_VARIANTS,
    doc=_DOC + """
    Gives what `ssd_scan` does, and h after the last step, float32.
    """,
)  # fmt: skip
