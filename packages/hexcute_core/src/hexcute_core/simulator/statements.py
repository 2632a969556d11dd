"""compile(stmt) = a step that changes a machine, made once and run many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.control import assign, branch, repeat_for, repeat_while
from hexcute_core.simulator.machine import Machine
from hexcute_core.simulator.registers import RegisterArray, write_element
from hexcute_core.simulator.scalars import compile_scalar
from hexcute_core.simulator.values import Value
from hexcute_core.thread import Assign, DeclareArray, For, If, Prim, SetElement, Stmt, While
from hexcute_core.unions import assert_never

Step = Callable[[Machine], None]


class StatementCompiler:
    """Translates statements; `sites` collects the source spans that steps refer to by number."""

    def __init__(self, primitive: Callable[[Prim, StatementCompiler], Step]) -> None:
        self.sites: list[SourceSpan | None] = [None]
        self._primitive = primitive
        self._visible: frozenset[str] = frozenset()

    def site(self, span: SourceSpan | None) -> int:
        """A number for `span`, for the machine's `site` and the shadow's tags."""
        self.sites.append(span)
        return len(self.sites) - 1

    def block(self, stmts: Sequence[Stmt]) -> Step:
        """The statements one after the other, in a scope of their own."""
        outer, declared = self._visible, _declared(stmts)
        self._visible = outer | declared
        steps = [self.statement(stmt) for stmt in stmts]
        self._visible = outer

        def run(m: Machine) -> None:
            for step in steps:
                step(m)

        return _keeping(declared & outer, steps[0] if len(steps) == 1 else run)

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
        value, site = compile_scalar(stmt.value), self.site(stmt.span)
        var, declares = stmt.var, stmt.declares

        def run(m: Machine) -> None:
            m.site = site
            assign(m, var, value(m), declares)

        return run

    def _for(self, stmt: For) -> Step:
        start, stop, step = (compile_scalar(e) for e in (stmt.start, stmt.stop, stmt.step))
        var, site, outer = stmt.var, self.site(stmt.span), self._visible
        self._visible = outer | {var.name}
        body = self.block(stmt.body)
        self._visible = outer

        def run(m: Machine) -> None:
            m.site = site
            repeat_for(m, var, (start(m), stop(m), step(m)), body)

        return _keeping(outer & {var.name}, run)

    def _while(self, stmt: While) -> Step:
        condition, body = compile_scalar(stmt.cond), self.block(stmt.body)
        site = self.site(stmt.span)

        def run(m: Machine) -> None:
            def test(m: Machine) -> Value:
                m.site = site
                return condition(m)

            repeat_while(m, test, body)

        return run

    def _if(self, stmt: If) -> Step:
        condition, site = compile_scalar(stmt.cond), self.site(stmt.span)
        then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)

        def run(m: Machine) -> None:
            m.site = site
            branch(m, condition(m), then, otherwise)

        return run


def _declared(stmts: Sequence[Stmt]) -> frozenset[str]:
    """Variables that a block declares itself."""
    return frozenset(s.var.name for s in stmts if isinstance(s, Assign) and s.declares)


def _keeping(names: frozenset[str], run: Step) -> Step:
    """`run`, after which the outer variables that it shadows have their values again."""
    if not names:
        return run

    def keep(m: Machine) -> None:
        held = {name: m.vars[name] for name in names if name in m.vars}
        run(m)
        m.vars.update(held)

    return keep


def _declare(stmt: DeclareArray) -> Step:
    name, dtype, size = stmt.array, stmt.dtype, stmt.size
    if size <= 0:
        raise SimulationError(f"register array {name} has {size} elements")

    def run(m: Machine) -> None:
        m.registers[name] = RegisterArray(name, dtype, size, m.lanes)

    return run
