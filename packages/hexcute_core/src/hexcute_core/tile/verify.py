"""verify(p) raises VerifyError unless p keeps the laws of a tile program.

Names and ids are unique; references are in range; shapes, spaces and element types of an operation
agree; variables are declared before use and seen in their block only; tile operations stand
outside loops over elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hexcute_core import dtypes
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import MULTIPROCESSORS, Const, Element, Scalar, Var
from hexcute_core.scalar.launch import BUILT_INS
from hexcute_core.scalar.visit import walk
from hexcute_core.tile.barriers import (
    ClusterOp,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
)
from hexcute_core.tile.elements import element_tile
from hexcute_core.tile.ir import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    For,
    ForElements,
    GemmWait,
    If,
    Produce,
    Role,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    Tilewise,
    While,
)
from hexcute_core.tile.remote import verify_reach, verify_slots
from hexcute_core.tile.says import Say
from hexcute_core.tile.tensors import (
    GlobalView,
    RegisterTensor,
    SharedTensor,
    SubMode,
    Tensor,
    TileRef,
)
from hexcute_core.tile.updates import UpdateElement
from hexcute_core.tile.verify_barriers import (
    declared_names,
    scalars_of,
    verify_barrier,
    verify_declarations,
    verify_role,
    verify_slot,
)
from hexcute_core.tile.verify_operations import Scope, verify_operation, verify_update_element
from hexcute_core.tile.visit import repeated_and_written
from hexcute_core.unions import assert_never

MAX_THREADS = 1024


def verify(program: TileProgram) -> None:
    """Checks every law; the first one broken is a VerifyError at its statement's source."""
    checker = _Checker(program)
    checker.header()
    scope = Scope({**checker.uniform, **dict.fromkeys(BUILT_INS, dtypes.i32)})
    checker.block(program.body, scope)
    verify_slots(checker)


