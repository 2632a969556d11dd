"""Conversions of neighbours: the values of single ones, in half the instructions, or left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_backend_values import NUMPY, THREADS, T, i32, run, true

from hexcute_core import dtypes as dt
from hexcute_core.backend import emit
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Cast, Element, Scalar, Var, add, as_scalar, mul
from hexcute_core.thread import (
    DeclareArray,
    For,
    GlobalPtr,
    Prim,
    Regs,
    SetElement,
    Stmt,
    ThreadParam,
    ThreadProgram,
)

COUNT = 16
P, Q = Var("i"), Var("j")


def source(index: Scalar) -> Element:
    return Element("x", (index,), dt.f32)


def write(to: DType, index: Scalar | int, value: Scalar | int | None = None) -> SetElement:
    at = as_scalar(index)
    return SetElement("h", at, Cast(source(at if value is None else as_scalar(value)), to))


def loop(var: Var, trips: int, *body: Stmt, unroll: bool = True) -> For:
    return For(var, i32(0), i32(trips), i32(1), body, unroll=unroll)


# Statements that write h[p] = x[order[p]], and how many conversions of two and of one they take.
Shape = tuple[list[Stmt], list[int], int, int]


def shapes(to: DType) -> dict[str, Shape]:
    straight = list(range(COUNT))
    turned = [j * 4 + i for i in range(4) for j in range(4)]
    shifted = [15, *range(15)]
    return {
        "a loop": ([loop(P, COUNT, write(to, P))], straight, 8, 0),
        "a nest in another order": (
            [loop(P, 4, loop(Q, 4, write(to, add(mul(Q, 4), P), add(mul(P, 4), Q))))],
            turned, 8, 0,
        ),
        "statements": ([write(to, p) for p in straight], straight, 8, 0),
        "statements backwards": ([write(to, p) for p in reversed(straight)], straight, 8, 0),
        "halves of pairs at both ends": (
            [loop(P, 14, write(to, add(P, 1), P)), *(
                stmt for p in (0, 15) for stmt in (DeclareArray(f"cut{p}", dt.f32, 1),
                                                   write(to, p, shifted[p]))
            )],
            shifted, 6, 4,
        ),
        "an outer loop that stays": (
            [loop(P, 4, DeclareArray("cut", dt.f32, 1), loop(Q, 4, write(to, add(mul(P, 4), Q))))],
            straight, 2, 0,
        ),
        "an outer loop of odd steps": (
            [loop(P, 5, DeclareArray("cut", dt.f32, 1), loop(Q, 3, write(to, add(mul(P, 3), Q)))),
             write(to, 15)],
            straight, 0, 2,
        ),
        "twice the same place": ([write(to, 0, 5), write(to, 0), loop(P, 15, write(to, add(P, 1)))],
                                 straight, 0, 17),
    }  # fmt: skip


def load() -> list[Stmt]:
    each = [
        Prim("ld.global.4", (
            Regs("x", i32(p), (0,), 1, dt.f32),
            GlobalPtr("src", add(mul(T, COUNT), p), dt.f32), true(),
        ))
        for p in range(COUNT)
    ]  # fmt: skip
    return [DeclareArray("x", dt.f32, COUNT), *each]


def store(to: DType) -> list[Stmt]:
    return [
        Prim("st.global.2", (
            GlobalPtr("dst", add(mul(T, COUNT), p), to), Regs("h", i32(p), (0,), 1, to), true(),
        ))
        for p in range(COUNT)
    ]  # fmt: skip


@pytest.mark.parametrize("name", shapes(dt.f16))
@pytest.mark.parametrize("to", [dt.f16, dt.bf16])
def test_values_are_those_of_single_conversions(tmp_path: Path, to: DType, name: str) -> None:
    body, order, _, _ = shapes(to)[name]
    rng = np.random.default_rng(3)
    src = rng.standard_normal(THREADS * COUNT).astype(np.float32) * 100
    dst = np.zeros(THREADS * COUNT, NUMPY[to])
    program = [*load(), DeclareArray("h", to, COUNT), *body, *store(to)]
    run(tmp_path, program, {"src": (dt.f32, src), "dst": (to, dst)})
    wanted = src.reshape(THREADS, COUNT)[:, order].astype(NUMPY[to])
    np.testing.assert_array_equal(dst.reshape(THREADS, COUNT), wanted)


def text(body: list[Stmt], to: DType, arch: str = "sm_90") -> str:
    params = (ThreadParam("dst", to, (i32(64),), pointer=True),)
    arrays: list[Stmt] = [DeclareArray("x", dt.f32, COUNT), DeclareArray("h", to, COUNT)]
    program = ThreadProgram("p", params, (i32(1),) * 3, 32, 0, (*arrays, *body))
    source = emit(program, arch).text
    return source[source.index("__global__") :]


@pytest.mark.parametrize("name", shapes(dt.f16))
@pytest.mark.parametrize("to", [dt.f16, dt.bf16, dt.f8e4m3, dt.f8e5m2])
def test_neighbours_share_an_instruction(to: DType, name: str) -> None:
    body, _, pairs, singles = shapes(to)[name]
    found = text(body, to)
    assert (found.count(f"hx_f32_to_{to}x2("), found.count(f"hx_f32_to_{to}(")) == (pairs, singles)


def test_what_reads_its_own_array_keeps_its_order() -> None:
    previous = Element("h", (i32(0),), dt.f16)
    first = SetElement("h", i32(0), Cast(source(i32(0)), dt.f16))
    second = SetElement("h", i32(1), Cast(Cast(previous, dt.f32) + source(i32(1)), dt.f16))
    found = text([first, second], dt.f16)
    assert "x2(" not in found
    assert found.count("hx_f32_to_f16(") == 2


def test_a_rolled_loop_stays_one() -> None:
    found = text([loop(P, COUNT, write(dt.f16, P), unroll=False)], dt.f16)
    assert "for (" in found and "x2(" not in found
