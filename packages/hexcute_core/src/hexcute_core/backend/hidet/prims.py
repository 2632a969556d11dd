"""Prim -> statements: one function call each, by the family the primitive's name starts with."""

from __future__ import annotations

from typing import Any

from hidet.ir import stmt as hs

from hexcute_core.backend.hidet import accesses, atomics, hopper, registers, scalars
from hexcute_core.backend.hidet.asm import PTX_TYPES, Instruction, vector
from hexcute_core.backend.hidet.calls import call_by_name
from hexcute_core.backend.hidet.scope import Scope, call
from hexcute_core.backend.hidet.storage import Cell
from hexcute_core.scalar import Const, ScalarBase
from hexcute_core.thread import (
    GlobalPtr,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    Regs,
    RemotePtr,
    SharedPtr,
    prim,
)
from hexcute_core.thread.prims_atomics import ATOMICS
from hexcute_core.thread.prims_sm90 import HOPPER
from hexcute_core.thread.spec import Matrices, PrimSpec, Product

_KINDS = {
    "regs": Regs, "global": GlobalPtr, "shared": SharedPtr, "scalar": ScalarBase, "map": MapRef,
    "desc": MatrixDesc, "remote": RemotePtr,
}  # fmt: skip


def emit(scope: Scope, stmt: Prim) -> list[Any]:
    """The Hidet statements of one primitive."""
    spec = prim(stmt.name)
    if spec is None:
        return [_by_name(scope, stmt)]
    wanted = tuple(spec.operands)
    fits = len(wanted) == len(stmt.operands) and all(
        isinstance(o, _KINDS[k]) for o, k in zip(stmt.operands, wanted)
    )
    if not fits:
        got = ", ".join(type(o).__name__ for o in stmt.operands)
        raise scope.error(f"{stmt.name} takes ({', '.join(wanted)}), got ({got})")
    if spec.needs is not None:
        scope.need(spec.needs, stmt.name)
    if stmt.name in HOPPER:
        return hopper.emit(scope, stmt, spec)
    if stmt.name in ATOMICS:
        return atomics.emit(scope, stmt, spec)
    return _known(scope, spec, stmt.operands)


def _known(scope: Scope, spec: PrimSpec, operands: tuple[Operand, ...]) -> list[Any]:
    if isinstance(spec.what, Product):
        return _mma(scope, spec.name, spec.what, operands)
    match (spec.name.split("."), operands):
        case (["bar", "sync"], ()):
            return [hs.EvaluateStmt(call("__syncthreads", []))]
        case (["cp", "async", "commit"], ()):
            return [_fence(scope, "hx_cp_async_commit", "cp.async.commit_group;")]
        case (["cp", "async", "wait"], (Const() as pending,)):
            n = int(pending.value)
            return [_fence(scope, f"hx_cp_async_wait_{n}", f"cp.async.wait_group {n};")]
        case (["cp", "async", "wait"], (pending,)):
            raise scope.error(f"cp.async.wait takes a constant, got {pending}")
        case (
            ["cp", "async", size],
            (SharedPtr() as dst, GlobalPtr() as src, ScalarBase() as pred),
        ):
            to, source = accesses.shared_address(scope, dst), accesses.global_address(scope, src)
            return accesses.copy_async(scope, int(size), to, source, pred)
        case (["ld", "global", size], (Regs() as dst, GlobalPtr() as src, ScalarBase() as pred)):
            address = accesses.global_address(scope, src)
            return accesses.load(scope, "global", int(size), dst, address, pred)
        case (["st", "global", size], (GlobalPtr() as dst, Regs() as src, ScalarBase() as pred)):
            address = accesses.global_address(scope, dst)
            return accesses.store(scope, "global", int(size), address, src, pred)
        case (["ld", "shared", size], (Regs() as dst, SharedPtr() as src)):
            address = accesses.shared_address(scope, src)
            return accesses.load(scope, "shared", int(size), dst, address, None)
        case (["st", "shared", size], (SharedPtr() as dst, Regs() as src)):
            address = accesses.shared_address(scope, dst)
            return accesses.store(scope, "shared", int(size), address, src, None)
        case (["mov", _], (Regs() as dst, Regs() as src)):
            return registers.move(scope, dst, src)
        case (_, (Regs() as dst, SharedPtr() as src)) if isinstance(spec.what, Matrices):
            return _ldmatrix(scope, spec.what.count, spec.what.turned, dst, src)
        case _:
            raise scope.error(f"the primitive {spec.name} has no translation")


