"""append_to_cache(q, k, v, k_cache, v_cache, seq_lens): new keys and values to their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.attention.appending import append_kernel
from hexcute_kernels.attention.decode_configs import APPEND, AppendConfig
from hexcute_kernels.attention.decoding_operators import cache_rows, check_lengths
from hexcute_kernels.attention.operators import DTYPES, WIDEST
from hexcute_kernels.operator import Argument, Launch, Operator, Problem, Run, Variant
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "append_to_cache"
_WHAT = (
    "q (batch, sq, heads, d), k and v (batch, sq, kv_heads, d), k_cache and v_cache "
    "(batch, sk, kv_heads, d), or (pages, page, kv_heads, d) beside a page_table (batch, most)"
)


@dataclass(frozen=True, kw_only=True)
class Append(Problem):
    """b sequences of sq new queries, keys and values, of h and hk heads of width d, for caches of
    at most sk keys each; `turned` pairs of a head are turned, neighbours where `paired`; `page`
    rows are a page, None where keys of a sequence lie one after another."""

    b: int
    sq: int
    h: int
    hk: int
    d: int
    sk: int
    dtype: hx.DType
    cached: hx.DType
    page: int | None
    turned: int
    paired: bool
    k_factor: float
    v_factor: float


def describe(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor | None,
    cos: torch.Tensor | None,
    sin: torch.Tensor | None,
    paired: bool,
    k_scale: float,
    v_scale: float,
) -> Append:
    """The problem that a call asks for. Raises LaunchError."""
    new, caches = {"q": q, "k": k, "v": v}, {"k_cache": k_cache, "v_cache": v_cache}
    dtype = dtype_of(NAME, DTYPES, **new)
    cached = dtype_of(NAME, (dtype, hx.f8e4m3), **caches)
    check_rank(NAME, 4, _WHAT, **new, **caches)
    check_contiguous(NAME, **new, **caches)
    (b, sq, h, d), hk = q.shape, k.shape[2]
    meet = tuple(k.shape) == (b, sq, hk, d) == tuple(v.shape) and k_cache.shape == v_cache.shape
    if not meet or tuple(k_cache.shape[2:]) != (hk, d) or (
        page_table is None and k_cache.shape[0] != b
    ):  # fmt: skip
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in (new | caches).items())
        raise LaunchError(f"{NAME} takes {_WHAT}; got {shapes}")
    if hk == 0 or not 0 < d <= WIDEST or d % 8:
        raise LaunchError(
            f"{NAME} takes heads of a multiple of 8 up to {WIDEST}, one of keys at least; got {hk} "
            f"of {d}"
        )
    page, sk = cache_rows(NAME, k_cache, page_table, seq_lens, b)
    check_lengths(NAME, seq_lens, b)
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        if not scale > 0:
            raise LaunchError(f"{NAME}: {name} is a positive number, got {scale}")
    return Append(
        b=b, sq=sq, h=h, hk=hk, d=d, sk=sk, dtype=dtype, cached=cached, page=page,
        turned=_pairs(cos, sin, d), paired=paired, k_factor=1 / k_scale, v_factor=1 / v_scale,
    )  # fmt: skip


def _pairs(cos: torch.Tensor | None, sin: torch.Tensor | None, d: int) -> int:
    """How many pairs of a head are turned. Raises LaunchError."""
    if cos is None and sin is None:
        return 0
    if cos is None or sin is None:
        raise LaunchError(f"{NAME} takes cos and sin, or neither", fix="pass both")
    dtype_of(NAME, (hx.f32,), cos=cos, sin=sin)
    check_rank(NAME, 2, "cos and sin (places, pairs)", cos=cos, sin=sin)
    check_contiguous(NAME, cos=cos, sin=sin)
    if cos.shape != sin.shape or not 0 < 2 * cos.shape[1] <= d:
        raise LaunchError(
            f"{NAME} takes cos and sin (places, pairs) of up to {d // 2} pairs; got cos "
            f"{tuple(cos.shape)}, sin {tuple(sin.shape)}"
        )
    return int(cos.shape[1])


def launch(p: Append, config: AppendConfig) -> Launch | Run:
    """The launch of a problem by this configuration."""
    if p.b == 0 or p.sq == 0 or p.h == 0:
        return lambda *args: None
    kernel = append_kernel(p.dtype, p.cached, p.d, p.sq, p.turned, p.paired, p.page)

    def heads(name: str) -> Argument:
        return name, lambda t: t.view(-1, *t.shape[2:])

    tensors = [heads(name) for name in ("q", "k", "v", "k_cache", "v_cache")]
    tensors += ["seq_lens"] + ["page_table"] * (p.page is not None)
    tensors += ["cos", "sin"] * (p.turned > 0)
    return Launch(kernel, config, (*tensors, heads("out"), p.k_factor, p.v_factor, p.sk))


append_to_cache = Operator(
    f"{NAME}(Tensor q, Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, "
    "Tensor seq_lens, Tensor? page_table=None, Tensor? cos=None, Tensor? sin=None, "
    "bool paired=False, float k_scale=1.0, float v_scale=1.0) -> Tensor",
    describe=describe,
    outputs=lambda p: Output((p.b, p.sq, p.h, p.d), p.dtype),
    variants=(Variant("rows", ("mma.sync",), APPEND, launch),),
    doc="""Writes the keys and values of each sequence's last sq places to its cache, keys and
    queries turned by rotary embedding; what `decode_attention` is then called with.

        x1' = x1 cos(p) - x2 sin(p),   x2' = x2 cos(p) + x1 sin(p)

    for the pairs (x1, x2) of a head at place p, computed in float32.

    q: (batch, sq, heads, d); k, v: (batch, sq, kv_heads, d), float16 or bfloat16. k_cache, v_cache:
    (batch, sk, kv_heads, d), or (pages, page, kv_heads, d) where there is a page_table; of their
    type, or float8_e4m3fn; changed. All on one GPU, row-major.
    seq_lens: (batch,), int32: how many keys each sequence has with the new ones: key i of n is
    written to place n - sq + i, and nowhere where the cache has no such place.
    page_table: (batch, most), int32: place p of sequence z is row p % page of page page_table[z, p
    // page]; pages of sequences that are written to are no other's.
    cos, sin: (places, pairs), float32: of the angles at each place; nothing is turned where they
    are not given. A place that they lack gives no number.
    paired: pair i are the columns 2 i and 2 i + 1; else i and pairs + i. Columns behind the pairs
    stay as they are.
    k_scale, v_scale: positive; keys and values are divided by them, so that decode_attention
    multiplies by them again. 8-bit floats saturate.

    Gives the queries turned, (batch, sq, heads, d). Variant: "rows".
    """,
)
