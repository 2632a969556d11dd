"""One kernel: its parameters, its arena, its body, and the module with the functions it calls."""

from __future__ import annotations

import re
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.func import Function
from hidet.ir.module import IRModule
from hidet.ir.type import PointerType, VoidType, data_type

from hexcute_core.backend.hidet import stamps, tensor_maps, wgmma
from hexcute_core.backend.hidet.asm import OWN
from hexcute_core.backend.hidet.codegen import Codegen
from hexcute_core.backend.hidet.inflight import in_flight
from hexcute_core.backend.hidet.marks import Marks
from hexcute_core.backend.hidet.passes import lower
from hexcute_core.backend.hidet.resident import declarations
from hexcute_core.backend.hidet.scope import Scope, call
from hexcute_core.backend.hidet.statements import emit_block
from hexcute_core.backend.hidet.storage import pointee_type, value_type
from hexcute_core.errors import BackendError, HexcuteError
from hexcute_core.scalar import free_vars
from hexcute_core.scalar.bounds import Bounds
from hexcute_core.thread import MatrixDesc, Prim, ThreadProgram
from hexcute_core.thread.visit import statements

PREFIX = "hexcute_"
"""Entry names start with it, so that a kernel may be called `min` or `double`."""


def translate(
    program: ThreadProgram, arch: str, marks: Marks | None = None
) -> tuple[str, str]:
    """(CUDA source, entry name) of `program`; with `marks` the source has them."""
    entry = PREFIX + re.sub(r"\W", "_", program.name, flags=re.ASCII)
    try:
        module = build_module(program, arch, entry, marks)
        text = str(Codegen()(lower(module))).strip() + "\n"
    except HexcuteError:
        raise
    except Exception as error:
        raise BackendError(f"the code generator refused kernel {program.name}: {error}") from error
    return text, entry


def build_module(
    program: ThreadProgram, arch: str, entry: str, marks: Marks | None = None
) -> IRModule:
    """The Hidet module of `program`: one kernel and the device functions it calls."""
    scope = Scope(arch, products=in_flight(program.body), known=_extents(program), marks=marks)
    if program.maps or program.cluster_dim != (1, 1, 1):
        _need_hopper(scope, program)
    params = []
    for param in program.params:
        kind = PointerType(pointee_type(param.dtype)) if param.pointer else value_type(param.dtype)
        var = he.Var(param.name, kind)
        params.append(var)
        (scope.pointers if param.pointer else scope.variables)[param.name] = var
    params += [tensor_maps.parameter(scope, m) for m in program.maps]
    opening = _arena(scope) if program.shared_bytes else []
    if _multiplies_from_shared(program):
        opening += wgmma.descriptor_base(scope)
    opening += tensor_maps.prefetch_maps(scope)
    if program.stamps is None:
        body = emit_block(scope, program.body).seq
    else:
        opening += stamps.opening(scope, program.stamps, program.block_dim)
        body = stamps.twice(scope, lambda: emit_block(scope, program.body))
    whole = hs.SeqStmt([*declarations(scope), *opening, *body])
    attrs: dict[str, Any] = {"cuda.block_dim": program.block_dim, OWN: True}
    if program.min_blocks is not None:
        attrs["cuda.min_blocks"] = program.min_blocks
    if program.cluster_dim != (1, 1, 1):
        attrs["cuda.cluster_dim"] = program.cluster_dim
    kernel = Function(entry, params, whole, VoidType(), "cuda_kernel", attrs)
    functions = {**scope.functions, entry: kernel}
    return IRModule(functions, include_headers=sorted(scope.headers))


def _extents(program: ThreadProgram) -> dict[str, Bounds]:
    """Bounds of the symbols: they are extents and strides of tensors."""
    written = [e for p in program.params for e in (*p.shape, *p.strides)]
    symbols = {name for e in written for name in free_vars(e)}
    return dict.fromkeys(symbols, (0, 2**31 - 1))


def _need_hopper(scope: Scope, program: ThreadProgram) -> None:
    if not scope.has("tma" if program.maps else "clusters"):
        what = "tensor maps" if program.maps else "a cluster of blocks"
        raise BackendError(
            f"{program.name} uses {what}, which {scope.arch} does not have",
            fix='compile with target="sm_90"',
        )


def _multiplies_from_shared(program: ThreadProgram) -> bool:
    return any(
        isinstance(operand, MatrixDesc)
        for stmt in statements(program.body)
        if isinstance(stmt, Prim)
        for operand in stmt.operands
    )


def _arena(scope: Scope) -> list[Any]:
    """The arena, aligned for TMA, and its 32-bit address."""
    byte = data_type("uint8")
    specifiers = ["extern", "__shared__", "__align__(1024)"]
    arena = he.Var("arena", PointerType(byte, specifiers=specifiers, use_bracket=True))
    base = he.Var("arena_base", data_type("uint32"))
    scope.shared = base
    address = he.Cast(call("__cvta_generic_to_shared", [arena]), data_type("uint32"))
    return [hs.DeclareStmt(arena), hs.DeclareStmt(base, address)]
