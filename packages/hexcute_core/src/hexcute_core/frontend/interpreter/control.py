"""Control flow: loops and branches that are known while tracing are expanded, the others become
For, While and If."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import lru_cache

from hexcute_core.dtypes import i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.functions.flow import StaticTest, targets, writes
from hexcute_core.frontend.interpreter.assign import assign
from hexcute_core.frontend.interpreter.calls import iteration
from hexcute_core.frontend.interpreter.choices import condition
from hexcute_core.frontend.interpreter.engine import Engine
from hexcute_core.frontend.interpreter.expressions import is_run_time
from hexcute_core.frontend.interpreter.frame import Frame, LoopMark
from hexcute_core.frontend.interpreter.scope import Entry, finish, inside, prepare
from hexcute_core.frontend.language.builder import RegionKind
from hexcute_core.frontend.language.loops import Elements, Grid, LoopRange
from hexcute_core.frontend.language.pipelines import Slot
from hexcute_core.frontend.language.roles import RoleContext, enter_role, leave_role
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import describe
from hexcute_core.frontend.language.turns import Turn
from hexcute_core.scalar import Scalar, ScalarBase
from hexcute_core.scalar.promotion import promote
from hexcute_core.tile import For, ForElements, If, Stmt, While
from hexcute_core.tile.visit import repeated_and_written

_PLAIN = (
    ast.Name, ast.Constant, ast.Attribute, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp,
    ast.Load, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


class BreakLoop(Exception):
    """`break` of a loop that is being expanded."""


class ContinueLoop(Exception):
    """`continue` of a loop that is being expanded."""


def known_tests(engine: Engine, frame: Frame, region: ast.stmt) -> StaticTest:
    """Decides ifs inside `region` whose test holds only Python values that it does not assign."""
    changing = frozenset(writes([region]))

    def decide(test: ast.expr) -> bool | None:
        names = _plain_names(test)
        if names is None or not changing.isdisjoint(names):
            return None
        # Every region around a test asks, so what was decided holds as long as its names do.
        bound = tuple(frame.bindings.get(name) for name in names)
        before, known = frame.decided.get(id(test), ((), None))
        if len(before) == len(bound) > 0 and all(a is b for a, b in zip(before, bound)):
            return known
        try:
            value = engine.evaluate(frame, test)
        except FrontendError:
            # Not known yet; the error comes back if the test is ever reached.
            return None
        known = None if is_run_time(value) else bool(value)
        if not any(isinstance(node, ast.Attribute) for node in ast.walk(test)):
            frame.decided[id(test)] = bound, known
        return known

    return decide


@lru_cache(maxsize=4096)
def _plain_names(test: ast.expr) -> tuple[str, ...] | None:
    """The names in a test that may be decided now, or None for one that never is."""
    nodes = list(ast.walk(test))
    if not all(isinstance(node, _PLAIN) for node in nodes):
        return None
    return tuple(node.id for node in nodes if isinstance(node, ast.Name))


def _prepare(engine: Engine, frame: Frame, node: ast.stmt, kind: RegionKind) -> Entry:
    names = writes([node], known_tests(engine, frame, node))
    return prepare(engine.builder, engine.sharing, frame, node, names, kind)


def for_loop(engine: Engine, frame: Frame, node: ast.For) -> None:
    if node.orelse:
        raise frame.error(node.orelse[0], "`else` of a loop", fix="write it after the loop")
    items = iteration(engine, frame, node.iter)
    match items:
        case LoopRange():
            _run_time(engine, frame, node, (items,), tuple(targets(node.target)))
        case Grid():
            _run_time(engine, frame, node, items.ranges, tuple(targets(node.target)))
        case Elements():
            over_elements(engine, frame, node, node.target, node.body, items)
        case ScalarBase():
            raise frame.error(node.iter, f"iteration over {describe(items)}", fix="write range(n)")
        case _:
            if not hasattr(items, "__iter__"):
                raise frame.error(
                    node.iter,
                    f"iteration over {describe(items)}",
                    fix="iterate over range, hx.grid, hx.unroll, hx.static_range, hx.elements or "
                    "a Python tuple or list",
                )
            _expanded(engine, frame, node, items)


def _expanded(engine: Engine, frame: Frame, node: ast.For, items: Iterable[object]) -> None:
    frame.loops.append(LoopMark(True, engine.builder.region))
    try:
        for item in list(items):
            assign(engine, frame, node.target, item)
            try:
                engine.execute(frame, node.body)
            except ContinueLoop:
                continue
    except BreakLoop:
        pass
    finally:
        frame.loops.pop()


def _run_time(
    engine: Engine,
    frame: Frame,
    node: ast.For,
    ranges: tuple[LoopRange, ...],
    names: tuple[str, ...],
) -> None:
    """One For, or a nest of them around one body."""
    builder = engine.builder
    if len(names) != len(ranges) or (len(ranges) > 1) != isinstance(node.target, ast.Tuple):
        raise frame.error(
            node.target,
            f"a loop over {len(ranges)} range(s) needs as many variables, got "
            f"`{ast.unparse(node.target)}`",
            fix="write `for i in range(n):` or `for i, j in hx.grid(a, b):`",
        )
    if any(_empty(r) for r in ranges):
        return
    fixed = [_stable_bounds(engine, r) for r in ranges]
    entry = _prepare(engine, frame, node, "loop")
    variables = [
        builder.variable(name, promote(promote(r.start.dtype, r.stop.dtype), r.step.dtype))
        for name, r in zip(names, fixed)
    ]
    with inside(builder, entry) as region:
        region.varies = any(builder.varies(e) for r in fixed for e in (r.start, r.stop, r.step))
        value = tuple(variables) if isinstance(node.target, ast.Tuple) else variables[0]
        assign(engine, frame, node.target, value)
        _body(engine, frame, node.body, LoopMark(False, region))
    finish(builder, entry, runs=all(_runs(r) for r in fixed))
    body: tuple[Stmt, ...] = tuple(region.block)
    for var, r in reversed(list(zip(variables, fixed))):
        body = (For(var, r.start, r.stop, r.step, body, builder.span, r.unroll),)
    builder.emit(body[0])


def _empty(r: LoopRange) -> bool:
    start, stop = static_int(r.start), static_int(r.stop)
    return start is not None and stop is not None and start >= stop


def _runs(r: LoopRange) -> bool:
    start, stop = static_int(r.start), static_int(r.stop)
    return start is not None and stop is not None and start < stop


def _stable_bounds(engine: Engine, r: LoopRange) -> LoopRange:
    """Bounds evaluated once: a variable that the body changes may not move them."""
    stable: Callable[[Scalar], Scalar] = lambda e: engine.builder.stable(e, "bound")  # noqa: E731
    return LoopRange(stable(r.start), stable(r.stop), stable(r.step), r.unroll)


def _body(engine: Engine, frame: Frame, body: list[ast.stmt], mark: LoopMark) -> None:
    frame.loops.append(mark)
    try:
        engine.execute(frame, body)
    finally:
        frame.loops.pop()


def over_elements(
    engine: Engine,
    frame: Frame,
    node: ast.For | ast.With,
    target: ast.expr,
    body: list[ast.stmt],
    items: Elements,
) -> None:
    """A loop over a thread's own elements of a register tile."""
    builder = engine.builder
    names = tuple(targets(target))
    if len(names) != len(items.tile.shape):
        raise frame.error(
            target,
            f"`{ast.unparse(target)}` for the coordinates of {describe(items.tile)}",
            fix=f"name {len(items.tile.shape)} coordinates",
        )
    builder.tile_operation(builder.span)
    entry = _prepare(engine, frame, node, "elements")
    coords = tuple(builder.variable(name, i32) for name in names)
    number = builder.next_id()
    with inside(builder, entry) as region:
        region.coords, region.shape = coords, items.tile.shape
        # The only element of a tile is every thread's own: all run the loop once.
        region.varies = not builder.single(items.tile.ref.tensor)
        assign(engine, frame, target, coords if isinstance(target, ast.Tuple) else coords[0])
        _body(engine, frame, body, LoopMark(False, region))
    finish(builder, entry)
    loop = ForElements(number, items.tile.ref, coords, tuple(region.block), builder.span)
    changing = repeated_and_written(loop)
    if changing is not None:
        raise frame.error(
            target,
            f"`{changing}` is written in this loop, and read where it repeats: which of the two is "
            "first depends on the layout",
            fix=f"read a copy: before the loop, once = hx.register_tensor(...) and hx.copy("
            f"{changing}[...], once)",
        )
    builder.emit(loop)


