"""verify_hopper(p), verify_launch(program): the laws of Hopper's rows, tensor maps, clusters.

Limits are the PTX manual's and the CUDA driver's: 8-byte barriers, boxes of at most 256 elements
a dimension whose innermost rows are whole units of 16 bytes and fit the swizzle's span, shared
memory of a box on 128 bytes, matrix offsets and strides in units of 16 bytes below 2^18.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from hexcute_core import dtypes
from hexcute_core.arch.boxes import HINTS, REDUCED
from hexcute_core.arch.groups import BARRIER_BYTES
from hexcute_core.dtypes import DType
from hexcute_core.errors import VerifyError
from hexcute_core.scalar import Const, Scalar, is_const
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
    TensorMap,
    ThreadParam,
    ThreadProgram,
)
from hexcute_core.thread.spec import Matrices, PrimSpec, Product

if TYPE_CHECKING:
    from hexcute_core.thread.verify import Scope

SWIZZLES = (0, 32, 64, 128)
BOX_ALIGNMENT = 128
MATRIX_UNIT, MATRIX_LIMIT = 16, 2**18
BOX_LIMIT, MAX_RANK = 256, 5
BOX_UNIT = BULK_UNIT = 16
PORTABLE_CLUSTER = 8
_A_ELEMENTS_BITS = 128
# The one operand of these is a constant: least, most, step.
_CONSTANTS = {
    "tma.wait": (0, 2**31 - 1, 1),
    "tma.wait.read": (0, 2**31 - 1, 1),
    "wgmma.wait": (0, 7, 1),
    "setmaxnreg.inc": (24, 256, 8),
    "setmaxnreg.dec": (24, 256, 8),
}
# Limits of operands that may be computed, by place, checked where they are constant.
_LIMITS = {
    "mbarrier.init": {1: (1, 2**20 - 1, 1)},
    "mbarrier.expect": {1: (0, 2**20 - 1, 1)},
    "mbarrier.arrive.cluster": {1: (0, PORTABLE_CLUSTER - 1, 1)},
    "mbarrier.arrive.cluster.release": {1: (0, PORTABLE_CLUSTER - 1, 1)},
    "mbarrier.wait": {1: (0, 1, 1)},
    "mbarrier.wait.cluster": {1: (0, 1, 1)},
    **{
        f"tma.load.multicast{hint}": {3: (1, 2**16 - 1, 1)}
        for hint in ("", *(f".{hint}" for hint in HINTS))
    },
    "bulk.load": {2: (BULK_UNIT, 2**20 - BULK_UNIT, BULK_UNIT)},
    "bulk.store": {2: (BULK_UNIT, 2**20 - BULK_UNIT, BULK_UNIT)},
    "bar.named.sync": {0: (1, 15, 1), 1: (32, 1024, 32)},
    "bar.named.arrive": {0: (1, 15, 1), 1: (32, 1024, 32)},
    "bar.named.any": {1: (1, 15, 1), 2: (32, 1024, 32)},
}


def verify_hopper(stmt: Prim, spec: PrimSpec, scope: Scope) -> None:
    """Checks one of Hopper's primitives, its operands known to be of the right kinds."""
    for place, operand in enumerate(stmt.operands):
        match operand:
            case Regs():
                pass
            case SharedPtr():
                size, alignment = _extent(stmt, place, scope)
                _check_offset(operand.offset, size, alignment, stmt, scope)
            case RemotePtr():
                _check_remote(operand, spec.bytes, stmt, scope)
            case GlobalPtr():
                _check_global(operand, stmt, scope)
            case MapRef():
                _check_box(operand, stmt, scope)
            case MatrixDesc():
                _check_matrix(operand, stmt, scope)
            case _ if isinstance(operand, ScalarBase):
                _check_number(operand, place, stmt, spec, scope)
            case _:
                raise VerifyError(f"{stmt.name} takes no {type(operand).__name__}", stmt.span)
    if isinstance(spec.what, Product):
        _check_product(stmt, spec.what)
    elif isinstance(spec.what, Matrices):
        _check_rows(stmt, spec.what.count)
    elif stmt.name.startswith("setmaxnreg") and scope.program.min_blocks is None:
        raise VerifyError(
            f"{stmt.name} needs a launch whose registers are fixed", stmt.span, "set min_blocks = 1"
        )


