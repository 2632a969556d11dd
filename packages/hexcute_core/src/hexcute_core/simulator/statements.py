"""compile(stmt) = code that changes a machine, made once and run many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.scalar import Element
from hexcute_core.scalar.formats import said
from hexcute_core.simulator.code import Code, NeedsAgents, Routine, Step, Waits
from hexcute_core.simulator.lanes.control import assign, keeps_promise, passes, rounds, sides
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.values import Value
from hexcute_core.simulator.machine import Machine
from hexcute_core.simulator.memory.clocks import SITE_MASK
from hexcute_core.simulator.meter import Meter
from hexcute_core.simulator.polling import poll
from hexcute_core.simulator.registers import RegisterArray, copy_element, write_element
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    If,
    Prim,
    Say,
    SetElement,
    Stamp,
    Stmt,
    While,
)
from hexcute_core.unions import assert_never


class StatementCompiler:
    """Translates statements; `sites` collects the source spans that code refers to by number.

    With `agents` the code is for agents that wait for each other: primitives that
    synchronise become routines, and so do loops in which they or `polls` occur. A `meter` has
    every primitive wait for its turn in time.
    """

    def __init__(
        self,
        primitive: Callable[[Prim, StatementCompiler], Code],
        agents: bool = False,
        polls: Callable[[While], bool] = lambda loop: False,
        meter: Meter | None = None,
    ) -> None:
        self.sites: list[SourceSpan | None] = [None]
        self.agents = agents
        self._numbers: dict[SourceSpan | None, int] = {None: 0}
        self._primitive = primitive
        self._polls = polls
        self._meter = meter
        self._visible: frozenset[str] = frozenset()

    def site(self, span: SourceSpan | None) -> int:
        """A number for `span`, for the machine's `site` and the shadow's tags."""
        number = self._numbers.get(span)
        if number is None:
            number = self._numbers[span] = len(self.sites)
            self.sites.append(span)
            if number > SITE_MASK:
                raise SimulationError(
                    f"the program comes from more than {SITE_MASK} source lines", span
                )
        return number

    def require_agents(self) -> None:
        """Says that what is being compiled cannot run in lockstep."""
        if not self.agents:
            raise NeedsAgents

    def block(self, stmts: Sequence[Stmt]) -> Code:
        """The statements one after the other, in a scope of their own."""
        outer, declared = self._visible, _declared(stmts)
        self._visible = outer | declared
        codes = [self.statement(stmt) for stmt in stmts]
        self._visible = outer
        return _keeping(declared & outer, _sequence(codes))

    def statement(self, stmt: Stmt) -> Code:
        """The code of one statement; SimulationError where it has no meaning."""
        try:
            return self._statement(stmt)
        except SimulationError as error:
            if error.span is None and not isinstance(stmt, DeclareArray):
                raise SimulationError(error.message, stmt.span, error.fix) from None
            raise

    def _statement(self, stmt: Stmt) -> Code:
        match stmt:
            case DeclareArray():
                return _declare(stmt)
            case SetElement():
                return self._set_element(stmt)
            case Assign():
                return self._assign(stmt)
            case Prim():
                code = self._primitive(stmt, self)
                return code if self._meter is None else self._meter.metered(stmt, code)
            case Say():
                return self._say(stmt)
            case Stamp():
                return _stamp(stmt)
            case For():
                return self._for(stmt)
            case While():
                return self._while(stmt)
            case If():
                return self._if(stmt)
            case _:
                assert_never(stmt)

    def _set_element(self, stmt: SetElement) -> Code:
        index, value = compile_scalar(stmt.index), compile_scalar(stmt.value)
        array, site = stmt.array, self.site(stmt.span)
        match stmt.value:
            case Element(array=source, indices=(e,)):
                place = compile_scalar(e)

                def run(m: Machine) -> None:
                    m.site = site
                    copy_element(m, source, place(m), array, index(m))

            case _:

                def run(m: Machine) -> None:
                    m.site = site
                    write_element(m, array, index(m), value(m))

        return run if self._meter is None else self._meter.computed(stmt.value, run)

    def _say(self, stmt: Say) -> Step:
        values, site = [compile_scalar(e) for e in stmt.args], self.site(stmt.span)
        types = [e.dtype for e in stmt.args]

        def run(m: Machine) -> None:
            m.site = site
            lanes = m.active()
            if stmt.stops and len(lanes):
                text = f"assertion failed: {stmt.text}" if stmt.text else "assertion failed"
                m.stop("assertion", text, int(lanes[0]))
            cells = [np.broadcast_to(np.asarray(value(m)), m.lanes)[lanes] for value in values]
            for row in range(len(lanes)):
                given = [(c[row].item(), t) for c, t in zip(cells, types, strict=True)]
                m.world.printed.append(said(stmt.text, given))

        return run

    def _assign(self, stmt: Assign) -> Code:
        value, site = compile_scalar(stmt.value), self.site(stmt.span)
        var, declares, multiple = stmt.var, stmt.declares, stmt.multiple

        def run(m: Machine) -> None:
            m.site = site
            found = value(m)
            keeps_promise(m, found, multiple)
            assign(m, var, found, declares)

        return run if self._meter is None else self._meter.computed(stmt.value, run)

    def _for(self, stmt: For) -> Code:
        start, stop, step = (compile_scalar(e) for e in (stmt.start, stmt.stop, stmt.step))
        var, site, outer = stmt.var, self.site(stmt.span), self._visible
        self._visible = outer | {var.name}
        body = self.block(stmt.body)
        self._visible = outer

        if isinstance(body, Routine):
            part = body.start

            def wait(m: Machine) -> Waits:
                m.site = site
                for _ in passes(m, var, (start(m), stop(m), step(m))):
                    yield from part(m)

            return _keeping(outer & {var.name}, Routine(wait))

        plain: Step = body

        def run(m: Machine) -> None:
            m.site = site
            for _ in passes(m, var, (start(m), stop(m), step(m))):
                plain(m)

        return _keeping(outer & {var.name}, run)

    def _while(self, stmt: While) -> Code:
        condition, body = compile_scalar(stmt.cond), self.block(stmt.body)
        site = self.site(stmt.span)

        def test(m: Machine) -> Value:
            m.site = site
            return condition(m)

        polls = self._polls(stmt)
        if polls:
            self.require_agents()
        if isinstance(body, Routine) or polls:
            start = started(body)

            def wait(m: Machine) -> Waits:
                seen = poll(m, site) if polls else None
                for _ in rounds(m, test):
                    yield from start(m)
                    if seen is not None:
                        yield seen.again()

            return Routine(wait)

        plain: Step = body

        def run(m: Machine) -> None:
            for _ in rounds(m, test):
                plain(m)

        return run

    def _if(self, stmt: If) -> Code:
        condition, site = compile_scalar(stmt.cond), self.site(stmt.span)
        then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)

        if isinstance(then, Routine) or isinstance(otherwise, Routine):
            parts = started(otherwise), started(then)

            def wait(m: Machine) -> Waits:
                m.site = site
                for side in sides(m, condition(m)):
                    yield from parts[side](m)

            return Routine(wait)

        plain: tuple[Step, Step] = (otherwise, then)

        def run(m: Machine) -> None:
            m.site = site
            for side in sides(m, condition(m)):
                plain[side](m)

        return run


def _stamp(stmt: Stamp) -> Step:
    def run(m: Machine) -> None:
        if m.world.meter is not None:
            m.world.meter.stamp(m, stmt)

    return run


def _sequence(codes: Sequence[Code]) -> Code:
    """One code after the other."""
    if len(codes) == 1:
        return codes[0]
    if any(isinstance(code, Routine) for code in codes):

        def wait(m: Machine) -> Waits:
            for code in codes:
                if isinstance(code, Routine):
                    yield from code.start(m)
                else:
                    code(m)

        return Routine(wait)
    steps = [code for code in codes if not isinstance(code, Routine)]

    def run(m: Machine) -> None:
        for step in steps:
            step(m)

    return run


def started(code: Code) -> Callable[[Machine], Waits]:
    """The code as a routine's start."""
    if isinstance(code, Routine):
        return code.start
    step = code

    def start(m: Machine) -> Waits:
        step(m)
        yield from ()

    return start


def _declared(stmts: Sequence[Stmt]) -> frozenset[str]:
    """Variables that a block declares itself."""
    return frozenset(s.var.name for s in stmts if isinstance(s, Assign) and s.declares)


def _keeping(names: frozenset[str], code: Code) -> Code:
    """`code`, after which the outer variables that it shadows have their values again."""
    if not names:
        return code
    if isinstance(code, Routine):
        start = code.start

        def wait(m: Machine) -> Waits:
            held = {name: m.vars[name] for name in names if name in m.vars}
            yield from start(m)
            m.vars.update(held)

        return Routine(wait)
    step = code

    def keep(m: Machine) -> None:
        held = {name: m.vars[name] for name in names if name in m.vars}
        step(m)
        m.vars.update(held)

    return keep


def _declare(stmt: DeclareArray) -> Step:
    name, dtype, size = stmt.array, stmt.dtype, stmt.size
    if size <= 0:
        raise SimulationError(f"register array {name} has {size} elements")

    def run(m: Machine) -> None:
        m.registers[name] = RegisterArray(name, dtype, size, m.lanes)

    return run