def while_loop(engine: Engine, frame: Frame, node: ast.While) -> None:
    if node.orelse:
        raise frame.error(node.orelse[0], "`else` of a loop", fix="write it after the loop")
    builder = engine.builder
    entry = _prepare(engine, frame, node, "loop")
    emitted = len(builder.region.block)
    test = condition(engine, frame, node.test)
    if len(builder.region.block) != emitted:
        raise frame.error(
            node.test,
            "the condition of a `while` needs statements of its own",
            fix="compute it into a variable before the loop and at the end of its body",
        )
    if test is True:
        raise frame.error(
            node.test,
            "a `while` whose condition stays true",
            fix="loop while a run-time condition holds; there is no `break` at run time",
        )
    if isinstance(test, ScalarBase):
        with inside(builder, entry) as region:
            region.varies = builder.varies(test)  # type: ignore[arg-type]
            _body(engine, frame, node.body, LoopMark(False, region))
    finish(builder, entry)
    if isinstance(test, ScalarBase):
        builder.emit(While(test, tuple(region.block), builder.span))  # type: ignore[arg-type]


def branch(engine: Engine, frame: Frame, node: ast.If) -> None:
    builder = engine.builder
    test = condition(engine, frame, node.test)
    if isinstance(test, bool):
        engine.execute(frame, node.body if test else node.orelse)
        return
    entry = _prepare(engine, frame, node, "branch")
    blocks: list[tuple[Stmt, ...]] = []
    for body in (node.body, node.orelse):
        with inside(builder, entry) as region:
            region.varies = builder.varies(test)  # type: ignore[arg-type]
            engine.execute(frame, body)
        blocks.append(tuple(region.block))
    finish(builder, entry)
    builder.emit(If(test, blocks[0], blocks[1], builder.span))  # type: ignore[arg-type]