def _extent(stmt: Prim, place: int, scope: Scope) -> tuple[int, int]:
    """Bytes at a shared operand, and what its address is a multiple of."""
    if stmt.name.startswith("stmatrix"):
        return 16, 16
    if stmt.name.startswith("bulk") and place < 2:
        size = stmt.operands[2]
        return (int(size.value) if isinstance(size, Const) else BULK_UNIT), BULK_UNIT
    box = next((o for o in stmt.operands if isinstance(o, MapRef)), None)
    if box is None or place == 2:
        return BARRIER_BYTES, BARRIER_BYTES
    tensor_map = _map(box, stmt, scope)
    param = scope.pointer(tensor_map.param, stmt.span)
    return prod(tensor_map.box) * max(8, param.dtype.bits) // 8, BOX_ALIGNMENT


def _check_remote(ptr: RemotePtr, size: int, stmt: Prim, scope: Scope) -> None:
    """An access to a block of the cluster, at an address of the arena that all blocks share."""
    _check_offset(ptr.offset, size, size, stmt, scope)
    scope.check_scalar(ptr.rank, stmt.span)
    blocks = prod(scope.program.cluster_dim)
    if not ptr.rank.dtype.is_integer:
        raise VerifyError(f"`{ptr.rank}`, a block of the cluster, is a {ptr.rank.dtype}", stmt.span)
    if blocks == 1 or (isinstance(ptr.rank, Const) and not 0 <= ptr.rank.value < blocks):
        raise VerifyError(
            f"{stmt.name} reaches block {ptr.rank} of a cluster of {blocks}", stmt.span
        )
    for regs in stmt.operands:
        if isinstance(regs, Regs) and regs.count * regs.dtype.bits != 8 * size:
            raise VerifyError(
                f"{stmt.name} moves {size} bytes, {regs.count} registers of {regs.dtype} hold "
                f"{regs.count * regs.dtype.bits / 8:g}",
                stmt.span,
            )


def _check_offset(
    offset: Scalar, size: int, alignment: int, stmt: Prim, scope: Scope
) -> None:
    scope.check_scalar(offset, stmt.span)
    if not offset.dtype.is_integer:
        raise VerifyError(f"a shared address is a {offset.dtype}", stmt.span)
    arena = scope.program.shared_bytes
    at = int(offset.value) if isinstance(offset, Const) else 0
    if at < 0 or at + size > arena:
        raise VerifyError(
            f"{stmt.name} at shared byte {at}, {size} bytes, is outside the arena of {arena} bytes",
            stmt.span,
        )
    if at % alignment:
        raise VerifyError(
            f"{stmt.name} at shared byte {at} is misaligned, it needs a multiple of {alignment}",
            stmt.span,
        )


def _check_global(ptr: GlobalPtr, stmt: Prim, scope: Scope) -> None:
    param = scope.pointer(ptr.param, stmt.span)
    scope.check_scalar(ptr.offset, stmt.span)
    if not ptr.offset.dtype.is_integer:
        raise VerifyError(f"the offset into {ptr.param} is a {ptr.offset.dtype}", stmt.span)
    if ptr.dtype.bits != param.dtype.bits:
        raise VerifyError(f"{ptr.param} of {param.dtype} is addressed as {ptr.dtype}", stmt.span)
    constant = int(ptr.offset.value) if isinstance(ptr.offset, Const) else 0
    if not param.aligned or constant < 0 or constant * ptr.dtype.bits % (8 * BULK_UNIT):
        raise VerifyError(
            f"{stmt.name} needs an address that is a multiple of {BULK_UNIT}, which "
            f"{ptr.param} + {ptr.offset} is not known to be",
            stmt.span,
        )


