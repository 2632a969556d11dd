"""Addresses, and the primitives that move bytes: ld, st and cp.async.

Global addresses are base + offset, widened once to 64 bits, a constant part last so that it
becomes the instruction's immediate. Shared addresses are 32 bits: arena + offset.
"""

from __future__ import annotations

from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import data_type

from hexcute_core.backend.hidet import registers, scalars
from hexcute_core.backend.hidet.asm import Instruction, vector
from hexcute_core.backend.hidet.scope import Scope, integer
from hexcute_core.scalar import Binary, Const, Scalar, binary, is_const
from hexcute_core.thread import GlobalPtr, Regs, SharedPtr

_BITS_NAME = {1: "u8", 2: "u16"}
_WINDOWS = {
    "cluster": "shared::cluster",
    **{
        f"{space}.{order}": f"{order}.{scope}.{space}"
        for space, scope in (("global", "gpu"), ("shared", "cta"))
        for order in ("relaxed", "acquire", "release")
    },
}
"""State spaces, with a memory order where there is one, that PTX calls otherwise than primitives
do."""


def global_address(scope: Scope, ptr: GlobalPtr) -> Any:
    """The address of element `ptr.offset` of a parameter."""
    base = scope.pointers.get(ptr.param)
    if base is None:
        raise scope.error(f"{ptr.param!r} is not a pointer parameter of the kernel")
    offset, constant = split_constant(ptr.offset)
    per_byte = 8 // ptr.dtype.bits if ptr.dtype.bits < 8 else 1
    if constant % per_byte:
        offset, constant = ptr.offset, 0
    index = scalars.place(scope, offset)
    if per_byte > 1:
        index = he.RightShift(index, integer(per_byte.bit_length() - 1))
        constant //= per_byte
    address = base if is_const(offset, 0) else he.Add(base, index)
    return he.Add(address, integer(constant, "int64")) if constant else address


def shared_address(scope: Scope, ptr: SharedPtr) -> Any:
    """The 32-bit address of byte `ptr.offset` of the arena."""
    if scope.shared is None:
        raise scope.error("the kernel uses shared memory but reserves none")
    return behind(scope, scope.shared, ptr.offset)


def behind(scope: Scope, address: Any, by: Scalar) -> Any:
    """The 32-bit address `by` bytes behind another."""
    offset, constant = split_constant(by)
    if not is_const(offset, 0):
        address = he.Add(address, he.Cast(scalars.place(scope, offset), data_type("uint32")))
    return he.Add(address, integer(constant, "uint32")) if constant else address


def split_constant(e: Scalar) -> tuple[Scalar, int]:
    """`e` as (rest, c) with e = rest + c, constants gathered from everywhere in the sum."""
    if isinstance(e, Const):
        return Const(0, e.dtype), int(e.value)
    if isinstance(e, Binary) and e.op in ("add", "sub"):
        left, c = split_constant(e.a)
        right, d = split_constant(e.b)
        if c or d:
            return binary(e.op, left, right), c + d if e.op == "add" else c - d
    return e, 0


def load(
    scope: Scope, space: str, size: int, dst: Regs, address: Any, pred: Scalar | None
) -> list[Any]:
    """`size` bytes from `address` into `dst`; zeros where `pred` is false."""
    entry = scope.array(dst.array).cell
    target = registers.operand(scope, dst, entry.bits, reads=False, writes=True)
    ins, count = _memory(scope, "ld", space, size, dst)
    _expect(scope, f"ld.{space}.{size}", count, target)
    value = guarded(scope, ins, [*target.entries, address], pred)
    return [*target.before, value, *target.after]


def store(
    scope: Scope, space: str, size: int, address: Any, src: Regs, pred: Scalar | None
) -> list[Any]:
    """`size` bytes of `src` to `address`; nothing where `pred` is false."""
    entry = scope.array(src.array).cell
    source = registers.operand(scope, src, entry.bits, reads=True, writes=False)
    ins, count = _memory(scope, "st", space, size, src)
    _expect(scope, f"st.{space}.{size}", count, source)
    return [*source.before, guarded(scope, ins, [address, *source.entries], pred)]


def copy_async(scope: Scope, size: int, dst: Any, src: Any, pred: Scalar) -> list[Any]:
    """`size` bytes from global `src` to shared `dst`, zeros where `pred` is false, in flight
    until the next wait. 16 bytes bypass L1."""
    cache = "cg" if size == 16 else "ca"
    level = ".L2::128B" if size == 16 else ""
    head = f"cp.async.{cache}.shared.global{level}"
    if isinstance(pred, Const) and pred.value:
        ins = Instruction(
            f"hx_cp_async_{size}", f"{head} [%0], [%1], {size};",
            inputs=("uint32", "pointer"), memory=True,
        )  # fmt: skip
        return [hs.EvaluateStmt(scope.instruction(ins, [dst, src]))]
    ins = Instruction(
        f"hx_cp_async_{size}_zfill", f"{head} [%0], [%1], {size}, %2;",
        inputs=("uint32", "pointer", "int32"), memory=True,
    )  # fmt: skip
    bytes_read = he.IfThenElse(scalars.condition(scope, pred), integer(size), integer(0))
    return [hs.EvaluateStmt(scope.instruction(ins, [dst, src, bytes_read]))]


def _memory(scope: Scope, op: str, space: str, size: int, regs: Regs) -> tuple[Instruction, int]:
    """The access instruction and the number of entries it takes."""
    entry = scope.array(regs.array).cell
    count = max(1, size * 8 // entry.bits)
    width = _BITS_NAME.get(size, f"b{entry.bits}")
    lanes = f".v{count}" if count > 1 else ""
    # Sub-word accesses pass through a word; everything else through the array's own type.
    entries = (entry.type_name if size >= 4 else "uint32",) * count
    pointer = "pointer" if space.startswith("global") else "uint32"
    window = _WINDOWS.get(space, space)
    name = f"hx_{op}_{space.replace('.', '_')}_{size}_{entries[0]}"
    if op == "ld":
        text = f"ld.{window}{lanes}.{width} {_operands(0, count)}, [%{count}];"
        return Instruction(name, text, entries, (pointer,), memory=True), count
    text = f"st.{window}{lanes}.{width} [%0], {_operands(1, count)};"
    return Instruction(name, text, (), (pointer, *entries), memory=True), count


def _operands(first: int, count: int) -> str:
    return vector(first, count) if count > 1 else f"%{first}"


def _expect(scope: Scope, name: str, count: int, operand: registers.Operand) -> None:
    if len(operand.entries) != count:
        raise scope.error(
            f"{name} takes {count} register entries, its operand has {len(operand.entries)}"
        )


def guarded(scope: Scope, ins: Instruction, args: list[Any], pred: Scalar | None) -> Any:
    """The instruction as a statement, under `pred` unless that is certainly true."""
    known = pred is None or (isinstance(pred, Const) and bool(pred.value))
    predicate = None if known or pred is None else scalars.condition(scope, pred)
    return hs.EvaluateStmt(scope.instruction(ins, args, predicate))
