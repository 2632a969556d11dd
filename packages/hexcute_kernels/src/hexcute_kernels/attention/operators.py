"""attention(q, k, v): wgmma fed by TMA where GPU and tensors allow it, else mma.sync."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.attention.configs import MMA, WGMMA
from hexcute_kernels.attention.pipelined import pipelined_attention
from hexcute_kernels.attention.warp_specialized import warp_specialized_attention
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.tables import Config
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16)
WIDEST = 256
"""The widest heads: their results fill the registers of the threads that multiply."""
_WHAT = "q (batch, sq, heads, d), k (batch, sk, kv_heads, d) and v (batch, sk, kv_heads, dv)"


@dataclass(frozen=True, kw_only=True)
class Attention(Problem):
    """b x sq queries of h heads, sk keys of hk heads, of widths d and dv.

    Query i sees keys from i + sk - sq - left to i + sk - sq + right; None is no bound. Scores are
    cap tanh(score / cap) where cap is not 0. `with_lse`: the logarithms of the sums are a result.
    """

    b: int
    sq: int
    sk: int
    h: int
    hk: int
    d: int
    dv: int
    dtype: hx.DType
    scale: float
    right: int | None
    left: int | None
    cap: float
    with_lse: bool = False
    UNTUNED: ClassVar[tuple[str, ...]] = ("scale",)

    @property
    def width(self) -> int:
        """The wider of the two widths."""
        return max(self.d, self.dv)

    @property
    def masked(self) -> int:
        """1 where blocks of queries see different numbers of keys, else 0."""
        return int(self.right is not None or self.left is not None)

    @property
    def keys_bytes(self) -> int:
        """Bytes of all keys and values."""
        return self.b * self.hk * self.sk * (self.d + self.dv) * self.dtype.bits // 8


def scale_of(operator: str, d: int, scale: float | None) -> float:
    """The scale of scores of heads of width d. Raises LaunchError."""
    if scale is None:
        return float(d**-0.5)
    if not 0 < scale < math.inf:
        raise LaunchError(
            f"{operator}: scale is a positive number, got {scale}",
            fix="multiply q by what scale is to change of it: its sign",
        )
    return scale


def describe(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float | None,
    left: int | None,
    right: int | None,
    softcap: float,
) -> Attention:
    """The problem that a call asks for. Raises LaunchError."""
    dtype = dtype_of("attention", DTYPES, q=q, k=k, v=v)
    check_rank("attention", 4, _WHAT, q=q, k=k, v=v)
    check_contiguous("attention", q=q, k=k, v=v)
    (b, sq, h, d), (_, sk, hk, _), dv = q.shape, k.shape, v.shape[3]
    if k.shape != (b, sk, hk, d) or v.shape != (b, sk, hk, dv):
        shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}"
        raise LaunchError(f"attention takes {_WHAT}; got {shapes}")
    if hk == 0 or h % hk:
        raise LaunchError(
            f"attention: {h} heads of queries do not share {hk} of keys evenly",
            fix="let the heads of q be a multiple of those of k",
        )
    if not 0 < d <= WIDEST or not 0 < dv <= WIDEST:
        raise LaunchError(f"attention takes heads of width 1 to {WIDEST}, got {d} and {dv}")
    for name, bound in (("left", left), ("right", right)):
        if bound is not None and not 0 <= bound < 1 << 30:
            raise LaunchError(f"attention: {name} is a number of keys from 0 on, got {bound}")
    if not softcap >= 0:
        raise LaunchError(f"attention: softcap is positive, or 0 for none, got {softcap}")
    return Attention(
        b=b, sq=sq, sk=sk, h=h, hk=hk, d=d, dv=dv, dtype=dtype,
        scale=scale_of("attention", d, scale),
        right=0 if causal else right, left=left, cap=softcap,
    )  # fmt: skip


@wraps(describe)
def with_lse(*args: Any) -> Attention:
    """The same problem, with the logarithms of the sums among its results."""
    return replace(describe(*args), with_lse=True)


def outputs(p: Attention) -> tuple[Output, ...]:
    """The result, and where asked for the logarithms of the sums."""
    result = Output((p.b, p.sq, p.h, p.dv), p.dtype)
    return (result, Output((p.b, p.h, p.sq), hx.f32)) if p.with_lse else (result,)


def tma_fits(p: Attention) -> str | None:
    """Whether TMA can move the heads: rows of whole 16 bytes that start at one."""
    if not p.aligned:
        return "TMA takes tensors that start at a multiple of 16 bytes"
    if p.d % 8 or p.dv % 8:
        return f"TMA takes heads of a multiple of 8 elements, not {p.d} and {p.dv}"
    return None


def _no_lse(q: torch.Tensor) -> torch.Tensor:
    """What a kernel that writes no logarithms is given for them."""
    import torch as torch_module

    return q.new_empty((0, 0, 0), dtype=torch_module.float32)


def launch(make: Callable[..., hx.Kernel]) -> Callable[[Attention, Config], Launch | Run]:
    """From a family of kernels, the launch of a problem by one of them."""

    def of(p: Attention, config: Config) -> Launch | Run:
        if p.sk == 0 or p.sq == 0 or p.b == 0 or p.h == 0:
            return nothing_seen
        kernel = make(
            p.dtype, p.d, p.dv, p.right is not None, p.left is not None, p.cap > 0, p.with_lse
        )
        results: tuple[Argument, ...] = ("out0", "out1") if p.with_lse else ("out", ("q", _no_lse))
        numbers = (float(p.scale), p.right or 0, p.left or 0, float(p.cap))
        return Launch(kernel, config, ("q", "k", "v", *results, *numbers))

    return of


def nothing_seen(*args: Any) -> None:
    """Results of queries that see no key: zeros, and logarithms of no sum."""
    o, *lse = args[8:]
    o.zero_()
    for sums in lse:
        sums.fill_(-float("inf"))


VARIANTS = (
    Variant("wgmma", ("wgmma", "tma"), WGMMA, launch(warp_specialized_attention), tma_fits),
    Variant("mma", ("mma.sync",), MMA, launch(pipelined_attention)),
)
_PARAMETERS = (
    "Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, int? left=None, "
    "int? right=None, float softcap=0.0"
)
_DOC = """softmax(scale q k^T) v for each head, scores and sums in float32.

    q: (batch, sq, heads, d); k: (batch, sk, kv_heads, d); v: (batch, sk, kv_heads, dv), float16 or
    bfloat16 on one GPU, row-major. `heads` is a multiple of `kv_heads`, whose heads groups of
    queries' heads share; d and dv are at most 256.
    causal: a query sees the keys up to its own place; the last query and the last key share theirs.
    scale: of the scores, positive; 1 / sqrt(d) where not given.
    left, right: how many keys before and after its own place a query sees; None is no bound, and
    causal means right=0.
    softcap: scores become softcap * tanh(score / softcap); 0 for none.
"""

attention = Operator(
    f"attention({_PARAMETERS}) -> Tensor", describe=describe, outputs=outputs, variants=VARIANTS,
    doc=_DOC + """
    Gives (batch, sq, heads, dv); zeros where a query sees no key. Variants: "wgmma" on Hopper where
    TMA can read the heads (d and dv multiples of 8), "mma" everywhere.
    """,
)  # fmt: skip

attention_with_lse = Operator(
    f"attention_with_lse({_PARAMETERS}) -> (Tensor, Tensor)", describe=with_lse, outputs=outputs,
    variants=VARIANTS,
    doc=_DOC + """
    Gives what `attention` does, and (batch, heads, sq) in float32: the natural logarithm of the sum
    of each query's exponentials, -inf where it sees no key.
    """,
)  # fmt: skip