def _map(box: MapRef, stmt: Prim, scope: Scope) -> TensorMap:
    for tensor_map in scope.program.maps:
        if tensor_map.name == box.name:
            return tensor_map
    raise VerifyError(f"{box.name} is not a tensor map of {scope.program.name}", stmt.span)


def _check_box(box: MapRef, stmt: Prim, scope: Scope) -> None:
    tensor_map = _map(box, stmt, scope)
    if len(box.coords) != len(tensor_map.box):
        raise VerifyError(
            f"{box.name} has {len(tensor_map.box)} dimensions, got {len(box.coords)} coordinates",
            stmt.span,
        )
    for coord in box.coords:
        scope.check_scalar(coord, stmt.span)
        if not coord.dtype.is_integer:
            raise VerifyError(f"a coordinate of {box.name} is a {coord.dtype}", stmt.span)
    dtype = scope.pointer(tensor_map.param, stmt.span).dtype
    for operation, dtypes_of in REDUCED.items():
        if stmt.name.startswith(f"tma.reduce.{operation}") and dtype not in dtypes_of:
            raise VerifyError(
                f"{stmt.name} combines {', '.join(map(str, dtypes_of))}, {tensor_map.param} is "
                f"{dtype}",
                stmt.span,
            )


def _check_matrix(desc: MatrixDesc, stmt: Prim, scope: Scope) -> None:
    _check_offset(desc.offset, MATRIX_UNIT, MATRIX_UNIT, stmt, scope)
    if desc.swizzle not in SWIZZLES:
        raise VerifyError(
            f"a matrix is swizzled by 0, 32, 64 or 128 bytes, not {desc.swizzle}", stmt.span
        )
    for name, value in (("leading", desc.leading), ("stride", desc.stride)):
        if value % MATRIX_UNIT or not 0 <= value < MATRIX_LIMIT:
            raise VerifyError(
                f"a matrix's {name} offset is a multiple of 16 below {MATRIX_LIMIT}, not {value}",
                stmt.span,
            )


def _check_number(e: Scalar, place: int, stmt: Prim, spec: PrimSpec, scope: Scope) -> None:
    scope.check_scalar(e, stmt.span)
    if isinstance(spec.what, Product):
        if e.dtype != dtypes.boolean:
            raise VerifyError(
                f"`{e}`, whether {stmt.name} accumulates, is a {e.dtype}, not a bool", stmt.span
            )
        return
    if not e.dtype.is_integer:
        raise VerifyError(f"`{e}`, operand {place} of {stmt.name}, is a {e.dtype}", stmt.span)
    wanted = _CONSTANTS.get(stmt.name)
    if wanted is not None and not isinstance(e, Const):
        raise VerifyError(f"{stmt.name} takes a constant, got `{e}`", stmt.span)
    limits = wanted or _LIMITS.get(stmt.name, {}).get(place)
    if limits is not None and isinstance(e, Const):
        least, most, step = limits
        if not least <= e.value <= most or e.value % step:
            steps = f" in steps of {step}" if step > 1 else ""
            raise VerifyError(
                f"operand {place} of {stmt.name} is {least} to {most}{steps}, not {e.value}",
                stmt.span,
            )


