"""selective_scan(u, delta, A, B, C, ...): Mamba's recurrence over sequences, and the same with the
states that it ends in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.scan.configs import HELPED, SCAN
from hexcute_kernels.scan.selective import selective_scan_kernel
from hexcute_kernels.scan.warp_specialized import helped_scan_kernel
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import CHANNELS_LAST, Output, check_contiguous, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "selective_scan"
DTYPES = (hx.f16, hx.bf16, hx.f32)
STATES = (4, 8, 16, 32, 64, 128)
"""How many states a channel may have: threads hold them in registers, up to 16 each."""


@dataclass(frozen=True, kw_only=True)
class Scan(Problem):
    """`sequences` of d channels, which `groups` of them share B and C, in tensors of `batch` rows
    of `length` steps."""

    batch: int
    sequences: int
    d: int
    length: int
    groups: int
    states: int
    dtype: hx.DType
    skips: bool
    gated: bool
    biased: bool
    soft: bool
    starts: bool
    ends: bool
    ragged: bool
    timed: bool
    bc_timed: bool

    @property
    def many(self) -> tuple[int, ...]:
        """The shape of u as the kernel sees it, in the order that it has in memory."""
        width = self.groups, self.d // self.groups
        return (
            (self.batch, *width, self.length) if self.timed else (self.batch, self.length, *width)
        )


def describe(
    u: torch.Tensor, delta: torch.Tensor, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor,
    D: torch.Tensor | None, z: torch.Tensor | None, delta_bias: torch.Tensor | None,
    delta_softplus: bool, initial_state: torch.Tensor | None, cu_seqlens: torch.Tensor | None,
) -> Scan:  # fmt: skip
    """The problem that a call asks for. Raises LaunchError."""
    many = {"u": u, "delta": delta} | ({} if z is None else {"z": z})
    optional = {"D": D, "delta_bias": delta_bias, "initial_state": initial_state}
    single = {"A": A} | {name: t for name, t in optional.items() if t is not None}
    dtype = dtype_of(NAME, DTYPES, **many, B=B, C=C)
    dtype_of(NAME, (hx.f32,), **single)
    if u.dim() != 3 or A.dim() != 2 or B.dim() not in (3, 4):
        shapes = f"{tuple(u.shape)}, {tuple(A.shape)} and {tuple(B.shape)}"
        raise LaunchError(
            f"{NAME} takes u (batch, channels, length), A (channels, states) and B (batch, "
            f"[groups,] states, length); got {shapes}"
        )
    (b, d, length), states = u.shape, A.shape[1]
    sequences = b
    if cu_seqlens is not None:
        dtype_of(NAME, (hx.i32,), cu_seqlens=cu_seqlens)
        check_contiguous(NAME, cu_seqlens=cu_seqlens)
        if cu_seqlens.dim() != 1 or not len(cu_seqlens) or b != 1:
            raise LaunchError(
                f"{NAME}: cu_seqlens is to be (sequences + 1,) beside u (1, channels, steps of all "
                f"sequences), got {tuple(cu_seqlens.shape)} beside {tuple(u.shape)}"
            )
        sequences = len(cu_seqlens) - 1
    groups = B.shape[1] if B.dim() == 4 else 1
    shared = (b, groups, states, length) if B.dim() == 4 else (b, states, length)
    expected = {
        "A": (d, states), "B": shared, "C": shared, "D": (d,), "delta_bias": (d,),
        "initial_state": (sequences, d, states),
    }  # fmt: skip
    for name, tensor in (many | single | {"B": B, "C": C}).items():
        if tuple(tensor.shape) != expected.get(name, (b, d, length)):
            raise LaunchError(
                f"{NAME}: {name} is to be {expected.get(name, (b, d, length))} beside u "
                f"{(b, d, length)}, got {tuple(tensor.shape)}"
            )
    check_contiguous(NAME, **single)
    if states not in STATES:
        raise LaunchError(f"{NAME} takes {', '.join(map(str, STATES))} states, got {states}")
    if groups == 0 or d % groups:
        raise LaunchError(f"{NAME}: {d} channels are no {groups} groups of as many channels each")
    timed = _timed("channels", many)
    return Scan(
        batch=b, sequences=sequences, d=d, length=length, groups=groups, states=states,
        dtype=dtype, skips=D is not None, gated=z is not None, biased=delta_bias is not None,
        soft=delta_softplus, starts=initial_state is not None, ends=False,
        ragged=cu_seqlens is not None, timed=timed, bc_timed=_timed("states", {"B": B, "C": C}),
    )  # fmt: skip


@wraps(describe)
def with_state(*args: Any) -> Scan:
    """The same problem, with the states among its results."""
    return replace(describe(*args), ends=True)


def _timed(others: str, tensors: dict[str, torch.Tensor]) -> bool:
    """Whether steps lie side by side in all tensors; false where `others` do, the steps before
    them. Raises LaunchError."""
    if all(t.is_contiguous() for t in tensors.values()):
        return True
    if all(_steps_first(t).is_contiguous() for t in tensors.values()):
        return False
    strides = ", ".join(f"{name} of strides {t.stride()}" for name, t in tensors.items())
    raise LaunchError(
        f"{NAME} takes {' and '.join(tensors)} in one order, row-major or with {others} side by "
        f"side in memory, steps before them; got {strides}",
        fix="pass x.contiguous() of each",
    )


def _steps_first(t: torch.Tensor) -> torch.Tensor:
    """(batch, length, [groups,] rest) of (batch, [groups,] rest, length)."""
    return t.movedim(-1, 1)


def launch(make: Callable[..., hx.Kernel]) -> Callable[[Scan, Config], Launch | Run]:
    """From a family of kernels, the launch of a problem by one of them."""

    def of(p: Scan, config: Config) -> Launch | Run:
        if p.sequences == 0 or p.d == 0 or p.length == 0:
            return stays if p.ends else lambda *args: None
        ragged = {"ragged": True} if p.ragged else {}
        kernel = make(
            p.dtype, p.states, skips=p.skips, gated=p.gated, biased=p.biased, soft=p.soft,
            starts=p.starts, ends=p.ends, timed=p.timed, bc_timed=p.bc_timed, **ragged,
        )  # fmt: skip
        return Launch(kernel, config, _arguments(p))

    return of


def helped_fits(p: Scan) -> str | None:
    """Whether the kernel with helpers takes the problem, in the registers that its threads have."""
    if p.ragged:
        return "takes no cu_seqlens"
    if p.states < 16 or p.dtype.bits != 16:
        return f"takes 16 states or more in 16 bits, not {p.states} in {p.dtype.bits}"
    return None


def _arguments(p: Scan) -> tuple[Argument, ...]:
    """What the kernels take, in their order."""
    groups, width = p.groups, p.d // p.groups

    def many(name: str) -> Argument:
        return name, lambda t: (t if p.timed else _steps_first(t)).view(p.many)

    def shared(name: str) -> Argument:
        inner = (groups, p.states)
        if p.bc_timed:
            return name, lambda t: t.view(p.batch, *inner, p.length)
        return name, lambda t: _steps_first(t).view(p.batch, p.length, *inner)

    def channels(name: str) -> Argument:
        return name, lambda t: t.view(groups, width, *t.shape[1:])

    def states(name: str) -> Argument:
        return name, lambda t: t.view(p.sequences, groups, width, p.states)

    arguments = [many("u"), many("delta"), channels("A"), shared("B"), shared("C")]
    arguments += [channels("D")] * p.skips + [many("z")] * p.gated
    arguments += [channels("delta_bias")] * p.biased + [states("initial_state")] * p.starts
    arguments += ["cu_seqlens"] * p.ragged
    return *arguments, *([many("out0"), states("out1")] if p.ends else [many("out")])


def stays(*args: Any) -> None:
    """No step leaves the states as they were, and zeros where none were given."""
    initial_state, end = args[9], args[-1]
    if initial_state is None:
        end.zero_()
    else:
        end.copy_(initial_state)


def outputs(p: Scan) -> tuple[Output, ...]:
    """The result, in u's order, and where asked for the states."""
    result = Output((p.batch, p.d, p.length), p.dtype, None if p.timed else CHANNELS_LAST)
    if not p.ends:
        return (result,)
    return result, Output((p.sequences, p.d, p.states), hx.f32)


