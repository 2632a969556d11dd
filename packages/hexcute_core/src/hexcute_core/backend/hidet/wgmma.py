"""Asynchronous products of a warp group, and the 64-bit descriptors of their operands.

    descriptor = address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62

The address part is the arena's, shifted once per kernel, plus the operand's offset in units of 16
bytes: constants of the offset and all other fields fold into one addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import data_type

from hexcute_core.backend.hidet import registers, scalars
from hexcute_core.backend.hidet.accesses import split_constant
from hexcute_core.backend.hidet.asm import PTX_TYPES, Instruction, vector
from hexcute_core.backend.hidet.resident import portions
from hexcute_core.backend.hidet.scope import RegisterArray, Scope, integer
from hexcute_core.scalar import Const, Scalar, is_const
from hexcute_core.thread import MatrixDesc, Prim, Regs
from hexcute_core.thread.prims import PRIMS
from hexcute_core.thread.spec import Product

_MODES = {0: 0, 128: 1, 64: 2, 32: 3}
_UNIT = 16
_HALF = ("f16", "bf16")
_INTEGER = ("i8", "u8")
A_WORDS = 4
"""Words a thread of an A operand in registers: 64 x K elements over 128 threads."""


def descriptor_base(scope: Scope) -> list[Any]:
    """The arena's address as descriptors hold it: 14 bits, in units of 16 bytes."""
    if scope.shared is None:
        return []
    base = he.Var("arena_units", data_type("uint32"))
    scope.shared_units = base
    address = he.BitwiseAnd(scope.shared, integer(0x3FFFF, "uint32"))
    return [hs.DeclareStmt(base, he.RightShift(address, integer(4)))]


def descriptor(scope: Scope, desc: MatrixDesc) -> Any:
    """The 64-bit descriptor of an operand."""
    if scope.shared_units is None:
        raise scope.error("the kernel multiplies from shared memory but reserves none")
    if desc.swizzle not in _MODES:
        raise scope.error(f"a matrix is swizzled by 0, 32, 64 or 128 bytes, not {desc.swizzle}")
    offset, constant = split_constant(desc.offset)
    if constant % _UNIT or desc.leading % _UNIT or desc.stride % _UNIT:
        raise scope.error(
            "a matrix's offset and strides are multiples of 16 bytes, got "
            f"{constant}, {desc.leading} and {desc.stride}"
        )
    low = scope.shared_units
    if not is_const(offset, 0):
        low = he.Add(low, he.Cast(_units(scope, offset), data_type("uint32")))
    fixed = constant // _UNIT + (desc.leading // _UNIT << 16)
    if fixed:
        low = he.Add(low, integer(fixed, "uint32"))
    high = desc.stride // _UNIT | _MODES[desc.swizzle] << 30
    return he.BitwiseOr(he.Cast(low, data_type("uint64")), integer(high << 32, "uint64"))


def _units(scope: Scope, offset: Scalar) -> Any:
    whole = registers.divided(offset, _UNIT)
    if whole is not None:
        return scalars.emit(scope, whole)
    return he.RightShift(scalars.emit(scope, offset), integer(4))


def products(scope: Scope, steps: Sequence[Prim]) -> list[Any]:
    """`wgmma.mma_async` for every step, in one asm; where `accumulate` of a step is false, it
    ignores what its accumulators hold."""
    name = steps[0].name
    product = PRIMS[name].what
    assert isinstance(product, Product), "`chains` has looked"
    n, k, x, y = product.n, product.k, product.majors[0], product.majors[1]
    d_type, a_type, b_type = product.c.name, product.a.name, product.b.name
    count = n * product.c.bits // 64
    operands: list[tuple[Any, ...]] = [step.operands for step in steps]
    outputs, results, names = _accumulators(scope, name, [o[0] for o in operands], count)
    types = ".".join(PTX_TYPES.get(t, t) for t in (d_type, a_type, b_type))
    head = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types}"
    modifiers = _modifiers(a_type, x, y)
    before: list[Any] = []
    inputs: list[Any] = []
    input_types: list[str] = []
    texts: list[str] = []
    scales: list[str] = []
    condition = None
    for c, a, b, accumulate in operands:
        at = len(outputs) + len(inputs)
        if isinstance(a, Regs):
            left = _words(scope, name, a, A_WORDS)
            before += left.before
            inputs += left.entries
            input_types += ["uint32"] * A_WORDS
            left_text = vector(at, A_WORDS)
        else:
            inputs.append(descriptor(scope, a))
            input_types.append("uint64")
            left_text = f"%{at}"
        inputs.append(descriptor(scope, b))
        input_types.append("uint64")
        accumulated = _accumulates(scope, accumulate)
        if isinstance(accumulated, bool):
            scales.append("1" if accumulated else "0")
        else:
            condition = accumulated
            scales.append("p")
        right_text = f"%{len(outputs) + len(inputs) - 1}"
        texts.append(
            f"{head} {results[c]}, {left_text}, {right_text}, "
            f"{scales[-1]}{modifiers};"
        )
    text = " ".join(texts)
    if condition is not None:
        predicate = f"%{len(outputs) + len(inputs)}"
        text = f"{{ .reg .pred p; setp.ne.b32 p, {predicate}, 0; {text} }}"
        inputs.append(condition)
        input_types.append("int32")
    # What asms of one instruction may differ in: their scales, and their accumulators' order and
    # names.
    how = "".join(scales) if len(scales) > 1 else {"1": "add", "0": "set", "p": ""}[scales[0]]
    order = "".join(str(list(results).index(o[0])) for o in operands) if len(results) > 1 else ""
    ins = Instruction(
        "_".join(filter(None, ["hx", name.replace(".", "_"), how, order, *names])),
        text,
        (scope.array(next(iter(results)).array).cell.type_name,) * len(outputs),
        tuple(input_types),
        updated=True,
    )
    return [*before, hs.EvaluateStmt(scope.instruction(ins, [*outputs, *inputs]))]


