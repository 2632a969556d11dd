"""A warp-specialised GEMM as a thread program written by hand: c[m, n] = a[m, k] b[n, k]^T.

128 x 256 x 64 tiles of f16: one producer warp group fills a ring of 4 stages by TMA, two consumer
warp groups multiply 64 x 256 each from shared memory and store their accumulators directly.

A stage's `full` barrier completes with the producer's one arrival and the bytes of both boxes;
its `empty` barrier with an arrival from each of the 8 consumer warps. Round r of a stage waits
for `full` with parity r % 2, and to refill it for `empty` with parity (r + 1) % 2, which a fresh
barrier passes.
"""

from __future__ import annotations

from hexcute_core import dtypes as dt
from hexcute_core.scalar import (
    Call,
    Cast,
    Compare,
    Const,
    Element,
    Scalar,
    Var,
    add,
    cdiv,
    compare,
    floordiv,
    land,
    mod,
    mul,
    xor,
)
from hexcute_core.scalar.expr import as_scalar
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    MapRef,
    MatrixDesc,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    Stmt,
    TensorMap,
    ThreadParam,
    ThreadProgram,
)

BM, BN, BK = 128, 256, 64
STAGES = 4
A_BYTES, B_BYTES = BM * BK * 2, BN * BK * 2
STAGE_BYTES = A_BYTES + B_BYTES
FULL = STAGES * STAGE_BYTES
EMPTY = FULL + 8 * STAGES
SHARED_BYTES = EMPTY + 8 * STAGES
CONSUMER_WARPS = 8
ROW_GROUP = 1024
"""Bytes of 8 rows of 128 bytes: the period of the 128-byte swizzle."""

T = Var("threadIdx.x")
M, N, K = Var("m"), Var("n"), Var("k")
GROUP = Var("group")
ELECTED = Call("elect", (), dt.boolean)


def i32(value: int) -> Const:
    return Const(value, dt.i32)


def _stage(tile: Scalar) -> tuple[Scalar, Scalar]:
    """Stage and parity of the round of k tile number `tile`."""
    return mod(tile, STAGES), mod(floordiv(tile, STAGES), 2)


def _tile(name: str) -> Var:
    return Var(name, dt.u32)


def _produce() -> tuple[Stmt, ...]:
    tile = _tile("filled")
    stage, parity = _stage(tile)
    slot = Var("slot", dt.u32)
    full = SharedPtr(add(mul(slot, 8), FULL))
    along_k = Cast(mul(tile, BK), dt.i32)
    rows_a, rows_b = mul(Var("blockIdx.x"), BM), mul(Var("blockIdx.y"), BN)
    fill: tuple[Stmt, ...] = (
        Assign(slot, stage, True),
        Prim("mbarrier.wait", (SharedPtr(add(mul(slot, 8), EMPTY)), xor(parity, 1))),
        Prim("mbarrier.expect", (full, i32(STAGE_BYTES))),
        Prim("tma.load", (SharedPtr(mul(slot, STAGE_BYTES)), MapRef("a_map", (rows_a, along_k)),
                          full)),
        Prim("tma.load", (SharedPtr(add(mul(slot, STAGE_BYTES), A_BYTES)),
                          MapRef("b_map", (rows_b, along_k)), full)),
    )  # fmt: skip
    trips = Cast(as_scalar(cdiv(K, BK)), dt.u32)
    loop = For(tile, Const(0, dt.u32), trips, Const(1, dt.u32), fill)
    return (Prim("setmaxnreg.dec", (i32(40),)), If(land(compare("lt", T, 32), ELECTED), (loop,)))


