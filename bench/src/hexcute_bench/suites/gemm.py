"""FP16 GEMM: eight layer sizes times five row counts, for both generations of instructions; and one
large product by one configuration."""

from __future__ import annotations

from functools import partial

from hexcute_bench.cases.gemm import GemmCase, gemm_work
from hexcute_bench.interface import KernelSuite, ProcessPeer
from hexcute_bench.peers import triton
from hexcute_bench.peers.deep_gemm import DeepGemmBf16
from hexcute_bench.peers.gemm import (
    Cublas,
    hexcute_gemm,
    hexcute_untuned,
)
from hexcute_bench.peers.hidet_link import hidet_rows
from hexcute_bench.peers.quack import Quack
from hexcute_bench.shape import Shape

LAYERS = (
    (6144, 4096), (4096, 14336), (14336, 4096), (4096, 4096),
    (10240, 8192), (8192, 28672), (8192, 8192), (28672, 8192),
)  # fmt: skip
ROWS = (32, 64, 128, 2048, 4096)
SHAPES = tuple(Shape.of(m=m, n=n, k=k) for m in ROWS for n, k in LAYERS)
QUICK = tuple(
    Shape.of(m=m, n=n, k=k)
    for m in (64, 4096)
    for n, k in ((6144, 4096), (4096, 4096), (8192, 8192))
)
HIDET = ProcessPeer(("hidet_f16", "hidet_f16_cute"), "hidet", hidet_rows)


def regime(shape: Shape) -> str:
    """Few rows are bound by memory, many by the Tensor Cores."""
    return "M>=2048" if shape["m"] >= 2048 else "M<=128"


GEMM_SM80 = KernelSuite(
    name="gemm_sm80",
    title="FP16 GEMM, mma.sync kernels",
    operator="matmul",
    baseline="cublas",
    shapes=SHAPES,
    quick=QUICK,
    peers=(*hexcute_gemm("mma"), Cublas(), *triton.gemm()),
    case=GemmCase,
    work=gemm_work,
    regime=regime,
    processes=(HIDET,),
    note="on a newer GPU the peers use that GPU's instructions, ours those of sm_80",
)

GEMM_SM90 = KernelSuite(
    name="gemm_sm90",
    title="FP16 GEMM, warp-specialized wgmma kernels",
    operator="matmul",
    baseline="cublas",
    shapes=SHAPES,
    quick=QUICK,
    peers=(
        *hexcute_gemm(),
        Cublas(),
        *triton.gemm(),
    ),
    case=GemmCase,
    work=gemm_work,
    regime=regime,
    processes=(HIDET,),
)

GEMM_BF16 = KernelSuite(
    name="gemm_bf16",
    title="BF16 GEMM, beside libraries for Hopper",
    operator="matmul",
    baseline="cublas",
    shapes=SHAPES,
    quick=QUICK,
    peers=(*hexcute_gemm(), Cublas(), DeepGemmBf16(), Quack()),
    case=partial(GemmCase, dtype="bfloat16"),
    work=gemm_work,
    regime=regime,
    note="not in the paper: the type that both libraries take",
)

FEW = tuple(Shape.of(m=m, n=n, k=k) for m in (1, 4, 8, 16) for n, k in LAYERS)

GEMM_FEW = KernelSuite(
    name="gemm_few",
    title="FP16 GEMM, 1 to 16 rows",
    operator="matmul",
    baseline="cublas",
    shapes=FEW,
    quick=FEW[::8],
    peers=(*hexcute_gemm(), Cublas()),
    case=GemmCase,
    work=gemm_work,
    regime=lambda shape: "M<=4" if shape["m"] <= 4 else "M>=8",
    note="not in the paper: as called",
)

LARGE = (Shape.of(m=8192, n=8192, k=8192),)

GEMM_UNTUNED = KernelSuite(
    name="gemm_untuned",
    title="FP16 GEMM, one configuration chosen by nothing but what fits",
    operator="matmul",
    baseline="cublas",
    shapes=LARGE,
    quick=LARGE,
    peers=(hexcute_untuned(), Cublas()),
    case=GemmCase,
    work=gemm_work,
    regime=regime,
    note="not in the paper: what a user gets before tuning",
)
