"""Rules every source file keeps: its length, what it may import, what it may not say."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from hexcute_core.thread import Stmt as ThreadStmt
from hexcute_core.tile.ir import Nest, Stmt, TileOp

ROOT = Path(__file__).parent.parent
FOLDERS = ("packages", "bench", "tests", "docs")
LINES = 400
# Command lines and the demo talk to a person; all else is library code.
MAY_PRINT = {"__main__.py", "cli.py", "demo.py"}
BARE_ERRORS = {"AssertionError", "Exception", "NotImplementedError", "RuntimeError", "ValueError"}
CUTE_DIALECT = ("hidet.ir.cute", "hidet.transforms.cute")
CORE = "hexcute_core"
TILE = f"from {CORE}.tile import"
OPERATIONS = {kind.__name__ for kind in get_args(TileOp)}
NESTS = {kind.__name__ for kind in get_args(Nest)}
STATEMENTS = {kind.__name__ for kind in get_args(Stmt)}
THREAD_STATEMENTS = {kind.__name__ for kind in get_args(ThreadStmt)}
FIELDS = {field.name for kind in get_args(Stmt) for field in fields(kind)}
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def python_files() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found += ROOT.glob("*.py")
    hidden = {".nox", ".venv", "_build", "build", "dist"}
    return sorted(path for path in found if not hidden & set(path.relative_to(ROOT).parts))


def library_files() -> list[Path]:
    return [path for path in python_files() if "src" in path.relative_to(ROOT).parts]


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module a source names in an import, or in a call that imports by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def allowed(path: str, module: str) -> bool:
    """Whether the library file at `path`, relative to the root, may import `module`."""
    if any(within(module, dialect) for dialect in CUTE_DIALECT):
        return False
    top = module.split(".")[0]
    core = "packages/hexcute_core/src/hexcute_core/"
    if path.startswith("packages/cute_layout/"):
        return top in sys.stdlib_module_names or top in ("cute_layout", "matplotlib")
    if path.startswith(core):
        folder = path.removeprefix(core).split("/")[0]
        homes = {
            "cuda": {"runtime", "toolchain"},
            "hidet": {"backend"},
            "ml_dtypes": {"simulator"},
            "mypy": {"mypy_plugin.py"},
            "pytest": {"pytest_plugin.py"},
            "torch": {"runtime"},
        }
        if top in homes:
            return folder in homes[top]
        own = ("cute_layout", "hexcute_core", "numpy")
        return top in sys.stdlib_module_names or top in own
    if path.startswith("packages/hexcute_kernels/"):
        rooms = {
            "safetensors": "checkpoints", "transformers": "integrations/transformers",
            "vllm": "integrations/vllm",
        }  # fmt: skip
        if top in rooms:
            return f"/hexcute_kernels/{rooms[top]}/" in path
        own = ("cute_layout", "hexcute_core", "hexcute_kernels", "numpy", "torch")
        return top in sys.stdlib_module_names or top in own
    return True


def forbidden_imports(path: str, tree: ast.AST) -> list[str]:
    return [module for module in imported(tree) if not allowed(path, module)]


def prints(path: str, tree: ast.AST) -> list[str]:
    if Path(path).name in MAY_PRINT or path.startswith("bench/"):
        return []
    return [
        f"line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def bare_errors(path: str, tree: ast.AST) -> list[str]:
    """Raises of Python's own general errors, where a located error of the project belongs."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and raised.id in BARE_ERRORS:
                found.append(f"{raised.id} at line {node.lineno}")
    return found


def undocumented(path: str, tree: ast.AST) -> list[str]:
    assert isinstance(tree, ast.Module)
    return [] if ast.get_docstring(tree) or not tree.body else ["no module docstring"]


