"""hx.ptx("fns.b32 %0, %1, %2, %3;", ...): instructions that the language has no words for.

The operands are declared by the call: %0 is the result where there is one, the arguments follow in
order, each in a register of its type. The compiler looks at nothing else of the text.
"""

from __future__ import annotations

import re
from typing import Any

from hexcute_core.dtypes import DType
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.tiles import TileValue, describe
from hexcute_core.scalar import Call, Scalar, ScalarBase, as_scalar
from hexcute_core.scalar.inline import MEANT, PTX
from hexcute_core.tile import CallStmt

REGISTERS = ("f16", "bf16", "i16", "u16", "i32", "u32", "f32", "i64", "u64", "f64")
"""Types that PTX has registers for."""
_OPERAND = re.compile(r"%(%|\d+)?")


def ptx(text: str, *args: object, dtype: DType | None = None, meaning: object = None) -> Any:
    """The PTX instructions `text`, with the scalars `args` as operands: for a result of `dtype`,
    which is operand %0, the arguments being %1, %2, ...; or for their effect, the arguments being
    %0, %1, ... Registers of PTX's own are written with two percents, `%%laneid`. Other threads and
    memory may be touched: nothing is moved across, and what a result's instructions do depends on
    is for the author to know.

    `meaning` is an expression of the same value, which the simulator computes instead; without it
    simulating ends there. Raises FrontendError for operands that the text or PTX does not have.
    """
    builder = current("hx.ptx")
    if not isinstance(text, str) or any(c in text for c in '"\\\0'):
        raise builder.error(
            f"hx.ptx takes the text of instructions, got {describe(text)}",
            fix='write hx.ptx("brev.b32 %0, %1;", x, dtype=u32)',
        )
    given = [_operand(builder, arg) for arg in args]
    count = len(given) + (dtype is not None)
    used = _OPERAND.findall(text)
    if "" in used or {int(n) for n in used if n != "%"} != {*range(count)}:
        raise builder.error(
            f"hx.ptx of {text!r}, which does not name the operands %0 to %{count - 1}, each of them"
            if count
            else f"hx.ptx of {text!r}, which names operands, and has none",
            fix="declare each operand by an argument, the result by dtype=, and write %% before "
            "registers of PTX's own",
        )
    body = " ".join(text.split())
    if dtype is None:
        if meaning is not None:
            raise builder.error(
                "hx.ptx without dtype= has no value to have a meaning",
                fix="leave meaning= out, or ask for the result by dtype=",
            )
        builder.emit(CallStmt(PTX + body, tuple(given), builder.span))
        return None
    _register(builder, dtype, "gives")
    if meaning is None:
        return builder.hold(Call(PTX + body, tuple(given), dtype), builder.hint or "ptx")
    told = _operand(builder, meaning)
    if told.dtype != dtype:
        raise builder.error(
            f"hx.ptx gives {dtype}, its meaning is of {told.dtype}",
            fix=f"write meaning=hx.cast(..., {dtype})",
        )
    return builder.hold(Call(MEANT + body, (*given, told), dtype), builder.hint or "ptx")


def _operand(builder: Builder, arg: object) -> Scalar:
    if isinstance(arg, TileValue) or not isinstance(arg, (int, float, ScalarBase)):
        raise builder.error(
            f"hx.ptx takes scalars, got {describe(arg)}",
            fix="pass elements of the tile inside `for i, j in hx.elements(tile):`",
        )
    found = as_scalar(arg)
    _register(builder, found.dtype, "takes")
    return found


def _register(builder: Builder, dtype: object, does: str) -> None:
    name = dtype.name if isinstance(dtype, DType) else describe(dtype)
    if name not in REGISTERS:
        raise builder.error(
            f"hx.ptx {does} {name}, for which PTX has no registers",
            fix=f"use one of {', '.join(REGISTERS)}, and hx.cast or bits of an integer",
        )
