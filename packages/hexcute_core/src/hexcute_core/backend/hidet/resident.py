"""Accumulators that only the assembler knows while a loop of asynchronous products runs.

    mov acc_i, a[i];   for (...) { wgmma {acc_0, acc_1, ...}, ... }   wait;   mov a[i], acc_i

To the C++ compiler every product has its accumulators as operands, by the hundred, and carries
them round the loop, at the cost of most of its time. Where nothing but products touches an array
in a loop, its registers are declared in PTX by name: they move there before the loop and back
behind the wait for its last product, and in between no statement of the C++ program mentions them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs

from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.chains import PRODUCT
from hexcute_core.backend.hidet.scope import RegisterArray, Scope, integer
from hexcute_core.scalar import Const, Element, is_const
from hexcute_core.scalar.visit import walk
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    If,
    Prim,
    Regs,
    Say,
    SetElement,
    Stamp,
    While,
)
from hexcute_core.thread.visit import scalars, statements
from hexcute_core.unions import assert_never

_AT_ONCE = 32


def resident_in(scope: Scope, loop: For, wait: Prim) -> tuple[RegisterArray, ...]:
    """The arrays that the assembler may keep while `loop` runs, which `wait` follows: accumulators
    of its products, nothing else touching them, no product in flight before the loop or behind
    the wait."""
    if id(loop) in scope.products.busy or not is_const(wait.operands[0], 0):
        return ()
    multiplied: set[str] = set()
    touched: set[str] = set()
    for stmt in statements(loop.body):
        touched |= {n.array for e in scalars(stmt) for n in walk(e) if isinstance(n, Element)}
        match stmt:
            case DeclareArray() | SetElement():
                touched.add(stmt.array)
            case Prim():
                registers = [o for o in stmt.operands if isinstance(o, Regs)]
                if stmt.name.startswith(PRODUCT) and isinstance(registers[0].offset, Const):
                    multiplied.add(registers.pop(0).array)
                touched |= {r.array for r in registers}
            case Assign() | Say() | Stamp() | For() | While() | If():
                pass
            case _:
                assert_never(stmt)
    names = sorted(name for name in multiplied - touched if name in scope.arrays)
    return tuple(scope.arrays[name] for name in names)


@contextmanager
def living(scope: Scope, arrays: tuple[RegisterArray, ...]) -> Iterator[None]:
    """Inside, products name the registers of `arrays`."""
    outside = scope.arrays
    inside = {
        name: replace(array, resident=scope.resident(array)) if array in arrays else array
        for name, array in outside.items()
    }
    scope.arrays = inside
    try:
        yield
    finally:
        scope.arrays = outside


def entering(scope: Scope, arrays: tuple[RegisterArray, ...]) -> list[Any]:
    """Moves what `arrays` hold to the registers that products name."""
    return [stmt for array in arrays for stmt in _moves(scope, array, back=False)]


def leaving(scope: Scope, arrays: tuple[RegisterArray, ...]) -> list[Any]:
    """Moves it back."""
    return [stmt for array in arrays for stmt in _moves(scope, array, back=True)]


def declarations(scope: Scope) -> list[Any]:
    """The registers of every array that was resident somewhere, for the kernel's first lines: PTX
    wants them declared above their uses, wherever the compiler puts those."""
    return [
        hs.AsmStmt(f".reg .{_type(array)} {name}<{array.entries}>;", [], [], is_volatile=True)
        for array, name in scope.residents.items()
    ]


def portions(array: RegisterArray) -> Iterator[range]:
    """The array's entries, as many at once as an asm should have: what the C++ compiler takes for
    one grows with the square of its operands."""
    for start in range(0, array.entries, _AT_ONCE):
        yield range(start, min(start + _AT_ONCE, array.entries))


def _moves(scope: Scope, array: RegisterArray, back: bool) -> Iterator[Any]:
    name, kind = scope.resident(array), array.cell.type_name
    for places in portions(array):
        pairs = [(f"%{at}", f"{name}{i}") for at, i in enumerate(places)]
        texts = [f"mov.{_type(array)} {a if back else b}, {b if back else a};" for a, b in pairs]
        kinds = (kind,) * len(places)
        ins = Instruction(
            f"hx_{'leave' if back else 'enter'}_{name}{places[0]}", " ".join(texts),
            outputs=kinds if back else (), inputs=() if back else kinds,
        )  # fmt: skip
        entries = [he.TensorElement(array.var, (integer(i),)) for i in places]
        yield hs.EvaluateStmt(scope.instruction(ins, entries))


def _type(array: RegisterArray) -> str:
    return "f32" if array.cell.type_name == "float32" else "b32"
