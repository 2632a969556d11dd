"""Instruction tables: data alone. `arch(name)` looks one up, `register(table)` adds one."""

from hexcute_core.arch.fragment import Fragment, Mode, overhang, product, simplify, split
from hexcute_core.arch.registry import arch, names, register
from hexcute_core.arch.rows import Arch, BulkRows, CopyRow, MmaRow, Scope, Timing, WgmmaRow

__all__ = [
    "Arch", "BulkRows", "CopyRow", "Fragment", "MmaRow", "Mode", "Scope", "Timing", "WgmmaRow",
    "arch", "names", "overhang", "product", "register", "simplify", "split",
]  # fmt: skip