def leave(engine: Engine, frame: Frame, node: ast.Break | ast.Continue) -> None:
    mark = frame.loops[-1] if frame.loops else None
    if mark is None or not mark.expanded or mark.region is not engine.builder.region:
        raise frame.error(
            node,
            f"`{ast.unparse(node)}` in run-time control flow",
            fix="put the rest of the body under an `if`, or loop with a `while` condition",
        )
    raise BreakLoop if isinstance(node, ast.Break) else ContinueLoop


def _in_role(
    engine: Engine, frame: Frame, node: ast.With, item: ast.withitem, role: RoleContext
) -> None:
    builder, span = engine.builder, engine.builder.span
    if item.optional_vars is not None:
        raise frame.error(item.optional_vars, "a role gives no value", fix="leave `as` out")
    enter_role(builder)
    entry = _prepare(engine, frame, node, "role")
    with inside(builder, entry) as region:
        region.threads = role.threads
        engine.execute(frame, node.body)
    finish(builder, entry)
    builder.span = span
    leave_role(builder, role, tuple(region.block))


def _in_slot(engine: Engine, frame: Frame, node: ast.With, item: ast.withitem, slot: Slot) -> None:
    builder, span = engine.builder, engine.builder.span

    def body() -> None:
        number = slot.enter(builder)
        if item.optional_vars is not None:
            assign(engine, frame, item.optional_vars, number)
        engine.execute(frame, node.body)

    if not slot.fills:
        # Reading a slot is no block of its own: what it assigns goes on.
        body()
        builder.span = span
        slot.leave(builder, ())
        return
    around = builder.region.inside("produce")
    if around is not None:
        raise builder.error(
            f"a slot is filled inside {around.describe()}", fix="fill one slot after the other"
        )
    entry = _prepare(engine, frame, node, "produce")
    with inside(builder, entry) as region:
        body()
    finish(builder, entry, runs=True)
    builder.span = span
    slot.leave(builder, tuple(region.block))


def _in_turn(engine: Engine, frame: Frame, node: ast.With, item: ast.withitem, turn: Turn) -> None:
    if item.optional_vars is not None:
        raise frame.error(item.optional_vars, "a turn gives no value", fix="leave `as` out")
    builder, span = engine.builder, engine.builder.span
    turn.enter(builder)
    engine.execute(frame, node.body)
    builder.span = span
    turn.leave(builder)


def with_block(engine: Engine, frame: Frame, node: ast.With) -> None:
    (item,) = node.items
    value = engine.evaluate(frame, item.context_expr)
    if isinstance(value, RoleContext):
        _in_role(engine, frame, node, item, value)
        return
    if isinstance(value, Slot):
        _in_slot(engine, frame, node, item, value)
        return
    if isinstance(value, Turn):
        _in_turn(engine, frame, node, item, value)
        return
    if not isinstance(value, Elements) or item.optional_vars is None:
        raise frame.error(
            item.context_expr,
            f"`with {ast.unparse(item.context_expr)}` is not a context of the language",
            fix="write `with hx.elements(tile) as (i, j):`, `with hx.warp_groups_producer():` or "
            "`with pipe.produce() as slot:`",
        )
    over_elements(engine, frame, node, item.optional_vars, node.body, value)
