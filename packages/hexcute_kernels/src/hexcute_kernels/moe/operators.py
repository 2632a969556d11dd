"""w4a16_matmul(x, w) and moe(x, w13, w2, ids, gates): x in f16 or bf16, weights of four bits or
eight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.moe.arrange import arrange
from hexcute_kernels.moe.configs import (
    DENSE,
    FEW,
    ROUTED,
    STREAMED,
    FewConfig,
    MoeConfig,
    StreamedConfig,
    W4A16Config,
    most_blocks,
)
from hexcute_kernels.moe.few import few_rows
from hexcute_kernels.moe.forms import FORMS, Weights
from hexcute_kernels.moe.gathering import gather
from hexcute_kernels.moe.grouped import w4a16_gemm
from hexcute_kernels.moe.packing import GROUP, ROWS, check_packed, in_blocks
from hexcute_kernels.moe.sorting import count_used, sort
from hexcute_kernels.moe.streamed import gated_product, weighted_product
from hexcute_kernels.moe.summing import add_up
from hexcute_kernels.operator import Launch, Nothing, Operator, Problem, Run, Steps, Variant
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16)
NEEDS = ("wgmma", "tma")
STREAMS = ("clusters",)
KEPT, WIDEST = 55296, 24576
"""Numbers of a token that blocks have room for, each counted three times, and more often where its
weights have more scales; and those of its rows between the products."""
SHARE = 32
"""Pairs of an expert on average up to which weights can be streamed."""
PAYS = ((4096, 4), (WIDEST, 8))
"""Widths, and pairs of an expert up to which that is faster than tiles of many rows."""
LINES = ((8, 65536), (16, 16384))
"""Rows and their lengths up to which a dense product streams its weights."""
CHUNKS = (1024, 4096, 8192)
"""Pairs that blocks of an expert look at together, the fewest that are enough or the most."""
LOOK = 2048
"""Pairs that one block looks through at once."""


def stacked(w: torch.Tensor) -> torch.Tensor:
    """Packed weights as a stack of experts, of one where they are not stacked, in words."""
    import torch as torch_module

    return in_blocks(w.unsqueeze(0) if w.dim() == 3 else w).view(torch_module.uint16)


def strips(w: torch.Tensor) -> torch.Tensor:
    """The same memory as f16 numbers, each block's in a row: its scales and zero points among
    them."""
    import torch as torch_module

    return stacked(w).view(torch_module.float16).flatten(2)


def flat(t: torch.Tensor) -> torch.Tensor:
    """The same numbers in a row."""
    return t.view(-1)


def rows_of(t: torch.Tensor) -> torch.Tensor:
    """Matrices one below the other."""
    return t.flatten(0, 1)


def fits(p: Any) -> str | None:
    """Whether TMA can move operands and result."""
    return None if p.aligned else "TMA takes tensors that start at a multiple of 16 bytes"


@dataclass(frozen=True, kw_only=True)
class Dense(Problem):
    """m x n results, each a sum over k, of weights of a `form` in groups of `group` along k."""

    m: int
    n: int
    k: int
    group: int = GROUP
    dtype: hx.DType = hx.f16
    form: str = "u4"
    batch: int | None = None

    @property
    def held(self) -> Weights:
        """How the weights are written."""
        return Weights(FORMS[self.form], self.group)


def describe_dense(x: torch.Tensor, w: torch.Tensor) -> Dense:
    """The product that a call asks for. Raises LaunchError."""
    name = "w4a16_matmul"
    dtype = dtype_of(name, DTYPES, x=x)
    check_rank(name, 2, "x (m, k)", x=x)
    check_rank(name, 3, "weights packed from (k, n)", w=w)
    check_contiguous(name, x=x, w=w)
    found = check_packed(name, "w", w)
    if x.shape[1] != found.k:
        raise LaunchError(
            f"{name} takes x (m, {found.k}) beside these weights, got {tuple(x.shape)}"
        )
    held = found.held
    return Dense(
        m=x.shape[0], n=found.n, k=found.k, group=held.group, dtype=dtype, form=held.form.name
    )


def launch_dense(p: Dense, config: W4A16Config) -> Launch | Steps | Run:
    """The launch of a product by this configuration; of parts of k, and of their sums."""
    if p.m == 0 or p.n == 0 or p.k == 0:
        return lambda *args: args[-1].zero_()
    operands = ("x", ("w", stacked), ("w", strips))
    groups, split = p.k // p.held.form.block, config.SPLIT
    # As many parts of k as none is empty.
    while (split - 1) * -(-groups // split) >= groups:
        split -= 1
    config = replace(config, SPLIT=split).within(p.held)
    if split == 1:
        return Launch(w4a16_gemm("dense", p.held, p.dtype), config, (*operands, "out"))
    work = (Output((p.m, split, p.n), hx.f32),)
    parts = Launch(w4a16_gemm("parts", p.held, p.dtype), config, (*operands, "work0"))
    total = Launch(add_up(split, hx.f32, p.dtype), Nothing(), (("work0", rows_of), "out"))
    return Steps(work, (parts, total))


def fits_few(p: Dense) -> str | None:
    """Whether few rows meet the weights, in sizes that blocks have room for."""
    if not p.aligned:
        return "takes tensors that start at a multiple of 16 bytes"
    # Smaller groups have more scales, which wait in shared memory too.
    lines = [(m, 4 * k // (3 + GROUP // p.group)) for m, k in LINES]
    if not any(p.m <= m and p.k <= k for m, k in lines):
        told = " or ".join(f"{m} of {k} numbers" for m, k in lines)
        return f"takes up to {told}, got {p.m} of {p.k}"
    return None


def launch_few(p: Dense, config: FewConfig) -> Launch | Run:
    """The launch of a product of few rows by this configuration."""
    if p.m == 0 or p.n == 0 or p.k == 0:
        return lambda *args: args[-1].zero_()
    kernel = few_rows(p.n, p.k, p.held, p.dtype)
    return Launch(kernel, config, ("x", ("w", stacked), ("w", strips), "out"))


w4a16_matmul = Operator(
    "w4a16_matmul(Tensor x, Tensor w) -> Tensor",
    describe=describe_dense,
    outputs=lambda p: Output((p.m, p.n), p.dtype),
    variants=(
        Variant("few", STREAMS, FEW, launch_few, fits_few),
        Variant("wgmma", NEEDS, DENSE, launch_dense, fits),
    ),
    doc="""x ((q - zero) * scale), the weights in four or eight bits, in groups of 32, 64 or more.

    x: (m, k) in float16 or bfloat16, row-major. w: what `pack(q, scale, zero)` gives of q (k, n), k
    a multiple of 128 and n of 64, or what `from_awq`, `from_gptq` and `from_compressed_tensors`
    give, or `pack_bytes`, `pack_e4m3` and `pack_mxfp4`. Sums are in float32.

    Gives (m, n) in x's type. Variants: "few", on Hopper, up to 16 rows, which rounds no weight, and
    "wgmma", on Hopper, which rounds each of them once, to x's type, and scales too, where bfloat16
    does not hold them.
    """,
)


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


def launch_moe(p: Routed, config: MoeConfig) -> Steps | Run:
    """The layer's launches by this configuration, without waiting for the GPU between them."""
    if p.pairs == 0:
        return lambda *args: args[-1].zero_()
    second, groups = config.second, p.width // p.held.form.block
    if groups != second.KEPT:  # Rows stay where all blocks of k do.
        second = replace(second, KEPT=0)
    config = MoeConfig(config.first.within(p.held), second.within(p.held))
    bm = config.first.BM
    if bm != config.second.BM:
        raise LaunchError(f"moe: both products take the same rows per tile, not {bm} and others")
    blocks = most_blocks(p.pairs, p.experts, bm)
    rows, summed = blocks * bm, p.scope == "layer"
    shapes = (3, blocks), (4, blocks), (1,), (rows,), (rows,)
    work = [Output(shape, hx.i32) for shape in shapes]
    work.append(Output((rows, p.width), p.dtype))
    found, table, used, pair, token, h = (f"work{i}" for i in range(6))
    ids, gates = ("ids", flat), ("gates", flat)
    c2 = "out"
    if summed:
        c2 = f"work{len(work)}"
        work.append(Output((p.pairs, p.hidden), p.dtype))
    w13, w2 = (("w13", stacked), ("w13", strips)), (("w2", stacked), ("w2", strips))
    how, tiles = (p.held, p.dtype), (table, used)
    chunk = next((size for size in CHUNKS if p.pairs <= size), CHUNKS[-1])
    x, ordered = "x", []
    if config.first.ORDERED:
        x = f"work{len(work)}"
        work.append(Output((rows, p.hidden), p.dtype))
        ordered = [Launch(gather(p.dtype), Rows(bm), ("x", *tiles, token, x))]
    launches = [
        Launch(sort(p.experts, p.top_k), Chunks(bm, chunk), (ids, found, pair, token)),
        Launch(count_used(), Nothing(), (found, *tiles)),
        *ordered,
        Launch(w4a16_gemm("gated", *how), config.first, (x, *w13, *tiles, token, h)),
        Launch(w4a16_gemm("weighted", *how), config.second, (h, *w2, *tiles, pair, gates, c2)),
    ]
    if summed:
        launches.append(Launch(add_up(p.top_k, p.dtype, p.dtype), Nothing(), (c2, "out")))
    return Steps(tuple(work), tuple(launches))


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
    """The launches of a layer of few rows per expert by this configuration."""
    if p.pairs == 0:
        return lambda *args: args[-1].zero_()
    bm = config.first.BM
    if bm != config.second.BM:
        raise LaunchError(f"moe: both products take the same rows per block, not {bm} and others")
    blocks = most_blocks(p.pairs, p.experts, bm)
    rows, summed = blocks * bm, p.scope == "layer"
    work = [Output((blocks,), hx.i32), Output((rows,), hx.i32), Output((rows,), hx.i32)]
    work.append(Output((rows, p.width), p.dtype))
    expert, pair, token, h = (f"work{i}" for i in range(4))
    ids, gates = ("ids", flat), ("gates", flat)
    # What is still to be added up is not rounded.
    result = hx.f32 if summed else p.dtype
    c2 = "work4" if summed else "out"
    first = gated_product(p.experts, p.hidden, p.width, p.held, p.dtype)
    second = weighted_product(p.experts, p.width, p.hidden, result, p.held, p.dtype)
    launches = [
        Launch(arrange(p.experts, p.top_k, p.pairs), Rows(bm), (ids, expert, pair, token)),
        Launch(first, config.first, ("x", ("w13", stacked), ("w13", strips), expert, token, h)),
        Launch(
            second, config.second, (h, ("w2", stacked), ("w2", strips), expert, pair, gates, c2)
        ),
    ]
    if summed:
        work.append(Output((p.pairs, p.hidden), hx.f32))
        launches.append(Launch(add_up(p.top_k, hx.f32, p.dtype), Nothing(), (c2, "out")))
    return Steps(tuple(work), tuple(launches))


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