def _accumulators(
    scope: Scope, name: str, wanted: Sequence[Regs], count: int
) -> tuple[list[Any], dict[Regs, str], list[str]]:
    """Entries that become operands of the asm, each accumulator's text in it, and the PTX names of
    those that are no operands."""
    outputs: list[Any] = []
    texts: dict[Regs, str] = {}
    names: list[str] = []
    for c in dict.fromkeys(wanted):
        entries = _words(scope, name, c, count).entries
        resident = scope.array(c.array).resident
        if resident is None:
            texts[c] = vector(len(outputs), count)
            outputs += entries
        else:
            places = [int(entry.indices[0].value) for entry in entries]
            texts[c] = "{" + ", ".join(f"{resident}{place}" for place in places) + "}"
            names.append(f"{resident}{places[0]}")
    return outputs, texts, names


def _accumulates(scope: Scope, e: Scalar) -> Any:
    """A bool where it is known now, else an integer expression."""
    if isinstance(e, Const):
        return bool(e.value)
    return he.Cast(scalars.condition(scope, e), data_type("int32"))


def _modifiers(a_type: str, x: str, y: str) -> str:
    """Signs of A and B, and which of them lie M- or N-major."""
    if a_type in _INTEGER:
        return ""
    if a_type not in _HALF:
        return ", 1, 1"
    transposed = [str(int(major == "m")) for major in (x, y) if major != "r"]
    return ", ".join(["", "1", "1", *transposed])


def _words(scope: Scope, name: str, regs: Regs, count: int) -> registers.Operand:
    operand = registers.operand(scope, regs, 32, reads=True, writes=False)
    if len(operand.entries) != count:
        raise scope.error(
            f"{name} takes {count} words of {regs.array}, its operand has {len(operand.entries)}"
        )
    return operand


def fence(scope: Scope, stmt: Prim) -> list[Any]:
    """Orders what registers hold before the products that follow."""
    run = Instruction("hx_wgmma_fence", "wgmma.fence.sync.aligned;", memory=True)
    return [*_hold(scope, stmt), hs.EvaluateStmt(scope.instruction(run, []))]


def commit(scope: Scope) -> list[Any]:
    """Closes a group of products."""
    run = Instruction("hx_wgmma_commit", "wgmma.commit_group.sync.aligned;", memory=True)
    return [hs.EvaluateStmt(scope.instruction(run, []))]


def wait(scope: Scope, stmt: Prim, pending: int) -> list[Any]:
    """Until at most `pending` groups are in flight; what the others wrote is read after it."""
    text = f"wgmma.wait_group.sync.aligned {pending};"
    run = Instruction(f"hx_wgmma_wait_{pending}", text, memory=True)
    return [hs.EvaluateStmt(scope.instruction(run, [])), *_hold(scope, stmt)]


def _hold(scope: Scope, stmt: Prim) -> list[Any]:
    """Empty asm over the registers of `stmt`: no instruction, nothing moves across it."""
    held = []
    for name in sorted(scope.products.held.get(id(stmt), ())):
        array = scope.arrays.get(name)
        if array is not None and array.resident is None:
            held += _hold_array(scope, array)
    return held


def _hold_array(scope: Scope, array: RegisterArray) -> list[Any]:
    out = []
    kind = array.cell.type_name
    for places in portions(array):
        ins = Instruction(
            f"hx_hold_{kind}_{len(places)}", "", (kind,) * len(places), updated=True, memory=True
        )
        entries = [he.TensorElement(array.var, (integer(i),)) for i in places]
        out.append(hs.EvaluateStmt(scope.instruction(ins, entries)))
    return out
