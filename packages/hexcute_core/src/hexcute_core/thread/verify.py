"""verify(p) raises VerifyError unless p keeps the laws of a thread program.

Names are declared before use and seen in their block only; types agree; constant indices and
addresses are in range and aligned; primitives get the operands their row asks for; unrolled
loops are known when the program is compiled; what lanes tell each other is told outside
conditional expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import MULTIPROCESSORS, Const, Element, Scalar, Var
from hexcute_core.scalar.formats import pieces, takes
from hexcute_core.scalar.visit import between_lanes, conditional, walk
from hexcute_core.thread.ir import (
    Assign,
    DeclareArray,
    For,
    If,
    Prim,
    Say,
    SetElement,
    Stamp,
    Stamps,
    Stmt,
    ThreadParam,
    ThreadProgram,
    While,
)
from hexcute_core.thread.verify_prims import verify_prim
from hexcute_core.thread.verify_sm90 import verify_launch
from hexcute_core.thread.visit import statements
from hexcute_core.unions import assert_never

BUILTINS = frozenset(
    f"{what}.{axis}" for what in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xyz"
)
MAX_THREADS = 1024


def verify(program: ThreadProgram) -> None:
    """Checks every law; the first one broken is a VerifyError at its statement's source."""
    names = [p.name for p in program.params]
    for name in names:
        if names.count(name) > 1:
            raise VerifyError(f"{program.name} has two parameters called {name}")
    if not 1 <= program.block_dim <= MAX_THREADS:
        raise VerifyError(
            f"{program.name} has {program.block_dim} threads per block, not 1 to 1024"
        )
    if program.shared_bytes < 0:
        raise VerifyError(f"{program.name} has {program.shared_bytes} bytes of shared memory")
    verify_launch(program)
    scalars = {p.name: p.dtype for p in program.params if not p.pointer}
    scalars[MULTIPROCESSORS.name] = dtypes.i32
    known = Scope(dict(scalars), {}, frozenset(), program)
    if program.stamps is not None:
        for param in program.stamps.params:
            if scalars.get(param) != dtypes.u64:
                raise VerifyError(f"{program.name} has no u64 {param} for its stamps")
        for number in {n for run in program.stamps.runs for n in run if n is not None}:
            if not 0 <= number < len(program.stamps.intervals):
                raise VerifyError(f"a stamp of interval {number}, which is none")
    for p in program.params:
        if len(p.strides) not in (0, len(p.shape)):
            raise VerifyError(f"{p.name} has {len(p.shape)} extents and {len(p.strides)} strides")
    for e in (*program.grid_dim, *(e for p in program.params for e in (*p.shape, *p.strides))):
        known.check_scalar(e, None)
    del known.variables[MULTIPROCESSORS.name]
    for name in BUILTINS:
        known.variables[name] = dtypes.i32
    _verify_block(program.body, known)


@dataclass
class Scope:
    """What a statement may name: variables, register arrays with their sizes, and which of the
    variables belong to unrolled loops."""

    variables: dict[str, DType]
    arrays: dict[str, DeclareArray]
    unrolled: frozenset[str]
    program: ThreadProgram
    own: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        """The scope of a nested block."""
        return Scope(dict(self.variables), dict(self.arrays), self.unrolled, self.program)

    def pointer(self, name: str, span: SourceSpan | None) -> ThreadParam:
        """The pointer parameter called `name`."""
        for param in self.program.params:
            if param.name == name and param.pointer:
                return param
        raise VerifyError(f"{name} is not a pointer parameter of {self.program.name}", span)

    def array(self, name: str, dtype: DType, span: SourceSpan | None) -> DeclareArray:
        """The register array `name`, whose cells must be of `dtype`."""
        declared = self.arrays.get(name)
        if declared is None:
            raise VerifyError(f"register array {name} is not declared here", span)
        if declared.dtype != dtype and {declared.dtype, dtype} != {dtypes.f32, dtypes.tf32}:
            raise VerifyError(f"register array {name} of {declared.dtype} is used as {dtype}", span)
        return declared

    def check_scalar(self, e: Scalar, span: SourceSpan | None) -> None:
        """Every name in `e` is declared with that type, every constant index in range."""
        for node in walk(e):
            if isinstance(node, Var):
                self._check_var(node, span)
            elif isinstance(node, Element):
                if len(node.indices) != 1:
                    raise VerifyError(f"{node.array} has {len(node.indices)} indices, not 1", span)
                self.check_index(self.array(node.array, node.dtype, span), node.indices[0], span)
            for child in conditional(node):
                call = between_lanes(child)
                if call is not None:
                    raise VerifyError(
                        f"{call.name} stands under a condition, so that only part of a warp may "
                        "reach it",
                        span,
                        "assign what it gives to a variable, and choose afterwards",
                    )

    def _check_var(self, var: Var, span: SourceSpan | None) -> None:
        dtype = self.variables.get(var.name)
        if dtype is None:
            raise VerifyError(f"variable {var.name} is not declared here", span)
        if dtype != var.dtype:
            raise VerifyError(f"variable {var.name} of {dtype} is used as {var.dtype}", span)

    def check_index(self, array: DeclareArray, index: Scalar, span: SourceSpan | None) -> None:
        """A constant index lies in the array."""
        if isinstance(index, Const) and not 0 <= index.value < array.size:
            raise VerifyError(
                f"{array.array}[{index.value}] is outside the register array of {array.size}", span
            )

    def declare(self, name: str, span: SourceSpan | None) -> None:
        """Opens `name` in this block."""
        if name in self.own:
            raise VerifyError(f"{name} is declared twice in one block", span)
        self.own.add(name)


