"""The reference: a Markdown page a package, made of its public names' signatures and docstrings.

    page = title, sections;  section = the module that defines names, the names in its order

Docstrings are plain Markdown already. What is public is what `__all__` lists, so a new name is in
the reference as soon as it can be imported.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Union, get_args, get_origin

from hexcute_core import DType
from hexcute_kernels.operator import Operator

FAMILIES = ("gemm", "attention", "fp8", "moe", "norms", "scan")
LINE = 80
PARAMETER = re.compile(r"^(\w+(?:, \w+)*):", re.MULTILINE)
"""A line of an operator's docstring that says what its parameters are."""
KERNELS = tuple(f"hexcute_kernels.{family}" for family in (*FAMILIES, "checkpoints", "parallel"))

SAID = re.compile(r"\b(raises?|refused?|errors?)\b", re.IGNORECASE)
"""A docstring that speaks of errors."""

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _error(raised: str) -> str:
    """The class of what is raised by this call; the builder's errors are those of the frontend."""
    return "FrontendError" if raised == "builder.error" else raised


class _Text(str):
    """An annotation that is shown as it was written, without quotation marks."""

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: object) -> object:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def _call_of(operator: Operator[Any]) -> str:
    """How an operator is called, by the types and defaults of its schema."""
    given = []
    for p in operator.schema.parameters:
        default = f" = {p.default!r}" if p.has_default else ""
        given.append(f"{p.name}: {p.kind}{' | None' if p.optional else ''}{default}")
    given += ["*", "out=None", "variant=None", "config=None"]
    lines = "".join(f"    {line},\n" for line in given)
    short = f"{operator.name}({', '.join(given)})"
    return short if len(short) <= LINE else f"{operator.name}(\n{lines})"


@dataclass(frozen=True)
class Entry:
    """A public name: where it is imported from, what it is, and the docstring that says so."""

    module: str
    name: str
    value: object

    @property
    def doc(self) -> str:
        """The value's own docstring; of a value that is no function or class, its class's; of a
        union, what it is one of."""
        if get_origin(self.value) is Union:
            return f"One of {', '.join(f'`{kind.__name__}`' for kind in get_args(self.value))}."
        return inspect.getdoc(self.value) or ""

    @property
    def raises(self) -> tuple[str, ...]:
        """The errors that the function's own code raises and its docstring does not speak of."""
        call = inspect.unwrap(self.value) if callable(self.value) else None
        if not inspect.isfunction(call) or SAID.search(self.doc):
            return ()
        tree = ast.parse(textwrap.dedent(inspect.getsource(call)))
        raised = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
        names = [_error(ast.unparse(exc.func)) for exc in raised if isinstance(exc, ast.Call)]
        return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of what a function takes, but for `*args` and `**named`; none of other
        values."""
        if isinstance(self.value, Operator):
            return tuple(p.name for p in self.value.schema.parameters)
        if not inspect.isfunction(self.value):
            return ()
        given = inspect.signature(self.value).parameters.values()
        return tuple(p.name for p in given if p.name != "self" and p.kind not in VARIADIC)

    @property
    def signature(self) -> str:
        """`name(parameters)`; the name alone of what is not called, or `name: its class`."""
        if isinstance(self.value, Operator):
            return _call_of(self.value)
        if not callable(self.value):
            return f"{self.name}: {type(self.value).__name__}"
        try:
            given = inspect.signature(self.value)
        except (TypeError, ValueError):
            return f"{self.name}(...)"
        params = [p.replace(annotation=_bare(p.annotation)) for p in given.parameters.values()]
        bare = given.replace(parameters=params, return_annotation=_bare(given.return_annotation))
        return f"{self.name}{bare}"

    @property
    def home(self) -> str:
        """The module that defines it, whose docstring heads the section it stands in."""
        named = getattr(self.value, "__module__", None) or type(self.value).__module__
        return named if isinstance(named, str) else self.module


def public(module: str) -> list[Entry]:
    """The names that a module lists as public, in its order, without the modules among them."""
    found = import_module(module)
    values = [(name, getattr(found, name)) for name in found.__all__]
    return [Entry(module, n, value) for n, value in values if not isinstance(value, ModuleType)]


def methods(kind: type) -> Iterator[Entry]:
    """The public methods and properties that a class defines and documents itself."""
    for name, value in vars(kind).items():
        call = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(call) and inspect.getdoc(call):
            yield Entry(kind.__module__, name, call)


def page(title: str, modules: tuple[str, ...]) -> str:
    """The Markdown of a package's reference; of several modules each is a section."""
    sections: dict[str, list[Entry]] = {}
    for module in modules:
        for entry in public(module):
            home = module if len(modules) > 1 else entry.home
            sections.setdefault(home, []).append(entry)
    lines = [f"# {title}", ""]
    for home, entries in sections.items():
        lines += [f"## {_headline(home)}", ""]
        dtypes = [entry for entry in entries if isinstance(entry.value, DType)]
        if dtypes:
            lines += ["| name | bits | kind |", "|---|---|---|"]
            lines += [f"| `{e.name}` | {e.value.bits} | {e.value.kind} |" for e in dtypes]
            lines += [""]
        for entry in entries:
            if entry in dtypes:
                continue
            lines += _described(entry, "###")
            if isinstance(entry.value, type) and not issubclass(entry.value, BaseException):
                for method in methods(entry.value):
                    lines += _described(method, "####", f"{entry.name}.")
    return "\n".join(lines)


def _described(entry: Entry, level: str, owner: str = "") -> list[str]:
    doc = entry.doc.replace("$", r"\$")
    if isinstance(entry.value, Operator):
        doc = PARAMETER.sub(r"- **\1**:", doc)
    if entry.raises:
        doc += f"\n\nRaises {', '.join(f'`{name}`' for name in entry.raises)}."
    fence = ["```python", owner + entry.signature, "```"]
    return [f"{level} `{owner}{entry.name}`", "", *fence, "", doc, ""]


def _headline(module: str) -> str:
    """The first sentence of a module's docstring, without its end."""
    found = sys.modules.get(module)
    text = inspect.getdoc(found) or module if found else module
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".:").replace("$", r"\$")


PAGES = {
    "cute_layout": ("cute_layout: the algebra of layouts", ("cute_layout",)),
    "hexcute_core": ("hexcute_core: the language and its kernels", ("hexcute_core",)),
    "hexcute_kernels": ("hexcute_kernels: operators on torch tensors", KERNELS),
}


def write(folder: Path) -> None:
    """Writes the pages into `folder`, those that changed."""
    folder.mkdir(exist_ok=True)
    for name, (title, modules) in PAGES.items():
        path, text = folder / f"{name}.md", page(title, modules)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