def _check_product(stmt: Prim, p: Product) -> None:
    _check_registers(stmt.operands[0], p.c, p.n // 2, stmt)
    if isinstance(stmt.operands[1], Regs):
        _check_registers(stmt.operands[1], p.a, _A_ELEMENTS_BITS // p.a.bits, stmt)


def _check_registers(regs: Operand, dtype: DType, count: int, stmt: Prim) -> None:
    if not isinstance(regs, Regs):
        return
    if regs.dtype != dtype and {regs.dtype, dtype} != {dtypes.f32, dtypes.tf32}:
        raise VerifyError(f"{stmt.name} takes {dtype}, {regs.array} is {regs.dtype}", stmt.span)
    if regs.count != count:
        raise VerifyError(
            f"{stmt.name} takes {count} elements of {regs.array} per thread, got {regs.count}",
            stmt.span,
        )
    _check_words(regs, stmt)


def _check_rows(stmt: Prim, count: int) -> None:
    for regs in stmt.operands:
        if isinstance(regs, Regs):
            if regs.count * regs.dtype.bits != 32 * count:
                raise VerifyError(
                    f"{stmt.name} stores {count} words per thread, {regs.count} registers of "
                    f"{regs.dtype} are {regs.count * regs.dtype.bits / 32:g}",
                    stmt.span,
                )
            _check_words(regs, stmt)


def _check_words(regs: Regs, stmt: Prim) -> None:
    if regs.width * regs.dtype.bits % 32:
        raise VerifyError(
            f"{stmt.name} takes whole words, {regs.array} comes in pieces of {regs.width} "
            f"{regs.dtype}",
            stmt.span,
        )


def verify_launch(program: ThreadProgram) -> None:
    """Checks the tensor maps and the cluster of a program."""
    x, y, z = program.cluster_dim
    if min(x, y, z) < 1 or x * y * z > PORTABLE_CLUSTER:
        raise VerifyError(
            f"{program.name} has clusters of {x} x {y} x {z} blocks, at most {PORTABLE_CLUSTER} "
            "can be relied on"
        )
    names = [p.name for p in program.params] + [m.name for m in program.maps]
    for tensor_map in program.maps:
        if names.count(tensor_map.name) > 1:
            raise VerifyError(f"{program.name} has two parameters called {tensor_map.name}")
        params = [p for p in program.params if p.pointer and p.name == tensor_map.param]
        if not params:
            raise VerifyError(
                f"the tensor map {tensor_map.name} is of {tensor_map.param}, which is not a "
                f"pointer parameter of {program.name}"
            )
        bits = max(8, params[0].dtype.bits)
        problem = box_problem(tensor_map.box, tensor_map.swizzle, bits)
        if problem is None and len(tensor_map.box) != len(params[0].shape):
            problem = f"the tensor has {len(params[0].shape)} dimensions"
        problem = problem or _axes_problem(tensor_map, params[0])
        if problem is not None:
            raise VerifyError(f"the tensor map {_show(tensor_map, params[0])}: {problem}")


def _axes_problem(tensor_map: TensorMap, param: ThreadParam) -> str | None:
    """Why the axes of a map are not those of its tensor, None where they are."""
    dims = tensor_map.dims or tuple(range(len(param.shape)))
    if sorted(dims) != list(range(len(param.shape))):
        return f"{dims} are not the tensor's dimensions"
    inner = param.strides[dims[-1]] if param.strides else None
    if dims[-1] != len(dims) - 1 if inner is None else not is_const(inner, 1):
        return f"elements along dimension {dims[-1]} do not follow one another"
    return None


def _show(tensor_map: TensorMap, param: ThreadParam) -> str:
    box = " x ".join(map(str, tensor_map.box))
    return f"{tensor_map.name} of {param.name} with boxes of {box} {param.dtype}"


def box_problem(box: tuple[int, ...], swizzle: int, bits: int) -> str | None:
    """Why the hardware has no such box of elements of `bits` bits, None where it has."""
    if not 1 <= len(box) <= MAX_RANK:
        return f"a tensor map has 1 to {MAX_RANK} dimensions"
    if bits not in (8, 16, 32, 64):
        return f"elements of {bits} bits cannot be moved"
    if swizzle not in SWIZZLES:
        return f"the swizzle is 0, 32, 64 or 128 bytes, not {swizzle}"
    if not all(1 <= extent <= BOX_LIMIT for extent in box):
        return f"an extent is 1 to {BOX_LIMIT}"
    inner = box[-1] * bits // 8
    if inner % BOX_UNIT:
        return f"a row of {inner} bytes is not a multiple of {BOX_UNIT}"
    if swizzle and inner > swizzle:
        return f"a row of {inner} bytes exceeds the swizzle's {swizzle}"
    return None