def _fence(scope: Scope, name: str, ptx: str) -> Any:
    return hs.EvaluateStmt(scope.instruction(Instruction(name, ptx, memory=True), []))


def _by_name(scope: Scope, stmt: Prim) -> Any:
    args = []
    for operand in stmt.operands:
        if not isinstance(operand, ScalarBase):
            raise scope.error(f"{stmt.name} is called by name and takes scalars only")
        args.append((scalars.emit(scope, operand), operand.dtype))
    return hs.EvaluateStmt(call_by_name(scope, stmt.name, args, None))


def _ldmatrix(scope: Scope, count: int, trans: bool, dst: Regs, src: SharedPtr) -> list[Any]:
    target = _words(scope, f"ldmatrix.x{count}", dst, count, reads=False, writes=True)
    suffix = ".trans" if trans else ""
    # Registers of 32-bit elements keep their own type: the instruction moves bits.
    entry = scope.array(dst.array).cell.type_name
    kind = "" if entry == "uint32" else f"_{entry}"
    ins = Instruction(
        f"hx_ldmatrix_x{count}{suffix.replace('.', '_')}{kind}",
        f"ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {vector(0, count)}, [%{count}];",
        (entry,) * count,
        ("uint32",),
        memory=True,
    )
    address = accesses.shared_address(scope, src)
    run = hs.EvaluateStmt(scope.instruction(ins, [*target.entries, address]))
    return [*target.before, run, *target.after]


def _mma(scope: Scope, name: str, p: Product, operands: tuple[Operand, ...]) -> list[Any]:
    c, a, b = (operand for operand in operands if isinstance(operand, Regs))
    m, n, k = p.m, p.n, p.k
    sizes = [m * n * p.c.bits, m * k * p.a.bits, n * k * p.b.bits]
    counts = [bits // (32 * 32) for bits in sizes]
    acc = _words(scope, name, c, counts[0], reads=True, writes=True)
    left = _words(scope, name, a, counts[1], reads=True, writes=False)
    right = _words(scope, name, b, counts[2], reads=True, writes=False)
    entry: Cell = scope.array(c.array).cell
    d, x, y = (PTX_TYPES.get(t, t) for t in (p.c.name, p.a.name, p.b.name))
    groups = [0, counts[0], counts[0] + counts[1]]
    vectors = [vector(first, count) for first, count in zip(groups, counts)]
    ins = Instruction(
        f"hx_{name.replace('.', '_')}",
        f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{d}.{x}.{y}.{d} "
        f"{vectors[0]}, {vectors[1]}, {vectors[2]}, {vectors[0]};",
        (entry.type_name,) * counts[0],
        ("uint32",) * (counts[1] + counts[2]),
        updated=True,
    )
    args = [*acc.entries, *left.entries, *right.entries]
    run = hs.EvaluateStmt(scope.instruction(ins, args))
    return [*acc.before, *left.before, *right.before, run, *acc.after]


def _words(
    scope: Scope, name: str, regs: Regs, count: int, reads: bool, writes: bool
) -> registers.Operand:
    operand = registers.operand(scope, regs, 32, reads, writes)
    if len(operand.entries) != count:
        raise scope.error(
            f"{name} takes {count} words of {regs.array}, its operand has {len(operand.entries)}"
        )
    return operand
