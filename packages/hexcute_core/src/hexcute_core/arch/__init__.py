"""Instruction tables: data alone. `arch(name)` looks one up, `register(table)` adds one."""

from hexcute_core.arch.fragment import Fragment, Mode, product, simplify, split
from hexcute_core.arch.registry import arch, names, register
from hexcute_core.arch.rows import Arch, CopyRow, MmaRow, Scope, Timing

__all__ = [
    "Arch", "CopyRow", "Fragment", "MmaRow", "Mode", "Scope", "Timing", "arch", "names", "product",
    "register", "simplify", "split",
]  # fmt: skip
