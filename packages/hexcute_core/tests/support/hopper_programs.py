"""Small Hopper programs written by hand, each of which shows what one kind of instruction does.

All waits are on phase 0 of a barrier that thread 0 opens at the end of the arena.
"""

from __future__ import annotations

from hexcute_core import dtypes as dt
from hexcute_core.dtypes import DType
from hexcute_core.runtime import Signature, TensorParam
from hexcute_core.scalar import Const, Scalar, Var, add, compare, floordiv, mod, mul
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    If,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    Regs,
    SharedPtr,
    Stmt,
    TensorMap,
    ThreadParam,
    ThreadProgram,
)
from hexcute_core.thread.prims_sm90 import WGMMA_K

T = Var("threadIdx.x")
LANE, WARP = mod(T, 32), floordiv(T, 32)
TRUE = Const(True, dt.boolean)
BARRIER = 65536
SHARED = BARRIER + 16
Case = tuple[ThreadProgram, Signature]


def i32(value: int) -> Const:
    return Const(value, dt.i32)


def at(offset: Scalar | int) -> SharedPtr:
    return SharedPtr(i32(offset) if isinstance(offset, int) else offset)


def first(*body: Stmt) -> If:
    return If(compare("eq", T, 0), body)


def opened(count: int = 1, *barriers: int) -> tuple[Stmt, ...]:
    """The barriers, ready for every thread of the block."""
    inits = (Prim("mbarrier.init", (at(b), i32(count))) for b in (BARRIER, *barriers))
    return first(*inits, Prim("fence.mbarrier", ())), Prim("bar.sync", ())


WAIT = Prim("mbarrier.wait", (at(BARRIER), i32(0)))


def program(
    name: str,
    body: tuple[Stmt, ...],
    tensors: dict[str, tuple[DType, tuple[int, ...]]],
    maps: tuple[TensorMap, ...] = (),
    threads: int = 128,
    cluster: tuple[int, int, int] = (1, 1, 1),
) -> Case:
    """The program and how it is called, on tensors of fixed shapes."""
    params = tuple(
        ThreadParam(n, t, tuple(i32(e) for e in shape), pointer=True, aligned=True)
        for n, (t, shape) in tensors.items()
    )
    signature = Signature(
        name, tuple(TensorParam(n, t.name, shape) for n, (t, shape) in tensors.items())
    )
    one = (i32(1), i32(1), i32(1))
    return (
        ThreadProgram(name, params, one, threads, SHARED, body, None, maps, cluster),
        signature,
    )


def round_trip(
    shape: tuple[int, ...], box: tuple[int, ...], swizzle: int, dtype: DType, way: str = "tma.store"
) -> Case:
    """Block (x, y) moves a box to shared memory and on: y = x, or y += x by `tma.reduce.add`."""
    size = dtype.bits // 8
    for extent in box:
        size *= extent
    places = [mul(Var(f"blockIdx.{axis}"), e) for axis, e in zip("yx", box[-2:])]
    if len(box) == 1:
        places = [mul(Var("blockIdx.x"), box[0])]
    coords = (*(i32(0) for _ in box[:-2]), *places)
    source, target = MapRef("x_map", coords), MapRef("y_map", coords)
    body: tuple[Stmt, ...] = (
        *opened(),
        first(
            Prim("tma.prefetch", (source,)),
            Prim("mbarrier.expect", (at(BARRIER), i32(size))),
            Prim("tma.load", (at(0), source, at(BARRIER))),
        ),
        WAIT,
        first(Prim(way, (target, at(0))), Prim("tma.commit", ()), Prim("tma.wait", (i32(0),))),
    )
    maps = (TensorMap("x_map", "x", box, swizzle), TensorMap("y_map", "y", box, swizzle))
    return program("round_trip", body, {"x": (dtype, shape), "y": (dtype, shape)}, maps)


