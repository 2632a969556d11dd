"""Hopper's primitives -> statements: mbarriers, tensor copies, fences, clusters, registers.

Barriers of shared memory are addressed in the block's own window; another block's address comes
from `mapa`, of the arena for data: equal calls are one, offsets are added behind.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.func import Function
from hidet.ir.type import VoidType, data_type

from hexcute_core.arch.boxes import HINTS
from hexcute_core.backend.hidet import accesses, registers, scalars, tensor_maps, wgmma
from hexcute_core.backend.hidet.accesses import shared_address
from hexcute_core.backend.hidet.asm import OWN, Instruction, function, vector
from hexcute_core.backend.hidet.scope import Scope, call
from hexcute_core.dtypes import i32
from hexcute_core.scalar import Const
from hexcute_core.thread import GlobalPtr, MapRef, Prim, Regs, RemotePtr, SharedPtr
from hexcute_core.thread.spec import Matrices, PrimSpec

_WORD = "uint32"
_FIXED = {
    "fence.mbarrier": "fence.mbarrier_init.release.cluster;",
    "fence.proxy": "fence.proxy.async.shared::cta;",
    "fence.proxy.global": "fence.proxy.async.global;",
    "tma.commit": "cp.async.bulk.commit_group;",
    "cluster.arrive": "barrier.cluster.arrive.release;",
    "cluster.wait": "barrier.cluster.wait.acquire;",
    "griddepcontrol.wait": "griddepcontrol.wait;",
    "griddepcontrol.launch": "griddepcontrol.launch_dependents;",
}
_ON_BARRIER = {
    "mbarrier.init": "mbarrier.init.shared::cta.b64 [%0], %1;",
    "mbarrier.expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
    "mbarrier.arrive": "mbarrier.arrive.shared::cta.b64 _, [%0];",
    "cp.async.mbarrier": "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];",
}
# These take their number in the instruction's text.
_COUNTED = {
    "tma.wait": "cp.async.bulk.wait_group {};",
    "tma.wait.read": "cp.async.bulk.wait_group.read {};",
    "setmaxnreg.inc": "setmaxnreg.inc.sync.aligned.u32 {};",
    "setmaxnreg.dec": "setmaxnreg.dec.sync.aligned.u32 {};",
}
_NAMED = {"bar.named.sync": "bar.sync", "bar.named.arrive": "bar.arrive"}
# What a warp votes is the same in all lanes, and ptxas knows it: numbers of code behind a branch on
# it stay in uniform registers.
_ANY = Instruction(
    "hx_bar_named_any",
    "{ .reg .pred p; setp.ne.u32 p, %0, 0; bar.red.or.pred p, %1, %2, p; "
    "vote.sync.any.pred p, p, 0xffffffff; selp.u32 %0, 1, 0, p; }",
    ("int32",), (_WORD, _WORD), updated=True, memory=True,
)  # fmt: skip
_MAPA = Instruction(
    "hx_mapa", "mapa.shared::cluster.u32 %0, %1, %2;", (_WORD,), (_WORD, _WORD), result=True,
    volatile=False,
)  # fmt: skip
# Released to this block alone: what another block's barrier guards is read by products and written
# by boxes, which no fence of threads orders, and a release to the cluster costs a membar.gpu.
_REMOTE_ARRIVE = Instruction(
    "hx_mbarrier_arrive_cluster",
    "mbarrier.arrive.shared::cluster.b64 _, [%0];",
    inputs=(_WORD,),
    memory=True,
)
# Threads of that block read what those of this one wrote.
_REMOTE_RELEASE = Instruction(
    "hx_mbarrier_arrive_cluster_release",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];",
    inputs=(_WORD,),
    memory=True,
)


def emit(scope: Scope, stmt: Prim, spec: PrimSpec) -> list[Any]:
    """The statements of one Hopper primitive, its operands of the kinds of its row."""
    name = stmt.name
    if name in _FIXED:
        return [_run(scope, Instruction(_function_name(name), _FIXED[name], memory=True))]
    match (name.split("."), stmt.operands):
        case (["mbarrier", "wait", *orders], (SharedPtr() as barrier, parity)):
            return [_wait(scope, barrier, parity, ".acquire.cluster" if orders else "")]
        case (["mbarrier", "arrive", "cluster", *orders], (SharedPtr() as barrier, rank)):
            remote = scope.instruction(_MAPA, [shared_address(scope, barrier), _word(scope, rank)])
            return [_run(scope, _REMOTE_RELEASE if orders else _REMOTE_ARRIVE, remote)]
        case (["ld", "cluster", size], (Regs() as dst, RemotePtr() as src)):
            return accesses.load(scope, "cluster", int(size), dst, _remote(scope, src), None)
        case (["st", "cluster", size], (RemotePtr() as dst, Regs() as src)):
            return accesses.store(scope, "cluster", int(size), _remote(scope, dst), src, None)
        case (_, (SharedPtr() as barrier, *numbers)) if name in _ON_BARRIER:
            words = [_word(scope, n) for n in numbers]
            ins = Instruction(
                _function_name(name), _ON_BARRIER[name], inputs=(_WORD,) * (1 + len(words)),
                memory=True,
            )  # fmt: skip
            return [_run(scope, ins, shared_address(scope, barrier), *words)]
        case (
            ["tma", "load", *suffixes],
            (SharedPtr() as dst, MapRef() as box, SharedPtr() as barrier, *masks),
        ):
            mask = _word(scope, masks[0]) if masks else None
            return [tensor_maps.load(scope, dst, box, barrier, mask, _hint(suffixes))]
        case (["bulk", "load"], (SharedPtr() as dst, GlobalPtr() as src, n, SharedPtr() as at)):
            return [tensor_maps.bulk_load(scope, dst, src, _word(scope, n), at)]
        case (["bulk", "store"], (GlobalPtr() as dst, SharedPtr() as src, n)):
            return [tensor_maps.bulk_store(scope, dst, src, _word(scope, n))]
        case (["tma", "store", *suffixes], (MapRef() as box, SharedPtr() as src)):
            return [tensor_maps.store(scope, box, src, None, _hint(suffixes))]
        case (["tma", "reduce", operation, *suffixes], (MapRef() as box, SharedPtr() as src)):
            return [tensor_maps.store(scope, box, src, operation, _hint(suffixes))]
        case (["tma", "prefetch"], (MapRef() as box,)):
            return [tensor_maps.prefetch(scope, box)]
        case (["wgmma", "fence"], ()):
            return wgmma.fence(scope, stmt)
        case (["wgmma", "commit"], ()):
            return wgmma.commit(scope)
        case (["wgmma", "wait"], (pending,)):
            return wgmma.wait(scope, stmt, _constant(scope, name, pending))
        case (_, (number,)) if name in _COUNTED:
            value = _constant(scope, name, number)
            text = _COUNTED[name].format(value)
            return [_run(scope, Instruction(_function_name(name, value), text, memory=True))]
        case (["bar", "named", "any"], (Regs() as flag, barrier, threads)):
            cell = registers.operand(scope, flag, 32, reads=True, writes=True)
            words = [_word(scope, e) for e in (barrier, threads)]
            return [*cell.before, _run(scope, _ANY, *cell.entries, *words), *cell.after]
        case (_, (barrier, threads)) if name in _NAMED:
            return [_named_barrier(scope, name, barrier, threads)]
        case (_, (SharedPtr() as dst, Regs() as src)) if isinstance(spec.what, Matrices):
            return _stmatrix(scope, spec.what.count, spec.what.turned, dst, src)
        case _:
            raise scope.error(f"the primitive {name} has no translation")


def emit_products(scope: Scope, steps: Sequence[Prim]) -> list[Any]:
    """The statements of products that follow one another."""
    scope.need("wgmma", steps[0].name)
    return wgmma.products(scope, steps)


def _function_name(name: str, *numbers: int) -> str:
    return "_".join(["hx", name.replace(".", "_"), *map(str, numbers)])


def _hint(suffixes: list[str]) -> str | None:
    return next((s for s in suffixes if s in HINTS), None)


def _run(scope: Scope, ins: Instruction, *args: Any) -> Any:
    return hs.EvaluateStmt(scope.instruction(ins, list(args)))


def _word(scope: Scope, e: Any) -> Any:
    return he.Cast(scalars.emit(scope, e), data_type(_WORD))


def _constant(scope: Scope, name: str, e: Any) -> int:
    if not isinstance(e, Const):
        raise scope.error(f"{name} takes a constant, got {e}")
    return int(e.value)


def _remote(scope: Scope, ptr: RemotePtr) -> Any:
    """The 32-bit address of byte `ptr.offset` of the arena of block `ptr.rank`."""
    own = shared_address(scope, SharedPtr(Const(0, i32)))
    arena = scope.instruction(_MAPA, [own, _word(scope, ptr.rank)])
    return accesses.behind(scope, arena, ptr.offset)


def _wait(scope: Scope, barrier: SharedPtr, parity: Any, order: str) -> Any:
    test, loop = _spinning(order)
    scope.functions.setdefault(test.name, test)
    scope.functions.setdefault(loop.name, loop)
    return hs.EvaluateStmt(call(loop.name, [shared_address(scope, barrier), _word(scope, parity)]))


@functools.cache
def _spinning(order: str) -> tuple[Function, Function]:
    """The one-instruction test of a phase, which itself sleeps for a while, and the loop on it."""
    suffix = order.replace(".", "_")
    test = function(Instruction(
        f"hx_mbarrier_try_wait{suffix}",
        f"{{ .reg .pred p; mbarrier.try_wait.parity{order}.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }",
        (_WORD,), (_WORD, _WORD), result=True, memory=True,
    ))  # fmt: skip
    address, wanted = he.Var("barrier", data_type(_WORD)), he.Var("parity", data_type(_WORD))
    body = hs.WhileStmt(he.LogicalNot(call(test.name, [address, wanted])), hs.SeqStmt([]))
    name = f"hx_mbarrier_wait{suffix}"
    loop = Function(name, [address, wanted], body, VoidType(), "cuda_internal", {OWN: True})
    return test, loop


def _named_barrier(scope: Scope, name: str, barrier: Any, threads: Any) -> Any:
    """Constants stand in the text, so that the assembler can count the barriers."""
    args: list[Any] = []
    texts, inputs, numbers = [], [], []
    for e in (barrier, threads):
        if isinstance(e, Const):
            texts.append(str(int(e.value)))
            numbers.append(str(int(e.value)))
        else:
            texts.append(f"%{len(args)}")
            numbers.append("r")
            inputs.append(_WORD)
            args.append(_word(scope, e))
    ins = Instruction(
        "_".join([_function_name(name), *numbers]), f"{_NAMED[name]} {', '.join(texts)};",
        inputs=tuple(inputs), memory=True,
    )  # fmt: skip
    return _run(scope, ins, *args)


def _stmatrix(scope: Scope, count: int, trans: bool, dst: SharedPtr, src: Regs) -> list[Any]:
    source = registers.operand(scope, src, 32, reads=True, writes=False)
    if len(source.entries) != count:
        raise scope.error(
            f"stmatrix.x{count} takes {count} words of {src.array}, its operand has "
            f"{len(source.entries)}"
        )
    suffix = ".trans" if trans else ""
    # Registers of 32-bit elements keep their own type: the instruction moves bits.
    entry = scope.array(src.array).cell.type_name
    kind = "" if entry == _WORD else f"_{entry}"
    ins = Instruction(
        f"hx_stmatrix_x{count}{suffix.replace('.', '_')}{kind}",
        f"stmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 [%0], {vector(1, count)};",
        inputs=(_WORD, *(entry,) * count), memory=True,
    )  # fmt: skip
    return [*source.before, _run(scope, ins, shared_address(scope, dst), *source.entries)]
