"""Atomics, flags, fences and the warp's barrier -> statements: the rows of `prims_atomics` as PTX.

An update is one instruction per element, or one for all of them where its name says so: f32 as a
vector, 16-bit floats in words of two. All old values are there before the first is kept, since
their registers may be those of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs

from hexcute_core import dtypes
from hexcute_core.backend.hidet import accesses, registers, scalars
from hexcute_core.backend.hidet.asm import PTX_TYPES, Instruction, vector
from hexcute_core.backend.hidet.scope import Scope
from hexcute_core.backend.hidet.storage import value_type
from hexcute_core.dtypes import DType
from hexcute_core.scalar import ScalarBase, add
from hexcute_core.thread import GlobalPtr, Operand, Prim, Regs, SharedPtr
from hexcute_core.thread.spec import PrimSpec, Update

_FIXED = {
    "fence.cta": "fence.acq_rel.cta;",
    "fence.gpu": "fence.acq_rel.gpu;",
    "bar.warp.sync": "bar.warp.sync 0xffffffff;",
}
_ON_BITS = ("and", "or", "xor", "exch", "cas")
# 16-bit sums keep subnormals; a sum of 64 bits is the same with a sign and without.
_SUMS = {"f16": "noftz.f16", "bf16": "noftz.bf16", "i64": "u64"}
_TYPES = {**PTX_TYPES, "i64": "s64"}


def emit(scope: Scope, stmt: Prim, spec: PrimSpec) -> list[Any]:
    """The statements of one primitive, its operands of the kinds of its row."""
    name = stmt.name
    if name in _FIXED:
        ins = Instruction(_function_name(name), _FIXED[name], memory=True)
        return [hs.EvaluateStmt(scope.instruction(ins, []))]
    if isinstance(spec.what, Update):
        return _update(scope, name, spec.what, stmt.operands)
    match (name.split("."), stmt.operands):
        case (["ld", space, order, _], (Regs() as dst, source, *pred)):
            where, ok = f"{space}.{order}", _predicate(pred)
            return accesses.load(scope, where, spec.bytes, dst, _address(scope, source), ok)
        case (["st", space, order, _], (target, Regs() as src, *pred)):
            where, ok = f"{space}.{order}", _predicate(pred)
            return accesses.store(scope, where, spec.bytes, _address(scope, target), src, ok)
        case _:
            raise scope.error(f"the primitive {name} has no translation")


def _update(
    scope: Scope, name: str, update: Update, operands: tuple[Operand, ...]
) -> list[Any]:
    first, dtype = operands[0], update.dtype
    old = first if update.returns and isinstance(first, Regs) else None
    target, *rest = operands if old is None else operands[1:]
    if update.width > 1:
        return _together(scope, name, update, old, target, rest)
    values = [_elements(scope, operand) for operand in rest if isinstance(operand, Regs)]
    ins = _instruction(name, update, len(values))
    before, updates, after = [], [], []
    for j, given in enumerate(zip(*values, strict=True)):
        args = [
            _address(scope, target, j, dtype),
            *(registers.element(scope, array, index) for array, index in given),
        ]
        if old is not None:
            array, index = _elements(scope, old)[j]
            was = he.Var("old", value_type(dtype))
            before.append(hs.DeclareStmt(was))
            args.insert(0, was)
            after.append(registers.set_element(scope, array, index, was))
        updates.append(accesses.guarded(scope, ins, args, _predicate(rest)))
    return [*before, *updates, *after]


def _together(
    scope: Scope,
    name: str,
    update: Update,
    old: Regs | None,
    target: Operand,
    rest: Sequence[Operand],
) -> list[Any]:
    """One instruction for all elements, taken from the registers as words."""
    dtype = update.dtype
    bits = max(32, dtype.bits)
    (value,) = (operand for operand in rest if isinstance(operand, Regs))
    source = registers.operand(scope, value, bits, reads=True, writes=False)
    given = None if old is None else registers.operand(scope, old, bits, reads=False, writes=True)
    count = len(source.entries)
    entry = "float32" if dtype == dtypes.f32 else "uint32"
    head, op = _head(update), update.op
    outputs = (entry,) * (0 if given is None else count)
    pointer = "pointer" if isinstance(target, GlobalPtr) else "uint32"
    lanes, at = (f".v{count}" if count > 1 else ""), len(outputs)
    # PTX writes the vector before a type, but behind how its elements are rounded.
    typed = f"{op}{lanes}.f32" if dtype == dtypes.f32 else f"{op}.noftz{lanes}.{dtype.name}x2"
    taken = vector(at + 1, count) if count > 1 else f"%{at + 1}"
    operands = [*(f"%{i}" for i in range(at)), f"[%{at}]", taken]
    ins = Instruction(
        _function_name(name), f"{head}.{typed} {', '.join(operands)};",
        outputs, (pointer, *(entry,) * count), memory=True,
    )  # fmt: skip
    args = [*([] if given is None else given.entries), _address(scope, target), *source.entries]
    before, after = ([] if given is None else given.before), ([] if given is None else given.after)
    run = accesses.guarded(scope, ins, args, _predicate(rest))
    return [*source.before, *before, run, *after]


def _head(update: Update) -> str:
    """What PTX calls the family, the order, the scope and the space of an update."""
    family, scope = "atom" if update.returns else "red", "cta" if update.block else "gpu"
    return f"{family}.{update.order}.{scope}.{update.space}"


def _instruction(name: str, update: Update, values: int) -> Instruction:
    op, dtype, kind = update.op, update.dtype, update.dtype.name
    typed = f"b{dtype.bits}" if op in _ON_BITS else _TYPES.get(kind, kind)
    if op == "add":
        typed = _SUMS.get(kind, typed)
    entry = value_type(dtype).name
    outputs = (entry,) if update.returns else ()
    inputs = ("pointer" if update.space == "global" else "uint32", *(entry,) * values)
    operands = [f"%{i}" for i in range(len(outputs) + len(inputs))]
    operands[len(outputs)] = f"[{operands[len(outputs)]}]"
    text = f"{_head(update)}.{op}.{typed} {', '.join(operands)};"
    return Instruction(_function_name(name), text, outputs, inputs, memory=True)


def _elements(scope: Scope, regs: Regs) -> list[tuple[str, registers.Index]]:
    """Array and index of each element."""
    places = [add(regs.offset, piece + i) for piece in regs.pieces for i in range(regs.width)]
    return [(regs.array, scalars.index_of(scope, place)) for place in places]


def _address(scope: Scope, ptr: Operand, j: int = 0, dtype: DType = dtypes.u8) -> Any:
    """The address `j` elements of `dtype` behind `ptr`."""
    match ptr:
        case GlobalPtr():
            behind = GlobalPtr(ptr.param, add(ptr.offset, j), ptr.dtype)
            return accesses.global_address(scope, behind)
        case SharedPtr():
            return accesses.shared_address(scope, SharedPtr(add(ptr.offset, j * dtype.bits // 8)))
        case _:
            raise scope.error(f"{ptr} is no place in memory")


def _predicate(operands: Sequence[Operand]) -> Any:
    """The scalar among the operands, if there is one."""
    return next((operand for operand in operands if isinstance(operand, ScalarBase)), None)


def _function_name(name: str) -> str:
    return f"hx_{name.replace('.', '_')}"
