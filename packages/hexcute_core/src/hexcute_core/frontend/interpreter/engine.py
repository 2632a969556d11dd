"""The interpreter's dispatch: one handler per kind of syntax node, and a located error for every
other kind."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

from hexcute_core.errors import FrontendError, HexcuteError
from hexcute_core.frontend.interpreter.frame import Frame
from hexcute_core.frontend.interpreter.sharing import Sharing
from hexcute_core.frontend.language.builder import Builder
from hexcute_core.frontend.language.tiles import LazyTile
from hexcute_core.scalar import Element, ScalarBase, free_vars
from hexcute_core.scalar.visit import walk

ExprHandler = Callable[["Engine", Frame, Any], object]
StmtHandler = Callable[["Engine", Frame, Any], None]

# Traced for one kernel, wherever they stand: some ten seconds of work.
MOST_STATEMENTS = 100_000

_INSTEAD: dict[str, str] = {
    "Try": "move it into a plain Python function of compile-time values",
    "Raise": "write `assert condition, message` on compile-time constants",
    "Delete": "leave the name alone; tensors need no freeing",
    "Import": "import at the top of the module",
    "ImportFrom": "import at the top of the module",
    "FunctionDef": "define the function outside and decorate it with @hx.device",
    "ClassDef": "define the class outside the kernel",
    "Lambda": "define a function outside the kernel",
    "NamedExpr": "assign on a line of its own",
    "Global": "return the value, or pass it as a parameter",
    "Nonlocal": "return the value, or pass it as a parameter",
    "Match": "write if/elif/else",
    "Await": "kernels are not coroutines",
    "Yield": "return a value from an @hx.device function",
    "YieldFrom": "return a value from an @hx.device function",
}


class Engine:
    """Evaluates expressions and executes statements of frames into one builder."""

    def __init__(
        self,
        builder: Builder,
        expressions: Mapping[type[ast.expr], ExprHandler],
        statements: Mapping[type[ast.stmt], StmtHandler],
    ) -> None:
        self.builder = builder
        # The call being interpreted: where a device function called by Python code is inlined.
        self.frame: Frame | None = None
        self.sharing = Sharing()
        builder.watch = self._watch
        self._executed = 0
        self._expressions = expressions
        self._statements = statements

    def _watch(self, tensor: str, defines: bool) -> None:
        if defines:
            self.sharing.assigned(tensor)
        else:
            self.sharing.write(self.frame, tensor, self.builder.span)

    def evaluate(self, frame: Frame, node: ast.expr, hint: str | None = None) -> object:
        """The value of `node`; `hint` names the tensor it may create."""
        handler = self._expressions.get(type(node))
        if handler is None:
            raise self._unknown(frame, node)
        with self._at(frame, node):
            self.builder.hint = hint if isinstance(node, ast.Call) else None
            return handler(self, frame, node)

    def evaluate_all(
        self, frame: Frame, nodes: Sequence[ast.expr], hints: Sequence[str | None] = ()
    ) -> list[object]:
        """The values of `nodes`, left to right; a later one may not change an earlier one."""
        written = self.builder.written
        values: list[object] = []
        marks: list[int] = []
        for node, hint in zip_longest(nodes, hints[: len(nodes)]):
            values.append(self.evaluate(frame, node, hint))
            marks.append(len(written))
        for node, value, mark in zip(nodes, values, marks):
            changed = _reads(value) & frozenset(written[mark:])
            if changed:
                raise frame.error(
                    node,
                    f"this value reads `{', '.join(sorted(changed))}`, which a call later in the "
                    "same expression changes",
                    fix="assign the value to a name on a line before",
                )
        return values

    def execute(self, frame: Frame, body: Sequence[ast.stmt]) -> None:
        """Runs statements in order."""
        for stmt in body:
            handler = self._statements.get(type(stmt))
            if handler is None:
                raise self._unknown(frame, stmt)
            self._executed += 1
            if self._executed > MOST_STATEMENTS:
                raise frame.error(
                    stmt,
                    f"more than {MOST_STATEMENTS} statements are traced by here: every call is "
                    "inlined, and what is expanded is traced a turn at a time",
                    fix="use range for long loops, and let functions call fewer others",
                )
            outer, frame.current = frame.current, stmt
            with self._at(frame, stmt):
                self.builder.hint = None
                handler(self, frame, stmt)
            frame.current = outer

    def _unknown(self, frame: Frame, node: ast.AST) -> FrontendError:
        name = type(node).__name__
        what = "statement" if isinstance(node, ast.stmt) else "expression"
        return frame.error(
            node,
            f"the {what} `{_first_line(node)}` ({name}) is not part of the kernel language",
            fix=_INSTEAD.get(name, "move it into a plain Python function of compile-time values"),
        )

    @contextmanager
    def _at(self, frame: Frame, node: ast.AST) -> Iterator[None]:
        """Places what is traced, and errors that know no place, at `node`."""
        before = self.builder.span
        self.builder.span = frame.span(node)
        try:
            yield
        except HexcuteError as error:
            if error.span is None:
                error.span = self.builder.span
            raise
        finally:
            self.builder.span = before


def _first_line(node: ast.AST) -> str:
    line = ast.unparse(node).splitlines()[0]
    return line if len(line) <= 60 else line[:57] + "..."


def _reads(value: object) -> frozenset[str]:
    """Names whose change would change `value`."""
    if isinstance(value, LazyTile):
        return value.reads
    if isinstance(value, ScalarBase):
        arrays = frozenset(
            node.array
            for node in walk(value)  # type: ignore[arg-type]
            if isinstance(node, Element)
        )
        return free_vars(value) | arrays  # type: ignore[arg-type]
    if isinstance(value, (tuple, list)):
        return frozenset[str]().union(*(_reads(item) for item in value))
    return frozenset()
