"""verify_prim(p): a primitive's operands are of the kinds, types, sizes and alignment it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexcute_core import dtypes
from hexcute_core.arch.groups import WARP
from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import Const
from hexcute_core.scalar.expr import ScalarBase
from hexcute_core.thread.ir import (
    GlobalPtr,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    Regs,
    RemotePtr,
    SharedPtr,
)
from hexcute_core.thread.prims import PRIMS, prim
from hexcute_core.thread.prims_atomics import UPDATES
from hexcute_core.thread.prims_sm90 import HOPPER
from hexcute_core.thread.spec import Matrices, OperandKind, PrimSpec, Product, Update
from hexcute_core.thread.verify_sm90 import verify_hopper
from hexcute_core.thread.visit import operand_scalars

if TYPE_CHECKING:
    from hexcute_core.thread.verify import Scope

_FAMILIES = frozenset(name.split(".")[0] for name in PRIMS)
LDMATRIX_ROW = 16


def verify_prim(stmt: Prim, scope: Scope) -> None:
    """Checks one primitive; a call by name of the code generator takes scalars only."""
    spec = prim(stmt.name)
    if spec is None:
        _verify_call(stmt, scope)
        return
    kinds = tuple(_kind(operand) for operand in stmt.operands)
    if kinds != spec.operands:
        raise VerifyError(
            f"{stmt.name} takes ({', '.join(spec.operands)}), got ({', '.join(kinds)})", stmt.span
        )
    if stmt.name in HOPPER:
        for operand in stmt.operands:
            if isinstance(operand, Regs):
                _verify_regs(operand, stmt, scope)
        verify_hopper(stmt, spec, scope)
        return
    shared_bytes = LDMATRIX_ROW if isinstance(spec.what, Matrices) else spec.bytes
    for operand in stmt.operands:
        match operand:
            case Regs():
                _verify_regs(operand, stmt, scope)
            case GlobalPtr():
                _verify_global(operand, spec, stmt.span, scope)
            case SharedPtr():
                _verify_shared(operand, shared_bytes, stmt, scope)
            case _:
                for scalar in operand_scalars(operand):
                    scope.check_scalar(scalar, stmt.span)
    if stmt.name in UPDATES:
        _verify_update(stmt, spec, scope)
    else:
        _verify_sizes(stmt, spec)
    _verify_scalars(stmt)


def _kind(operand: Operand) -> OperandKind:
    match operand:
        case Regs():
            return "regs"
        case GlobalPtr():
            return "global"
        case SharedPtr():
            return "shared"
        case RemotePtr():
            return "remote"
        case MapRef():
            return "map"
        case MatrixDesc():
            return "desc"
        case _:
            return "scalar"


def _verify_call(stmt: Prim, scope: Scope) -> None:
    if stmt.name.split(".")[0] in _FAMILIES:
        raise VerifyError(f"there is no primitive {stmt.name}", stmt.span)
    for operand in stmt.operands:
        if not isinstance(operand, ScalarBase):
            raise VerifyError(
                f"{stmt.name} is not a primitive, and only those take registers or addresses",
                stmt.span,
            )
        scope.check_scalar(operand, stmt.span)


def _verify_regs(regs: Regs, stmt: Prim, scope: Scope) -> None:
    array = scope.array(regs.array, regs.dtype, stmt.span)
    scope.check_scalar(regs.offset, stmt.span)
    if not regs.pieces or regs.width <= 0:
        raise VerifyError(f"{stmt.name} gets no registers of {regs.array}", stmt.span)
    if isinstance(regs.offset, Const):
        first = int(regs.offset.value) + min(regs.pieces)
        last = int(regs.offset.value) + max(regs.pieces) + regs.width - 1
        if first < 0 or last >= array.size:
            raise VerifyError(
                f"{regs.array}[{first}..{last}] is outside the register array of {array.size}",
                stmt.span,
            )


def _verify_global(ptr: GlobalPtr, spec: PrimSpec, span: SourceSpan | None, scope: Scope) -> None:
    param = scope.pointer(ptr.param, span)
    scope.check_scalar(ptr.offset, span)
    if not ptr.offset.dtype.is_integer:
        raise VerifyError(f"the offset into {ptr.param} is a {ptr.offset.dtype}", span)
    if ptr.dtype.bits != param.dtype.bits:
        raise VerifyError(f"{ptr.param} of {param.dtype} is addressed as {ptr.dtype}", span)
    if spec.bytes * 8 > max(8 * param.begins, param.dtype.bits) and not param.aligned:
        raise VerifyError(
            f"{spec.name} needs {spec.bytes}-byte alignment, which {ptr.param} does not promise",
            span,
            "move one element at a time, or specialise for aligned pointers",
        )
    if isinstance(ptr.offset, Const):
        bits = int(ptr.offset.value) * ptr.dtype.bits
        if bits < 0 or bits % (spec.bytes * 8):
            raise VerifyError(f"{spec.name} at element {ptr.offset.value} is misaligned", span)


def _verify_shared(ptr: SharedPtr, size: int, stmt: Prim, scope: Scope) -> None:
    scope.check_scalar(ptr.offset, stmt.span)
    if not ptr.offset.dtype.is_integer:
        raise VerifyError(f"a shared address is a {ptr.offset.dtype}", stmt.span)
    if isinstance(ptr.offset, Const):
        at = int(ptr.offset.value)
        if at < 0 or at + size > scope.program.shared_bytes:
            raise VerifyError(
                f"{stmt.name} at shared byte {at} is outside the arena of "
                f"{scope.program.shared_bytes} bytes",
                stmt.span,
            )
        if at % size:
            raise VerifyError(f"{stmt.name} at shared byte {at} is misaligned", stmt.span)
    if scope.program.shared_bytes < size:
        raise VerifyError(
            f"{stmt.name} needs shared memory, the program has {scope.program.shared_bytes} bytes",
            stmt.span,
        )


def _verify_update(stmt: Prim, spec: PrimSpec, scope: Scope) -> None:
    """An atomic's registers and memory hold elements of its type, as many in each operand."""
    assert isinstance(spec.what, Update)
    dtype, width = spec.what.dtype, spec.what.width
    count = next(operand.count for operand in stmt.operands if isinstance(operand, Regs))
    if width not in (1, count):
        raise VerifyError(f"{stmt.name} takes {width} elements per thread, gets {count}", stmt.span)
    for operand in stmt.operands:
        match operand:
            case Regs():
                if operand.dtype != dtype:
                    raise VerifyError(
                        f"{stmt.name} takes {dtype}, {operand.array} is {operand.dtype}", stmt.span
                    )
                if operand.count != count:
                    raise VerifyError(
                        f"{stmt.name} gets {count} and {operand.count} elements per thread",
                        stmt.span,
                    )
            case GlobalPtr():
                if operand.dtype.bits != dtype.bits:
                    raise VerifyError(
                        f"{stmt.name} updates {dtype}, {operand.param} is addressed as "
                        f"{operand.dtype}",
                        stmt.span,
                    )
            case SharedPtr():
                last = SharedPtr(operand.offset + spec.bytes * (count // width - 1))
                _verify_shared(last, spec.bytes, stmt, scope)
            case _:
                pass


def _verify_sizes(stmt: Prim, spec: PrimSpec) -> None:
    if isinstance(spec.what, Product):
        for operand, (dtype, count) in zip(stmt.operands, _mma_operands(spec.what), strict=True):
            if isinstance(operand, Regs):
                _verify_fragment(operand, dtype, count, stmt)
        return
    for operand in stmt.operands:
        if not isinstance(operand, Regs):
            continue
        if operand.count * operand.dtype.bits != spec.bytes * 8:
            raise VerifyError(
                f"{stmt.name} moves {spec.bytes} bytes, {operand.count} registers of "
                f"{operand.dtype} hold {operand.count * operand.dtype.bits / 8:g}",
                stmt.span,
            )
        if isinstance(spec.what, Matrices):
            _verify_pieces(operand, stmt)


def _verify_fragment(regs: Regs, dtype: DType, count: int, stmt: Prim) -> None:
    if regs.dtype != dtype and {regs.dtype, dtype} != {dtypes.f32, dtypes.tf32}:
        raise VerifyError(f"{stmt.name} takes {dtype}, {regs.array} is {regs.dtype}", stmt.span)
    if regs.count != count:
        raise VerifyError(
            f"{stmt.name} takes {count} elements of {regs.array} per thread, got {regs.count}",
            stmt.span,
        )
    _verify_pieces(regs, stmt)


def _verify_pieces(regs: Regs, stmt: Prim) -> None:
    if regs.width * regs.dtype.bits != 32:
        raise VerifyError(
            f"{stmt.name} takes pieces of 4 bytes, {regs.array} comes in pieces of {regs.width} "
            f"{regs.dtype}",
            stmt.span,
        )


def _mma_operands(p: Product) -> tuple[tuple[DType, int], ...]:
    """Element type and elements per thread of C, A and B."""
    return (p.c, p.m * p.n // WARP), (p.a, p.m * p.k // WARP), (p.b, p.n * p.k // WARP)


def _verify_scalars(stmt: Prim) -> None:
    if stmt.name == "cp.async.wait":
        (pending,) = stmt.operands
        if not isinstance(pending, Const) or not pending.dtype.is_integer or pending.value < 0:
            raise VerifyError("cp.async.wait takes a constant number of groups", stmt.span)
        return
    for operand in stmt.operands:
        if isinstance(operand, ScalarBase) and operand.dtype != dtypes.boolean:
            raise VerifyError(
                f"the predicate `{operand}` of {stmt.name} is a {operand.dtype}, not a bool",
                stmt.span,
            )
