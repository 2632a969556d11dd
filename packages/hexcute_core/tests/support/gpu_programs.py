"""Thread programs whose every output bit a GPU and the simulator must agree on, with arguments.

Sums are of small integers, so that no order of additions and no width of accumulation shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import test_simulator as programs
import test_simulator_pipeline as pipeline

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Binary, Call, Cast, Compare, Const, Element, Select, Unary, Var
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    ThreadParam,
    ThreadProgram,
    While,
)

TX, BX = Var("threadIdx.x"), Var("blockIdx.x")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
LANES = 128


@dataclass(frozen=True)
class Case:
    """A program and how to make its arrays; `needs` is the least compute capability."""

    name: str
    program: Callable[[], ThreadProgram]
    arrays: Callable[[], dict[str, np.ndarray]]
    scalars: dict[str, int] = field(default_factory=dict)
    needs: tuple[int, int] = (8, 0)

    def __str__(self) -> str:
        return self.name


def integers(dtype, shape, low=-4, high=5, seed=1):
    rng = np.random.default_rng(seed)
    if dtype.kind == "uint":
        low = 0
    return rng.integers(low, high, shape).astype(np.float32).astype(storage(dtype))


def copies() -> Iterator[Case]:
    for dtype, width in [(dt.f16, 8), (dt.f32, 4), (dt.u8, 16), (dt.i64, 2), (dt.f32, 1)]:
        for n in (64, 513, 1000):
            yield Case(
                f"copy_{dtype}x{width}_{n}",
                lambda dtype=dtype, width=width: programs.ragged_copy(dtype, width),
                lambda dtype=dtype, n=n: {
                    "src": integers(dtype, n), "dst": np.full(n, 77, storage(dtype))
                },
                {"n": n},
            )  # fmt: skip


def products() -> Iterator[Case]:
    for name, c_type, in_type, k, _, _ in programs.MMA:
        narrow = in_type.name.startswith("f8")
        yield Case(
            name,
            lambda a=(name, c_type, in_type, k): programs.one_warp_mma(*a),
            lambda c_type=c_type, in_type=in_type, k=k: {
                "a": integers(in_type, (16, k), seed=2),
                "b": integers(in_type, (8, k), seed=3),
                "c": integers(c_type, (16, 8), seed=4),
            },
            needs=(8, 9) if narrow else (8, 0),
        )
    for size in ((128, 128, 256), (32, 32, 96)):
        m, n, k = size
        yield Case(
            f"pipeline_{m}x{n}x{k}",
            lambda size=size: pipeline.pipelined_gemm(*size),
            lambda m=m, n=n, k=k: {
                "a": integers(dt.f16, (m, k)),
                "b": integers(dt.f16, (n, k), seed=2),
                "c": np.zeros((m, n), np.float32),
            },
        )


def per_lane(value, out, params=(), body=()):
    """out[i] = value on thread i of `LANES`."""
    width = out.bits // 8
    return ThreadProgram(
        "lanes",
        (
            ThreadParam("out", out, (Const(LANES, dt.i32),), pointer=True, aligned=True),
            *(
                ThreadParam(name, dtype, (Const(LANES, dt.i32),), pointer=True, aligned=True)
                for name, dtype in params
            ),
        ),
        (ONE, ONE, ONE),
        LANES,
        0,
        (
            *(part for name, dtype in params for part in fetched(name, dtype)),
            *body,
            DeclareArray("result", out, 1),
            SetElement("result", ZERO, value),
            Prim(f"st.global.{width}", (GlobalPtr("out", TX, out), reg("result", out), TRUE)),
        ),
    )


def reg(name, dtype):
    return Regs(name, ZERO, (0,), 1, dtype)


def fetched(name, dtype):
    yield DeclareArray(f"r_{name}", dtype, 1)
    size = dtype.bits // 8
    yield Prim(f"ld.global.{size}", (reg(f"r_{name}", dtype), GlobalPtr(name, TX, dtype), TRUE))


def loaded(name, dtype):
    return Element(f"r_{name}", (ZERO,), dtype)


def patterns(dtype, seed):
    """Bit patterns: ends, middles, and noise; for floats whole and halved numbers."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        values = np.concatenate([
            [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 448.0, 449.0, 57344.0, 65504.0, 65520.0],
            rng.integers(-3000, 3000, LANES - 13) / 8,
        ])  # fmt: skip
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype(storage(dtype))
    info = np.iinfo(storage(dtype))
    ends = np.array([info.min, info.max, 0, 1, info.max // 2], dtype=storage(dtype))
    noise = rng.integers(info.min, info.max, LANES - len(ends), dtype=storage(dtype), endpoint=True)
    return np.concatenate([ends, noise])


def arithmetic() -> Iterator[Case]:
    operations = (
        "add", "sub", "mul", "and", "or", "xor", "min", "max", "floordiv", "mod", "shl", "shr"
    )  # fmt: skip
    for dtype in (dt.i32, dt.u32, dt.i64, dt.u64):
        for op in operations:
            first, second = loaded("a", dtype), loaded("b", dtype)
            if op in ("floordiv", "mod"):
                # The compiler divides numbers that are not negative by positive ones only.
                first = Binary("shr", Unary("abs", first, dtype), Const(1, dtype), dtype)
                second = Select(
                    Compare("gt", second, Const(0, dtype)), second, Const(3, dtype), dtype
                )
            if op in ("shl", "shr"):
                second = Binary("and", second, Const(dtype.bits - 1, dtype), dtype)
            value = Binary(op, first, second, dtype)
            yield Case(
                f"{op}_{dtype}",
                lambda v=value, d=dtype: per_lane(v, d, [("a", d), ("b", d)]),
                lambda d=dtype: {
                    "out": np.zeros(LANES, storage(d)), "a": patterns(d, 1), "b": patterns(d, 2)
                },
            )  # fmt: skip
    for op in ("add", "sub", "mul", "min", "max"):
        value = Binary(op, loaded("a", dt.f32), loaded("b", dt.f32), dt.f32)
        yield Case(
            f"{op}_f32",
            lambda v=value: per_lane(v, dt.f32, [("a", dt.f32), ("b", dt.f32)]),
            lambda: {
                "out": np.zeros(LANES, np.float32),
                "a": patterns(dt.f32, 1),
                "b": patterns(dt.f32, 2),
            },
        )
    for op in ("neg", "abs", "floor", "ceil"):
        value = Unary(op, loaded("a", dt.f32), dt.f32)
        yield Case(
            f"{op}_f32",
            lambda v=value: per_lane(v, dt.f32, [("a", dt.f32)]),
            lambda: {"out": np.zeros(LANES, np.float32), "a": patterns(dt.f32, 1)},
        )


def conversions() -> Iterator[Case]:
    pairs = [(dt.f32, t) for t in (dt.f16, dt.bf16, dt.f8e4m3, dt.f8e5m2, dt.i32, dt.u32, dt.i8)]
    pairs += [(t, dt.f32) for t in (dt.f16, dt.bf16, dt.f8e4m3, dt.f8e5m2, dt.i32, dt.u8, dt.i8)]
    pairs += [(dt.i64, dt.i32), (dt.i32, dt.i8), (dt.i8, dt.i32), (dt.u8, dt.i64)]
    for source, target in pairs:
        narrow = "f8" in f"{source}{target}"
        yield Case(
            f"{source}_to_{target}",
            lambda s=source, t=target: per_lane(Cast(loaded("a", s), t), t, [("a", s)]),
            lambda s=source, t=target: {
                "out": np.zeros(LANES, storage(t)), "a": patterns(s, 5)
            },
            needs=(8, 9) if narrow else (8, 0),
        )  # fmt: skip


def lanes_talk() -> Iterator[Case]:
    for name in ("shfl.xor", "shfl.idx", "shfl.up", "shfl.down"):
        for operand in (1, 3, 16):
            value = Call(name, (loaded("a", dt.f32), Const(operand, dt.i32)), dt.f32)
            body = (Assign(Var("v", dt.f32), value, True),)
            yield Case(
                f"{name}_{operand}",
                lambda b=body: per_lane(Var("v", dt.f32), dt.f32, [("a", dt.f32)], b),
                lambda: {"out": np.zeros(LANES, np.float32), "a": patterns(dt.f32, 6)},
            )


def divergence() -> Iterator[Case]:
    count, total, i = Var("count"), Var("total"), Var("i")
    body = (
        Assign(count, TX % 7, True),
        Assign(total, ZERO, True),
        While(
            Compare("gt", count, ZERO),
            (Assign(total, total + count, False), Assign(count, count - 1, False)),
        ),
        For(
            i, TX % 3, TX, Const(2, dt.i32),
            (
                If(
                    Compare("eq", i % 4, ZERO),
                    (Assign(total, total + i * 100, False),),
                    (Assign(total, total - 1, False),),
                ),
            ),
        ),
    )  # fmt: skip
    yield Case(
        "divergence",
        lambda: per_lane(total, dt.i32, body=body),
        lambda: {"out": np.zeros(LANES, np.int32)},
    )


CASES = [*copies(), *products(), *arithmetic(), *conversions(), *lanes_talk(), *divergence()]
