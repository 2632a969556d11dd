"""Accumulators that only PTX names while a loop of products runs: where, and where not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hopper_gemm import gemm

from hexcute_core import dtypes as dt
from hexcute_core.backend import emit
from hexcute_core.scalar import Const, Element, Var
from hexcute_core.thread import (
    Assign,
    For,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    Stmt,
    ThreadProgram,
    verify,
)
from hexcute_core.thread.visit import calls
from hexcute_core.toolchain import compile_cubin, sass

ACC = 128
ZERO = Const(0, dt.i32)
NAMED = re.compile(r"hx_resident0_(\d+)\b")


def rewritten(p: ThreadProgram, loop: Callable[[For, Prim], list[Stmt]]) -> ThreadProgram:
    """`p` with its loop of products, and the wait behind it, replaced by `loop` of the two."""

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        rest = list(body)
        while rest:
            stmt = rest.pop(0)
            if isinstance(stmt, For) and calls(stmt.body, "wgmma.commit"):
                out += loop(stmt, rest.pop(0))
            elif isinstance(stmt, If):
                out.append(replace(stmt, then=block(stmt.then), otherwise=block(stmt.otherwise)))
            else:
                out.append(stmt)
        return tuple(out)

    changed = replace(p, body=block(p.body))
    verify(changed)
    return changed


def source(loop: Callable[[For, Prim], list[Stmt]]) -> str:
    return emit(rewritten(gemm(), loop), "sm_90").text


def called(text: str, name: str) -> list[str]:
    """The arguments of each call of a function whose name starts so."""
    return re.findall(rf"^ +{name}\w*\((.*)\);$", text, re.M)


def test_products_in_a_loop_take_descriptors_alone() -> None:
    text = source(lambda loop, wait: [loop, wait])
    (product,) = called(text, "hx_wgmma_64x256x16")
    assert "acc[" not in product and product.count("<< 4") + product.count("arena_units") >= 2
    assert "hx_hold" not in text
    (declared,) = re.findall(r"\.reg \.f32 hx_resident0_<(\d+)>;", text)
    assert int(declared) == ACC
    kernel = text[text.index("__global__") :]
    assert kernel.index(".reg") < kernel.index("hx_enter")
    definition = next(x for x in text.splitlines() if "wgmma.mma_async" in x)
    first = definition[definition.index("{") : definition.index("}")]
    assert [int(i) for i in NAMED.findall(first)] == list(range(ACC))


def test_every_register_enters_before_the_loop_and_leaves_behind_the_wait() -> None:
    text = source(lambda loop, wait: [loop, wait])
    for name in ("hx_enter", "hx_leave"):
        moved = [int(i) for args in called(text, name) for i in re.findall(r"acc\[(\d+)\]", args)]
        assert moved == list(range(ACC))
    places = [text.rindex(x) for x in ("hx_enter_", "hx_wgmma_64x256x16", "hx_wgmma_wait_0")]
    assert [*places, text.rindex("hx_leave_")] == sorted([*places, text.rindex("hx_leave_")])
    assert "mov.f32 hx_resident0_33, %1;" in text and "mov.f32 %1, hx_resident0_33;" in text


def _reads(loop: For, wait: Prim) -> list[Stmt]:
    read = Assign(Var("x", dt.f32), Element("acc", (ZERO,), dt.f32), True)
    return [replace(loop, body=(*loop.body, read)), wait]


def _stores(loop: For, wait: Prim) -> list[Stmt]:
    store = Prim("st.shared.4", (SharedPtr(ZERO), Regs("acc", ZERO, (0,), 1, dt.f32)))
    return [replace(loop, body=(*loop.body, store)), wait]


def _writes(loop: For, wait: Prim) -> list[Stmt]:
    write = SetElement("acc", ZERO, Const(0.0, dt.f32))
    return [replace(loop, body=(write, *loop.body)), wait]


def _moves(loop: For, wait: Prim) -> list[Stmt]:
    """Where its registers are is known when a loop is unrolled."""
    body = tuple(
        replace(s, operands=(replace(s.operands[0], offset=Var("j")), *s.operands[1:]))
        if isinstance(s, Prim) and s.name.startswith("wgmma.64")
        else s
        for s in loop.body
    )
    one = For(Var("j"), ZERO, Const(1, dt.i32), Const(1, dt.i32), body, unroll=True)
    return [replace(loop, body=(one,)), wait]


def _waits_for_older(loop: For, wait: Prim) -> list[Stmt]:
    return [loop, replace(wait, operands=(Const(1, dt.i32),)), wait]


def _waits_later(loop: For, wait: Prim) -> list[Stmt]:
    return [loop, Assign(Var("x", dt.i32), ZERO, True), wait]


def _begins_before(loop: For, wait: Prim) -> list[Stmt]:
    """A product in flight when the loop begins."""
    first = next(s for s in loop.body if isinstance(s, Prim) and s.name.startswith("wgmma.64"))
    a, b = (replace(d, offset=ZERO) for d in first.operands[1:3])
    begun = replace(first, operands=(first.operands[0], a, b, Const(True, dt.boolean)))
    return [Prim("wgmma.fence", ()), begun, Prim("wgmma.commit", ()), loop, wait]


@pytest.mark.parametrize(
    "loop",
    [_reads, _stores, _writes, _moves, _waits_for_older, _waits_later, _begins_before],
)
def test_what_something_else_may_touch_stays_a_value(
    loop: Callable[[For, Prim], list[Stmt]],
) -> None:
    text = source(loop)
    assert "hx_resident" not in text and "hx_hold" in text
    assert all("acc[" in args for args in called(text, "hx_wgmma_64x256x16"))


def test_the_machine_code_multiplies_in_place() -> None:
    cubin = compile_cubin(source(lambda loop, wait: [loop, wait]), "sm_90")
    text = sass(cubin)
    products = re.findall(r"HGMMA\S+ (R\d+), gdesc\[UR\d+\], (R\d+)", text)
    assert products and all(d == c for d, c in products)
    loop = text[text.index("HGMMA") : text.rindex("HGMMA")]
    assert "MOV R" not in loop and "STL" not in text
