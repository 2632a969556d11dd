"""latent_decode_attention(q, cache): the last queries of each sequence against one latent head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention.decode_configs import LATENT, MANY_LATENT
from hexcute_kernels.attention.decoding import STEP
from hexcute_kernels.attention.decoding_operators import (
    LATEST,
    Decoding,
    cache_rows,
    check_lengths,
    launch,
    outputs,
)
from hexcute_kernels.attention.latent import HIGH, latent_attention
from hexcute_kernels.attention.operators import DTYPES, scale_of
from hexcute_kernels.operator import Operator, Variant
from hexcute_kernels.tensors import check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

NAME = "latent_decode_attention"
WIDEST_KEY, WIDEST_VALUE = 576, 512
FEWEST = 16
"""Heads and queries from which on tiles of HIGH rows are worth it: fewer were not measured."""
_WHAT = (
    "q (batch, sq, heads, d) and cache (batch, sk, d), or (pages, page, d) beside a page_table "
    "(batch, most)"
)


def describe(
    q: torch.Tensor,
    cache: torch.Tensor,
    seq_lens: torch.Tensor | None,
    page_table: torch.Tensor | None,
    values: int,
    scale: float | None,
) -> Decoding:
    """The problem that a call asks for. Raises LaunchError."""
    dtype = dtype_of(NAME, DTYPES, q=q, cache=cache)
    check_rank(NAME, 4, _WHAT, q=q)
    check_rank(NAME, 3, _WHAT, cache=cache)
    check_contiguous(NAME, q=q, cache=cache)
    b, sq, h, d = q.shape
    if cache.shape[2] != d or (page_table is None and cache.shape[0] != b):
        raise LaunchError(
            f"{NAME} takes {_WHAT}; got q {tuple(q.shape)}, cache {tuple(cache.shape)}"
        )
    if not 0 < values <= min(d, WIDEST_VALUE) or d > WIDEST_KEY or d % STEP or values % STEP:
        raise LaunchError(
            f"{NAME} takes keys of a multiple of {STEP} columns up to {WIDEST_KEY}, of which up to "
            f"{WIDEST_VALUE} are values, a multiple of {STEP} too; got {d} and {values}"
        )
    if not 0 < sq <= LATEST:
        raise LaunchError(f"{NAME} takes 1 to {LATEST} queries per sequence, got {sq}")
    page, sk = cache_rows(NAME, cache, page_table, seq_lens, b)
    if seq_lens is not None:
        check_lengths(NAME, seq_lens, b)
    return Decoding(
        b=b, sq=sq, sk=sk, h=h, hk=1, d=d, dtype=dtype, scale=scale_of(NAME, d, scale),
        ragged=seq_lens is not None, cached=dtype, page=page, values=values,
    )  # fmt: skip


def pays(p: Decoding) -> str | None:
    """Why the kernel of large tiles is not the faster one."""
    if p.h * p.sq >= FEWEST:
        return None
    return f"{p.h} heads of {p.sq} queries are few for a tile of {HIGH} rows"


latent_decode_attention = Operator(
    f"{NAME}(Tensor q, Tensor cache, Tensor? seq_lens=None, Tensor? page_table=None, "
    "int values=512, float? scale=None) -> Tensor",
    describe=describe,
    outputs=outputs,
    variants=(
        Variant(
            "wgmma", ("wgmma", "tma"), MANY_LATENT, launch(True, latent_attention, HIGH, True),
            pays=pays,
        ),
        Variant("dependent", ("mma.sync", "clusters"), LATENT, launch(True)),
        Variant("splits", ("mma.sync", "cp.async"), LATENT, launch(False)),
    ),
    doc="""`decode_attention` with one head of keys for all of q's, whose first columns are its
    values: latent attention, its projections taken into q and out of the result.

    q: (batch, sq, heads, d), float16 or bfloat16, sq up to 8; cache: (batch, sk, d), or (pages,
    page, d) where there is a page_table, of its type. Both on one GPU, row-major. d is a multiple
    of 64 up to 576.
    seq_lens, page_table: those of decode_attention.
    values: how many of a key's columns are its value, a multiple of 64 up to 512.
    scale: of the scores, positive; 1 / sqrt(d) where not given.

    Gives (batch, sq, heads, values); zeros where a query sees no key. Variants: those of
    decode_attention, whose blocks read a key once for up to 32 heads, and before them "wgmma" on
    Hopper where heads and queries are 16 at least, of which a block takes 64 together.
    """,
)
