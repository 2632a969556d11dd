"""The laws of Hopper's primitives, tensor maps and clusters: the nearest break is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hopper_probe import TRUE, N, i32, product, products, program, shared, words

from hexcute_core import dtypes as dt
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import Scalar, Var
from hexcute_core.thread import (
    PRIMS,
    DeclareArray,
    GlobalPtr,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    TensorMap,
    ThreadParam,
    ThreadProgram,
    verify,
)

AT = SourceSpan("kernel.py", 8)


def box(*coords: Scalar) -> MapRef:
    return MapRef("map2", coords)


C, H = words("c", dt.f32, 32), words("h", dt.f16, 8)
A, B = MatrixDesc(i32(0), 16, 1024, 128), MatrixDesc(i32(1024), 16, 1024, 128)
PRODUCT = "wgmma.64x64x16.f32.f16.f16.kk"
BAD: dict[str, tuple[str, tuple[Operand, ...]]] = {
    "takes (shared, scalar), got (scalar)": ("mbarrier.init", (N,)),
    "at shared byte 65536, 8 bytes, is outside the arena": ("mbarrier.arrive", (shared(65536),)),
    "at shared byte 12 is misaligned, it needs a multiple of 8": ("mbarrier.arrive", (shared(12),)),
    "operand 1 of mbarrier.init is 1 to 1048575, not 0": ("mbarrier.init", (shared(), i32(0))),
    "operand 1 of mbarrier.wait is 0 to 1, not 2": ("mbarrier.wait", (shared(), i32(2))),
    "`True`, operand 1 of mbarrier.expect, is a bool": ("mbarrier.expect", (shared(), TRUE)),
    "other is not a tensor map of probe": ("tma.prefetch", (MapRef("other", (N, N)),)),
    "map2 has 2 dimensions, got 1 coordinates": ("tma.prefetch", (box(N),)),
    "variable m is not declared": ("tma.prefetch", (box(N, Var("m")),)),
    "at shared byte 64 is misaligned, it needs a multiple of 128": (
        "tma.load", (shared(64), box(N, N), shared())
    ),
    "at shared byte 65472, 128 bytes, is outside": ("tma.store", (box(N, N), shared(65472))),
    "operand 3 of tma.load.multicast is 1 to 65535, not 0": (
        "tma.load.multicast", (shared(), box(N, N), shared(), i32(0))
    ),
    "operand 2 of bulk.load is 16 to 1048560 in steps of 16, not 24": (
        "bulk.load", (shared(), GlobalPtr("x1", N, dt.f16), i32(24), shared())
    ),
    "needs an address that is a multiple of 16, which x1 + 4 is not known to be": (
        "bulk.load", (shared(), GlobalPtr("x1", i32(4), dt.f16), i32(32), shared())
    ),
    "at shared byte 65520, 32 bytes, is outside": (
        "bulk.store", (GlobalPtr("x1", N, dt.f16), shared(65520), i32(32))
    ),
    "tma.wait takes a constant, got `n`": ("tma.wait", (N,)),
    "operand 0 of wgmma.wait is 0 to 7, not 8": ("wgmma.wait", (i32(8),)),
    "operand 0 of setmaxnreg.inc is 24 to 256 in steps of 8, not 100": (
        "setmaxnreg.inc", (i32(100),)
    ),
    "operand 0 of bar.named.sync is 1 to 15, not 16": ("bar.named.sync", (i32(16), i32(64))),
    "operand 1 of bar.named.arrive is 32 to 1024 in steps of 32, not 40": (
        "bar.named.arrive", (N, i32(40))
    ),
    "stmatrix.x2 stores 2 words per thread, 8 registers of f16 are 4": ("stmatrix.x2", (shared(),
    H)), "takes 32 elements of h per thread, got 8": (
        "wgmma.64x64x16.f16.f16.f16.kk", (H, A, B, TRUE)
    ),
    "takes f32, h is f16": (PRODUCT, (H, A, B, TRUE)),
    "takes (regs, desc, desc, scalar), got (regs, regs, desc, scalar)": (PRODUCT, (C, H, B, TRUE)),
    "whether wgmma.64x64x16.f32.f16.f16.kk accumulates, is a i32": (PRODUCT, (C, A, B, N)),
    "swizzled by 0, 32, 64 or 128 bytes, not 16": (
        PRODUCT, (C, A, MatrixDesc(i32(0), 16, 1024, 16), TRUE)
    ),
    "stride offset is a multiple of 16 below 262144, not 24": (
        PRODUCT, (C, A, MatrixDesc(i32(0), 16, 24, 128), TRUE)
    ),
    "at shared byte 8 is misaligned, it needs a multiple of 16": (
        PRODUCT, (C, MatrixDesc(i32(8), 16, 1024, 128), B, TRUE)
    ),
    "there is no primitive wgmma.64x12x16.f32.f16.f16.kk": (
        "wgmma.64x12x16.f32.f16.f16.kk", (C, A, B, TRUE)
    ),
    "there is no primitive wgmma.64x64x8.f32.tf32.tf32.mk": (
        "wgmma.64x64x8.f32.tf32.tf32.mk", (C, A, B, TRUE)
    ),
    "h[0..7] is outside": ("stmatrix.x4", (shared(), H)),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_what_breaks_a_law_is_refused_at_its_line(message: str) -> None:
    name, operands = BAD[message]
    size = 4 if message.startswith("h[") else 8
    arrays = DeclareArray("c", dt.f32, 32), DeclareArray("h", dt.f16, size)
    with pytest.raises(VerifyError) as caught:
        verify(program(*arrays, Prim(name, operands, AT)))
    assert message in str(caught.value)
    assert caught.value.span == AT


def with_map(*box: int, swizzle: int = 128, param: str = "x2", name: str = "m") -> ThreadProgram:
    return program(maps=(TensorMap(name, param, box, swizzle),))


LAUNCH = {
    "clusters of 4 x 4 x 1 blocks, at most 8": program(cluster_dim=(4, 4, 1)),
    "clusters of 0 x 1 x 1": program(cluster_dim=(0, 1, 1)),
    "a row of 12 bytes is not a multiple of 16": with_map(8, 6),
    "a row of 256 bytes exceeds the swizzle's 128": with_map(8, 128),
    "an extent is 1 to 256": with_map(300, 64),
    "the swizzle is 0, 32, 64 or 128 bytes, not 16": with_map(8, 8, swizzle=16),
    "the tensor has 2 dimensions": with_map(1, 8, 64),
    "m is of y, which is not a pointer": with_map(8, 64, param="y"),
    "two parameters called n": with_map(8, 64, name="n"),
    "a tensor map has 1 to 5 dimensions": with_map(),
}


@pytest.mark.parametrize("message", LAUNCH)
def test_maps_and_clusters_that_cannot_be_are_refused(message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(LAUNCH[message])
    assert message in str(caught.value)


def test_what_only_some_programs_may_do() -> None:
    with pytest.raises(VerifyError, match="set min_blocks = 1"):
        verify(program(Prim("setmaxnreg.dec", (i32(24),)), min_blocks=None))
    params = ThreadParam("x", dt.u8, (N,), pointer=True, aligned=True), ThreadParam("n", dt.i32)
    add_bytes = Prim("tma.reduce.add", (MapRef("m", (N,)), shared()))
    with pytest.raises(VerifyError, match=r"combines f16, .* x is u8"):
        verify(program(add_bytes, params=params, maps=(TensorMap("m", "x", (16,), 0),)))
    floats = replace(params[0], dtype=dt.f32), params[1]
    least = replace(add_bytes, name="tma.reduce.min.evict_last")
    with pytest.raises(VerifyError, match=r"min.evict_last combines f16, bf16, i32, .* x is f32"):
        verify(program(least, params=floats, maps=(TensorMap("m", "x", (16,), 0),)))


def test_every_product_of_the_table_has_operands_that_pass() -> None:
    for name in sorted(n for n in PRIMS if n.startswith("wgmma.64x"))[::23]:
        verify(products(name, product(name)))
