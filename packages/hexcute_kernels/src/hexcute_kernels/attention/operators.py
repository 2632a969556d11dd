"""attention(q, k, v): wgmma fed by TMA where GPU and tensors allow it, else mma.sync."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.attention.configs import MMA, WGMMA, MmaConfig, WgmmaConfig
from hexcute_kernels.attention.pipelined import pipelined_attention
from hexcute_kernels.attention.ragged import PLACE, Placed, most_places, place_blocks
from hexcute_kernels.attention.warp_specialized import warp_specialized_attention
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Steps, Variant
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16)
WIDEST = 256
"""The widest heads: their results fill the registers of the threads that multiply."""
_WHAT = "q (batch, sq, heads, d), k (batch, sk, kv_heads, d) and v (batch, sk, kv_heads, dv)"
_PACKED = (
    "q (total_q, heads, d), k (total_k, kv_heads, d) and v (total_k, kv_heads, dv) with cu_seqlens"
)


@dataclass(frozen=True, kw_only=True)
class Attention(Problem):
    """b x sq queries of h heads, sk keys of hk heads, of widths d and dv.

    Query i sees keys from i + sk - sq - left to i + sk - sq + right; None is no bound. Scores are
    cap tanh(score / cap) where cap is not 0. `with_lse`: the logarithms of the sums are a result.
    `sequences`: of b = 1, sq queries and sk keys are those of so many sequences, each its own.
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
    sequences: int | None = None
    UNTUNED: ClassVar[tuple[str, ...]] = ("scale",)

    @property
    def width(self) -> int:
        """The wider of the two widths."""
        return max(self.d, self.dv)

    @property
    def masked(self) -> int:
        """1 where blocks of queries see different numbers of keys, else 0."""
        return int(not (self.right is None and self.left is None and self.sequences is None))

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


def sequences_of(
    ends_q: torch.Tensor | None, ends_k: torch.Tensor | None
) -> int | None:
    """How many sequences are packed one behind the other; None where none are. Raises
    LaunchError."""
    if ends_q is None and ends_k is None:
        return None
    if ends_q is None or ends_k is None:
        raise LaunchError(
            "attention: cu_seqlens_q and cu_seqlens_k belong together, one was given",
            fix="pass both, the same tensor where queries and keys have the same lengths",
        )
    ends = {"cu_seqlens_q": ends_q, "cu_seqlens_k": ends_k}
    dtype_of("attention", (hx.i32,), **ends)
    check_contiguous("attention", **ends)
    if ends_q.ndim != 1 or ends_q.shape != ends_k.shape or ends_q.shape[0] < 1:
        raise LaunchError(
            "attention: cu_seqlens_q and cu_seqlens_k are to be (sequences + 1,), 0 and where each "
            f"sequence ends, got {tuple(ends_q.shape)} and {tuple(ends_k.shape)}"
        )
    return int(ends_q.shape[0]) - 1


def describe(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    scale: float | None,
    left: int | None,
    right: int | None,
    softcap: float,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
) -> Attention:
    """The problem that a call asks for. Raises LaunchError."""
    dtype = dtype_of("attention", DTYPES, q=q, k=k, v=v)
    sequences = sequences_of(cu_seqlens_q, cu_seqlens_k)
    what = _WHAT if sequences is None else _PACKED
    check_rank("attention", 4 if sequences is None else 3, what, q=q, k=k, v=v)
    check_contiguous("attention", q=q, k=k, v=v)
    b = 1 if sequences is not None else q.shape[0]
    (sq, h, d), (sk, hk), dv = q.shape[-3:], k.shape[-3:-1], v.shape[-1]
    batch = q.shape[:-3]
    if k.shape != (*batch, sk, hk, d) or v.shape != (*batch, sk, hk, dv):
        shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}"
        raise LaunchError(f"attention takes {what}; got {shapes}")
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
        right=0 if causal else right, left=left, cap=softcap, sequences=sequences,
    )  # fmt: skip


