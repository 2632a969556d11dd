"""Asynchronous gemms that may be unfinished: what nobody may touch, on any path of the program.

A state is what one path has behind it: how many slots of each pipeline it holds, and the gemms in
flight, each with its age (how many gemms were issued after it) and the slots it reads.
`hx.wait_gemm(n)` finishes every gemm of age n or more. Loops are followed to a fixpoint; where the
first iteration may differ from the others, it is followed separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.laws.deciding import deciding
from hexcute_core.frontend.laws.flights import Flight, State, moved_on
from hexcute_core.frontend.laws.intervals import (
    Env,
    Known,
    SlotNumber,
    decide,
    interval,
    join,
    widen,
)
from hexcute_core.scalar import Scalar, Var, compare, sub
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    ClusterOp,
    Copy,
    For,
    Gemm,
    GemmWait,
    If,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
    Produce,
    Role,
    Say,
    SetElement,
    SharedTensor,
    Stmt,
    Sync,
    TileProgram,
    TileRef,
    UpdateElement,
    While,
    reached,
)
from hexcute_core.tile.accesses import Access, accesses, updated
from hexcute_core.tile.ir import Control, Simple, TileOp
from hexcute_core.tile.visit import statements
from hexcute_core.unions import assert_never

# Loops inside one another whose first iteration is followed apart: each doubles the paths. Where
# there are more, the inner ones are followed as if any iteration were the first.
APART = 6

_Paths: TypeAlias = dict[State, Env]
_Follow: TypeAlias = Callable[[_Paths], _Paths]


def check_pending(program: TileProgram) -> None:
    """Raises FrontendError, located, where a gemm in flight may lose what it works on."""
    if not any(isinstance(s, (Gemm, PipelineWait)) for s in statements(program.body)):
        return
    top = tuple(s for s in program.body if not isinstance(s, Role))
    for body in (top, *(s.body for s in program.body if isinstance(s, Role))):
        _Flow(program).run(body)


class _Flow:
    """The walk over the statements that one set of threads runs."""

    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.gemms = {s.id: s for s in statements(program.body) if isinstance(s, Gemm)}
        waits = [s.pending for s in statements(program.body) if isinstance(s, GemmWait)]
        # Every wait finishes gemms of this age: older ones are alike.
        self.oldest = max(waits, default=0)
        self.filled = {
            s.dst.tensor: p.pipeline
            for p in statements(program.body)
            if isinstance(p, Produce)
            for s in p.body
            if isinstance(s, Copy)
        }
        # What other blocks of the cluster write once this one has told them that they may.
        self.lent = reached(program).written
        # Whether a slot was held, or free to be waited for, on some path to the statement.
        self.possible: dict[PipelineWait | PipelineRelease, bool] = {}
        self.deciding = deciding(program)
        self._apart = 0

    def run(self, body: Sequence[Stmt]) -> None:
        for state in self.block(body, {State(): {}}):
            for flight in state.flights:
                raise FrontendError(
                    "this asynchronous gemm may be unfinished at the end",
                    span=self.gemms[flight.gemm].span,
                    fix="call hx.wait_gemm(0) after the loop, whatever happened in it",
                )
        for stmt, possible in self.possible.items():
            if not possible:
                raise self._never(stmt)

    def _never(self, stmt: PipelineWait | PipelineRelease) -> FrontendError:
        if isinstance(stmt, PipelineRelease):
            return FrontendError(
                f"no slot of `{stmt.pipeline}` is held here that could be freed",
                span=stmt.span,
                fix="call pipe.wait() before each pipe.release()",
            )
        return FrontendError(
            f"all slots of `{stmt.pipeline}` are held here: none can be filled to wait for",
            span=stmt.span,
            fix="call pipe.release() before, or give the pipeline more stages",
        )

    def block(self, body: Sequence[Stmt], paths: _Paths) -> _Paths:
        for stmt in body:
            out: _Paths = {}
            if isinstance(stmt, Control):
                self.enter(stmt, paths, out)
            else:
                for state, env in paths.items():
                    found = self.step(stmt, state, env)
                    if found is not None:
                        _merge(out, {found[0]: found[1]})
            paths = out
        return paths

    def enter(self, stmt: Control, paths: _Paths, out: _Paths) -> None:
        """Adds to `out` what paths become by a statement that contains others."""
        match stmt:
            case For():
                _merge(out, self.loop(stmt, paths))
            case While():
                _merge(out, self.repeat(stmt, paths))
            case If():
                for state, env in paths.items():
                    known = decide(stmt.cond, env)
                    if known is not False:
                        _merge(out, self.block(stmt.then, {state: env}))
                    if known is not True:
                        _merge(out, self.block(stmt.otherwise, {state: env}))
            case Produce() | Role():
                _merge(out, self.block(stmt.body, paths))
            case _:
                assert_never(stmt)

    def loop(self, stmt: For, paths: _Paths) -> _Paths:
        out: _Paths = {}
        first: _Paths = {}
        name = stmt.var.name
        for state, env in paths.items():
            runs = decide(compare("lt", stmt.start, stmt.stop), env)
            if runs is not True:
                _merge(out, {state: env})
            if runs is not False:
                start = {name: interval(stmt.start, env)} if name in self.deciding else {}
                _merge(first, {state: {**env, **start}})

        def following(paths: _Paths) -> _Paths:
            back = {name: sub(stmt.var, stmt.step)}
            later: _Paths = {}
            for state, env in paths.items():
                (low, _), (step, _) = interval(stmt.start, env), interval(stmt.step, env)
                start = None if low is None or step is None else low + step
                moved = moved_on(state, back, frozenset())
                known = {name: (start, None)} if name in self.deciding else {}
                _merge(later, {moved: {**env, **known}})
            return later

        self.iterate(stmt, following, first, out)
        return out

    def repeat(self, stmt: While, paths: _Paths) -> _Paths:
        def again(paths: _Paths) -> _Paths:
            return {s: env for s, env in paths.items() if decide(stmt.cond, env) is not False}

        out = {s: env for s, env in paths.items() if decide(stmt.cond, env) is not True}
        self.iterate(stmt, again, again(paths), out)
        return out

    def iterate(
        self, stmt: For | While, following: _Follow, paths: _Paths, out: _Paths
    ) -> None:
        """Adds to `out` what the iterations of a loop lead to, of which the first has `paths`."""
        if self._apart < APART and self._differs(stmt):
            self._apart += 1
            ended = self.block(stmt.body, paths)
            _merge(out, ended)
            self.fixpoint(stmt.body, following, following(ended), out)
            self._apart -= 1
        else:
            self.fixpoint(stmt.body, following, paths, out)

    def _differs(self, stmt: For | While) -> bool:
        """Whether something is decided in the program by what an iteration of the loop changes."""
        if isinstance(stmt, For) and stmt.var.name in self.deciding:
            return True
        return any(
            isinstance(s, PipelineWait) or (isinstance(s, Assign) and s.var.name in self.deciding)
            for s in statements(stmt.body)
        )

    def fixpoint(
        self, body: Sequence[Stmt], following: _Follow, paths: _Paths, out: _Paths
    ) -> None:
        """Runs `body` until it leads to no new path; each end may be the last."""
        seen: _Paths = {}
        while True:
            new: _Paths = {}
            for state, env in paths.items():
                known = env if state not in seen else widen(seen[state], env)
                if state not in seen or known != seen[state]:
                    seen[state] = new[state] = known
            if not new:
                return
            ended = self.block(body, new)
            _merge(out, ended)
            paths = following(ended)

    def step(self, stmt: TileOp | Simple, state: State, env: Env) -> tuple[State, Env] | None:
        """What a path becomes by `stmt`; None where it ends there."""
        match stmt:
            case Assign():
                known: dict[str, Known] = {**env, stmt.var.name: _value(stmt.value, env)}
                return moved_on(state, {}, frozenset((stmt.var.name,))), known
            case GemmWait():
                kept = frozenset(f for f in state.flights if f.age < stmt.pending)
                return replace(state, flights=kept), env
            case PipelineWait():
                return self._wait(stmt, state, env)
            case PipelineRelease():
                return self._release(stmt, state), env
            case Gemm():
                return self._gemm(stmt, state, env), env
            case ClusterOp(action="arrive") | MbarrierOp(action="remote"):
                self._hand_on(stmt, state)
                return state, env
            case _ if isinstance(stmt, TileOp):
                self._touch(accesses(stmt), stmt.span, state)
                return state, env
            case UpdateElement():
                self._touch(updated((stmt,)), stmt.span, state)
                return state, env
            case (
                Sync() | AsyncCommit() | AsyncWait() | CallStmt() | SetElement() | NamedBarrierOp()
                | ClusterOp() | MbarrierOp() | Say()
            ):  # fmt: skip
                return state, env
            case _:
                assert_never(stmt)

    def _wait(self, stmt: PipelineWait, state: State, env: Env) -> tuple[State, Env] | None:
        name, count = stmt.pipeline, state.holds(stmt.pipeline)
        free = count < self.program.pipeline(name).stages
        self.possible[stmt] = self.possible.get(stmt, False) or free
        if not free:
            return None

        def older(pipeline: str, since: int | None) -> int | None:
            return since if since is None or pipeline != name else since + 1

        flights = frozenset(
            replace(f, slots=tuple((p, older(p, since)) for p, since in f.slots))
            for f in state.flights
        )
        known: dict[str, Known] = {}
        for var, value in env.items():
            if isinstance(value, SlotNumber) and value.pipeline == name:
                value = SlotNumber(name, value.since + 1)
                if value.since >= self.program.pipeline(name).stages:
                    continue
            known[var] = value
        if isinstance(stmt.stage, Var):
            known[stmt.stage.name] = SlotNumber(name, 0)
        return replace(state, flights=flights).holding(name, count + 1), known

    def _release(self, stmt: PipelineRelease, state: State) -> State:
        name, count = stmt.pipeline, state.holds(stmt.pipeline)
        self.possible[stmt] = self.possible.get(stmt, False) or count > 0
        for flight in state.flights if count else ():
            for pipeline, since in flight.slots:
                if pipeline == name and (since is None or since >= count - 1):
                    raise FrontendError(
                        f"the slot of `{name}` freed here may still be read by the asynchronous "
                        f"gemm at line {self.gemms[flight.gemm].span.line}",
                        span=stmt.span,
                        fix="call hx.wait_gemm() before: hx.wait_gemm(0) for the slot waited for "
                        "last, hx.wait_gemm(1) for the one before",
                    )
        return state.holding(name, max(count - 1, 0))

    def _hand_on(self, stmt: ClusterOp | MbarrierOp, state: State) -> None:
        """Refuses to let other blocks write what a flight reads."""
        for flight in state.flights:
            for name, _ in flight.shared:
                if name in self.lent:
                    raise FrontendError(
                        f"`{name}`, which other blocks of the cluster write, may still be read by "
                        f"the asynchronous gemm at line {self.gemms[flight.gemm].span.line} when "
                        "this block arrives here",
                        span=stmt.span,
                        fix="call hx.wait_gemm(0) before",
                    )

    def _gemm(self, stmt: Gemm, state: State, env: Env) -> State:
        program = self.program
        operands = [ref for ref in (stmt.a, stmt.b) if _shared(program, ref)]
        found = [Access(ref.tensor, ref, False) for ref in (stmt.a, stmt.b)]
        self._touch((*found, Access(stmt.c.tensor, stmt.c, True)), stmt.span, state, stmt)
        if not operands:
            return state
        if not stmt.asynchronous:
            # It waits for itself, and so for all before it.
            return replace(state, flights=frozenset())
        slots: dict[tuple[str, int | None], None] = {}
        for ref in operands:
            pipeline = self.filled.get(ref.tensor)
            if pipeline is not None:
                slots[pipeline, _since(ref, pipeline, env)] = None
        plain = tuple((r.tensor, r) for r in operands if r.tensor not in self.filled)
        older = {self._aged(flight) for flight in state.flights}
        return replace(state, flights=frozenset({*older, Flight(stmt.id, 0, tuple(slots), plain)}))

    def _aged(self, flight: Flight) -> Flight:
        if flight.age < self.oldest:
            return replace(flight, age=flight.age + 1)
        return replace(flight, shared=tuple((name, None) for name, _ in flight.shared), moves=0)

    def _touch(
        self, found: Sequence[Access], span: SourceSpan, state: State, by: Gemm | None = None
    ) -> None:
        """Refuses what touches a flight's accumulator, or writes one of its operands. A gemm `by`
        itself may go on with the same accumulator."""
        for flight in state.flights:
            gemm = self.gemms[flight.gemm]
            registers = [] if _shared(self.program, gemm.a) else [(gemm.a.tensor, gemm.a)]
            for access in found:
                if by is not None and access.ref == by.c == gemm.c:
                    continue
                accumulator = access.meets(gemm.c.tensor, gemm.c)
                operand = access.writes and any(
                    access.meets(name, ref) for name, ref in (*flight.shared, *registers)
                )
                if accumulator or operand:
                    raise FrontendError(
                        f"`{access.tensor}`, {'the result' if accumulator else 'an operand'} of "
                        f"the asynchronous gemm at line {gemm.span.line}, is "
                        f"{'written' if access.writes else 'read'} here while that gemm may be "
                        "unfinished",
                        span=span,
                        fix="call hx.wait_gemm(0) before",
                    )


def _shared(program: TileProgram, ref: TileRef) -> bool:
    return isinstance(program.tensor(ref.tensor), SharedTensor)


def _since(ref: TileRef, pipeline: str, env: Env) -> int | None:
    """How many waits ago the slot that `ref` lies in was waited for."""
    for start in ref.starts:
        known = env.get(start.name) if isinstance(start, Var) else None
        if isinstance(known, SlotNumber) and known.pipeline == pipeline:
            return known.since
    return None


def _value(e: Scalar, env: Env) -> Known:
    if isinstance(e, Var) and e.name in env:
        return env[e.name]
    return interval(e, env)


def _merge(into: _Paths, paths: _Paths) -> None:
    for state, env in paths.items():
        into[state] = join(into[state], env) if state in into else env