class _Checker:
    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.tensors = {tensor.name: tensor for tensor in program.tensors}
        self.params = {param.name: param for param in program.params}
        self.uniform = {
            **dict(program.scalars),
            **dict.fromkeys(program.symbols, dtypes.i32),
        }
        self.declared: set[str] = set()
        self.ids: set[int] = set()

    def need(self, holds: bool, message: str, span: SourceSpan) -> None:
        if not holds:
            raise VerifyError(message, span=span)

    def header(self) -> None:
        """Parameters, launch shape and tensors."""
        p = self.program
        names = [*(t.name for t in p.params), *self.uniform, *(t.name for t in p.tensors)]
        names += declared_names(p)
        for name in names:
            self.need(names.count(name) == 1, f"two things are called `{name}`", p.span)
        self.declared |= {*names, *BUILT_INS}
        self.need(
            1 <= p.block_dim <= MAX_THREADS,
            f"a block of {p.block_dim} threads, not 1 to {MAX_THREADS}",
            p.span,
        )
        launch = Scope({**self.uniform, MULTIPROCESSORS.name: dtypes.i32})
        for extent in (*p.grid_dim, *(e for t in p.params for e in (*t.shape, *t.strides))):
            self.index(extent, launch, p.span)
        for t in p.params:
            agree = len(t.strides) in (0, len(t.shape))
            self.need(agree, f"`{t.name}` has {len(t.strides)} strides", t.span)
        for name, divisor in p.promise.multiples:
            known = name in p.symbols and divisor >= 1
            self.need(known, f"promise `{name} % {divisor} == 0` names no symbol", p.span)
        for name in (*p.promise.aligned, *dict(p.promise.begins)):
            self.need(name in self.params, f"`{name}` aligned is no parameter", p.span)
        for tensor in p.tensors:
            self.tensor(tensor)
        verify_declarations(self)

    def tensor(self, tensor: Tensor) -> None:
        span = tensor.span
        if not isinstance(tensor, GlobalView):
            positive = bool(tensor.shape) and all(extent >= 1 for extent in tensor.shape)
            self.need(positive, f"`{tensor.name}` has shape {tensor.shape}", span)
            return
        param = self.params.get(tensor.param)
        if param is None:
            raise VerifyError(f"`{tensor.name}` views no parameter: {tensor.param}", span=span)
        agree = param.dtype == tensor.dtype and len(tensor.origin) == len(param.shape)
        self.need(agree, f"`{tensor.name}` does not fit parameter `{param.name}`", span)
        self.need(bool(tensor.modes), f"`{tensor.name}` has no modes", span)
        for mode in tensor.modes:
            self.need(bool(mode), f"a mode of `{tensor.name}` is empty", span)
            for sub in mode:
                inside = 0 <= sub.dim < len(param.shape)
                self.need(inside, f"`{tensor.name}` steps along dimension {sub.dim}", span)

    def block(self, body: Sequence[Stmt], scope: Scope) -> None:
        """Statements in order; `scope` gains what they declare."""
        for stmt in body:
            self.statement(stmt, scope)

    def statement(self, stmt: Stmt, scope: Scope) -> None:
        span = stmt.span
        match stmt:
            case _ if isinstance(stmt, Tilewise):
                self.outside(scope, span)
                self.identity(stmt.id, span)
                verify_operation(self, stmt, scope)
            case Sync() | AsyncCommit():
                self.outside(scope, span)
            case GemmWait():
                self.outside(scope, span)
                self.need(stmt.pending >= 0, f"a wait for {stmt.pending} gemms", span)
            case Produce() | PipelineWait() | PipelineRelease():
                self.outside(scope, span)
                verify_slot(self, stmt)
                self.index(stmt.stage, scope, span)
                if not isinstance(stmt, PipelineRelease):
                    self.index(stmt.phase, scope, span)
                if isinstance(stmt, Produce):
                    self.block(stmt.body, scope.inner())
            case Role():
                self.outside(scope, span)
                verify_role(self, stmt)
                self.block(stmt.body, scope.inner())
            case AsyncWait():
                self.outside(scope, span)
                self.need(stmt.pending >= 0, f"a wait for {stmt.pending} groups", span)
            case Assign():
                self.assign(stmt, scope)
            case Say():
                for e in stmt.args:
                    self.scalar(e, scope, span)
                if stmt.holds is not None:
                    self.condition(stmt.holds, scope, span)
            case UpdateElement():
                verify_update_element(self, stmt, scope)
                if stmt.old is not None:
                    self.fresh(stmt.old.name, span)
                    scope.variables[stmt.old.name] = stmt.old.dtype
            case CallStmt():
                for arg in stmt.args:
                    self.scalar(arg, scope, span)
            case MbarrierOp() | NamedBarrierOp() | ClusterOp():
                verify_barrier(self, stmt)
                for e in scalars_of(stmt):
                    self.index(e, scope, span)
            case SetElement():
                self.element(stmt.tensor, stmt.coords, scope, span)
                self.scalar(stmt.value, scope, span)
                same = stmt.value.dtype == self.tensors[stmt.tensor].dtype
                self.need(same, f"a {stmt.value.dtype} set in `{stmt.tensor}`", span)
            case ForElements():
                self.elements(stmt, scope)
            case For():
                for bound in (stmt.start, stmt.stop, stmt.step):
                    self.index(bound, scope, span)
                step = stmt.step
                self.need(not isinstance(step, Const) or step.value > 0, "a step below 1", span)
                self.fresh(stmt.var.name, span)
                self.block(stmt.body, scope.inner(stmt.var))
            case While():
                self.condition(stmt.cond, scope, span)
                self.block(stmt.body, scope.inner())
            case If():
                self.condition(stmt.cond, scope, span)
                self.block(stmt.then, scope.inner())
                self.block(stmt.otherwise, scope.inner())
            case _:
                assert_never(stmt)

    def outside(self, scope: Scope, span: SourceSpan) -> None:
        self.need(scope.elements is None, "a tile operation in a loop over elements", span)

    def identity(self, number: int, span: SourceSpan) -> None:
        self.need(number not in self.ids, f"two operations have id {number}", span)
        self.ids.add(number)

    def fresh(self, name: str, span: SourceSpan) -> None:
        self.need(name not in self.declared, f"`{name}` is declared twice", span)
        self.declared.add(name)

    def assign(self, stmt: Assign, scope: Scope) -> None:
        self.scalar(stmt.value, scope, stmt.span)
        name, dtype = stmt.var.name, stmt.var.dtype
        same = stmt.value.dtype == dtype
        self.need(same, f"a {stmt.value.dtype} assigned to {dtype} `{name}`", stmt.span)
        whole = stmt.multiple == 1 or (stmt.multiple > 1 and dtype.is_integer)
        self.need(whole, f"{dtype} `{name}` is a multiple of {stmt.multiple}", stmt.span)
        if stmt.declares:
            self.fresh(name, stmt.span)
            scope.variables[name] = dtype
            return
        self.need(name in scope.variables, f"`{name}` is assigned before declared", stmt.span)
        self.need(scope.variables[name] == dtype, f"`{name}` changes its type", stmt.span)
        fixed = name in self.uniform or name in BUILT_INS
        self.need(not fixed, f"`{name}` is not a variable", stmt.span)

    def elements(self, stmt: ForElements, scope: Scope) -> None:
        self.outside(scope, stmt.span)
        self.identity(stmt.id, stmt.span)
        tensor = self.ref(stmt.ref, scope, stmt.span, RegisterTensor)
        rank = len(stmt.ref.shape)
        self.need(len(stmt.coords) == rank, f"{rank} coordinates of `{tensor.name}`", stmt.span)
        for var in stmt.coords:
            self.fresh(var.name, stmt.span)
        self.block(stmt.body, replace(scope.inner(*stmt.coords), elements=stmt))
        changing = repeated_and_written(stmt)
        self.need(changing is None, f"`{changing}` is written, and read repeated", stmt.span)

    def ref(self, ref: TileRef, scope: Scope, span: SourceSpan, *spaces: type[Tensor]) -> Tensor:
        """The tensor of a reference that is in range and in one of `spaces` (any if none)."""
        tensor = self.tensors.get(ref.tensor)
        if tensor is None:
            raise VerifyError(f"no tensor is called `{ref.tensor}`", span=span)
        wanted = " or ".join(space.__name__ for space in spaces)
        self.need(not spaces or type(tensor) in spaces, f"`{tensor.name}` is no {wanted}", span)
        extents = _extents(tensor)
        well_formed = (
            len(ref.starts) == len(ref.extents) == len(extents)
            and len(set(ref.kept)) == len(ref.kept)
            and (isinstance(tensor, SharedTensor) or list(ref.kept) == sorted(ref.kept))
            and set(ref.kept) <= set(range(len(extents)))
        )
        self.need(well_formed, f"a reference to `{tensor.name}` with other modes", span)
        for mode, (start, size, extent) in enumerate(zip(ref.starts, ref.extents, extents)):
            self.index(start, scope, span)
            dropped = mode in ref.kept or size == 1
            self.need(size >= 1 and dropped, f"mode {mode} of `{tensor.name}` has {size}", span)
            if extent is None:
                self.need(mode not in ref.kept, f"run-time mode of `{tensor.name}`", span)
            elif isinstance(start, Const):
                inside = start.value >= 0 and start.value + size <= extent
                self.need(inside, f"mode {mode} of `{tensor.name}` is out of range", span)
        if ref.rank is not None:
            self.index(ref.rank, scope, span)
        verify_reach(self, ref, tensor, span)
        self.need(
            (ref.rows is None) == (not isinstance(tensor, GlobalView) or tensor.named is None),
            f"rows of `{tensor.name}` with nothing or with too much to name them",
            span,
        )
        if isinstance(tensor, GlobalView):
            if ref.rows is not None and tensor.named is not None:
                self.rows(tensor, tensor.named, ref.rows, scope, span)
            for e in (*tensor.origin, *(x for m in tensor.modes for s in m for x in _parts(s))):
                self.index(e, scope, span)
        return tensor

    def rows(
        self, view: GlobalView, named: int, rows: TileRef, scope: Scope, span: SourceSpan
    ) -> None:
        """The numbers that name the places of mode `named`: one per element, steps of one."""
        held = self.ref(rows, scope, span, SharedTensor)
        self.need(rows.rank is None, f"rows named by `{held.name}` of another block", span)
        self.need(held.dtype == dtypes.i32, f"rows named by {held.dtype} `{held.name}`", span)
        sub, *more = view.modes[named]
        plain = not more and isinstance(sub.step, Const) and sub.step.value == 1
        self.need(plain, f"the named mode of `{view.name}` takes other steps than one", span)
        extent = _extents(view)[named]
        fits = rows.shape == (extent,)
        self.need(fits, f"{rows.shape} numbers name {extent} rows of `{view.name}`", span)

    def condition(self, e: Scalar, scope: Scope, span: SourceSpan) -> None:
        self.scalar(e, scope, span)
        self.need(e.dtype == dtypes.boolean, f"condition `{e}` is a {e.dtype}", span)

    def index(self, e: Scalar, scope: Scope, span: SourceSpan) -> None:
        self.scalar(e, scope, span)
        self.need(e.dtype.is_integer, f"index `{e}` is a {e.dtype}", span)

    def scalar(self, e: Scalar, scope: Scope, span: SourceSpan) -> None:
        """Variables are in sight with their types; elements stand in a loop over elements."""
        for node in walk(e):
            if isinstance(node, Var):
                known = scope.variables.get(node.name)
                self.need(known is not None, f"`{node.name}` is used before declared", span)
                self.need(known == node.dtype, f"`{node.name}` is {known}", span)
            elif isinstance(node, Element):
                self.element(node.array, node.indices, scope, span)
                same = self.tensors[node.array].dtype == node.dtype
                self.need(same, f"`{node.array}` read as {node.dtype}", span)

    def element(self, name: str, coords: Sequence[Scalar], scope: Scope, span: SourceSpan) -> None:
        """One element of a register tensor, of a tile that the loop around it walks through."""
        around, tensor = scope.elements, self.tensors.get(name)
        if around is None or not isinstance(tensor, RegisterTensor):
            raise VerifyError(f"an element of `{name}` outside a loop over elements", span=span)
        tile = None
        if len(coords) == len(tensor.shape):
            tile = element_tile((name, tuple(coords)), around.coords, around.ref.shape)
        if tile is None:
            message = f"`{name}` is indexed by other than the loop's coordinates"
            raise VerifyError(message, span=span)
        self.ref(tile, scope, span, RegisterTensor)


def _parts(sub: SubMode) -> tuple[Scalar, ...]:
    return sub.extent, sub.step


def _extents(tensor: Tensor) -> tuple[int | None, ...]:
    if not isinstance(tensor, GlobalView):
        return tensor.shape
    found: list[int | None] = []
    for mode in tensor.modes:
        total: int | None = 1
        for sub in mode:
            extent = int(sub.extent.value) if isinstance(sub.extent, Const) else None
            total = None if total is None or extent is None else total * extent
        found.append(total)
    return tuple(found)
