"""decode_attention(q, k_cache, v_cache): the last queries of each sequence against its cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.attention.decode_configs import FEW, MANY, SPLIT, SplitConfig
from hexcute_kernels.attention.decoding import ROWS, combine, decoding_attention, workspace_width
from hexcute_kernels.attention.operators import DTYPES, WIDEST, scale_of
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Steps, Variant
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "decode_attention"
LATEST = 8
"""The most queries of a sequence."""
HIGHEST = 64
"""Rows of a tile at most."""
_WHAT = "q (batch, sq, heads, d), k_cache and v_cache (batch, sk, kv_heads, d)"


@dataclass(frozen=True, kw_only=True)
class Decoding(Problem):
    """b sequences of sq queries of h heads at the end of at most sk keys of hk heads, of width d;
    `ragged`, each has a length of its own."""

    b: int
    sq: int
    sk: int
    h: int
    hk: int
    d: int
    dtype: hx.DType
    scale: float
    ragged: bool
    UNTUNED: ClassVar[tuple[str, ...]] = ("scale",)

    @property
    def g(self) -> int:
        """Heads of queries that share one of keys."""
        return self.h // self.hk

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Heads and queries that are rows of a tile: powers of two, of whole steps of the Tensor
        Core."""
        group = min(_power(self.g), HIGHEST)
        queries = min(_power(self.sq), HIGHEST // group)
        return group, max(queries, ROWS // group)

    @property
    def whole(self) -> bool:
        """Whether one tile holds all that share a head of keys."""
        return self.g <= self.tile[0] and self.sq <= self.tile[1]

    @property
    def tiles(self) -> int:
        """How many tiles there are, each of which reads a head's keys."""
        group, queries = self.tile
        return self.b * self.hk * -(-self.g // group) * -(-self.sq // queries)


def _power(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(number - 1, 0).bit_length()


def describe(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    seq_lens: torch.Tensor | None,
    scale: float | None,
) -> Decoding:
    """The problem that a call asks for. Raises LaunchError."""
    many = {"q": q, "k_cache": k_cache, "v_cache": v_cache}
    dtype = dtype_of(NAME, DTYPES, **many)
    check_rank(NAME, 4, _WHAT, **many)
    check_contiguous(NAME, **many)
    (b, sq, h, d), (_, sk, hk, _) = q.shape, k_cache.shape
    if k_cache.shape != (b, sk, hk, d) or v_cache.shape != k_cache.shape:
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in many.items())
        raise LaunchError(f"{NAME} takes {_WHAT}; got {shapes}")
    if hk == 0 or h % hk:
        raise LaunchError(
            f"{NAME}: {h} heads of queries do not share {hk} of keys evenly",
            fix="let the heads of q be a multiple of those of k_cache",
        )
    if not 0 < d <= WIDEST or d % 8:
        raise LaunchError(f"{NAME} takes heads of a multiple of 8 up to {WIDEST}, got {d}")
    if sq > LATEST:
        raise LaunchError(
            f"{NAME} takes up to {LATEST} queries a sequence, got {sq}",
            fix="call attention(q, k, v, causal=True), which shares its work out by queries",
        )
    if seq_lens is not None:
        dtype_of(NAME, (hx.i32,), seq_lens=seq_lens)
        check_contiguous(NAME, seq_lens=seq_lens)
        if tuple(seq_lens.shape) != (b,):
            raise LaunchError(
                f"{NAME}: seq_lens is to be {(b,)}, a length for each sequence, got "
                f"{tuple(seq_lens.shape)}"
            )
    return Decoding(
        b=b, sq=sq, sk=sk, h=h, hk=hk, d=d, dtype=dtype,
        scale=scale_of(NAME, d, scale), ragged=seq_lens is not None,
    )  # fmt: skip


def launch(p: Decoding, config: SplitConfig) -> Launch | Steps | Run:
    """The launch of a problem by this configuration: of one kernel, or of two where its keys are
    split."""
    if p.b == 0 or p.sq == 0 or p.h == 0 or p.sk == 0:
        return lambda *args: args[-1].zero_()
    splits, share, (group, queries) = config.splits(p), config.share(p), p.tile
    alone, rows = splits == 1, p.b * p.sq * p.h
    kernel = decoding_attention(
        p.dtype, p.d, group, queries, whole=p.whole, ragged=p.ragged, alone=alone
    )
    heads = (p.b, p.sq, p.hk, p.g, p.d)
    tensors: tuple[Argument, ...] = (("q", lambda q: q.view(heads)), "k_cache", "v_cache")
    tensors += ("seq_lens",) * p.ragged
    numbers = float(p.scale), share
    if alone:
        result: Argument = ("out", lambda out: out.view(heads))
        return Launch(kernel, config.kernel, (*tensors, result, *numbers))
    width = workspace_width(p.d)
    work = Output((splits, *heads[:-1], width), hx.f32)
    found: Argument = ("work0", lambda work: work.view(splits, rows, width))
    result = ("out", lambda out: out.view(rows, p.d))
    first = Launch(kernel, config.kernel, (*tensors, "work0", *numbers))
    how = FEW if splits <= 2 * FEW.CHUNK else MANY
    return Steps((work,), (first, Launch(combine(p.dtype, p.d), how, (found, result, numbers[0]))))


decode_attention = Operator(
    "decode_attention(Tensor q, Tensor k_cache, Tensor v_cache, Tensor? seq_lens=None, "
    "float? scale=None) -> Tensor",
    describe=describe,
    outputs=lambda p: Output((p.b, p.sq, p.h, p.d), p.dtype),
    variants=(Variant("splits", ("mma.sync", "cp.async"), SPLIT, launch),),
    doc="""softmax(scale q k^T) v for the last queries of each sequence, causal among them, against
    a cache that is read once.

    q: (batch, sq, heads, d), sq up to 8; k_cache, v_cache: (batch, sk, kv_heads, d), float16 or
    bfloat16 on one GPU, row-major. `heads` is a multiple of `kv_heads`, whose heads groups of
    queries' heads share; d is a multiple of 8 up to 256.
    seq_lens: (batch,), int32: how many keys of the cache each sequence has, its queries' own among
    them; sk where not given. What the cache holds behind them is not looked at, more than sk count
    as sk, fewer than 0 as none.
    scale: of the scores, positive; 1 / sqrt(d) where not given.

    Query i of a sequence of n keys sees its keys up to number n - sq + i. Gives (batch, sq, heads,
    d); zeros where a query sees no key. The same call gives the same bits. Variant: "splits", which
    shares each sequence's keys out among blocks, and adds up what they find in a second kernel.
    """,
)
