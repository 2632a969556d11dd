"""The pass list: what hidet's own primitives need, and nothing where none is called.

Our statements arrive simplified, typed and flat. The bodies of hidet's primitives may call other
primitives and bind values in expressions.
"""

from __future__ import annotations

import importlib
from typing import Any

from hidet.ir.module import IRModule

from hexcute_core.backend.hidet.asm import OWN

PASSES: tuple[tuple[str, str], ...] = (
    ("resolve_generic_primitive_function", "resolve_primitive_func_pass"),
    ("import_primitive_functions", "import_primitive_functions_pass"),
    ("expand_let_expr", "expand_let_expr_pass"),
)


def lower(module: IRModule) -> IRModule:
    """`module` with every primitive it calls defined in it."""
    while True:
        foreign = {n: f for n, f in module.functions.items() if not f.attrs.get(OWN)}
        if not foreign:
            return module
        lowered = _run(IRModule(dict(foreign)))
        own = {n: f for n, f in module.functions.items() if f.attrs.get(OWN)}
        functions = {**{n: lowered.functions[n] for n in sorted(lowered.functions)}, **own}
        grown = len(functions) > len(module.functions)
        module = IRModule(functions, include_headers=module.include_headers)
        if not grown:
            return module


def _run(module: IRModule) -> Any:
    _provide_transforms()
    for file, name in PASSES:
        module = getattr(importlib.import_module(f"hidet.transforms.{file}"), name)()(module)
    return module


def _provide_transforms() -> None:
    """The passes import `Pass` and its kin from the seeded package; it gets them here."""
    package = importlib.import_module("hidet.transforms")
    base = importlib.import_module("hidet.transforms.base")
    for name in ("Pass", "FunctionPass", "SequencePass", "RepeatFunctionPass", "PassContext"):
        if not hasattr(package, name):
            setattr(package, name, getattr(base, name))
