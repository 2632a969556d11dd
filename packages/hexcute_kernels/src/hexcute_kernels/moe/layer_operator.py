"""moe(x, w13, w2, ids, gates): x in f16 or bf16, experts' weights of four bits or eight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.moe.arrange import arrange
from hexcute_kernels.moe.configs import ROUTED, STREAMED, MoeConfig, StreamedConfig, most_blocks
from hexcute_kernels.moe.forms import FORMS, Weights
from hexcute_kernels.moe.gathering import gather
from hexcute_kernels.moe.grouped import w4a16_gemm
from hexcute_kernels.moe.operators import DTYPES, NEEDS, STREAMS, fits, stacked, strips
from hexcute_kernels.moe.packing import GROUP, ROWS, check_packed
from hexcute_kernels.moe.sorting import count_used, sort
from hexcute_kernels.moe.streamed import gated_product, weighted_product
from hexcute_kernels.moe.summing import add_up
from hexcute_kernels.operator import Launch, Nothing, Operator, Problem, Run, Steps, Variant
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

KEPT, WIDEST = 55296, 24576
"""Numbers of a token that blocks have room for, each counted three times, and more often where its
weights have more scales; and those of its rows between the products."""
SHARE = 32
"""Pairs of an expert on average up to which weights can be streamed."""
PAYS = ((4096, 4), (WIDEST, 8))
"""Widths, and pairs of an expert up to which that is faster than tiles of many rows."""
CHUNKS = (1024, 4096, 8192)
"""Pairs that blocks of an expert look at together, the fewest that are enough or the most."""
LOOK = 2048
"""Pairs that one block looks through at once."""


def flat(t: torch.Tensor) -> torch.Tensor:
    """The same numbers in a row."""
    return t.view(-1)


@dataclass(frozen=True, kw_only=True)
class Routed(Problem):
    """`m` tokens of `hidden` numbers, to `top_k` of `experts` each, `width` wide; `scope` says
    where the layer ends. Weights are of a `form`, in groups of `group` along k."""

    m: int
    hidden: int
    width: int
    experts: int
    top_k: int
    scope: str
    group: int = GROUP
    dtype: hx.DType = hx.f16
    form: str = "u4"

    @property
    def held(self) -> Weights:
        """How the weights are written."""
        return Weights(FORMS[self.form], self.group)

    @property
    def pairs(self) -> int:
        """Tokens and choices."""
        return self.m * self.top_k

    @property
    def share(self) -> int:
        """Pairs of an expert on average, rounded up."""
        return -(-self.pairs // max(self.experts, 1))

    @property
    def n(self) -> int:
        """Columns of the first product."""
        return 2 * self.width

    @property
    def batch(self) -> None:
        """The products are of one matrix of sorted rows."""


def describe_moe(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    ids: torch.Tensor,
    gates: torch.Tensor,
    scope: str,
) -> Routed:
    """The layer that a call asks for. Raises LaunchError."""
    dtype = dtype_of("moe", DTYPES, x=x)
    dtype_of("moe", (hx.i32,), ids=ids)
    dtype_of("moe", (hx.f32,), gates=gates)
    check_rank("moe", 2, "x (tokens, hidden), ids and gates (tokens, top_k)", x=x, ids=ids)
    check_rank("moe", 4, "weights packed from (experts, k, n)", w13=w13, w2=w2)
    check_contiguous("moe", x=x, w13=w13, w2=w2, ids=ids, gates=gates)
    first, second = check_packed("moe", "w13", w13), check_packed("moe", "w2", w2)
    experts, width, hidden = w13.shape[0], first.n // 2, second.n
    if first.n % (2 * ROWS) or w2.shape[0] != experts or second.k != width or width % GROUP:
        raise LaunchError(
            "moe: w13 is of (experts, hidden, 2 width) and w2 of (experts, width, hidden), width "
            f"a multiple of {GROUP}; got {experts} experts, 2 width {first.n}, and w2 of "
            f"({w2.shape[0]}, {second.k}, {hidden})"
        )
    one, other = first.held, second.held
    if one != other:
        raise LaunchError(
            f"moe: w13 is of {one.form.name} in groups of {one.group} along k, and w2 of "
            f"{other.form.name} in groups of {other.group}",
            fix="pack both with scales of one size of groups, the smaller one",
        )
    if hidden != first.k or x.shape[1] != hidden:
        raise LaunchError(f"moe: hidden is {hidden} in w2, {first.k} in w13, {x.shape[1]} in x")
    if ids.shape != gates.shape or ids.shape[0] != x.shape[0]:
        raise LaunchError(
            f"moe: ids and gates are to be ({x.shape[0]}, top_k), got {tuple(ids.shape)} and "
            f"{tuple(gates.shape)}"
        )
    if scope not in ("layer", "gemms"):
        raise LaunchError(f"moe: scope is 'layer' or 'gemms', got {scope!r}")
    return Routed(
        m=x.shape[0], hidden=hidden, width=width, experts=experts, top_k=ids.shape[1], scope=scope,
        group=one.group, dtype=dtype, form=one.form.name,
    )  # fmt: skip


def output(p: Routed) -> Output:
    """A row per token, or a row per pair."""
    return Output((p.m if p.scope == "layer" else p.pairs, p.hidden), p.dtype)


@dataclass(frozen=True)
class Rows:
    """The constants of a kernel that takes BM rows per block."""

    BM: int


@dataclass(frozen=True)
class Chunks(Rows):
    """The same of one that looks at CHUNK choices at once."""

    CHUNK: int


class Work:
    """What launches leave for those behind them: tensors, which get their names as they are asked
    for."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []

    def new(self, dtype: hx.DType, *shape: int) -> str:
        self.outputs.append(Output(shape, dtype))
        return f"work{len(self.outputs) - 1}"


