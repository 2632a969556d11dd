"""One shared arena a kernel: buffers packed by lifetime, with the barriers that reuse needs.

A buffer lives from the first to the last statement that touches it, counted at the top of the
kernel and at the top of each role. Roles run side by side, so a buffer that two of them touch
lives as long as they all do, except the slots of a pipeline: where as many are filled as are
waited for, nothing writes them after the last was read. Buffers whose lives do not meet may share
bytes; before the first statement of the later one, the threads that use it meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hexcute_core.arch import Arch
from hexcute_core.errors import NoLayout
from hexcute_core.scalar import Scalar
from hexcute_core.synthesis.graph import op_refs
from hexcute_core.tile import (
    Copy,
    For,
    Gemm,
    If,
    PipelineWait,
    Produce,
    Role,
    SharedTensor,
    Stmt,
    TileProgram,
    While,
)

ALIGNMENT = 1024
"""Bytes: a swizzle's period must start at zero; TMA and wgmma ask for as much."""

Place = tuple[int, int]
"""A statement at the kernel's top and, in a role, at the role's top (else -1)."""


def tensor_bytes(tensor: SharedTensor) -> int:
    """Bytes of a shared tensor, whole bytes for sub-byte types."""
    elements = 1
    for extent in tensor.shape:
        elements *= extent
    return -(-elements * tensor.dtype.bits // 8)


@dataclass(frozen=True)
class Arena:
    """Offsets and total size, in bytes; `fences` are the places before which memory changes
    hands. Scratch, where there is any, has the name ``""``."""

    offsets: Mapping[str, int]
    size: int
    fences: frozenset[Place]


@dataclass(frozen=True)
class _Life:
    name: str
    bytes: int
    first: Place
    last: Place


def build_arena(
    program: TileProgram, arch: Arch, scratch: int = 0, fixed: Mapping[str, int] | None = None
) -> Arena:
    """Places every shared tensor, the largest first, at the lowest offset free during its life;
    `fixed` are bytes by name that live throughout.

    Raises NoLayout where they exceed what a block of `arch` may have.
    """
    lives = _lives(program)
    ever = ((0, -1), (len(program.body), -1))
    if scratch:
        lives.append(_Life("", _rounded(scratch), *ever))
    lives += [_Life(name, _rounded(size), *ever) for name, size in (fixed or {}).items()]
    placed: list[tuple[_Life, int]] = []
    for life in sorted(lives, key=lambda x: -x.bytes):
        busy = sorted(
            (at, at + other.bytes)
            for other, at in placed
            if other.first <= life.last and life.first <= other.last
        )
        offset = 0
        for start, end in busy:
            if start - offset >= life.bytes:
                break
            offset = max(offset, end)
        placed.append((life, offset))
    size = max((at + life.bytes for life, at in placed), default=0)
    if size > arch.shared_per_block:
        listed = ", ".join(f"{x.name or 'reductions'} {x.bytes}" for x, _ in placed)
        raise NoLayout(
            f"the block needs {size} bytes of shared memory ({listed}), {arch.name} has "
            f"{arch.shared_per_block}",
            program.span,
            "use smaller tiles or fewer stages",
        )
    fences = {
        life.first
        for life, at in placed
        for other, there in placed
        if other.last < life.first and at < there + other.bytes and there < at + life.bytes
    }
    return Arena({life.name: at for life, at in placed}, size, frozenset(fences))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _lives(program: TileProgram) -> list[_Life]:
    touched: dict[str, list[Place]] = {}
    homes: dict[str, set[int]] = {}
    drained = _drained(program)
    for i, stmt in enumerate(program.body):
        inner = enumerate(stmt.body) if isinstance(stmt, Role) else [(-1, stmt)]
        for j, part in inner:
            for name, pipeline in _touches(part, None):
                if pipeline in drained:
                    # The fill has landed by the time its reader has waited for it.
                    touched.setdefault(name, []).append(drained[pipeline])
                    homes.setdefault(name, set()).add(drained[pipeline][0])
                else:
                    touched.setdefault(name, []).append((i, j))
                    homes.setdefault(name, set()).add(i)
    runs = _role_runs(program)
    out = []
    for t in program.tensors:
        if not isinstance(t, SharedTensor) or t.name not in touched:
            continue
        places = touched[t.name]
        for run in runs:
            if len(homes[t.name] & set(run)) > 1:
                places += [(run[0], -1), (run[-1] + 1, -1)]
        out.append(_Life(t.name, _rounded(tensor_bytes(t)), min(places), max(places)))
    return out


def _role_runs(program: TileProgram) -> list[list[int]]:
    """Indices of roles that run side by side."""
    runs: list[list[int]] = []
    for i, stmt in enumerate(program.body):
        if isinstance(stmt, Role):
            if runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            else:
                runs.append([i])
    return runs


Trips = tuple[Scalar, Scalar, Scalar]


def _drained(program: TileProgram) -> dict[str, Place]:
    """Pipelines of which every filled slot is waited for by one role, with the place of the last
    wait: the loops of both sides have equal bounds."""
    fills: dict[str, list[list[Trips]]] = {}
    waits: dict[str, list[tuple[Place, list[Trips]]]] = {}
    for i, stmt in enumerate(program.body):
        if not isinstance(stmt, Role):
            continue
        for j, part in enumerate(stmt.body):
            for inner, trips in _looped(part, []):
                if isinstance(inner, Produce):
                    fills.setdefault(inner.pipeline, []).append(trips)
                elif isinstance(inner, PipelineWait):
                    waits.setdefault(inner.pipeline, []).append(((i, j), trips))
    return {
        name: waiting[-1][0]
        for name, waiting in waits.items()
        if len({place[0] for place, _ in waiting}) == 1
        and sorted(map(str, fills.get(name, []))) == sorted(str(t) for _, t in waiting)
    }


def _looped(stmt: Stmt, trips: list[Trips]) -> Iterator[tuple[Stmt, list[Trips]]]:
    """Statements under `for` loops alone, with the loops' bounds; others as they stand."""
    yield stmt, trips
    if isinstance(stmt, For):
        for inner in stmt.body:
            yield from _looped(inner, [*trips, (stmt.start, stmt.stop, stmt.step)])


def _touches(stmt: Stmt, pipeline: str | None) -> Iterator[tuple[str, str | None]]:
    """Tensors that `stmt` touches, with the pipeline whose slot it fills with them."""
    match stmt:
        case Copy():
            yield stmt.src.tensor, None
            yield stmt.dst.tensor, pipeline
        case Gemm():
            yield from ((ref.tensor, None) for ref in op_refs(stmt))
        case Produce():
            yield from _all_touches(stmt.body, stmt.pipeline)
        case For() | While() | Role():
            yield from _all_touches(stmt.body, pipeline)
        case If():
            yield from _all_touches((*stmt.then, *stmt.otherwise), pipeline)
        case _:
            pass


def _all_touches(body: Iterable[Stmt], pipeline: str | None) -> Iterator[tuple[str, str | None]]:
    for stmt in body:
        yield from _touches(stmt, pipeline)
