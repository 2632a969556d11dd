"""causal_conv1d(x, weight, ...) and causal_conv1d_update(x, conv_state, weight, ...): the short
convolution before a scan, over sequences and for a step of decoding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.scan.configs import CONVOLUTION, CONVOLUTION_STEP
from hexcute_kernels.scan.convolution import HALO, convolution_kernel, convolution_step_kernel
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import CHANNELS_LAST, Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16, hx.f32)
ACTIVATIONS = (None, "silu", "swish")
LONGEST = 16
"""Steps that a slot of the cache may keep: a thread holds them in registers."""


@dataclass(frozen=True, kw_only=True)
class Convolution(Problem):
    """`sequences` of d channels, `width` steps at a time; of one step `kept` lie in each of
    `slots`."""

    sequences: int
    d: int
    width: int
    dtype: hx.DType
    biased: bool
    gated: bool
    length: int = 1
    timed: bool = True
    starts: bool = False
    slots: int = 0
    kept: int = 0
    indexed: bool = False


def _checked(
    name: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    activation: str | None, states: dict[str, torch.Tensor],
) -> Convolution:  # fmt: skip
    """What both operators ask. Raises LaunchError."""
    given = {"weight": weight} | ({} if bias is None else {"bias": bias}) | states
    dtype = dtype_of(name, DTYPES, x=x, **given)
    check_contiguous(name, **given)
    check_rank(name, 2, "weight (channels, width)", weight=weight)
    d, width = x.shape[1], weight.shape[1]
    if not 1 < width <= HALO + 1:
        raise LaunchError(f"{name} takes a width of 2 to {HALO + 1}, got {width}")
    for what, tensor, shape in (("weight", weight, (d, width)), ("bias", bias, (d,))):
        if tensor is not None and tuple(tensor.shape) != shape:
            raise LaunchError(
                f"{name}: {what} is to be {shape} beside x {tuple(x.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
    if activation not in ACTIVATIONS:
        raise LaunchError(f"{name} takes activation None, 'silu' or 'swish', got {activation!r}")
    return Convolution(
        sequences=x.shape[0], d=d, width=width, dtype=dtype, biased=bias is not None,
        gated=activation is not None,
    )  # fmt: skip


def describe(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    initial_states: torch.Tensor | None, activation: str | None,
) -> Convolution:  # fmt: skip
    """The problem that a call asks for. Raises LaunchError."""
    check_rank("causal_conv1d", 3, "x (batch, channels, length)", x=x)
    states = {} if initial_states is None else {"initial_states": initial_states}
    p = _checked("causal_conv1d", x, weight, bias, activation, states)
    before = (p.sequences, p.d, p.width - 1)
    if initial_states is not None and tuple(initial_states.shape) != before:
        raise LaunchError(
            f"causal_conv1d: initial_states is to be {before} beside x {tuple(x.shape)}, got "
            f"{tuple(initial_states.shape)}"
        )
    timed = x.is_contiguous()
    if not timed and not x.mT.is_contiguous():
        raise LaunchError(
            f"causal_conv1d takes x row-major, or with its channels side by side in memory; got "
            f"strides {x.stride()}",
            fix="pass x.contiguous()",
        )
    return replace(p, length=x.shape[2], timed=timed, starts=bool(states))


def launch(p: Convolution, config: Config) -> Launch | Run:
    """The launch of a problem by this configuration."""
    if p.sequences == 0 or p.d == 0 or p.length == 0:
        return lambda *args: None
    kernel = convolution_kernel(
        p.dtype, p.width, biased=p.biased, gated=p.gated, starts=p.starts, timed=p.timed
    )

    def many(name: str) -> Argument:
        return name if p.timed else (name, lambda t: t.mT)

    arguments = [many("x"), "weight", *["bias"] * p.biased, *["initial_states"] * p.starts]
    return Launch(kernel, config, (*arguments, many("out")))


def describe_step(
    x: torch.Tensor, conv_state: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    activation: str | None, conv_state_indices: torch.Tensor | None,
) -> Convolution:  # fmt: skip
    """The problem that a call asks for. Raises LaunchError."""
    name = "causal_conv1d_update"
    check_rank(name, 2, "x (batch, channels)", x=x)
    check_rank(name, 3, "conv_state (slots, channels, steps)", conv_state=conv_state)
    check_contiguous(name, x=x)
    p = _checked(name, x, weight, bias, activation, {"conv_state": conv_state})
    slots, channels, kept = conv_state.shape
    indexed = conv_state_indices is not None
    if (
        channels != p.d
        or kept < p.width - 1
        or kept > LONGEST
        or (slots != p.sequences and not indexed)
    ):
        raise LaunchError(
            f"{name}: conv_state is to be ({'slots' if indexed else p.sequences}, {p.d}, "
            f"{p.width - 1} to {LONGEST}) beside x {tuple(x.shape)} and weight "
            f"{tuple(weight.shape)}, got {tuple(conv_state.shape)}"
        )
    if conv_state_indices is not None:
        dtype_of(name, (hx.i32,), conv_state_indices=conv_state_indices)
        check_contiguous(name, conv_state_indices=conv_state_indices)
        if tuple(conv_state_indices.shape) != (p.sequences,):
            raise LaunchError(
                f"{name}: conv_state_indices is to be {(p.sequences,)}, a slot for each sequence, "
                f"got {tuple(conv_state_indices.shape)}"
            )
    return replace(p, slots=slots, kept=kept, indexed=indexed)


def launch_step(p: Convolution, config: Config) -> Launch | Run:
    """The launch of a step by this configuration."""
    if p.sequences == 0 or p.d == 0:
        return lambda *args: None
    kernel = convolution_step_kernel(
        p.dtype, p.width, p.kept, biased=p.biased, gated=p.gated, indexed=p.indexed
    )
    optional = ["bias"] * p.biased + ["conv_state_indices"] * p.indexed
    return Launch(kernel, config, ("x", "conv_state", "weight", *optional, "out"))


causal_conv1d = Operator(
    "causal_conv1d(Tensor x, Tensor weight, Tensor? bias=None, Tensor? initial_states=None, "
    "str? activation=None) -> Tensor",
    describe=describe,
    outputs=lambda p: Output(
        (p.sequences, p.d, p.length), p.dtype, None if p.timed else CHANNELS_LAST
    ),
    variants=(Variant("tiles", ("mma.sync", "cp.async"), CONVOLUTION, launch),),
    doc="""A channel at a time, added up in float32:

        y_t = activation(bias + sum over k of weight[k] x_(t - width + 1 + k))

    x: (batch, channels, length), row-major or with its channels side by side in memory, the steps
    before them; weight: (channels, width), width 2 to 9; bias: (channels,); float16, bfloat16 or
    float32, all of one type on one GPU.
    initial_states: (batch, channels, width - 1), the steps before the first; zeros where not given.
    activation: None, "silu" or its other name "swish".

    Gives (batch, channels, length) in x's order. Variant: "tiles".
    """,
)

causal_conv1d_update = Operator(
    "causal_conv1d_update(Tensor x, Tensor(a!) conv_state, Tensor weight, Tensor? bias=None, "
    "str? activation=None, Tensor? conv_state_indices=None) -> Tensor",
    describe=describe_step,
    outputs=lambda p: Output((p.sequences, p.d), p.dtype),
    variants=(Variant("slots", ("mma.sync",), CONVOLUTION_STEP, launch_step),),
    doc=f"""One step of `causal_conv1d` for each sequence, the steps before it in a cache.

    x: (batch, channels); conv_state: (slots, channels, steps), width - 1 steps or more, up to
    {LONGEST}, changed: it loses its first step, and x becomes its last. weight: (channels, width),
    width 2 to 9; bias: (channels,); float16, bfloat16 or float32, all of one type on one GPU,
    row-major.
    activation: None, "silu" or its other name "swish".
    conv_state_indices: (batch,), int32: the slot of each sequence, which no other may have; its
    own number where not given. Where there is no such slot, as for -1, is no sequence: nothing is
    changed, and its results are 0.

    Gives (batch, channels). Variant: "slots".
    """,
)