Sorted = tuple[list[Launch], tuple[str, ...], str]
"""Launches that sort pairs by expert, the tables that both products read, and the first one's x."""


def launch_layer(
    p: Routed,
    config: MoeConfig | StreamedConfig,
    sort_pairs: Callable[[Work, int, str, str], Sorted],
    products: tuple[hx.Kernel, hx.Kernel],
    between: hx.DType,
) -> Steps | Run:
    """The launches of a layer, none of which waits for the host: pairs sorted, each row's pair and
    token by name, two products, and a token's rows, of type `between`, added up."""
    if p.pairs == 0:
        return lambda *args: args[-1].zero_()
    high = config.first.BM
    if high != config.second.BM:
        raise LaunchError(f"moe: both products take the same rows per tile, not {high} and others")
    work, rows = Work(), most_blocks(p.pairs, p.experts, high) * high
    pair, token, h = (
        work.new(hx.i32, rows),
        work.new(hx.i32, rows),
        work.new(p.dtype, rows, p.width),
    )
    launches, tables, x = sort_pairs(work, high, pair, token)
    c2 = work.new(between, p.pairs, p.hidden) if p.scope == "layer" else "out"
    w13, w2 = (("w13", stacked), ("w13", strips)), (("w2", stacked), ("w2", strips))
    launches += [
        Launch(products[0], config.first, (x, *w13, *tables, token, h)),
        Launch(products[1], config.second, (h, *w2, *tables, pair, ("gates", flat), c2)),
    ]
    if p.scope == "layer":
        launches.append(Launch(add_up(p.top_k, between, p.dtype), Nothing(), (c2, "out")))
    return Steps(tuple(work.outputs), tuple(launches))


