"""One shared arena per kernel: buffers packed by lifetime, with the barriers that reuse needs.

A buffer lives from the first to the last statement that touches it, counted at the top of the
kernel and at the top of each role. Roles run side by side, so a buffer that two of them touch
lives as long as they all do, except the slots of a pipeline: they are filled from the roles' start
on, but where as many are filled as are waited for, nothing writes them after the last was read.
A buffer that other blocks of the cluster access is live for the whole kernel, because this block
cannot know when they access it. Buffers whose lives do not overlap may share bytes; a barrier
stands before the first statement that uses the later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hexcute_core.arch import Arch
from hexcute_core.errors import NoLayout
from hexcute_core.scalar import Scalar
from hexcute_core.tile import (
    Copy,
    For,
    ForElements,
    Gemm,
    GemmWait,
    If,
    PipelineWait,
    Produce,
    Role,
    SharedTensor,
    Stmt,
    TileProgram,
    UpdateElement,
    While,
    reached,
)
from hexcute_core.tile.ir import Nest, TileOp
from hexcute_core.tile.visit import operands, placed, results
from hexcute_core.unions import assert_never

ALIGNMENT = 1024
"""Bytes: a swizzle's period must start at zero; TMA and wgmma ask for as much."""
PLAIN = 16
"""What begins at a multiple of so many bytes where threads alone look: the widest access."""

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
    """`role` is the role at whose top all of it lies, None for others."""

    name: str
    bytes: int
    first: Place
    last: Place
    role: int | None = None

    def meets(self, other: _Life) -> bool:
        """Whether both may be alive at one time: roles run side by side."""
        if self.role is not None and other.role is not None and self.role != other.role:
            return True
        return other.first <= self.last and self.first <= other.last


def build_arena(
    program: TileProgram, arch: Arch, scratch: int = 0, fixed: Mapping[str, int] | None = None
) -> Arena:
    """Places every shared tensor, the largest first, at the lowest offset free during its life,
    then scratch and `fixed`, bytes by name that live throughout.

    Raises NoLayout where they exceed what a block of `arch` may have.
    """
    ever, plain = ((0, -1), (len(program.body), -1)), dict(fixed or {})
    if scratch:
        plain[""] = scratch
    lives = sorted(_lives(program), key=lambda x: -x.bytes)
    lives += [_Life(name, _rounded(size, PLAIN), *ever) for name, size in plain.items()]
    placed: list[tuple[_Life, int]] = []
    for life in lives:
        busy = sorted(
            (at, at + other.bytes)
            for other, at in placed
            if other.meets(life)
        )
        offset = 0
        for start, end in busy:
            if start - offset >= life.bytes:
                break
            offset = max(offset, end)
        placed.append((life, offset))
    size = max((at + life.bytes for life, at in placed), default=0)
    if size > arch.shared_per_block:
        listed = ", ".join(f"{x.name or 'reductions and scans'} {x.bytes}" for x, _ in placed)
        raise NoLayout(
            f"the block needs {size} bytes of shared memory ({listed}), {arch.name} has "
            f"{arch.shared_per_block}",
            program.span,
            "use smaller tiles or fewer stages",
        )
    first_role = next((i for i, s in enumerate(program.body) if isinstance(s, Role)), 0)
    fences = {
        # What all threads used before the roles is handed over before they part.
        (first_role, -1) if life.role is not None and other.role is None else life.first
        for life, at in placed
        for other, there in placed
        if not other.meets(life) and other.last < life.first
        if at < there + other.bytes and there < at + life.bytes
    }
    return Arena({life.name: at for life, at in placed}, size, frozenset(fences))


