"""Python function -> its syntax tree, every node placed in the user's file.

The tree is of the function in memory: it is compiled again and compared with the function's own
code. A file that was edited after its import shows other text there, and is refused.
"""

from __future__ import annotations

import ast
import copy
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TypeAlias, Union

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.functions.returns import without_early_returns


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """`node` is the function's tree; its line numbers are the file's."""

    fn: FunctionType
    file: str
    node: ast.FunctionDef

    def span(self, node: ast.AST) -> SourceSpan:
        """Where `node` stands in the user's file."""
        line = getattr(node, "lineno", self.node.lineno)
        return SourceSpan(self.file, line, getattr(node, "col_offset", 0))


def function_span(fn: FunctionType) -> SourceSpan:
    """Where `fn` starts, without reading its source."""
    return SourceSpan(fn.__code__.co_filename, fn.__code__.co_firstlineno)


Function: TypeAlias = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]


def captured(fn: FunctionType) -> dict[str, object]:
    """The variables `fn` takes from the functions around it, those that have a value."""
    found: dict[str, object] = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def function_source(fn: FunctionType) -> FunctionSource:
    """The tree of `fn`; a lambda's is that of a function which returns its value.

    Raises `FrontendError` where the text is not available, is not the function's, or is no `def`
    or `lambda`.
    """
    try:
        return _source(fn, fn.__code__)
    except RecursionError:
        raise FrontendError(
            f"an expression or block of `{fn.__name__}` nests deeper than Python goes",
            span=function_span(fn),
            fix="give the parts of long expressions names",
        ) from None


@lru_cache(maxsize=512)
def _source(fn: FunctionType, code: CodeType) -> FunctionSource:
    span = function_span(fn)
    linecache.checkcache(span.file)
    text = "".join(linecache.getlines(span.file, fn.__globals__))
    if not text:
        raise FrontendError(
            f"the source text of `{fn.__name__}` is not available",
            span=span,
            fix="define it in a file (not at a prompt or by exec)",
        )
    tree, codes = _module(text, span.file)
    there = [c for c in codes if (c.co_name, c.co_firstlineno) == (code.co_name, span.line)]
    same = [c for c in there if _agree(c, code) or _rewritten(c, code)]
    nodes = [n for n in _functions(tree) if _starts(n) == (code.co_name, span.line)]
    if not same or not nodes:
        raise FrontendError(
            f"the text at this line is not the function `{fn.__name__}` that the process holds: "
            "the file was edited after its import, or something rewrote the function's code",
            span=span,
            fix="start the process again, or reload the module",
        )
    if len(nodes) > 1:
        # Lambdas of one line: any of those whose code is the function's.
        places = [_extent(c) for c in same]
        nodes = [n for n in nodes if isinstance(n, ast.Lambda) and _place(n.body) in places]
    if not nodes or isinstance(nodes[0], ast.AsyncFunctionDef):
        raise FrontendError(
            f"`{fn.__name__}` is a coroutine, or one of several functions on its line",
            span=span,
            fix="write a `def` on lines of its own",
        )
    plain = _as_function(copy.deepcopy(nodes[0]))
    return FunctionSource(fn, span.file, without_early_returns(_OneContext().visit(plain)))


@lru_cache(maxsize=16)
def _module(text: str, file: str) -> tuple[ast.Module, tuple[CodeType, ...]]:
    """The tree of a file, and the code of every function in it."""
    try:
        code = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[]), ()
    return ast.parse(text), tuple(_codes(code))


def _functions(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node


def _starts(node: Function) -> tuple[str, int]:
    """A function's name and first line; a decorated one starts at its first decorator."""
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    return node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])


Place: TypeAlias = tuple[int, int, int, int]


def _place(node: ast.expr) -> Place:
    return (
        node.lineno, node.col_offset, node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )  # fmt: skip


def _extent(code: CodeType) -> Place | None:
    """From where to where the text of a lambda's value reaches, where the code says so."""
    if sys.version_info < (3, 11):
        return None
    known = [
        (a, b, c, d)
        for a, c, b, d in code.co_positions()
        if None not in (a, b, c, d) and (a, b) != (c, d)
    ]
    starts, ends = [(a, b) for a, b, _, _ in known], [(c, d) for _, _, c, d in known]
    return (*min(starts), *max(ends)) if known else None


def _as_function(node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef:
    if isinstance(node, ast.FunctionDef):
        return node
    body = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef("lambda_", node.args, [body], [], None)
    return ast.copy_location(made, node)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _agree(a: object, b: object) -> bool:
    """Whether two codes, or constants of theirs, mean the same."""
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        named = (a.co_name, a.co_names, a.co_varnames, a.co_freevars, a.co_cellvars)
        other = (b.co_name, b.co_names, b.co_varnames, b.co_freevars, b.co_cellvars)
        return (
            a.co_code == b.co_code
            and named == other
            and (a.co_argcount, a.co_kwonlyargcount) == (b.co_argcount, b.co_kwonlyargcount)
            and len(a.co_consts) == len(b.co_consts)
            and all(map(_agree, a.co_consts, b.co_consts))
        )
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_agree, a, b))
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return a == b
    return type(a) is type(b) and repr(a) == repr(b)


def _rewritten(plain: CodeType, code: CodeType) -> bool:
    """Whether `code` is `plain` with its asserts rewritten, as pytest does in test modules: all
    that `plain` names and holds is there still, at the same lines."""
    marks = [n for n in (*code.co_names, *code.co_varnames) if n.startswith("@py")]
    if not marks:
        return False
    held = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return (
        {*plain.co_names, *plain.co_varnames} <= {*code.co_names, *code.co_varnames}
        and all(repr(c) in held for c in plain.co_consts if isinstance(c, (int, float)))
        and {line for *_, line in plain.co_lines()} <= {line for *_, line in code.co_lines()}
    )


class _OneContext(ast.NodeTransformer):
    """`with a, b:` as `with a:` around `with b:`."""

    def visit_With(self, node: ast.With) -> ast.With:
        self.generic_visit(node)
        *outer, last = node.items
        inner = ast.copy_location(ast.With([last], node.body), last.context_expr)
        for item in reversed(outer):
            inner = ast.copy_location(ast.With([item], [inner]), item.context_expr)
        return ast.copy_location(inner, node)
