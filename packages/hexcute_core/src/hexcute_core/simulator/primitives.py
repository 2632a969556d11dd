"""primitive name -> the simulator's instruction: the one table that families of instructions
join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Element, Scalar, Var
from hexcute_core.scalar.visit import walk
from hexcute_core.simulator.code import Code
from hexcute_core.simulator.instructions import (
    asynchronous,
    atomics,
    barriers,
    bulk,
    cluster,
    loads_stores,
    matrix_store,
    mbarrier,
    ordering,
    proxies,
    register_pool,
    remote,
    tensorcore,
    wgmma,
)
from hexcute_core.simulator.instructions.instruction import Instruction, Table
from hexcute_core.simulator.statements import StatementCompiler
from hexcute_core.thread import (
    Assign,
    GlobalPtr,
    MapRef,
    Prim,
    RemotePtr,
    Stmt,
    ThreadProgram,
    While,
)
from hexcute_core.thread.visit import statements

TABLES: tuple[Table, ...] = (
    loads_stores.instruction,
    atomics.instruction,
    asynchronous.instruction,
    barriers.instruction,
    ordering.instruction,
    tensorcore.instruction,
    mbarrier.instruction,
    proxies.instruction,
    bulk.instruction,
    wgmma.instruction,
    matrix_store.instruction,
    register_pool.instruction,
    cluster.instruction,
    remote.instruction,
)


def find(name: str) -> Instruction | None:
    """The instruction called `name`, None for one that has no meaning here."""
    for table in TABLES:
        found = table(name)
        if found is not None:
            return found
    return None


def compile_primitive(stmt: Prim, compiler: StatementCompiler) -> Code:
    """The code of a primitive; SimulationError for one that has no meaning here."""
    found = find(stmt.name)
    if found is None:
        raise SimulationError(
            f"the simulator has no meaning for the primitive `{stmt.name}`",
            stmt.span,
            "run this kernel on a GPU, or write it with the primitives of thread.prims",
        )
    return found.make(stmt, compiler)


def prims(stmts: Sequence[Stmt]) -> Iterator[Prim]:
    """Every primitive in `stmts`."""
    return (stmt for stmt in statements(stmts) if isinstance(stmt, Prim))


def polls(loop: While) -> bool:
    """Whether the loop's end depends on what it reads from memory, so that another agent may
    end it."""
    if not any((found := find(p.name)) is not None and found.polls for p in prims(loop.body)):
        return False
    read: set[str] = set()
    while True:
        more = {s.var.name for s in _assigns(loop.body) if _depends(s.value, read)} - read
        if not more:
            return _depends(loop.cond, read)
        read |= more


def _depends(e: Scalar, names: set[str]) -> bool:
    return any(
        isinstance(node, Element) or (isinstance(node, Var) and node.name in names)
        for node in walk(e)
    )


def _assigns(stmts: Sequence[Stmt]) -> Iterator[Assign]:
    return (stmt for stmt in statements(stmts) if isinstance(stmt, Assign))


def shared_granule(program: ThreadProgram) -> int:
    """Bytes of the smallest access to shared memory."""
    found = (find(p.name) for p in prims(program.body))
    return min((i.shared for i in found if i is not None and i.shared), default=16)


def reaches(program: ThreadProgram) -> bool:
    """Whether blocks of a cluster access one another's shared memory."""
    return any(isinstance(o, RemotePtr) for p in prims(program.body) for o in p.operands)


def global_granules(program: ThreadProgram) -> dict[str, int]:
    """Bytes of the smallest access to each parameter that the program writes."""
    sizes: dict[str, int] = {}
    written = set()
    bits = {p.name: p.dtype.bits for p in program.params}
    maps = {tensor_map.name: tensor_map.param for tensor_map in program.maps}
    for stmt in prims(program.body):
        found = find(stmt.name)
        if found is None or not found.global_:
            continue
        for operand in stmt.operands:
            if isinstance(operand, GlobalPtr):
                name, size = operand.param, found.global_
            elif isinstance(operand, MapRef) and operand.name in maps:
                # A box may start at any element.
                name = maps[operand.name]
                size = max(8, bits[name]) // 8
            else:
                continue
            sizes[name] = min(size, sizes.get(name, 16))
            if found.writes:
                written.add(name)
    return {name: size for name, size in sizes.items() if name in written}
