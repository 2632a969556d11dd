"""Python function -> its text and syntax tree, with every node placed in the user's file."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.returns import without_early_returns


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """`text` is the source as written, `node` the tree whose line numbers are the file's."""

    fn: FunctionType
    file: str
    text: str
    node: ast.FunctionDef

    def span(self, node: ast.AST) -> SourceSpan:
        """Where `node` stands in the user's file."""
        line = getattr(node, "lineno", self.node.lineno)
        return SourceSpan(self.file, line, getattr(node, "col_offset", 0))


def function_span(fn: FunctionType) -> SourceSpan:
    """Where `fn` starts, without reading its source."""
    return SourceSpan(fn.__code__.co_filename, fn.__code__.co_firstlineno)


@lru_cache(maxsize=512)
def function_source(fn: FunctionType) -> FunctionSource:
    """The source of `fn`.

    Raises `FrontendError` where the text is not available or is not a plain `def`.
    """
    span = function_span(fn)
    try:
        lines, first = inspect.getsourcelines(fn)
    except (OSError, TypeError):
        raise FrontendError(
            f"the source text of `{fn.__name__}` is not available",
            span=span,
            fix="define it in a file (not at a prompt or by exec)",
        ) from None
    text = "".join(lines)
    nested = text[:1].isspace()
    try:
        # An indented function is parsed as the body of an `if`, so columns stay the file's.
        module = ast.parse("if 1:\n" + text if nested else text)
    except SyntaxError:
        module = ast.Module(body=[], type_ignores=[])
    body = module.body[0].body if nested and isinstance(module.body[0], ast.If) else module.body
    if not body or not isinstance(body[0], ast.FunctionDef):
        raise FrontendError(
            f"`{fn.__name__}` is not a plain function definition", span=span, fix="use `def`"
        )
    node = body[0]
    ast.increment_lineno(node, first - (2 if nested else 1))
    plain = without_early_returns(_OneContext().visit(node))
    return FunctionSource(fn, span.file, text, plain)


class _OneContext(ast.NodeTransformer):
    """`with a, b:` as `with a:` around `with b:`."""

    def visit_With(self, node: ast.With) -> ast.With:
        self.generic_visit(node)
        *outer, last = node.items
        inner = ast.copy_location(ast.With([last], node.body), last.context_expr)
        for item in reversed(outer):
            inner = ast.copy_location(ast.With([item], [inner]), item.context_expr)
        return ast.copy_location(inner, node)