_PARAMETERS = (
    "Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D=None, Tensor? z=None, "
    "Tensor? delta_bias=None, bool delta_softplus=False, Tensor? initial_state=None, "
    "Tensor? cu_seqlens=None"
)
_VARIANTS = (
    Variant("helped", ("wgmma",), HELPED, launch(helped_scan_kernel), helped_fits),
    Variant("channels", ("mma.sync", "cp.async"), SCAN, launch(selective_scan_kernel)),
)
_DOC = """The selective state-space recurrence, each step and channel:

        h = exp(dt A) h + dt u B,   y = (sum over states of C h) + D u,   y silu(z)

    with dt = delta + delta_bias, through softplus where `delta_softplus`; states in float32. In 16
    bits, where all states of A lie evenly apart (A[n] = (n + 1) A[0] to a millionth, which the
    kernel finds out by itself), exponentials are powers of one, and off by 2^-17 of themselves.

    u, delta, z: (batch, channels, length); B, C: (batch, states, length), or (batch, groups,
    states, length) where groups of channels have their own; float16, bfloat16 or float32, all of
    one type. A: (channels, states), D, delta_bias: (channels,), float32. 4, 8, 16, 32, 64 or 128
    states. All on one GPU, row-major; or u, delta and z with their channels side by side in memory,
    and B and C with their states, the steps before them.
    initial_state: (batch, channels, states), float32: h before the first step, zeros where not
    given.
    cu_seqlens: (sequences + 1,), int32, ascending from 0 to length: sequence s is steps
    cu_seqlens[s] to cu_seqlens[s + 1] of the only batch, from its own state on; states are then
    (sequences, channels, states). Steps outside of all sequences are not written. With the channels
    side by side such sequences go faster, for they start anywhere.
"""

selective_scan = Operator(
    f"selective_scan({_PARAMETERS}) -> Tensor", describe=describe, outputs=outputs,
    variants=_VARIANTS,
    doc=_DOC + """
    Gives (batch, channels, length) in u's order. Variants: "helped" on Hopper, a warp group does
    the rest of the work for those that walk the channels, for sequences of one length, 16 bits and
    16 states or more; "channels" everywhere, all threads do both.
    """,
)  # fmt: skip

selective_scan_with_state = Operator(
    f"selective_scan_with_state({_PARAMETERS}) -> (Tensor, Tensor)",
    describe=with_state, outputs=outputs, variants=_VARIANTS,
    doc=_DOC + """
    Gives what `selective_scan` does, and h after each sequence's last step, float32.
    """,
)  # fmt: skip
