"""One PTX instruction = one device function: references for what it writes, values for the rest.

`Instruction` describes it, `function` builds the Hidet function that holds its `AsmStmt`, where
asked under a run-time predicate, with zeros written where the predicate is false.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.func import Function
from hidet.ir.type import PointerType, ReferenceType, VoidType, data_type

OWN = "hexcute"
"""Function attribute of what this package wrote, as against hidet's own primitives."""

_CONSTRAINT = {
    "uint16": "h", "int32": "r", "uint32": "r", "int64": "l", "uint64": "l", "float32": "f",
    "float64": "d", "pointer": "l",
}  # fmt: skip
PTX_TYPES = {"i8": "s8", "u8": "u8", "i32": "s32", "f8e4m3": "e4m3", "f8e5m2": "e5m2"}
"""Element types of matrix instructions that PTX calls by another name than ours."""


def ctype(name: str) -> Any:
    """The Hidet type called `name`, `pointer` for an untyped address."""
    return PointerType(VoidType()) if name == "pointer" else data_type(name)


@dataclass(frozen=True)
class Instruction:
    """`template` numbers its operands: `outputs`, then `inputs`; entries are type names.

    Outputs in `updated` are read too. `result` makes the single output the function's value.
    """

    name: str
    template: str
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    updated: bool = False
    result: bool = False
    volatile: bool = True
    memory: bool = False


@functools.cache
def function(ins: Instruction, predicated: bool = False) -> Function:
    """`static __device__ __forceinline__` function of `ins`; the predicate is the last argument."""
    outs = [he.Var(f"d{i}", _output_type(ins, t)) for i, t in enumerate(ins.outputs)]
    args = [he.Var(f"a{i}", ctype(t)) for i, t in enumerate(ins.inputs)]
    prefix = "+" if ins.updated else "="
    body: hs.Stmt = hs.AsmStmt(
        ins.template,
        outputs=[(prefix + _CONSTRAINT[t], v) for t, v in zip(ins.outputs, outs)],
        inputs=[(_CONSTRAINT[t], v) for t, v in zip(ins.inputs, args)],
        is_volatile=ins.volatile,
        memory_fence=ins.memory,
    )
    params = ([] if ins.result else outs) + args
    result: Any = VoidType()
    if ins.result:
        result = outs[0].type
        body = hs.SeqStmt([hs.DeclareStmt(outs[0]), body, hs.ReturnStmt(outs[0])])
    if predicated:
        pred = he.Var("pred", data_type("bool"))
        params = params + [pred]
        zeros = [hs.AssignStmt(v, he.Constant(0, ctype(t))) for t, v in zip(ins.outputs, outs)]
        body = hs.SeqStmt([*zeros, hs.IfStmt(pred, body)])
    name = ins.name + ("_if" if predicated else "")
    return Function(name, params, body, result, "cuda_internal", {OWN: True})


def _output_type(ins: Instruction, name: str) -> Any:
    return ctype(name) if ins.result else ReferenceType(ctype(name))


def vector(first: int, count: int) -> str:
    """Operands `{%first, ...}` as PTX writes a vector."""
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"