@wraps(describe)
def with_lse(*args: Any) -> Attention:
    """The same problem, with the logarithms of the sums among its results."""
    return replace(describe(*args), with_lse=True)


def outputs(p: Attention) -> tuple[Output, ...]:
    """The result, and where asked for the logarithms of the sums."""
    batch = (p.b,) if p.sequences is None else ()
    result = Output((*batch, p.sq, p.h, p.dv), p.dtype)
    return (result, Output((*batch, p.h, p.sq), hx.f32)) if p.with_lse else (result,)


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


def _batch_of_one(x: torch.Tensor) -> torch.Tensor:
    """Packed sequences as the kernels take them."""
    return x[None]


def launch(
    make: Callable[..., hx.Kernel],
) -> Callable[[Attention, MmaConfig | WgmmaConfig], Launch | Steps | Run]:
    """From a family of kernels, the launch of a problem by one of them."""

    def of(p: Attention, config: MmaConfig | WgmmaConfig) -> Launch | Steps | Run:
        if p.sk == 0 or p.sq == 0 or p.b == 0 or p.h == 0:
            return nothing_seen
        bounded = p.right is not None, p.left is not None
        ragged = p.sequences is not None
        kernel = make(p.dtype, p.d, p.dv, *bounded, p.cap > 0, p.with_lse, ragged)
        numbers = (float(p.scale), p.right or 0, p.left or 0, float(p.cap))
        tensors = ("q", "k", "v", "out0", "out1") if p.with_lse else ("q", "k", "v", "out")
        sums: tuple[Argument, ...] = () if p.with_lse else (("q", _no_lse),)
        if p.sequences is None:
            return Launch(kernel, config, (*tensors, *sums, *numbers))
        work = Output((most_places(p.sq, p.sequences, config.BM), PLACE), hx.i32)
        ends = ("cu_seqlens_q", "cu_seqlens_k")
        first = Launch(place_blocks, Placed(config.BM), (*ends, "work0"))
        packed = ((name, _batch_of_one) for name in tensors)
        return Steps((work,), (first, Launch(kernel, config, (*packed, *sums, "work0", *numbers))))

    return of


def nothing_seen(*args: Any) -> None:
    """Results of queries that see no key: zeros, and logarithms of no sum."""
    o, *lse = args[10:]
    o.zero_()
    for sums in lse:
        sums.fill_(-float("inf"))


VARIANTS = (
    Variant("wgmma", ("wgmma", "tma"), WGMMA, launch(warp_specialized_attention), tma_fits),
    Variant("mma", ("mma.sync",), MMA, launch(pipelined_attention)),
)
_PARAMETERS = (
    "Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, int? left=None, "
    "int? right=None, float softcap=0.0, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None"
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
    cu_seqlens_q, cu_seqlens_k: (sequences + 1,), int32, ascending, on the GPU, where they stay: 0,
    and where each sequence ends. Then q is (total_q, heads, d), k (total_k, kv_heads, d) and v
    (total_k, kv_heads, dv), sequences one behind the other. Each attends to itself alone, and masks
    are aligned at the end of each. Rows behind the last end are not looked at and not written.
"""

attention = Operator(
    f"attention({_PARAMETERS}) -> Tensor", describe=describe, outputs=outputs, variants=VARIANTS,
    doc=_DOC + """
    Gives (batch, sq, heads, dv), of sequences (total_q, heads, dv); zeros where a query sees no
    key. Variants: "wgmma" on Hopper where TMA can read the heads (d and dv multiples of 8), "mma"
    everywhere.
    """,
)  # fmt: skip

attention_with_lse = Operator(
    f"attention_with_lse({_PARAMETERS}) -> (Tensor, Tensor)", describe=with_lse, outputs=outputs,
    variants=VARIANTS,
    doc=_DOC + """
    Gives what `attention` does, and (batch, heads, sq) in float32, of sequences (heads, total_q):
    the natural logarithm of the sum of each query's exponentials, -inf where it sees no key.
    """,
)  # fmt: skip
