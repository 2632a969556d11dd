"""The author's own PTX: one device function for each text and the types of its operands."""

from __future__ import annotations

import hashlib
from typing import Any

from hidet.ir import expr as he
from hidet.ir.type import data_type

from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.scope import Scope
from hexcute_core.backend.hidet.storage import value_type
from hexcute_core.dtypes import DType


def inline(
    scope: Scope, text: str, args: list[tuple[Any, DType]], result: DType | None
) -> Any:
    """The expression that runs `text`; its value is of type `result`, None for none. Values of 16
    bits are the registers that hold them."""
    kinds = [_register(dtype) for _, dtype in args]
    outputs = () if result is None else (_register(result),)
    name = hashlib.sha256(repr((text, kinds, outputs)).encode()).hexdigest()[:12]
    ins = Instruction(
        f"hx_ptx_{name}", text, outputs, tuple(kinds), result=result is not None, memory=True
    )
    operands = [he.Cast(value, data_type(kind)) for (value, _), kind in zip(args, kinds)]
    value = scope.instruction(ins, operands)
    return value if result is None else he.Cast(value, value_type(result))


def _register(dtype: DType) -> str:
    """The type of the register that holds a value."""
    if dtype.bits == 16:
        return "uint16"
    return f"float{dtype.bits}" if dtype.is_float else f"{dtype.kind}{dtype.bits}"
