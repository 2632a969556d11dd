"""Tensor maps as kernel parameters, and the instructions that move their boxes; bulk copies.

A map is 128 opaque bytes that the host wrote, passed by value in constant memory; an instruction
takes its address and the box's coordinates, innermost first.
"""

from __future__ import annotations

from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import OpaqueType, data_type

from hexcute_core.backend.hidet import scalars
from hexcute_core.backend.hidet.accesses import global_address, shared_address
from hexcute_core.backend.hidet.asm import Instruction, ctype
from hexcute_core.backend.hidet.scope import Scope, integer
from hexcute_core.thread import GlobalPtr, MapRef, SharedPtr, TensorMap

TYPE_NAME = "hx_tensor_map"
DEFINITION = f"struct __align__(64) {TYPE_NAME} {{ unsigned char bytes[128]; }};"
_PREFETCH = Instruction(
    "hx_prefetch_tensormap", "prefetch.tensormap [%0];", inputs=("pointer",), memory=True
)


def parameter(scope: Scope, tensor_map: TensorMap) -> Any:
    """The kernel parameter of a map, made known to `scope`."""
    var = he.Var(tensor_map.name, OpaqueType(TYPE_NAME, "const", "__grid_constant__"))
    scope.maps[tensor_map.name] = he.Cast(he.Address(var), ctype("pointer"))
    return var


def prefetch_maps(scope: Scope) -> list[Any]:
    """One thread fetches every descriptor, so that the first copies do not wait for theirs."""
    if not scope.maps:
        return []
    fetches = [hs.EvaluateStmt(scope.instruction(_PREFETCH, [m])) for m in scope.maps.values()]
    first = he.Equal(scope.variable("threadIdx.x"), integer(0))
    return [hs.IfStmt(first, hs.SeqStmt(fetches))]


def load(
    scope: Scope,
    dst: SharedPtr,
    box: MapRef,
    barrier: SharedPtr,
    mask: Any | None = None,
    hint: str | None = None,
) -> Any:
    """A box to shared memory, of all blocks in the bits of `mask` where there is one; `hint` says
    when it leaves L2, `evict_first` or `evict_last`."""
    rank = len(box.coords)
    ptx = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    name, tail = f"hx_tma_load_{rank}d", ""
    inputs = ("uint32", "pointer", *("int32",) * rank, "uint32")
    args = [shared_address(scope, dst), *_box(scope, box), shared_address(scope, barrier)]
    if mask is not None:
        ptx, name, tail = ptx + ".multicast::cluster", name + "_multicast", f", %{len(inputs)}"
        inputs = (*inputs, "uint16")
        args.append(he.Cast(mask, data_type("uint16")))
    operands = f"[%0], {_operands(1, rank)}, [%{rank + 2}]{tail}"
    return _hinted(scope, name, ptx, operands, inputs, args, hint)


def _hinted(
    scope: Scope, name: str, ptx: str, operands: str, inputs: tuple[str, ...], args: list[Any],
    hint: str | None,
) -> Any:  # fmt: skip
    """`ptx operands;`, a hint being one more qualifier and one more operand."""
    if hint is not None:
        ptx, name, operands = f"{ptx}.L2::cache_hint", f"{name}_hint", f"{operands}, %{len(inputs)}"
        inputs, args = (*inputs, "uint64"), [*args, _policy(scope, hint)]
    ins = Instruction(name, f"{ptx} {operands};", inputs=inputs, memory=True)
    return _run(scope, ins, args)


def _policy(scope: Scope, hint: str) -> Any:
    """The cache policy for all of what is moved."""
    ins = Instruction(
        f"hx_policy_{hint}", f"createpolicy.fractional.L2::{hint}.b64 %0, 1.0;", ("uint64",),
        result=True, volatile=False,
    )  # fmt: skip
    return scope.instruction(ins, [])


def bulk_load(scope: Scope, dst: SharedPtr, src: GlobalPtr, size: Any, barrier: SharedPtr) -> Any:
    """`size` contiguous bytes to shared memory."""
    ins = Instruction(
        "hx_bulk_load",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];",
        inputs=("uint32", "pointer", "uint32", "uint32"),
        memory=True,
    )
    to, arrived = shared_address(scope, dst), shared_address(scope, barrier)
    return _run(scope, ins, [to, global_address(scope, src), size, arrived])


def bulk_store(scope: Scope, dst: GlobalPtr, src: SharedPtr, size: Any) -> Any:
    """`size` contiguous bytes from shared memory."""
    ins = Instruction(
        "hx_bulk_store",
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;",
        inputs=("pointer", "uint32", "uint32"),
        memory=True,
    )
    return _run(scope, ins, [global_address(scope, dst), shared_address(scope, src), size])


def store(
    scope: Scope, box: MapRef, src: SharedPtr, reduction: str | None, hint: str | None = None
) -> Any:
    """A box from shared memory, combined with what is there by `reduction` where it is given;
    `hint` as for `load`."""
    rank = len(box.coords)
    head = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    name = f"hx_tma_store_{rank}d"
    if reduction is not None:
        head = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduction}.tile.bulk_group"
        name = f"hx_tma_reduce_{reduction}_{rank}d"
    operands = f"{_operands(0, rank)}, [%{rank + 1}]"
    inputs = ("pointer", *("int32",) * rank, "uint32")
    args = [*_box(scope, box), shared_address(scope, src)]
    return _hinted(scope, name, head, operands, inputs, args, hint)


def prefetch(scope: Scope, box: MapRef) -> Any:
    """A box into L2."""
    rank = len(box.coords)
    template = f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile {_operands(0, rank)};"
    inputs = ("pointer", *("int32",) * rank)
    ins = Instruction(f"hx_tma_prefetch_{rank}d", template, inputs=inputs, memory=True)
    return _run(scope, ins, _box(scope, box))


def _operands(first: int, rank: int) -> str:
    """`[%map, {%c0, ...}]` with the map at operand `first`."""
    coords = ", ".join(f"%{first + 1 + i}" for i in range(rank))
    return f"[%{first}, {{{coords}}}]"


def _box(scope: Scope, box: MapRef) -> list[Any]:
    address = scope.maps.get(box.name)
    if address is None:
        raise scope.error(f"{box.name!r} is not a tensor map of the kernel")
    if not 1 <= len(box.coords) <= 5:
        raise scope.error(f"a tensor map has 1 to 5 coordinates, {box.name} has {len(box.coords)}")
    coords = [he.Cast(scalars.emit(scope, c), data_type("int32")) for c in reversed(box.coords)]
    return [address, *coords]


def _run(scope: Scope, ins: Instruction, args: list[Any]) -> Any:
    return hs.EvaluateStmt(scope.instruction(ins, args))