def _verify_block(stmts: Sequence[Stmt], scope: Scope) -> None:
    for stmt in stmts:
        _verify_statement(stmt, scope)
    stamps = scope.program.stamps
    if stamps is not None:
        _verify_runs(stmts, stamps)


def _verify_statement(stmt: Stmt, scope: Scope) -> None:
    match stmt:
        case DeclareArray():
            if stmt.size <= 0:
                raise VerifyError(f"register array {stmt.array} has {stmt.size} elements")
            scope.declare(stmt.array, None)
            scope.arrays[stmt.array] = stmt
        case SetElement():
            scope.check_scalar(stmt.index, stmt.span)
            scope.check_scalar(stmt.value, stmt.span)
            array = scope.array(stmt.array, stmt.value.dtype, stmt.span)
            scope.check_index(array, stmt.index, stmt.span)
        case Assign():
            _verify_assign(stmt, scope)
        case Prim():
            verify_prim(stmt, scope)
        case Say():
            for e in stmt.args:
                scope.check_scalar(e, stmt.span)
            letters = [p.letter for p in pieces(stmt.text) if p.letter] if not stmt.stops else []
            fits = [takes(letter, e.dtype) for letter, e in zip(letters, stmt.args)]
            if len(letters) != len(stmt.args) or not all(fits):
                raise VerifyError(f"{stmt.text!r} of other numbers than it shows", stmt.span)
        case Stamp():
            if scope.program.stamps is None:
                raise VerifyError("a stamp in a program that has no intervals", stmt.span)
        case For():
            _verify_for(stmt, scope)
        case While():
            _check_condition(stmt.cond, stmt.span, scope)
            _verify_block(stmt.body, scope.inner())
        case If():
            _check_condition(stmt.cond, stmt.span, scope)
            _verify_block(stmt.then, scope.inner())
            _verify_block(stmt.otherwise, scope.inner())
        case _:
            assert_never(stmt)


def _verify_runs(stmts: Sequence[Stmt], stamps: Stamps) -> None:
    """The stamps of a run follow one another in the block, from its first to its last."""
    expected: tuple[int, int] | None = None
    for stmt in stmts:
        if not isinstance(stmt, Stamp):
            if expected is not None and any(isinstance(s, Stamp) for s in statements([stmt])):
                raise VerifyError(f"stamps between those of run {expected[0]}", None)
            continue
        if not 0 <= stmt.run < len(stamps.runs):
            raise VerifyError(f"a stamp of run {stmt.run}, which is none", stmt.span)
        if (stmt.run, stmt.at) != (expected or (stmt.run, 0)):
            raise VerifyError(f"stamp {stmt.at} of run {stmt.run} is out of turn", stmt.span)
        more = stmt.at + 1 < len(stamps.runs[stmt.run])
        expected = (stmt.run, stmt.at + 1) if more else None
    if expected is not None:
        raise VerifyError(f"run {expected[0]} ends before its stamp {expected[1]}", None)


def _verify_assign(stmt: Assign, scope: Scope) -> None:
    name = stmt.var.name
    scope.check_scalar(stmt.value, stmt.span)
    if stmt.value.dtype != stmt.var.dtype:
        raise VerifyError(
            f"variable {name} of {stmt.var.dtype} is assigned a {stmt.value.dtype}",
            stmt.span,
            "cast the value",
        )
    if stmt.declares:
        scope.declare(name, stmt.span)
        scope.variables[name] = stmt.var.dtype
        return
    scope.check_scalar(stmt.var, stmt.span)
    if name in BUILTINS or name in scope.unrolled:
        raise VerifyError(f"{name} cannot be assigned", stmt.span)


def _verify_for(stmt: For, scope: Scope) -> None:
    for e in (stmt.start, stmt.stop, stmt.step):
        scope.check_scalar(e, stmt.span)
        if stmt.unroll and not isinstance(e, Const):
            raise VerifyError(f"the unrolled loop over {stmt.var.name} has bound {e}", stmt.span)
    if isinstance(stmt.step, Const) and stmt.step.value <= 0:
        raise VerifyError(f"the loop over {stmt.var.name} has step {stmt.step.value}", stmt.span)
    inner = scope.inner()
    inner.variables[stmt.var.name] = stmt.var.dtype
    # A loop variable shadows one of an outer unrolled loop.
    name = {stmt.var.name}
    inner.unrolled = scope.unrolled | name if stmt.unroll else scope.unrolled - name
    _verify_block(stmt.body, inner)


def _check_condition(e: Scalar, span: SourceSpan | None, scope: Scope) -> None:
    scope.check_scalar(e, span)
    if e.dtype != dtypes.boolean:
        raise VerifyError(f"the condition `{e}` is a {e.dtype}, not a bool", span)
