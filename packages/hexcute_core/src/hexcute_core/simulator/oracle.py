"""interpret(tile program) = the arrays its tile operations mean, with no layout anywhere.

Each block runs on whole numpy tiles: gemm sums in float32, asynchronous copies are immediate,
barriers do nothing. Scalar code runs on one lane a thread; `ForElements` runs on one lane an
element, so its body may not depend on which thread owns what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hexcute_core import dtypes
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.scalar import Scalar
from hexcute_core.simulator.arguments import (
    bind_arrays,
    bind_blocks,
    bind_grid,
    bind_scalars,
    evaluate_symbols,
)
from hexcute_core.simulator.control import assign, branch, repeat_for, repeat_while, uniform
from hexcute_core.simulator.lanes import Block, LaneState, builtins
from hexcute_core.simulator.scalars import Evaluate, compile_scalar
from hexcute_core.simulator.tile_math import cast_tile, common_shape, multiply, reduce_tile
from hexcute_core.simulator.tiles import Buffer, LocalTile, TileMemory
from hexcute_core.simulator.values import Array, Value, storage
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GlobalView,
    If,
    Rearrange,
    Reduce,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    While,
)
from hexcute_core.unions import assert_never


def interpret(
    program: TileProgram,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float],
    blocks: Sequence[Block] | None = None,
) -> Mapping[str, Array]:
    """Runs `program` block by block and returns the caller's arrays, written in place.

    `arrays` holds a C-contiguous numpy array for each tensor parameter, `scalars` a number for
    each scalar parameter and symbol, `blocks` the blocks to run (default: the whole grid).
    """
    symbols = dict.fromkeys(program.symbols, dtypes.i32)
    values = bind_scalars(program.name, symbols | dict(program.scalars), scalars)
    grid = bind_grid(program.grid_dim, values)
    expected = {p.name: (p.dtype, p.shape) for p in program.params}
    bound = bind_arrays(program.name, expected, arrays, values)
    buffers = {
        p.name: Buffer(
            p.name, p.dtype, tuple(evaluate_symbols(e, values) for e in p.shape), bound[p.name]
        )
        for p in program.params
    }
    evaluators: dict[int, Evaluate] = {}
    with np.errstate(all="ignore"):
        for block in bind_blocks(grid, blocks):
            lanes = {
                **values,
                **builtins([block], grid, program.block_dim, range(program.block_dim)),
            }
            scope = _Scope(lanes, program.block_dim, block)
            _BlockRun(program, buffers, evaluators).statements(program.body, scope)
    for buffer in buffers.values():
        buffer.write_back()
    return bound


class _Scope(LaneState):
    """One lane a thread of a block, or one lane an element inside `ForElements`."""

    def __init__(self, values: Mapping[str, Value], lanes: int, block: Block) -> None:
        super().__init__(values, lanes, [block])
        self.place: SourceSpan | None = None
        self.tiles: Mapping[str, LocalTile] | None = None

    @property
    def span(self) -> SourceSpan | None:
        """Where the running statement was written."""
        return self.place

    def where(self, lane: int) -> str:
        """`block (x, y, z)` and what the lane is."""
        what = "thread" if self.tiles is None else "element"
        return f"block {self.blocks[0]} {what} {lane}"

    def element(self, array: str, indices: tuple[Value, ...]) -> Value:
        """Element `indices` of register tensor `array` on every lane."""
        tile, place = self.locate(array, indices)
        if not tile.written[place][self.active()].all():
            self.fail(f"{array} is read before it was written")
        cells: Array = tile.cells[place]
        return cells

    def locate(self, array: str, indices: Sequence[Value]) -> tuple[LocalTile, tuple[Array, ...]]:
        """The tile called `array` and an index array a dimension."""
        if self.tiles is None or array not in self.tiles:
            self.fail(f"elements of {array} can only be named inside a loop over its elements")
        tile = self.tiles[array]
        if len(indices) != len(tile.shape):
            self.fail(f"{array} has {len(tile.shape)} dimensions, got {len(indices)} indices")
        place = []
        for index, extent in zip(indices, tile.shape, strict=True):
            at = np.broadcast_to(np.asarray(index), self.lanes)
            if ((at < 0) | (at >= extent))[self.active()].any():
                self.fail(f"an index of {array} is outside its extent {extent}")
            place.append(np.clip(at, 0, extent - 1))
        return tile, tuple(place)


class _BlockRun:
    """The tensors of one block and the statements that change them."""

    def __init__(
        self, program: TileProgram, buffers: Mapping[str, Buffer], evaluators: dict[int, Evaluate]
    ) -> None:
        self.memory = TileMemory(buffers)
        for tensor in program.tensors:
            if isinstance(tensor, GlobalView):
                self.memory.views[tensor.name] = tensor
            else:
                self.memory.local[tensor.name] = LocalTile(tensor)
        # Nodes live as long as the program, so their identity is a key.
        self._evaluators = evaluators

    def statements(self, stmts: Sequence[Stmt], scope: _Scope) -> None:
        """Runs `stmts` in order."""
        for stmt in stmts:
            scope.place = stmt.span
            self._statement(stmt, scope)

    def _value(self, e: Scalar, scope: _Scope) -> Value:
        evaluate = self._evaluators.get(id(e))
        if evaluate is None:
            evaluate = self._evaluators[id(e)] = compile_scalar(e)
        return evaluate(scope)

    def _body(self, stmts: Sequence[Stmt]) -> Callable[[_Scope], None]:
        declared = {s.var.name for s in stmts if isinstance(s, Assign) and s.declares}

        def run(scope: _Scope) -> None:
            # A name that the body declares may shadow an outer one.
            held = {name: scope.vars[name] for name in declared if name in scope.vars}
            self.statements(stmts, scope)
            scope.vars.update(held)

        return run

    def _statement(self, stmt: Stmt, scope: _Scope) -> None:
        match stmt:
            case Assign():
                assign(scope, stmt.var, self._value(stmt.value, scope), stmt.declares)
            case If():
                picked = self._value(stmt.cond, scope)
                branch(scope, picked, self._body(stmt.then), self._body(stmt.otherwise))
            case For():
                ends = (stmt.start, stmt.stop, stmt.step)
                start, stop, step = (self._value(e, scope) for e in ends)
                repeat_for(scope, stmt.var, (start, stop, step), self._body(stmt.body))
            case While():
                repeat_while(scope, lambda s: self._value(stmt.cond, s), self._body(stmt.body))
            case SetElement():
                self._set_element(stmt, scope)
            case CallStmt():
                scope.fail(
                    f"the interpreter has no meaning for `{stmt.name}`",
                    fix="run this kernel on a GPU",
                )
            case _:
                self._tile_statement(stmt, scope)

    def _tile_statement(
        self,
        stmt: Fill | Copy | Gemm | CastTile | Elementwise | Reduce | Rearrange | ForElements
        | Sync | AsyncCommit | AsyncWait,
        scope: _Scope,
    ) -> None:  # fmt: skip
        if scope.mask is not None or scope.tiles is not None:
            scope.fail(
                "a tile operation stands under a condition that differs from thread to thread",
                fix="let all threads of the block reach it",
            )
        at, span = self._index(scope), stmt.span
        memory = self.memory
        match stmt:
            case Sync() | AsyncCommit() | AsyncWait():
                return
            case Fill():
                value = self._value(stmt.value, scope)
                dtype = memory.dtype(stmt.dst)
                one = self._uniform_cell(value, scope)
                cell = cast_tile(one.reshape(1), stmt.value.dtype, dtype)
                memory.write(stmt.dst, np.full(stmt.dst.shape, cell[0]), at, span)
            case Copy() | Rearrange():
                memory.write(stmt.dst, memory.read(stmt.src, at, span), at, span)
            case CastTile():
                source, target = memory.dtype(stmt.src), memory.dtype(stmt.dst)
                cells = cast_tile(memory.read(stmt.src, at, span), source, target)
                memory.write(stmt.dst, cells, at, span)
            case Gemm():
                refs = (stmt.c, stmt.a, stmt.b)
                c, a, b = (memory.read(ref, at, span) for ref in refs)
                c_type, a_type, b_type = (memory.dtype(ref) for ref in refs)
                memory.write(stmt.c, multiply(c, c_type, a, a_type, b, b_type), at, span)
            case Reduce():
                source, target = memory.dtype(stmt.src), memory.dtype(stmt.dst)
                cells = memory.read(stmt.src, at, span)
                reduced = reduce_tile(cells, source, stmt.axis, stmt.op, target)
                memory.write(stmt.dst, reduced, at, span)
            case Elementwise():
                self._elementwise(stmt, scope)
            case ForElements():
                self._for_elements(stmt, scope)
            case _:
                assert_never(stmt)

    def _index(self, scope: _Scope) -> Callable[[Scalar], int]:
        def at(e: Scalar) -> int:
            value = uniform(scope, self._value(e, scope))
            if not isinstance(value, int):
                scope.fail(f"the tile index `{e}` differs from thread to thread")
            return value

        return at

    def _uniform_cell(self, value: Value, scope: _Scope) -> Array:
        cells = np.asarray(value)
        if cells.ndim and (cells != cells[0]).any():
            scope.fail("the value of a fill differs from thread to thread")
        return cells.reshape(-1)[:1]

    def _element_scope(self, shape: tuple[int, ...], scope: _Scope) -> _Scope:
        """One lane an element; of the variables, those that all threads agree on."""
        shared = {
            name: value for name, value in scope.vars.items() if not isinstance(value, np.ndarray)
        }
        inner = _Scope(shared, int(np.prod(shape)), scope.blocks[0])
        inner.place = scope.place
        inner.tiles = self.memory.local
        return inner

    def _elementwise(self, stmt: Elementwise, scope: _Scope) -> None:
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

    def _for_elements(self, stmt: ForElements, scope: _Scope) -> None:
        at, shape = self._index(scope), stmt.ref.shape
        inner = self._element_scope(shape, scope)
        starts = [at(stmt.ref.starts[mode]) for mode in stmt.ref.kept]
        grids = np.indices(shape, dtype=np.int32)
        for var, start, grid in zip(stmt.coords, starts, grids, strict=True):
            inner.vars[var.name] = (grid + np.int32(start)).reshape(-1)
        outside = {name for name, value in scope.vars.items()} - {v.name for v in stmt.coords}
        before = {name: scope.vars[name] for name in outside}
        self.statements(stmt.body, inner)
        changed = [n for n in before if n in inner.vars and inner.vars[n] is not before[n]]
        if changed:
            scope.place = stmt.span
            scope.fail(
                f"{changed[0]} is declared outside the loop over elements and changed in it: its "
                f"value would depend on the layout",
                fix="declare it inside the loop",
            )

    def _set_element(self, stmt: SetElement, scope: _Scope) -> None:
        tile, place = scope.locate(
            stmt.tensor, [self._value(coordinate, scope) for coordinate in stmt.coords]
        )
        value = np.broadcast_to(np.asarray(self._value(stmt.value, scope)), scope.lanes)
        cells = cast_tile(value.astype(storage(stmt.value.dtype)), stmt.value.dtype, tile.dtype)
        lanes = scope.active()
        inside = tuple(index[lanes] for index in place)
        tile.cells[inside] = cells[lanes]
        tile.written[inside] = True