def launch_moe(p: Routed, config: MoeConfig) -> Steps | Run:
    """The layer's launches by this configuration: tiles of an expert's rows."""
    second = config.second
    if p.width // p.held.form.block != second.KEPT:  # Rows stay where all blocks of k do.
        second = replace(second, KEPT=0)
    config = MoeConfig(config.first.within(p.held), second.within(p.held))

    def sort_pairs(work: Work, high: int, pair: str, token: str) -> Sorted:
        blocks = most_blocks(p.pairs, p.experts, high)
        found, table, used = (
            work.new(hx.i32, 3, blocks),
            work.new(hx.i32, 4, blocks),
            work.new(hx.i32, 1),
        )
        chunk = next((size for size in CHUNKS if p.pairs <= size), CHUNKS[-1])
        by_expert = (
            sort(p.experts, p.top_k),
            Chunks(high, chunk),
            (("ids", flat), found, pair, token),
        )
        launches = [Launch(*by_expert), Launch(count_used(), Nothing(), (found, table, used))]
        if not config.first.ORDERED:
            return launches, (table, used), "x"
        x = work.new(p.dtype, blocks * high, p.hidden)
        in_order = Launch(gather(p.dtype), Rows(high), ("x", table, used, token, x))
        return [*launches, in_order], (table, used), x

    how = p.held, p.dtype
    products = w4a16_gemm("gated", *how), w4a16_gemm("weighted", *how)
    return launch_layer(p, config, sort_pairs, products, p.dtype)


def fits_streamed(p: Routed) -> str | None:
    """Whether few rows meet each expert, in sizes that blocks have room for."""
    if not p.aligned:
        return "takes tensors that start at a multiple of 16 bytes"
    if p.share > SHARE or p.pairs > LOOK:
        return (
            f"takes up to {SHARE} rows per expert on average and {LOOK} together, got {p.share} "
            f"and {p.pairs}"
        )
    most = KEPT // (2 + GROUP // p.group)
    if p.hidden > most or p.width > WIDEST:
        return f"takes hidden up to {most} and width up to {WIDEST} in groups of {p.group}"
    return None


def pays_streamed(p: Routed) -> str | None:
    """Whether that is faster than tiles of many rows."""
    most = next(share for width, share in PAYS if p.width <= width)
    return f"pays up to {most} rows per expert, got {p.share}" if p.share > most else None


def launch_streamed(p: Routed, config: StreamedConfig) -> Steps | Run:
    """The launches of a layer of few rows per expert by this configuration: blocks of them."""

    def sort_pairs(work: Work, high: int, pair: str, token: str) -> Sorted:
        expert = work.new(hx.i32, most_blocks(p.pairs, p.experts, high))
        kernel, given = arrange(p.experts, p.top_k, p.pairs), (("ids", flat), expert, pair, token)
        return [Launch(kernel, Rows(high), given)], (expert,), "x"

    # What is still to be added up is not rounded.
    between = hx.f32 if p.scope == "layer" else p.dtype
    first = gated_product(p.experts, p.hidden, p.width, p.held, p.dtype)
    second = weighted_product(p.experts, p.width, p.hidden, between, p.held, p.dtype)
    return launch_layer(p, config, sort_pairs, (first, second), between)


moe = Operator(
    'moe(Tensor x, Tensor w13, Tensor w2, Tensor ids, Tensor gates, str scope="layer") -> Tensor',
    describe=describe_moe,
    outputs=output,
    variants=(
        Variant("streamed", STREAMS, STREAMED, launch_streamed, fits_streamed, pays_streamed),
        Variant("wgmma", NEEDS, ROUTED, launch_moe, fits),
    ),
    doc="""A mixture of experts: out[t] = sum over j of gates[t, j] (h W2[e]), where e = ids[t, j],
    h = silu(c1's left half) * c1's right half and c1 = x[t] W13[e].

    x: (tokens, hidden) in float16 or bfloat16. w13, w2: what `pack_experts(q, scale, zero)` gives
    of q (experts, hidden, 2 width) and (experts, width, hidden), both in groups of 32, 64 or 128
    along k. ids: (tokens, top_k) in int32, each from 0 to experts - 1, where others give results
    that mean nothing; `check_routing` looks. gates: the same in float32.
    scope: "layer", or "gemms" for the rows before they are added up, times their gates.

    Gives (tokens, hidden), or (tokens * top_k, hidden), in x's type; h passes through it.
    Nothing waits for the GPU, so a CUDA graph may hold it. Variants: "streamed", on Hopper, up to 4
    rows per expert on average, sums of a token's rows in float32 and rounded once; "wgmma", on
    Hopper, where a token's rows pass through x's type too.
    """,
)
