"""compile(stmt) = a step that changes a machine; control flow narrows the machine's mask.

A condition that differs between lanes runs both sides, each under its mask; a loop whose bounds
differ runs until its last lane is done. What is the same for all executing lanes runs as plain
Python control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.registers import RegisterArray, write_element
from hexcute_core.simulator.scalars import compile_scalar
from hexcute_core.simulator.values import Array, Value, storage, wrap_int
from hexcute_core.thread import Assign, DeclareArray, For, If, Prim, SetElement, Stmt, While
from hexcute_core.unions import assert_never

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine

Step = Callable[["Machine"], None]
MAX_ITERATIONS = 10_000_000


class StatementCompiler:
    """Translates statements; `sites` collects the source spans that steps refer to by number."""

    def __init__(self, primitive: Callable[[Prim, StatementCompiler], Step]) -> None:
        self.sites: list[SourceSpan | None] = [None]
        self._primitive = primitive

    def site(self, span: SourceSpan | None) -> int:
        """A number for `span`, for the machine's `site` and the shadow's tags."""
        self.sites.append(span)
        return len(self.sites) - 1

    def block(self, stmts: Sequence[Stmt]) -> Step:
        """The statements one after the other."""
        steps = [self.statement(stmt) for stmt in stmts]
        if len(steps) == 1:
            return steps[0]

        def run(m: Machine) -> None:
            for step in steps:
                step(m)

        return run

    def statement(self, stmt: Stmt) -> Step:
        """The step of one statement; SimulationError where it has no meaning."""
        try:
            return self._statement(stmt)
        except SimulationError as error:
            if error.span is None and not isinstance(stmt, DeclareArray):
                raise SimulationError(error.message, stmt.span, error.fix) from None
            raise

    def _statement(self, stmt: Stmt) -> Step:
        match stmt:
            case DeclareArray():
                return _declare(stmt)
            case SetElement():
                return self._set_element(stmt)
            case Assign():
                return self._assign(stmt)
            case Prim():
                return self._primitive(stmt, self)
            case For():
                return self._for(stmt)
            case While():
                return self._while(stmt)
            case If():
                return self._if(stmt)
            case _:
                assert_never(stmt)

    def _set_element(self, stmt: SetElement) -> Step:
        index, value = compile_scalar(stmt.index), compile_scalar(stmt.value)
        array, site = stmt.array, self.site(stmt.span)

        def run(m: Machine) -> None:
            m.site = site
            write_element(m, array, index(m), value(m))

        return run

    def _assign(self, stmt: Assign) -> Step:
        value, name, site = compile_scalar(stmt.value), stmt.var.name, self.site(stmt.span)
        cell, declares = storage(stmt.var.dtype), stmt.declares

        def run(m: Machine) -> None:
            m.site = site
            new = value(m)
            if m.mask is not None and not declares:
                if name not in m.vars:
                    m.fail(f"variable {name} is assigned before it is declared")
                new = np.where(m.mask, new, m.vars[name]).astype(cell, copy=False)
            m.vars[name] = new

        return run

    def _for(self, stmt: For) -> Step:
        start, stop, step = (compile_scalar(e) for e in (stmt.start, stmt.stop, stmt.step))
        body, name, dtype = self.block(stmt.body), stmt.var.name, stmt.var.dtype
        site = self.site(stmt.span)

        def run(m: Machine) -> None:
            m.site = site
            first, last, pace = (uniform(m, e(m)) for e in (start, stop, step))
            _check_step(m, pace)
            if isinstance(first, int) and isinstance(last, int) and isinstance(pace, int):
                for i in range(first, last, pace):
                    m.vars[name] = wrap_int(i, dtype)
                    body(m)
                return
            outer = m.mask
            at = np.broadcast_to(np.asarray(first, dtype=storage(dtype)), m.lanes)
            for _ in range(MAX_ITERATIONS):
                going = at < last if outer is None else (at < last) & outer
                if not going.any():
                    break
                m.mask = None if going.all() else going
                m.vars[name] = at
                body(m)
                at = (at + pace).astype(storage(dtype))
            m.mask = outer

        return run

    def _while(self, stmt: While) -> Step:
        condition, body = compile_scalar(stmt.cond), self.block(stmt.body)
        site = self.site(stmt.span)

        def run(m: Machine) -> None:
            outer = m.mask
            for _ in range(MAX_ITERATIONS):
                m.site = site
                going = condition(m)
                if not isinstance(going, np.ndarray):
                    if not going:
                        break
                else:
                    going = going if m.mask is None else going & m.mask
                    if not going.any():
                        break
                    m.mask = None if going.all() else going
                body(m)
            else:
                m.fail(f"the loop did not end after {MAX_ITERATIONS} iterations")
            m.mask = outer

        return run

    def _if(self, stmt: If) -> Step:
        condition, site = compile_scalar(stmt.cond), self.site(stmt.span)
        then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)

        def run(m: Machine) -> None:
            m.site = site
            picked = condition(m)
            if not isinstance(picked, np.ndarray):
                (then if picked else otherwise)(m)
                return
            outer = m.mask
            yes = picked if outer is None else picked & outer
            no = ~picked if outer is None else ~picked & outer
            if not no.any():
                then(m)
            elif not yes.any():
                otherwise(m)
            else:
                m.mask = yes
                then(m)
                m.mask = no
                otherwise(m)
                m.mask = outer

        return run


def _declare(stmt: DeclareArray) -> Step:
    name, dtype, size = stmt.array, stmt.dtype, stmt.size
    if size <= 0:
        raise SimulationError(f"register array {name} has {size} elements")

    def run(m: Machine) -> None:
        m.registers[name] = RegisterArray(name, dtype, size, m.lanes)

    return run


def _check_step(m: Machine, pace: int | Array) -> None:
    if np.any(np.asarray(pace) <= 0):
        m.fail(f"a loop's step must be positive, got {pace}")


def uniform(m: Machine, value: Value) -> int | Array:
    """An integer value as a Python int where all executing lanes agree."""
    if not isinstance(value, np.ndarray):
        return int(value)
    lanes = value if m.mask is None else value[m.mask]
    first = lanes[0]
    return int(first) if (lanes == first).all() else value