def _rounded(size: int, unit: int = ALIGNMENT) -> int:
    return -(-size // unit) * unit


def _lives(program: TileProgram) -> list[_Life]:
    touched: dict[str, list[Place]] = {}
    homes: dict[str, set[int]] = {}
    drained = _drained(program)
    run = [i for i, stmt in enumerate(program.body) if isinstance(stmt, Role)]
    for place, part, body in _parts(program):
        i, j = place
        settled = _settled(body, i if j < 0 else j)
        until = (settled, -1) if j < 0 else (i, settled)
        for name, pipeline in _touches(part):
            used = (place, until)
            home = i
            if pipeline in drained:
                # Filled as soon as the roles part; the last fill has landed when its reader has
                # waited for it.
                used, home = ((run[0], -1), drained[pipeline]), drained[pipeline][0]
            touched.setdefault(name, []).extend(used)
            homes.setdefault(name, set()).add(home)
        for stmt, _ in _looped(part):
            if isinstance(stmt, Copy) and stmt.completes is not None:
                # When it lands is the author's affair.
                touched.setdefault(stmt.dst.tensor, []).extend(((0, -1), (len(program.body), -1)))
    for name in reached(program).any:
        touched.setdefault(name, []).extend(((0, -1), (len(program.body), -1)))
        homes.setdefault(name, set()).add(-1)
    out = []
    for t in program.tensors:
        if not isinstance(t, SharedTensor) or t.name not in touched:
            continue
        places, roles = touched[t.name], homes[t.name] & set(run)
        if len(roles) > 1:
            places += [(run[0], -1), (run[-1] + 1, -1)]
        role = next(iter(roles)) if homes[t.name] == roles and len(roles) == 1 else None
        size = _rounded(tensor_bytes(t))
        out.append(_Life(t.name, size, min(places), max(places), role))
    return out


def _parts(program: TileProgram) -> Iterator[tuple[Place, Stmt, tuple[Stmt, ...]]]:
    """Statements at the top of the kernel and of its roles, with the block they stand in."""
    for i, stmt in enumerate(program.body):
        if isinstance(stmt, Role):
            yield from (((i, j), part, stmt.body) for j, part in enumerate(stmt.body))
        else:
            yield (i, -1), stmt, program.body


Trips = tuple[Scalar, Scalar, Scalar]


def _drained(program: TileProgram) -> dict[str, Place]:
    """Pipelines of which every filled slot is waited for by one role, with the place of the last
    wait: the loops of both sides have equal bounds."""
    fills: dict[str, list[list[Trips]]] = {}
    waits: dict[str, list[tuple[Place, list[Trips]]]] = {}
    unknown: set[str] = set()
    for i, stmt in enumerate(program.body):
        if not isinstance(stmt, Role):
            continue
        for j, part in enumerate(stmt.body):
            for inner, trips in _looped(part):
                if not isinstance(inner, (Produce, PipelineWait)):
                    continue
                if trips is None:
                    unknown.add(inner.pipeline)
                elif isinstance(inner, Produce):
                    fills.setdefault(inner.pipeline, []).append(trips)
                else:
                    waits.setdefault(inner.pipeline, []).append(((i, j), trips))
    return {
        name: waiting[-1][0]
        for name, waiting in waits.items()
        if name not in unknown
        and len({place[0] for place, _ in waiting}) == 1
        and sorted(map(str, fills.get(name, []))) == sorted(str(t) for _, t in waiting)
    }


def _looped(stmt: Stmt) -> Iterator[tuple[Stmt, list[Trips] | None]]:
    """Statements with the bounds of the `for` loops around them; None where a `while` or `if`
    leaves open how often they run."""
    around: list[Trips] | None = []
    return placed((stmt,), around, _within)


def _within(stmt: Nest, around: list[Trips] | None) -> list[Trips] | None:
    match stmt:
        case For():
            bounds = (stmt.start, stmt.stop, stmt.step)
            return None if around is None else [*around, bounds]
        case While() | If():
            return None
        case Produce() | Role() | ForElements():
            return around
        case _:
            assert_never(stmt)


def _settled(body: Sequence[Stmt], at: int) -> int:
    """The statement by whose end the asynchronous gemms of statement `at` are finished for
    certain: until then they read their operands. Past the last one where none says so."""
    last: list[Trips] | None = None
    pending = False
    for stmt, trips in _looped(body[at]):
        if isinstance(stmt, Gemm) and stmt.asynchronous:
            last, pending = trips, True
        elif isinstance(stmt, GemmWait) and stmt.pending == 0 and trips is not None:
            # A wait in a loop of its own may never run.
            pending = pending and (last is None or last[: len(trips)] != trips)
    if not pending:
        return at
    ends = (n for n in range(at + 1, len(body)) if _waits(body[n]))
    return next(ends, len(body))


def _waits(stmt: Stmt) -> bool:
    return isinstance(stmt, GemmWait) and stmt.pending == 0


def _touches(stmt: Stmt) -> Iterator[tuple[str, str | None]]:
    """Tensors that `stmt` touches, with the pipeline whose slot it fills with them."""
    for op, pipeline in placed((stmt,), None, _filling):
        if isinstance(op, TileOp):
            yield from ((ref.tensor, None) for ref in operands(op))
            yield from ((ref.tensor, pipeline) for ref in results(op))
        elif isinstance(op, UpdateElement):
            yield op.dst.tensor, None


def _filling(stmt: Nest, pipeline: str | None) -> str | None:
    match stmt:
        case Produce():
            return stmt.pipeline
        case For() | While() | If() | Role() | ForElements():
            return pipeline
        case _:
            assert_never(stmt)
