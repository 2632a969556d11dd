"""decode_attention(q, k_cache, v_cache): the last queries of each sequence against its cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, ClassVar

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.attention.bounds import tile_width
from hexcute_kernels.attention.decode_configs import SPLIT, SplitConfig, combining
from hexcute_kernels.attention.decoding import (
    ROWS,
    Kind,
    combine,
    decoding_attention,
    workspace_width,
)
from hexcute_kernels.attention.operators import DTYPES, WIDEST, scale_of
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Steps, Variant
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of, torch_dtype

if TYPE_CHECKING:
    import torch

NAME = "decode_attention"
LATEST = 8
"""The most queries of a sequence."""
HIGHEST, HIGHEST_LATENT = 64, 32
"""Rows of a tile at most; results as wide as those of latent heads fill more registers."""
UNBOUNDED = (1 << 31) - 1024
"""Keys before its own of a query that sees all: more than there are, and a tile and the queries
more are numbers of 32 bits still."""
_WHAT = "q (batch, sq, heads, d), k_cache and v_cache (batch, sk, kv_heads, d)"
_PAGED = "k_cache and v_cache (pages, page, kv_heads, d) beside a page_table (batch, most)"


@dataclass(frozen=True, kw_only=True)
class Decoding(Problem):
    """b sequences of sq queries of h heads at the end of at most sk keys of hk heads, of width d.

    `ragged`, each has a length of its own; `page`, its keys lie in pages of so many. Queries see
    `left` keys before their own, None is no bound; scores are cap tanh(score / cap) where cap is
    not 0. `with_lse`: the logarithms of the sums are a result. `values`: how many columns of a key
    are its value too; 0 where values lie in a cache of their own. Tiles have `least` rows at least.
    """

    b: int
    sq: int
    sk: int
    h: int
    hk: int
    d: int
    dtype: hx.DType
    scale: float
    ragged: bool
    cached: hx.DType | None = None
    page: int | None = None
    left: int | None = None
    cap: float = 0.0
    v_scale: float = 1.0
    with_lse: bool = False
    values: int = 0
    least: int = ROWS
    UNTUNED: ClassVar[tuple[str, ...]] = ("scale", "v_scale", "cap")

    @property
    def g(self) -> int:
        """Heads of queries that share one of keys."""
        return self.h // self.hk

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Heads and queries that are rows of a tile: powers of two, of whole steps of the Tensor
        Core."""
        highest = max(HIGHEST_LATENT if self.values else HIGHEST, self.least)
        group = min(_power(self.g), highest)
        queries = min(_power(self.sq), highest // group)
        return group, max(queries, self.least // group)

    @property
    def high(self) -> int:
        """Rows of a tile."""
        group, queries = self.tile
        return group * queries

    @property
    def whole(self) -> bool:
        """Whether one tile holds all that share a head of keys."""
        return self.g <= self.tile[0] and self.sq <= self.tile[1]

    @property
    def seen(self) -> int:
        """Keys of a sequence that are looked at, at most."""
        return self.sk if self.left is None else min(self.sk, self.left + self.sq)

    @property
    def columns(self) -> int:
        """How many tiles each sequence has, which read its keys of one head each."""
        group, queries = self.tile
        return self.hk * -(-self.g // group) * -(-self.sq // queries)

    @property
    def width(self) -> int:
        """Columns of a tile of results."""
        return tile_width(self.dv)

    @property
    def dv(self) -> int:
        """Columns of a value."""
        return self.values or self.d

    @property
    def tiles(self) -> int:
        """How many tiles there are, each of which reads a head's keys."""
        return self.b * self.columns


def _power(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(number - 1, 0).bit_length()


def describe(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    seq_lens: torch.Tensor | None,
    page_table: torch.Tensor | None,
    scale: float | None,
    left: int | None,
    softcap: float,
    k_scale: float,
    v_scale: float,
) -> Decoding:
    """The problem that a call asks for. Raises LaunchError."""
    dtype = dtype_of(NAME, DTYPES, q=q)
    cached = dtype_of(NAME, (dtype, hx.f8e4m3), k_cache=k_cache, v_cache=v_cache)
    check_rank(NAME, 4, _WHAT, q=q, k_cache=k_cache, v_cache=v_cache)
    check_contiguous(NAME, q=q, k_cache=k_cache, v_cache=v_cache)
    (b, sq, h, d), (many, sk, hk, _) = q.shape, k_cache.shape
    meet = v_cache.shape == k_cache.shape and k_cache.shape[3] == d
    if not meet or (page_table is None and many != b):
        named = (("q", q), ("k_cache", k_cache), ("v_cache", v_cache))
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in named)
        raise LaunchError(f"{NAME} takes {_WHAT}, or {_PAGED}; got {shapes}")
    if hk == 0 or h % hk:
        raise LaunchError(
            f"{NAME}: {h} heads of queries do not share {hk} of keys evenly",
            fix="let the heads of q be a multiple of those of k_cache",
        )
    if not 0 < d <= WIDEST or d % 8:
        raise LaunchError(f"{NAME} takes heads of a multiple of 8 up to {WIDEST}, got {d}")
    if cached != dtype and d % 16:
        raise LaunchError(f"{NAME} takes heads of a multiple of 16 in 8 bits, got {d}")
    if sq > LATEST:
        raise LaunchError(
            f"{NAME} takes up to {LATEST} queries per sequence, got {sq}",
            fix="call attention(q, k, v, causal=True), which shares its work out by queries",
        )
    if left is not None and not 0 <= left < UNBOUNDED:
        raise LaunchError(f"{NAME}: left is a number of keys from 0 on, got {left}")
    if not softcap >= 0:
        raise LaunchError(f"{NAME}: softcap is positive, or 0 for none, got {softcap}")
    page, sk = cache_rows(NAME, k_cache, page_table, seq_lens, b)
    if seq_lens is not None:
        check_lengths(NAME, seq_lens, b)
    return Decoding(
        b=b, sq=sq, sk=sk, h=h, hk=hk, d=d, dtype=dtype,
        scale=scale_of(NAME, d, scale) * scale_of(NAME, d, k_scale),
        ragged=seq_lens is not None, cached=cached, page=page, left=left, cap=float(softcap),
        v_scale=float(v_scale),
    )  # fmt: skip


def cache_rows(
    operator: str,
    cache: torch.Tensor,
    page_table: torch.Tensor | None,
    seq_lens: torch.Tensor | None,
    b: int,
) -> tuple[int | None, int]:
    """(page, sk): rows of a page, None where there are none, and how many keys a sequence has at
    most. Raises LaunchError."""
    page, sk = None, cache.shape[1]
    if page_table is not None:
        dtype_of(operator, (hx.i32,), page_table=page_table)
        check_rank(operator, 2, "a page_table (batch, most)", page_table=page_table)
        check_contiguous(operator, page_table=page_table)
        if seq_lens is None:
            raise LaunchError(
                f"{operator}: a page_table says where keys are, not how many",
                fix="pass seq_lens, the length of each sequence",
            )
        if page_table.shape[0] != b:
            raise LaunchError(
                f"{operator}: page_table is to have a row for each of {b} sequences, got "
                f"{tuple(page_table.shape)}"
            )
        if sk not in PAGES:
            raise LaunchError(
                f"{operator} takes pages of a power of two up to {PAGES[-1]} rows, got {sk}",
                fix="let k_cache and v_cache be (pages, page, kv_heads, d)",
            )
        page, sk = sk, sk * page_table.shape[1]
    if max(cache.shape[0] * cache.shape[1], sk) >= UNBOUNDED:
        raise LaunchError(
            f"{operator} takes caches of less than 2^31 - 1024 keys, got {tuple(cache.shape)}"
        )
    return page, sk


def check_lengths(operator: str, seq_lens: torch.Tensor, b: int) -> None:
    """That there is a length for each sequence. Raises LaunchError."""
    dtype_of(operator, (hx.i32,), seq_lens=seq_lens)
    check_contiguous(operator, seq_lens=seq_lens)
    if tuple(seq_lens.shape) != (b,):
        raise LaunchError(
            f"{operator}: seq_lens is to be {(b,)}, a length for each sequence, got "
            f"{tuple(seq_lens.shape)}"
        )


PAGES = tuple(1 << i for i in range(11))
"""Rows that a page may have."""


@wraps(describe)
def with_lse(*args: Any) -> Decoding:
    """The same problem, with the logarithms of the sums among its results."""
    return replace(describe(*args), with_lse=True)


def outputs(p: Decoding) -> tuple[Output, ...]:
    """The result, and where asked for the logarithms of the sums."""
    result = Output((p.b, p.sq, p.h, p.dv), p.dtype)
    return (result, Output((p.b, p.h, p.sq), hx.f32)) if p.with_lse else (result,)


def nothing_seen(*args: Any) -> None:
    """Results of queries that see no key: zeros."""
    *_, o = args
    o.zero_()


def nothing_logged(*args: Any) -> None:
    """The same, and logarithms of no sum."""
    *rest, sums = args
    nothing_seen(*rest)
    sums.fill_(-float("inf"))


def launch(
    dependent: bool,
    kernel: Callable[[Kind], hx.Kernel] = decoding_attention,
    least: int = ROWS,
    in_rows: bool = False,
) -> Callable[[Decoding, SplitConfig], Launch | Steps | Run]:
    """How problems are launched: by one kernel, or by two where keys are split; `dependent`, each
    may begin before the one ahead has ended. `kernel` takes tiles of `least` rows or more; where
    `in_rows`, results leave it so of full tiles, and where most sequences are left uncut."""

    def of(p: Decoding, config: SplitConfig) -> Launch | Steps | Run:
        p = replace(p, least=least)
        if p.b == 0 or p.sq == 0 or p.h == 0 or p.sk == 0:
            return nothing_logged if p.with_lse else nothing_seen
        alone, places = config.alone(p), config.places(p)
        several = p.ragged and not alone
        # Rows go through slots of keys, two of a tile's height.
        rowwise = in_rows and least == config.BN and config.STAGES > 1
        # Blocks are shared out by lengths to the nearest number: one for each of about the average.
        uncut = rowwise and several and 2 * (places - p.b) < 3 * p.b
        kind = Kind(
            p.dtype, p.cached or p.dtype, p.d, *p.tile, whole=p.whole, ragged=p.ragged,
            page=p.page, capped=p.cap > 0, alone=alone,
            logged=p.with_lse, dependent=dependent, early=dependent and config.EARLY,
            values=p.values, paired=config.PAIRED and p.columns % 2 == 0,
            in_rows=uncut or (rowwise and p.h * p.sq >= least),
            ahead=config.AHEAD and dependent and not (p.ragged or p.values),
        )  # fmt: skip
        blocks = places if several else places // p.b
        result, logs = ("out0", "out1") if p.with_lse else ("out", "")
        heads, width = (p.b, p.sq, p.hk, p.g), workspace_width(p.dv)
        tensors: list[Argument] = [("q", lambda q: q.view(*heads, p.d))]
        caches = ("cache",) if p.values else ("k_cache", "v_cache")
        tensors += [(name, lambda t: t.view(-1, p.hk, p.d)) for name in caches]
        tensors += ["seq_lens"] * p.ragged + ["page_table"] * (p.page is not None)
        numbers = float(p.scale), p.v_scale
        rest = *numbers, p.cap, UNBOUNDED if p.left is None else p.left, p.sk, blocks
        whole: Argument = (result, lambda out: out.view(*heads, p.dv))
        if alone:
            tensors += [whole]
            logged: Argument = (logs, lambda lse: lse.view(p.b, p.hk, p.g, p.sq))
            tensors += [logged] * p.with_lse
            return Launch(kernel(kind), config.kernel(p), (*tensors, *rest))
        work = Output((places, *heads[1:], width), hx.f32)
        plans = (Output((p.b, 2), hx.i32),) * several
        planned = ["work1"] * several
        place: Argument = "work0"
        if kind.in_rows:
            place = ("work0", lambda work: work.view(torch_dtype(p.dtype)))
        tensors += [place, *planned, *[whole] * (kind.in_rows and several)]
        first = Launch(kernel(kind), config.kernel(p), (*tensors, *rest))
        found: Argument = ("work0", lambda work: work.view(places, p.sq, p.h, width))
        # Of sequences that are split by their lengths, as many as they have on an average.
        how = combining(places // p.b - several, p.width, p.b * p.sq * p.h, uncut)
        ends = [result, *[logs] * p.with_lse]
        second = Launch(combine(kind), how, (found, *planned, *ends, *numbers, blocks))
        return Steps((work, *plans), (first, second))

    return of


VARIANTS = (
    Variant("dependent", ("mma.sync", "clusters"), SPLIT, launch(True)),
    Variant("splits", ("mma.sync", "cp.async"), SPLIT, launch(False)),
)
_PARAMETERS = (
    "Tensor q, Tensor k_cache, Tensor v_cache, Tensor? seq_lens=None, Tensor? page_table=None, "
    "float? scale=None, int? left=None, float softcap=0.0, float k_scale=1.0, float v_scale=1.0"
)
_DOC = """softmax(scale q k^T) v for the last queries of each sequence, causal among them, against
    a cache that is read once.

    q: (batch, sq, heads, d), float16 or bfloat16, sq up to 8. k_cache, v_cache: (batch, sk,
    kv_heads, d), or (pages, page, kv_heads, d) where there is a page_table; of q's type, or
    float8_e4m3fn. All on one GPU, row-major. `heads` is a multiple of `kv_heads`, whose heads
    groups of queries' heads share; d is a multiple of 8 up to 256, of 16 in 8 bits.
    seq_lens: (batch,), int32: how many keys of the cache each sequence has, its queries' own among
    them; sk where not given. What the cache holds behind them is not looked at, more than there is
    room for count as that many, fewer than 0 as none.
    page_table: (batch, most), int32: key p of sequence z is row p % page of page page_table[z, p //
    page]. A page has 1, 2, 4, ... or 1024 rows. Keys of pages that there are not count as zeros.
    scale: of the scores, positive; 1 / sqrt(d) where not given.
    left: how many keys before its own place a query sees; None is no bound.
    softcap: scores become softcap * tanh(score / softcap); 0 for none.
    k_scale, v_scale: what keys and values are to be multiplied by; k_scale is positive.

    Query i of a sequence of n keys sees its keys up to number n - sq + i. The same call gives the
    same bits. Variants: "dependent" on Hopper, whose launches begin before those ahead have ended,
    and "splits" everywhere; both share the keys of all sequences out among blocks by the lengths on
    the device, and add up what these find in a second kernel.
"""

decode_attention = Operator(
    f"decode_attention({_PARAMETERS}) -> Tensor", describe=describe, outputs=outputs,
    variants=VARIANTS,
    doc=_DOC + """
    Gives (batch, sq, heads, d); zeros where a query sees no key.
    """,
)  # fmt: skip

decode_attention_with_lse = Operator(
    f"decode_attention_with_lse({_PARAMETERS}) -> (Tensor, Tensor)", describe=with_lse,
    outputs=outputs, variants=VARIANTS,
    doc=_DOC + """
    Gives (batch, sq, heads, d), zeros where a query sees no key, and (batch, heads, sq), float32:
    the natural logarithm of the sum of exp(score), -inf there.
    """,
)  # fmt: skip
