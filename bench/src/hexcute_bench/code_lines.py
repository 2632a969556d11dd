"""Lines of code by one rule, the same for every kernel.

A kernel's lines are the physical lines that hold code, without comments, docstrings and blank
lines, of its functions: those decorated `@kernel` or `@jit` in its module, decorators included,
and all functions of the same package that these name, directly or through one another. Host code
that only launches does not count.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hexcute_bench.errors import BenchError

_KERNEL_DECORATORS = ("kernel", "jit")
_NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER, tokenize.ENCODING,
)  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Module:
    path: Path
    tree: ast.Module
    package: str

    def functions(self) -> dict[str, Function]:
        return {node.name: node for node in self.tree.body if isinstance(node, Function)}


def _load(name: str) -> _Module | None:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    path = Path(spec.origin)
    return _Module(path, ast.parse(path.read_text(encoding="utf-8")), name.split(".")[0])


def _is_kernel(node: Function) -> bool:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name in _KERNEL_DECORATORS:
            return True
    return False


def _imported(module: _Module) -> dict[str, tuple[str, str]]:
    """Names that the module takes from its own package: local name to (module, name)."""
    found = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module.split(".")[0] != module.package:
                continue
            for alias in node.names:
                found[alias.asname or alias.name] = (node.module, alias.name)
    return found


def _named(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id


def _docstring_lines(node: ast.AST) -> set[int]:
    """Lines of the docstrings of a function and of those inside it."""
    lines: set[int] = set()
    for part in ast.walk(node):
        if isinstance(part, Function) and ast.get_docstring(part) is not None:
            text = part.body[0]
            lines |= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def _code_lines(source: str) -> set[int]:
    """Numbers of the lines that hold a token of code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return lines


def kernel_lines(module: str, kernel: str = "") -> int:
    """Lines of the kernels of `module`, or of the one named. `BenchError` where there is none."""
    start = _load(module)
    if start is None:
        raise BenchError(f"there is no module {module}")
    kernels = [
        node
        for node in ast.walk(start.tree)
        if isinstance(node, Function) and _is_kernel(node) and kernel in ("", node.name)
    ]
    if not kernels:
        raise BenchError(f"{module} has no kernel {kernel}".rstrip())
    counted: dict[Path, set[int]] = {}
    todo = [(start, node) for node in kernels]
    seen: set[tuple[Path, int]] = set()
    while todo:
        owner, node = todo.pop()
        if (owner.path, node.lineno) in seen:
            continue
        seen.add((owner.path, node.lineno))
        counted.setdefault(owner.path, set()).update(_lines_of(owner, node))
        todo += _reached(owner, node)
    return sum(len(lines) for lines in counted.values())


def _lines_of(owner: _Module, node: Function) -> set[int]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    whole = set(range(first, (node.end_lineno or node.lineno) + 1))
    code = _code_lines(owner.path.read_text(encoding="utf-8"))
    return (whole & code) - _docstring_lines(node)


def _reached(owner: _Module, node: Function) -> Iterator[tuple[_Module, Function]]:
    """Functions of the package that a function names."""
    local, imported = owner.functions(), _imported(owner)
    for name in dict.fromkeys(_named(node)):
        if name in local:
            yield owner, local[name]
        elif name in imported:
            module, original = imported[name]
            other = _load(module)
            if other is not None and original in other.functions():
                yield other, other.functions()[original]
