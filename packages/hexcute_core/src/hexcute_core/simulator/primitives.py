"""primitive name -> the maker of its step: the one table another arch's instructions join."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hexcute_core.errors import SimulationError
from hexcute_core.simulator import asynchronous, memory, tensorcore
from hexcute_core.simulator.statements import StatementCompiler, Step
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine

Maker = Callable[[Prim, StatementCompiler], Step]
SizedMaker = Callable[[Prim, StatementCompiler, int], Step]


def barrier(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`bar.sync`: all threads of a block meet; their next accesses come after all earlier ones."""
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        if m.mask is None:
            m.epoch += 1
            return
        rows = m.mask.reshape(len(m.blocks), m.threads)
        torn = rows.any(axis=1) & ~rows.all(axis=1)
        if torn.any():
            row = rows[torn][0]
            m.fail(
                f"{name} inside divergent control flow: {int(row.sum())} of {m.threads} threads "
                f"reach it",
                int(m.active()[0]),
                fix="move the barrier out of the `if` or loop whose condition differs by thread",
            )
        m.epoch[m.mask] += 1

    return run


_SIZED: dict[str, tuple[SizedMaker, tuple[int, ...]]] = {
    "ld.global": (memory.load_global, (1, 2, 4, 8, 16)),
    "st.global": (memory.store_global, (1, 2, 4, 8, 16)),
    "ld.shared": (memory.load_shared, (1, 2, 4, 8, 16)),
    "st.shared": (memory.store_shared, (1, 2, 4, 8, 16)),
    "cp.async": (asynchronous.copy_async, (4, 8, 16)),
}
_EXACT: dict[str, Maker] = {
    "bar.sync": barrier,
    "cp.async.commit": asynchronous.commit,
    "cp.async.wait": asynchronous.wait,
}
_FAMILIES: dict[str, Maker] = {"ldmatrix": tensorcore.load_matrix, "mma": tensorcore.mma}


def compile_primitive(stmt: Prim, compiler: StatementCompiler) -> Step:
    """The step of a primitive; SimulationError for one that has no meaning here."""
    if stmt.name in _EXACT:
        return _EXACT[stmt.name](stmt, compiler)
    family, _, last = stmt.name.rpartition(".")
    if family in _SIZED and last.isdigit() and int(last) in _SIZED[family][1]:
        return _SIZED[family][0](stmt, compiler, int(last))
    head = stmt.name.split(".")[0]
    if head in _FAMILIES:
        return _FAMILIES[head](stmt, compiler)
    raise SimulationError(
        f"the simulator has no meaning for the primitive `{stmt.name}`",
        stmt.span,
        "run this kernel on a GPU, or write it with the primitives of thread.prims",
    )


def shared_bytes(name: str) -> int | None:
    """Bytes a lane touches of shared memory with primitive `name`, None for none."""
    family, _, last = name.rpartition(".")
    if family in ("ld.shared", "st.shared", "cp.async") and last.isdigit():
        return int(last)
    return 16 if name.startswith("ldmatrix.") else None