def _products(slot: Scalar, tile: Scalar) -> tuple[Stmt, ...]:
    mine = mul(Cast(Var("which"), dt.u32), BM // 2 * BK * 2)
    out: list[Stmt] = []
    for step in range(BK // 16):
        a = MatrixDesc(add(mul(slot, STAGE_BYTES), mine, 32 * step), 16, ROW_GROUP, 128)
        b = MatrixDesc(add(mul(slot, STAGE_BYTES), A_BYTES + 32 * step), 16, ROW_GROUP, 128)
        again = Const(True, dt.boolean) if step else compare("ne", tile, 0)
        c = Regs("acc", i32(0), tuple(range(128)), 1, dt.f32)
        out.append(Prim("wgmma.64x256x16.f32.f16.f16.kk", (c, a, b, again)))
    return tuple(out)


def _release(tile: Scalar) -> If:
    stage, _ = _stage(tile)
    arrive = Prim("mbarrier.arrive", (SharedPtr(add(mul(stage, 8), EMPTY)),))
    return If(compare("eq", mod(T, 32), 0), (arrive,))


def _consume() -> tuple[Stmt, ...]:
    tile, slot = _tile("tile"), Var("slot", dt.u32)
    stage, parity = _stage(tile)
    step: tuple[Stmt, ...] = (
        Assign(slot, stage, True),
        Prim("mbarrier.wait", (SharedPtr(add(mul(slot, 8), FULL)), parity)),
        Prim("wgmma.fence", ()),
        *_products(slot, tile),
        Prim("wgmma.commit", ()),
        Prim("wgmma.wait", (i32(1),)),
        If(compare("ne", tile, 0), (_release(tile - 1),)),
    )
    trips = Cast(as_scalar(cdiv(K, BK)), dt.u32)
    zero = For(Var("z"), i32(0), i32(128), i32(1), (
        SetElement("acc", Var("z"), Const(0.0, dt.f32)),
    ), unroll=True)  # fmt: skip
    return (
        Prim("setmaxnreg.inc", (i32(232),)),
        Assign(Var("which"), GROUP - 1, True),
        DeclareArray("acc", dt.f32, 128),
        zero,
        For(tile, Const(0, dt.u32), trips, Const(1, dt.u32), step),
        Prim("wgmma.wait", (i32(0),)),
        *_store(),
    )


def _store() -> tuple[Stmt, ...]:
    """Element 4 j + 2 i + e of a thread is (16 warp + lane / 4 + 8 i, 8 j + lane % 4 * 2 + e)."""
    lane, warp = mod(T, 32), mod(floordiv(T, 32), 4)
    row = add(mul(Var("blockIdx.x"), BM), mul(Var("which"), 64), mul(warp, 16), floordiv(lane, 4))
    column = add(mul(Var("blockIdx.y"), BN), mul(mod(lane, 4), 2))
    out: list[Stmt] = [
        Assign(Var("row"), row, True),
        Assign(Var("column"), column, True),
        Assign(Var("home", dt.i64), add(mul(Cast(Var("row"), dt.i64), N), Var("column")), True),
        DeclareArray("pair", dt.f16, 2),
    ]
    for i in range(2):
        body: list[Stmt] = []
        at, j = add(Var("row"), 8 * i), Var("j")
        here = add(Var("column"), mul(j, 8))
        inside = land(compare("lt", at, M), compare("lt", here, N))
        for e in range(2):
            value = Element("acc", (add(mul(j, 4), 2 * i + e),), dt.f32)
            body.append(SetElement("pair", i32(e), Cast(value, dt.f16)))
        body.append(Prim("st.global.4", (
            GlobalPtr("c", add(Var("home", dt.i64), mul(N, 8 * i), mul(j, 8)), dt.f16),
            Regs("pair", i32(0), (0,), 2, dt.f16), inside,
        )))  # fmt: skip
        out.append(For(j, i32(0), i32(32), i32(1), tuple(body), unroll=True))
    return tuple(out)


def _open_barriers() -> If:
    body: list[Stmt] = []
    for stage in range(STAGES):
        body.append(Prim("mbarrier.init", (SharedPtr(i32(FULL + 8 * stage)), i32(1))))
        count = i32(CONSUMER_WARPS)
        body.append(Prim("mbarrier.init", (SharedPtr(i32(EMPTY + 8 * stage)), count)))
    body.append(Prim("fence.mbarrier", ()))
    return If(Compare("eq", T, i32(0)), tuple(body))


def gemm() -> ThreadProgram:
    """For any m, even n, k a multiple of 8, all at least 1 but k, which may be 0."""
    params = (
        ThreadParam("a", dt.f16, (M, K), pointer=True, aligned=True),
        ThreadParam("b", dt.f16, (N, K), pointer=True, aligned=True),
        ThreadParam("c", dt.f16, (M, N), pointer=True, aligned=True),
        ThreadParam("m", dt.i32), ThreadParam("n", dt.i32), ThreadParam("k", dt.i32),
    )  # fmt: skip
    body: tuple[Stmt, ...] = (
        _open_barriers(),
        Prim("bar.sync", ()),
        # The same in all lanes of a warp, and known to be: descriptors need uniform registers.
        Assign(GROUP, Call("shfl.idx", (floordiv(T, 128), i32(0)), dt.i32), True),
        If(Compare("eq", GROUP, i32(0)), _produce(), _consume()),
    )
    return ThreadProgram(
        "hopper_gemm", params, (as_scalar(cdiv(M, BM)), as_scalar(cdiv(N, BN)), i32(1)), 384,
        SHARED_BYTES, body, min_blocks=1,
        maps=(TensorMap("a_map", "a", (BM, BK), 128), TensorMap("b_map", "b", (BN, BK), 128)),
    )  # fmt: skip