def swizzled_box(swizzle: int) -> Case:
    """One box of 64 rows of `swizzle` bytes, written out as it lies in shared memory."""
    shape = (64, swizzle)
    body: list[Stmt] = [
        *opened(),
        first(
            Prim("mbarrier.expect", (at(BARRIER), i32(64 * swizzle))),
            Prim("tma.load", (at(0), MapRef("x_map", (i32(0), i32(0))), at(BARRIER))),
        ),
        WAIT,
        DeclareArray("r", dt.u8, 16),
    ]
    for i in range(max(1, 64 * swizzle // (128 * 16))):
        place = add(mul(T, 16), 2048 * i)
        regs = Regs("r", i32(0), (0,), 16, dt.u8)
        body.append(Prim("ld.shared.16", (regs, at(place))))
        body.append(Prim("st.global.16", (GlobalPtr("y", place, dt.u8), regs, TRUE)))
    tensors = {"x": (dt.u8, shape), "y": (dt.u8, shape)}
    return program("swizzled", tuple(body), tensors, (TensorMap("x_map", "x", shape, swizzle),))


def generic_to_async() -> Case:
    """Every thread writes 16 bytes of shared memory, one stores them all by TMA."""
    regs = Regs("r", i32(0), (0,), 16, dt.u8)
    body: tuple[Stmt, ...] = (
        DeclareArray("r", dt.u8, 16),
        Prim("ld.global.16", (regs, GlobalPtr("x", mul(T, 16), dt.u8), TRUE)),
        Prim("st.shared.16", (at(mul(T, 16)), regs)),
        Prim("fence.proxy", ()),
        Prim("bar.named.sync", (i32(3), i32(128))),
        first(
            Prim("tma.store", (MapRef("y_map", (i32(0), i32(0))), at(0))),
            Prim("tma.commit", ()),
            Prim("tma.wait.read", (i32(0),)),
        ),
    )
    tensors = {"x": (dt.u8, (16, 128)), "y": (dt.u8, (16, 128))}
    return program("generic", body, tensors, (TensorMap("y_map", "y", (16, 128), 0),))


def bulk_round_trip(size: int) -> Case:
    """`size` contiguous bytes to shared memory and on, the box of a map beside them hinted."""
    body: tuple[Stmt, ...] = (
        *opened(),
        first(
            Prim("mbarrier.expect", (at(BARRIER), i32(size + 2048))),
            Prim("bulk.load", (at(0), GlobalPtr("x", i32(16), dt.u8), i32(size), at(BARRIER))),
            Prim("tma.load.evict_first", (at(32768), MapRef("z_map", (i32(0), i32(0))),
                                          at(BARRIER))),
        ),
        WAIT,
        first(
            Prim("bulk.store", (GlobalPtr("y", i32(32), dt.u8), at(0), i32(size))),
            Prim("tma.store", (MapRef("w_map", (i32(0), i32(0))), at(32768))),
            Prim("tma.commit", ()),
            Prim("tma.wait", (i32(0),)),
        ),
    )  # fmt: skip
    flat, square = (dt.u8, (size + 48,)), (dt.u8, (16, 128))
    maps = (TensorMap("z_map", "z", (16, 128), 128), TensorMap("w_map", "w", (16, 128), 128))
    tensors = {"x": flat, "y": flat, "z": square, "w": square}
    return program("bulk", body, tensors, maps)


def asynchronous_arrival() -> Case:
    """cp.async of all threads completes a barrier of as many arrivals."""
    regs = Regs("r", i32(0), (0,), 16, dt.u8)
    other = mod(add(mul(T, 16), 16), 2048)
    body: tuple[Stmt, ...] = (
        *opened(128),
        DeclareArray("r", dt.u8, 16),
        Prim("cp.async.16", (at(mul(T, 16)), GlobalPtr("x", mul(T, 16), dt.u8), TRUE)),
        Prim("cp.async.mbarrier", (at(BARRIER),)),
        WAIT,
        Prim("ld.shared.16", (regs, at(other))),
        Prim("st.global.16", (GlobalPtr("y", mul(T, 16), dt.u8), regs, TRUE)),
    )
    return program("arrival", body, {"x": (dt.u8, (2048,)), "y": (dt.u8, (2048,))})


def multicast() -> Case:
    """Each of two blocks loads half of a box for both, tells the other, and stores the whole."""
    rank = Var("blockIdx.x")
    half = 32 * 128
    told = BARRIER + 8
    body: tuple[Stmt, ...] = (
        *opened(1, told),
        Prim("cluster.arrive", ()),
        Prim("cluster.wait", ()),
        first(
            Prim("mbarrier.expect", (at(BARRIER), i32(2 * half))),
            Prim("tma.load.multicast", (
                at(mul(rank, half)), MapRef("x_map", (mul(rank, 32), i32(0))), at(BARRIER), i32(3),
            )),
            Prim("mbarrier.arrive.cluster", (at(told), 1 - rank)),
        ),
        WAIT,
        Prim("mbarrier.wait", (at(told), i32(0))),
        first(
            Prim("tma.store", (MapRef("y_map", (rank, i32(0), i32(0))), at(0))),
            Prim("tma.commit", ()),
            Prim("tma.wait", (i32(0),)),
        ),
        Prim("cluster.arrive", ()),
        Prim("cluster.wait", ()),
    )  # fmt: skip
    tensors = {"x": (dt.f16, (64, 64)), "y": (dt.f16, (2, 64, 64))}
    maps = (TensorMap("x_map", "x", (32, 64), 128), TensorMap("y_map", "y", (1, 64, 64), 128))
    return program("multicast", body, tensors, maps, cluster=(2, 1, 1))


def stored_matrices(count: int, trans: str) -> Case:
    """A warp stores `count` matrices of 8 x 8, row r of matrix m at 16 (8 m + r) bytes."""
    each = 2 * count
    regs = Regs("r", i32(0), tuple(range(0, each, 2)), 2, dt.f16)
    out = Regs("o", i32(0), (0,), 8, dt.f16)
    body: list[Stmt] = [
        DeclareArray("r", dt.f16, each),
        DeclareArray("o", dt.f16, 8),
    ]
    for i in range(count):
        piece = Regs("r", i32(2 * i), (0,), 2, dt.f16)
        source = GlobalPtr("x", add(mul(LANE, each), 2 * i), dt.f16)
        body.append(Prim("ld.global.4", (piece, source, TRUE)))
    body += [
        Prim(f"stmatrix.x{count}{trans}", (at(mul(mod(LANE, 8 * count), 16)), regs)),
        Prim("bar.sync", ()),
        Prim("ld.shared.16", (out, at(mul(mod(LANE, 8 * count), 16)))),
        Prim("st.global.16", (
            GlobalPtr("y", mul(LANE, 8), dt.f16), out, compare("lt", LANE, 8 * count),
        )),
    ]  # fmt: skip
    tensors = {"x": (dt.f16, (32, each)), "y": (dt.f16, (8 * count, 8))}
    return program("matrices", tuple(body), tensors, threads=32)


def product(name: str, swizzle: int) -> Case:
    """c = a b^T for one 64 x N tile, operands by TMA, K the swizzle's span (16 bytes without).

    A K-major operand is [rows, K], an M- or N-major one [K, rows] in panels of 64 rows.
    """
    _, shape, d, a, b, majors = name.split(".")
    n, step = int(shape.split("x")[1]), WGMMA_K[a]
    c_type, a_type, b_type = dt.BY_NAME[d], dt.BY_NAME[a], dt.BY_NAME[b]
    bits = a_type.bits
    k = (swizzle or 32) * 8 // bits
    loads: list[Stmt] = []
    maps: list[TensorMap] = []
    tensors: dict[str, tuple[DType, tuple[int, ...]]] = {}
    places, total = {"a": 0, "b": 32768}, 0
    for operand, rows, major, t in (("a", 64, majors[0], a_type), ("b", n, majors[1], b_type)):
        whole = (k, rows) if major == "m" else (rows, k)
        tensors[operand] = (t, whole)
        if major == "r":
            continue
        inner = (swizzle or 16) * 8 // bits
        panel = (k, inner) if major == "m" else (rows, inner)
        maps.append(TensorMap(f"{operand}_map", operand, panel, swizzle))
        for i in range(whole[1] // inner):
            size = panel[0] * inner * bits // 8
            box = MapRef(f"{operand}_map", (i32(0), i32(i * inner)))
            loads.append(Prim("tma.load", (at(places[operand] + i * size), box, at(BARRIER))))
            total += size
    tensors["c"] = (c_type, (64, n))
    result = Regs("acc", i32(0), tuple(range(0, n // 2, 32 // c_type.bits)), 32 // c_type.bits,
                  c_type)  # fmt: skip
    body: list[Stmt] = [
        *opened(), DeclareArray("acc", c_type, n // 2), DeclareArray("left", a_type, k // 2),
    ]  # fmt: skip
    if majors[0] == "r":
        body += _left(a_type, k, step)
    body += [first(Prim("mbarrier.expect", (at(BARRIER), i32(total))), *loads), WAIT,
             Prim("wgmma.fence", ())]  # fmt: skip
    for i in range(k // step):
        each = step // 2
        left: Operand = _matrix(0, 64, majors[0], swizzle, k, i, bits)
        if majors[0] == "r":
            width = 32 // bits
            left = Regs("left", i32(i * each), tuple(range(0, each, width)), width, a_type)
        right = _matrix(places["b"], n, majors[1], swizzle, k, i, bits)
        body.append(Prim(name, (result, left, right, Const(i > 0, dt.boolean))))
    body += [Prim("wgmma.commit", ()), Prim("wgmma.wait", (i32(0),)), *_result(c_type, n)]
    return program("product", tuple(body), tensors, tuple(maps))


def _matrix(
    base: int, rows: int, major: str, swizzle: int, k: int, step: int, bits: int
) -> MatrixDesc:
    """Step `step` of an operand; each step of a K-major one is 32 bytes along a row."""
    if major == "m":
        return MatrixDesc(i32(base + step * 16 * swizzle), k * swizzle, 8 * swizzle, swizzle)
    if swizzle == 0:
        return MatrixDesc(i32(base), 16 * rows, 128, 0)
    return MatrixDesc(i32(base + 32 * step), 16, 8 * swizzle, swizzle)


def _left(t: DType, k: int, step: int) -> list[Stmt]:
    """A's fragment: word 2 j + i of a step is row lane / 4 + 8 i, word 4 j + lane % 4 of it."""
    width = 32 // t.bits
    row = add(mul(WARP, 16), floordiv(LANE, 4))
    out: list[Stmt] = []
    for s in range(k // step):
        for word in range(4):
            i, j = word % 2, word // 2
            column = add(mul(mod(LANE, 4), width), s * step + 4 * j * width)
            source = GlobalPtr("a", add(mul(add(row, 8 * i), k), column), t)
            piece = Regs("left", i32(s * step // 2 + word * width), (0,), width, t)
            out.append(Prim("ld.global.4", (piece, source, TRUE)))
    return out


def _result(t: DType, n: int) -> list[Stmt]:
    """Elements 4 j + 2 i + {0, 1} are row lane / 4 + 8 i, columns 8 j + lane % 4 * 2 + {0, 1}."""
    row = add(mul(WARP, 16), floordiv(LANE, 4))
    size = 2 * t.bits // 8
    out: list[Stmt] = []
    for j in range(n // 8):
        for i in range(2):
            place = add(mul(add(row, 8 * i), n), mul(mod(LANE, 4), 2), 8 * j)
            piece = Regs("acc", i32(4 * j + 2 * i), (0,), 2, t)
            out.append(Prim(f"st.global.{size}", (GlobalPtr("c", place, t), piece, TRUE)))
    return out
