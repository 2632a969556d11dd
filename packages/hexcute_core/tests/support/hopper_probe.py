"""Programs of one or a few Hopper primitives, for tests of their laws and of their code."""

from __future__ import annotations

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Const, Scalar, Var, add, mul
from hexcute_core.thread import (
    DeclareArray,
    For,
    GlobalPtr,
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

T, N = Var("threadIdx.x"), Var("n")
TRUE = Const(True, dt.boolean)
MAPS = tuple(
    TensorMap(f"map{rank}", f"x{rank}", (1,) * (rank - 1) + (64,), 128) for rank in range(1, 6)
)
BOXES = {m.name: MapRef(m.name, tuple(mul(N, i + 1) for i in range(len(m.box)))) for m in MAPS}


def i32(value: int) -> Const:
    return Const(value, dt.i32)


def shared(offset: Scalar | int = 0) -> SharedPtr:
    return SharedPtr(i32(offset) if isinstance(offset, int) else offset)


def program(*body: Stmt, **changes: object) -> ThreadProgram:
    params = (
        *(ThreadParam(f"x{r}", dt.f16, (N,) * r, pointer=True, aligned=True) for r in range(1, 6)),
        ThreadParam("n", dt.i32),
    )
    fields: dict[str, object] = {
        "name": "probe", "params": params, "grid_dim": (i32(2), i32(1), i32(1)),
        "block_dim": 128, "shared_bytes": 65536, "body": tuple(body), "min_blocks": 1,
        "maps": MAPS,
    }  # fmt: skip
    return ThreadProgram(**(fields | changes))  # type: ignore[arg-type]


def words(array: str, dtype: dt.DType, elements: int) -> Regs:
    each = max(1, 32 // dtype.bits)
    return Regs(array, i32(0), tuple(range(0, elements, each)), each, dtype)


def product(name: str, step: int = 0, accumulate: Scalar = TRUE) -> Prim:
    _, shape, d, a, _, majors = name.split(".")
    n, k = (int(x) for x in shape.split("x")[1:])
    kind = dt.BY_NAME[a]
    row = k * kind.bits // 8
    b = MatrixDesc(i32(32768 + step), 16, 1024, 128)
    left: Operand = MatrixDesc(i32(1024 + step), 16, 8 * row, 32)
    if majors[0] == "r":
        left = words("a", kind, 128 // kind.bits)
    return Prim(name, (words("c", dt.BY_NAME[d], n // 2), left, b, accumulate))


def products(name: str, *steps: Prim) -> ThreadProgram:
    """The steps as one group, their result stored."""
    _, shape, d, a, _, _ = name.split(".")
    result, left = dt.BY_NAME[d], dt.BY_NAME[a]
    elements = int(shape.split("x")[1]) // 2
    params = (ThreadParam("out", result, (N,), pointer=True, aligned=True),
              ThreadParam("src", left, (N,), pointer=True, aligned=True),
              ThreadParam("n", dt.i32))  # fmt: skip
    size = elements * result.bits // 8
    width = next(w for w in (16, 8, 4) if size % w == 0)
    per = width * 8 // result.bits
    j = Var("j")
    store = Prim(f"st.global.{width}", (
        GlobalPtr("out", add(mul(T, elements), mul(j, per)), result),
        Regs("c", mul(j, per), (0,), per, result), TRUE,
    ))  # fmt: skip
    per_a = 128 // left.bits
    load = Prim("ld.global.16", (
        Regs("a", i32(0), (0,), per_a, left), GlobalPtr("src", mul(T, per_a), left), TRUE,
    ))  # fmt: skip
    body: tuple[Stmt, ...] = (
        DeclareArray("c", result, elements), DeclareArray("a", left, per_a), load,
        Prim("wgmma.fence", ()), *steps, Prim("wgmma.commit", ()), Prim("wgmma.wait", (i32(0),)),
        For(j, i32(0), i32(elements // per), i32(1), (store,), unroll=True),
    )  # fmt: skip
    return program(*body, params=params, maps=())
