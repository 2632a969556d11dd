"""interpret(tile program) = the arrays its tile operations mean, with no layout anywhere.

Each block runs on whole numpy tiles: gemm sums in float32, asynchronous copies and products are
immediate, barriers of all threads do nothing. Roles run side by side and wait at pipelines and
barriers, blocks of a cluster too. Scalar code runs on one lane per thread; `ForElements` runs on
one lane per element, so its body may not depend on which thread owns what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hexcute_core import dtypes
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Scalar
from hexcute_core.simulator.arguments import (
    bind_arrays,
    bind_blocks,
    bind_clusters,
    bind_grid,
    bind_scalars,
    evaluate_symbols,
)
from hexcute_core.simulator.lanes.control import (
    assign,
    keeps_promise,
    passes,
    rounds,
    sides,
    uniform,
)
from hexcute_core.simulator.lanes.scalars import Evaluate, compile_scalar
from hexcute_core.simulator.lanes.state import Block, builtins
from hexcute_core.simulator.lanes.values import Array, Value, broadcast, storage
from hexcute_core.simulator.oracle.barriers import (
    BlockBarriers,
    Phases,
    Waits,
    run_all,
    side_by_side,
)
from hexcute_core.simulator.oracle.scope import Scope, say, set_element
from hexcute_core.simulator.oracle.tile_math import (
    cast_tile,
    common_shape,
    converted,
    multiply,
    reduce_tile,
    scan_tiles,
)
from hexcute_core.simulator.oracle.tiles import Buffer, LocalTile, TileMemory
from hexcute_core.simulator.oracle.updates import update_element, update_tile
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    ClusterOp,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GemmWait,
    GlobalView,
    If,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
    Prefetch,
    Produce,
    Rearrange,
    Reduce,
    Relabel,
    Role,
    Say,
    Scan,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    UpdateElement,
    While,
)
from hexcute_core.tile.ir import TileOp, scan_operands
from hexcute_core.unions import assert_never


def interpret(
    program: TileProgram,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float],
    blocks: Sequence[Block] | None = None,
) -> Mapping[str, Array]:
    """Runs `program` block by block and returns the caller's arrays, written in place.

    `arrays` holds a numpy array for each tensor parameter, C-contiguous unless it has strides of
    its own, `scalars` a number for each scalar parameter and symbol, `blocks` the blocks to run
    (default: the whole grid).
    """
    symbols = dict.fromkeys(program.symbols, dtypes.i32)
    values = bind_scalars(program.name, symbols | dict(program.scalars), scalars)
    grid = bind_grid(program.name, program.grid_dim, program.cluster_dim, values)
    bound = bind_arrays(program.name, program.params, arrays, values)
    buffers = {
        p.name: Buffer(
            p.name, p.dtype, tuple(evaluate_symbols(e, values) for e in p.shape), bound[p.name]
        )
        for p in program.params
    }
    evaluators: dict[int, Evaluate] = {}
    threads, chosen = program.block_dim, bind_blocks(grid, blocks)
    with np.errstate(all="ignore"):
        for cluster in bind_clusters(chosen, program.cluster_dim):
            meeting = Phases(threads * len(cluster))
            runs = [_BlockRun(program, buffers, evaluators, meeting) for _ in cluster]
            started = []
            for run, ordinal in zip(runs, cluster, strict=True):
                run.cluster, run.memory.cluster = runs, [other.memory for other in runs]
                lanes = builtins([chosen[ordinal]], grid, threads, range(threads))
                scope = Scope({**values, **lanes}, threads, chosen[ordinal])
                started.append(run.statements(program.body, scope))
            run_all(started, program.span)
    for buffer in buffers.values():
        buffer.write_back()
    return bound


class _BlockRun:
    """The tensors of one block and the statements that change them."""

    def __init__(
        self,
        program: TileProgram,
        buffers: Mapping[str, Buffer],
        evaluators: dict[int, Evaluate],
        meeting: Phases,
    ) -> None:
        self.memory = TileMemory(buffers)
        self.barriers = BlockBarriers(program)
        self.meeting = meeting
        self.cluster: list[_BlockRun] = [self]
        for tensor in program.tensors:
            if isinstance(tensor, GlobalView):
                self.memory.views[tensor.name] = tensor
            else:
                self.memory.local[tensor.name] = LocalTile(tensor)
        # Nodes live as long as the program, so their identity is a key.
        self._evaluators = evaluators

    def statements(self, stmts: Sequence[Stmt], scope: Scope) -> Waits:
        """Runs `stmts` in order; roles that follow one another run side by side."""
        at = 0
        while at < len(stmts):
            stmt = stmts[at]
            scope.place = stmt.span
            at += 1
            roles = [stmt] if isinstance(stmt, Role) else []
            while roles and at < len(stmts) and isinstance(following := stmts[at], Role):
                roles.append(following)
                at += 1
            yield from self._roles(roles, scope) if roles else self._statement(stmt, scope)

    def _roles(self, roles: Sequence[Role], scope: Scope) -> Waits:
        runs = [self.statements(role.body, scope.role(role.first, role.threads)) for role in roles]
        yield from side_by_side(runs, roles[0].span)

    def _value(self, e: Scalar, scope: Scope) -> Value:
        evaluate = self._evaluators.get(id(e))
        if evaluate is None:
            evaluate = self._evaluators[id(e)] = compile_scalar(e)
        return evaluate(scope)

    def _block(self, stmts: Sequence[Stmt], scope: Scope) -> Waits:
        """The statements in a scope of their own: what they declare may shadow an outer name."""
        declared = {s.var.name for s in stmts if isinstance(s, Assign) and s.declares}
        held = {name: scope.vars[name] for name in declared if name in scope.vars}
        yield from self.statements(stmts, scope)
        scope.vars.update(held)

    def _statement(self, stmt: Stmt, scope: Scope) -> Waits:
        match stmt:
            case Assign():
                value = self._value(stmt.value, scope)
                keeps_promise(scope, value, stmt.multiple)
                assign(scope, stmt.var, value, stmt.declares)
            case If():
                for side in sides(scope, self._value(stmt.cond, scope)):
                    yield from self._block(stmt.then if side else stmt.otherwise, scope)
            case For():
                ends = (stmt.start, stmt.stop, stmt.step)
                start, stop, step = (self._value(e, scope) for e in ends)
                for _ in passes(scope, stmt.var, (start, stop, step)):
                    yield from self._block(stmt.body, scope)
            case While():
                for _ in rounds(scope, lambda s: self._value(stmt.cond, s)):
                    yield from self._block(stmt.body, scope)
            case SetElement():
                set_element(stmt, scope, lambda e: self._value(e, scope))
            case Say():
                say(stmt, scope, None if stmt.holds is None else self._value(stmt.holds, scope))
            case UpdateElement():
                update_element(self.memory, stmt, scope, lambda e: self._value(e, scope))
            case CallStmt():
                unknown = f"the interpreter has no meaning for `{stmt.name}`"
                scope.fail(unknown, fix="run this kernel on a GPU")
            case Role():
                yield from self._roles((stmt,), scope)
            case Produce() | PipelineWait() | PipelineRelease():
                yield from self._pipeline(stmt, scope)
            case MbarrierOp() | NamedBarrierOp() | ClusterOp():
                yield from self._barrier(stmt, scope)
            case Sync() | AsyncCommit() | AsyncWait() | GemmWait():
                scope.together()
            case _ if isinstance(stmt, TileOp):
                scope.together()
                self._operation(stmt, scope)
            case _:
                assert_never(stmt)

    def _pipeline(self, stmt: Produce | PipelineWait | PipelineRelease, scope: Scope) -> Waits:
        at = self._index(scope)
        stage = at(stmt.stage)
        full, empty = (
            rings[stmt.pipeline][stage] for rings in (self.barriers.full, self.barriers.empty)
        )
        match stmt:
            case Produce():
                parity = at(stmt.phase) ^ 1
                yield lambda: empty.done(parity)
                yield from self._block(stmt.body, scope)
                full.arrive()
            case PipelineWait():
                parity = at(stmt.phase)
                yield lambda: full.done(parity)
            case PipelineRelease():
                empty.arrive()
            case _:
                assert_never(stmt)

    def _barrier(self, stmt: MbarrierOp | NamedBarrierOp | ClusterOp, scope: Scope) -> Waits:
        lanes = len(scope.active())
        if isinstance(stmt, MbarrierOp):
            yield from self._mbarrier(stmt, scope, lanes)
            return
        barrier = self.meeting
        if isinstance(stmt, NamedBarrierOp):
            barrier = self.barriers.named[stmt.barrier]
        phase = barrier.phase
        if isinstance(stmt, ClusterOp) and stmt.action == "wait":
            # Its own arrival came before, in this phase or in one that has completed.
            arrived = scope.arrived
            yield lambda: barrier.phase > arrived
            return
        scope.arrived = phase
        barrier.arrive(lanes)
        if stmt.action == "sync":
            yield lambda: barrier.phase > phase

    def _mbarrier(self, stmt: MbarrierOp, scope: Scope, lanes: int) -> Waits:
        at = self._index(scope)
        index, value = at(stmt.index), at(stmt.value) if stmt.value is not None else 0
        home = self.cluster[value] if stmt.action == "remote" else self
        barrier = home.barriers.raw[stmt.barrier][index]
        match stmt.action:
            case "arrive" | "remote":
                barrier.arrive(lanes)
            case "expect":
                barrier.arrive(lanes, value * lanes)
            case "wait":
                yield lambda: barrier.done(value)
            case _:
                assert_never(stmt.action)

    def _operation(self, stmt: TileOp, scope: Scope) -> None:
        at, span = self._index(scope), stmt.span
        memory = self.memory
        match stmt:
            case Prefetch():
                return
            case Fill():
                one = scope.cell(self._value(stmt.value, scope))
                cell = cast_tile(one, stmt.value.dtype, memory.dtype(stmt.dst))
                memory.write(stmt.dst, np.full(stmt.dst.shape, cell[0]), at, span)
            case Copy() if stmt.update is not None:
                update_tile(memory, stmt, at)
            case Copy() | Rearrange():
                other = stmt.outside if isinstance(stmt, Copy) else None
                filled = None if other is None else (
                    scope.cell(self._value(other, scope)).astype(storage(other.dtype))
                )  # fmt: skip
                cells = memory.read(stmt.src, at, span, filled)
                reduction = stmt.reduce if isinstance(stmt, Copy) else None
                memory.write(stmt.dst, cells, at, span, reduction)
                if isinstance(stmt, Copy) and stmt.completes is not None:
                    name, index = stmt.completes
                    self.barriers.raw[name][at(index)].complete(memory.bytes(stmt.dst))
            case CastTile() | Relabel():
                source, target = memory.dtype(stmt.src), memory.dtype(stmt.dst)
                cells = converted(stmt, memory.read(stmt.src, at, span), source, target)
                memory.write(stmt.dst, cells, at, span)
            case Gemm():
                refs = (stmt.c, stmt.a, stmt.b)
                a, b = (memory.read(ref, at, span) for ref in refs[1:])
                c_type, a_type, b_type = (memory.dtype(ref) for ref in refs)
                if scope.cell(self._value(stmt.accumulate, scope)):
                    c = memory.read(stmt.c, at, span)
                else:
                    c = np.zeros(stmt.c.shape, storage(c_type))
                memory.write(stmt.c, multiply(c, c_type, a, a_type, b, b_type), at, span)
            case Reduce():
                source, target = memory.dtype(stmt.src), memory.dtype(stmt.dst)
                cells = memory.read(stmt.src, at, span)
                reduced = reduce_tile(cells, source, stmt.axis, stmt.op, target, stmt.keep)
                memory.write(stmt.dst, reduced, at, span)
            case Elementwise():
                self._elementwise(stmt, scope)
            case Scan():
                self._scan(stmt, scope)
            case ForElements():
                self._for_elements(stmt, scope)
            case _:
                assert_never(stmt)

    def _index(self, scope: Scope) -> Callable[[Scalar], int]:
        def at(e: Scalar) -> int:
            value = uniform(scope, self._value(e, scope))
            if not isinstance(value, int):
                scope.fail(f"the tile index `{e}` differs from thread to thread")
            return value

        return at

    def _element_scope(self, shape: tuple[int, ...], scope: Scope) -> Scope:
        """One lane per element; of the variables, those that all threads agree on."""
        shared = {
            name: value for name, value in scope.vars.items() if not isinstance(value, np.ndarray)
        }
        inner = Scope(shared, int(np.prod(shape)), scope.blocks[0])
        inner.place = scope.place
        inner.tiles = self.memory.local
        return inner

    def _elementwise(self, stmt: Elementwise, scope: Scope) -> None:
        at, shape = self._index(scope), stmt.dst.shape
        tiles = [self.memory.read(ref, at, stmt.span) for ref in stmt.srcs]
        try:
            common_shape([t.shape for t in tiles], shape)
        except SimulationError as error:
            scope.fail(error.message)
        inner = self._element_scope(shape, scope)
        for i, tile in enumerate(tiles):
            inner.vars[f"${i}"] = np.broadcast_to(tile, shape).reshape(-1)
        value = self._value(stmt.expr, inner)
        dtype = self.memory.dtype(stmt.dst)
        cells = value if isinstance(value, np.ndarray) else np.full(
            inner.lanes, value, dtype=storage(stmt.expr.dtype)
        )  # fmt: skip
        result = cast_tile(cells, stmt.expr.dtype, dtype).reshape(shape)
        self.memory.write(stmt.dst, result, at, stmt.span)

    def _scan(self, stmt: Scan, scope: Scope) -> None:
        at, types = self._index(scope), [e.dtype for e in stmt.combine]
        tiles = [(self.memory.read(r, at, stmt.span), self.memory.dtype(r)) for r in stmt.srcs]
        inner = self._element_scope((tiles[0][0].size // tiles[0][0].shape[stmt.axis],), scope)
        names = [var.name for side in scan_operands(types) for var in side]

        def combine(values: Sequence[Array]) -> list[Array]:
            inner.vars.update(zip(names, values, strict=True))
            return [broadcast(self._value(e, inner), e.dtype, inner.lanes) for e in stmt.combine]

        results = scan_tiles(tiles, types, stmt.axis, stmt.reverse, combine)
        for ref, cells in zip(stmt.dsts, results, strict=True):
            self.memory.write(ref, cells, at, stmt.span)

    def _for_elements(self, stmt: ForElements, scope: Scope) -> None:
        shape = stmt.ref.shape
        inner = self._element_scope(shape, scope)
        grids = np.indices(shape, dtype=np.int32)
        for var, grid in zip(stmt.coords, grids, strict=True):
            inner.vars[var.name] = grid.reshape(-1)
        outside = {name for name, value in scope.vars.items()} - {v.name for v in stmt.coords}
        before = {name: scope.vars[name] for name in outside}
        run_all([self.statements(stmt.body, inner)], stmt.span)
        changed = [n for n in before if n in inner.vars and inner.vars[n] is not before[n]]
        if changed and inner.lanes == 1:
            # The one element is held by all threads, and so is what they make of it.
            scope.vars.update((n, np.asarray(inner.vars[n]).reshape(-1)[0]) for n in changed)
        elif changed:
            scope.place = stmt.span
            scope.fail(
                f"{changed[0]} is declared outside the loop over elements and changed in it: its "
                f"value would depend on the layout",
                fix="declare it inside the loop",
            )