def imported_from(tree: ast.AST, package: str, kinds: set[str]) -> set[str]:
    """Those of `kinds` that a source imports from `package` of the core, by name."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and within(node.module or "", f"{CORE}.{package}")
        for alias in node.names
        if alias.name in kinds
    }


def closed(match: ast.Match) -> bool:
    """Whether a match ends in a default that is an error."""
    match match.cases[-1]:
        case ast.match_case(
            pattern=ast.MatchAs(pattern=None),
            guard=None,
            body=[*_, ast.Raise() | ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))],
        ):
            return True
        case _:
            return False


def open_matches(path: str, tree: ast.AST) -> list[str]:
    """Ways to pass over a statement in silence: a match over kinds of statements, of tile or thread
    programs, that does not end in an error; of tile programs fields asked for by name, and a list
    of operations by hand."""
    names = imported_from(tree, "tile", STATEMENTS)
    matched = names | imported_from(tree, "thread", THREAD_STATEMENTS)
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Match(cases=cases) if not closed(node):
                kinds = {
                    part.cls.id
                    for case in cases
                    for part in ast.walk(case.pattern)
                    if isinstance(part, ast.MatchClass) and isinstance(part.cls, ast.Name)
                }
                if kinds & matched:
                    found.append(f"the match at line {node.lineno} ends in no assert_never")
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=field), *_]
            ) if names and field in FIELDS:
                found.append(f"`{field}` is asked for by name at line {node.lineno}")
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Name(), *_]) if (
                names & NESTS
            ):
                found.append(f"a field is asked for by name at line {node.lineno}")
            case ast.Tuple(elts=kinds):
                listed = {kind.id for kind in kinds if isinstance(kind, ast.Name)}
                if len(listed & names & OPERATIONS) > 3:
                    found.append(f"operations are listed by hand at line {node.lineno}")
    return found


RULES: dict[str, Callable[[str, ast.AST], list[str]]] = {
    "imports": forbidden_imports,
    "prints": prints,
    "bare errors": bare_errors,
    "docstring": undocumented,
    "open matches": open_matches,
}


@pytest.mark.parametrize("rule", RULES)
def test_library_files_keep_the_rule(rule: str) -> None:
    broken = []
    for file in library_files():
        path = file.relative_to(ROOT).as_posix()
        broken += [f"{path}: {what}" for what in RULES[rule](path, ast.parse(file.read_text()))]
    assert broken == []


def test_no_source_file_is_longer_than_400_lines() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in python_files()}
    assert {path: length for path, length in lengths.items() if length > LINES} == {}


def test_nothing_is_left_for_later() -> None:
    notes = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in python_files()
        if file != Path(__file__)
        for line in file.read_text().splitlines()
        if LEFTOVER.search(line)
    ]
    assert notes == []


def test_hidets_cute_dialect_is_imported_nowhere() -> None:
    users = [
        str(file.relative_to(ROOT))
        for file in python_files()
        for module in imported(ast.parse(file.read_text()))
        if any(within(module, dialect) for dialect in CUTE_DIALECT)
    ]
    assert users == []


BROKEN = {
    "import hidet.ir.cute.layout": "imports",
    "from hidet.ir import cute": "imports",
    "from hidet.transforms.cute import x": "imports",
    "import importlib\nimportlib.import_module('hidet')": "imports",
    "def f():\n    import torch": "imports",
    "from cuda.bindings import driver": "imports",
    "import scipy": "imports",
    "def f():\n    print(1)": "prints",
    "raise ValueError('x')": "bare errors",
    "raise NotImplementedError": "bare errors",
    "x = 1": "docstring",
    f"{TILE} Copy, Gemm\nmatch s:\n    case Copy(): f()\n    case _: pass": "open matches",
    f"{TILE} Copy, Gemm\nmatch s:\n    case Copy() | Gemm(): f()": "open matches",
    f"from {CORE}.tile.ir import Fill\nmatch s:\n    case Fill(): f()": "open matches",
    f"{TILE} For\nmatch s:\n    case For() if s: f()\n    case x: g(x)": "open matches",
    f"{TILE} Stmt, If\ngetattr(s, 'body', ())": "open matches",
    f"{TILE} If\nfor name in names:\n    walk(getattr(s, name, ()))": "open matches",
    f"{TILE} Fill\nhasattr(s, 'id')": "open matches",
    f"from {CORE}.thread import For\nmatch s:\n    case For(): f()": "open matches",
    f"from {CORE}.thread import If\nmatch s:\n    case If(): f()\n    case x: f()": "open matches",
    f"{TILE} Fill, Copy, Gemm, Scan\nOPS = (Fill, Copy, Gemm, Scan)": "open matches",
}


@pytest.mark.parametrize("source", BROKEN)
def test_the_rules_see_what_breaks_them(source: str) -> None:
    path = "packages/hexcute_core/src/hexcute_core/tile/ir.py"
    found = {name for name, rule in RULES.items() if rule(path, ast.parse(source))}
    assert BROKEN[source] in found


KEPT = [
    f"{TILE} Copy\nmatch s:\n    case Copy(): f()\n    case _: assert_never(s)",
    f"{TILE} Copy\nmatch s:\n    case Copy(): f()\n    case _:\n        raise Refused(s)",
    f"{TILE} Copy\nmatch s:\n    case 1: f()\n    case _: pass",
    f"from {CORE}.thread import For\nmatch s:\n    case For(): f()\n    case _: assert_never(s)",
    f"from {CORE}.thread import Prim\ngetattr(s, 'span', None)",
    f"{TILE} Copy\ngetattr(module, '__name__')",
    f"{TILE} Copy, Gemm\nisinstance(s, (Copy, Gemm))",
]


@pytest.mark.parametrize("source", KEPT)
def test_what_keeps_the_rule_of_matches_is_let_through(source: str) -> None:
    assert open_matches(f"packages/{CORE}/src/{CORE}/tile/x.py", ast.parse(source)) == []


def test_each_dependency_has_a_home() -> None:
    core = "packages/hexcute_core/src/hexcute_core"
    assert allowed(f"{core}/backend/hidet/emit.py", "hidet.ir.expr")
    assert not allowed(f"{core}/backend/hidet/emit.py", "hidet.ir.cute")
    assert not allowed(f"{core}/lowering/copy.py", "hidet.ir.expr")
    assert allowed(f"{core}/runtime/loaded.py", "torch")
    assert not allowed(f"{core}/errors.py", "torch")
    assert not allowed("packages/cute_layout/src/cute_layout/layout.py", "numpy")
    assert allowed("packages/hexcute_kernels/src/hexcute_kernels/gemm.py", "torch")
    assert not allowed("packages/hexcute_kernels/src/hexcute_kernels/gemm.py", "hidet")
