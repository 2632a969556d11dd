"""digest(program) = digest(other) exactly where all later stages treat both programs alike.

All that a trace read of the world around it (globals, files, tables of any size) shows in the
program or changed nothing, so the program's digest stands for it in cache keys. Places in the
source count by which of them are the same place, not by where they are: a kernel that moved in its
file is the same program.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass

from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.tile.ir import TileProgram


def digest(program: TileProgram) -> str:
    """64 hexadecimal digits, the same in every process."""
    return hashlib.sha256(_Writer().text(program).encode("utf-8", "surrogatepass")).hexdigest()


class _Writer:
    """Values as text: unequal values give unequal texts."""

    def __init__(self) -> None:
        self._spans: dict[SourceSpan, int] = {}
        self._names: dict[type, tuple[str, ...]] = {}

    def text(self, value: object) -> str:
        match value:
            case None | bool() | int() | float():
                return repr(value)
            case str():
                return f"{len(value)}'{value}"
            case SourceSpan():
                return f"@{self._spans.setdefault(value, len(self._spans))}"
            case DType():
                return value.name
            case tuple():
                return f"({','.join(map(self.text, value))})"
            case frozenset():
                return f"{{{','.join(sorted(map(self.text, value)))}}}"
        kind = type(value)
        names = self._names.get(kind)
        if names is None:
            if not is_dataclass(kind):
                raise VerifyError(f"a tile program holds a {kind.__name__}: {value!r}")
            names = self._names[kind] = tuple(field.name for field in fields(kind))
        return f"{kind.__name__}({','.join([self.text(getattr(value, n)) for n in names])})"
