"""w4a16_matmul(x, w): x in f16 or bf16, weights of four bits or eight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.moe.configs import (
    DENSE,
    FEW,
    JOINED,
    FewConfig,
    JoinedConfig,
    W4A16Config,
)
from hexcute_kernels.moe.few import few_rows
from hexcute_kernels.moe.forms import FORMS, Weights
from hexcute_kernels.moe.grouped import w4a16_gemm
from hexcute_kernels.moe.joined import joined_gemm
from hexcute_kernels.moe.packing import GROUP, check_packed, in_blocks
from hexcute_kernels.moe.summing import add_up
from hexcute_kernels.operator import Launch, Nothing, Operator, Problem, Run, Steps, Variant
from hexcute_kernels.tensors import Output, check_contiguous, check_rank, dtype_of

if TYPE_CHECKING:
    import torch

DTYPES = (hx.f16, hx.bf16)
NEEDS = ("wgmma", "tma")
STREAMS = ("clusters",)
LINES = ((8, 65536), (16, 16384))
"""Rows and their lengths up to which a dense product streams its weights."""


def stacked(w: torch.Tensor) -> torch.Tensor:
    """Packed weights as a stack of experts, of one where they are not stacked, in words."""
    import torch as torch_module

    return in_blocks(w.unsqueeze(0) if w.dim() == 3 else w).view(torch_module.uint16)


def strips(w: torch.Tensor) -> torch.Tensor:
    """The same memory as f16 numbers, each block's in a row: its scales and zero points among
    them."""
    import torch as torch_module

    return stacked(w).view(torch_module.float16).flatten(2)


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


def parts_of(p: Dense, split: int) -> int:
    """As many parts of k, up to `split`, as none is empty."""
    groups = p.k // p.held.form.block
    while (split - 1) * -(-groups // split) >= groups:
        split -= 1
    return split


def launch_dense(p: Dense, config: W4A16Config) -> Launch | Steps | Run:
    """The launch of a product by this configuration; of parts of k, and of their sums."""
    if p.m == 0 or p.n == 0 or p.k == 0:
        return lambda *args: args[-1].zero_()
    operands = ("x", ("w", stacked), ("w", strips))
    split = parts_of(p, config.SPLIT)
    config = replace(config, SPLIT=split).within(p.held)
    if split == 1:
        return Launch(w4a16_gemm("dense", p.held, p.dtype), config, (*operands, "out"))
    work = (Output((p.m, split, p.n), hx.f32),)
    parts = Launch(w4a16_gemm("parts", p.held, p.dtype), config, (*operands, "work0"))
    total = Launch(add_up(split, hx.f32, p.dtype), Nothing(), (("work0", rows_of), "out"))
    return Steps(work, (parts, total))


def joined_pays(p: Dense) -> str | None:
    """Whether blocks that share k are expected to take less time than whole tiles, and than parts
    of k that another launch adds up: as they do where they fill the multiprocessors just once."""
    if JOINED.expected(p, "h200") < DENSE.expected(p, "h200"):
        return None
    return "pays where its clusters fill the multiprocessors once, and other tiles take longer"


def launch_joined(p: Dense, config: JoinedConfig) -> Launch | Steps | Run:
    """The launch of a product by this configuration, whose clusters share k; by whole tiles where
    there is too little of it for all blocks of one."""
    whole = W4A16Config(config.BM, config.BN, config.STAGES, config.GROUPS)
    if p.m == 0 or p.n == 0 or p.k == 0 or parts_of(p, config.SPLIT) < config.SPLIT:
        return launch_dense(p, whole)
    kernel = joined_gemm(p.held, p.dtype)
    return Launch(kernel, config.within(p.held), ("x", ("w", stacked), ("w", strips), "out"))


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
        Variant("joined", (*NEEDS, *STREAMS), JOINED, launch_joined, fits, joined_pays),
        Variant("wgmma", NEEDS, DENSE, launch_dense, fits),
    ),
    doc="""x ((q - zero) * scale), the weights in four or eight bits, in groups of 32, 64 or more.

    x: (m, k) in float16 or bfloat16, row-major. w: what `pack(q, scale, zero)` gives of q (k, n), k
    a multiple of 128 and n of 64, or what `from_awq`, `from_gptq` and `from_compressed_tensors`
    give, or `pack_bytes`, `pack_e4m3` and `pack_mxfp4`. Sums are in float32.

    Gives (m, n) in x's type. Variants, on Hopper: "few", up to 16 rows, which rounds no weight, and
    two that round each of them once, to x's type, and scales too, where bfloat16 does not hold
    them: "joined", whose blocks share k two by two, where that fills the multiprocessors and whole
    tiles do not, and "wgmma".
    """,
)
