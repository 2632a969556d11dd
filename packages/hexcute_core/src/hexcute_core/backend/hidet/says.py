"""Say -> CUDA's printf, and a trap behind one that stops.

C is handed numbers of at least 32 bits and floats of 64; the width of an integer is put into its
conversion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.type import data_type

from hexcute_core import dtypes
from hexcute_core.backend.hidet import scalars
from hexcute_core.backend.hidet.scope import Scope
from hexcute_core.scalar import Scalar
from hexcute_core.scalar.formats import pieces
from hexcute_core.thread import Say

_PLACES = tuple(f"{base}.{axis}" for base in ("blockIdx", "threadIdx") for axis in "xyz")[:4]
"""The block and the thread of one that stops."""


def emit(scope: Scope, stmt: Say) -> list[Any]:
    """The statements of one text."""
    if not stmt.stops:
        return [_printed(scope, stmt)]
    where = "" if stmt.span is None else f"{Path(stmt.span.file).name}:{stmt.span.line}: "
    text = f"{where}assertion failed" + (f": {stmt.text}" if stmt.text else "")
    head = _quoted(text.replace("%", "%%")) + _quoted(" [block %d, %d, %d thread %d]\n")
    values = [scope.variable(name) for name in _PLACES]
    said = hs.BlackBoxStmt(f'printf("{head}", {{}}, {{}}, {{}}, {{}});', *values)
    return [said, hs.AsmStmt("trap;", [], [], is_volatile=True)]


def _printed(scope: Scope, stmt: Say) -> Any:
    text, given = "", iter(stmt.args)
    values: list[Any] = []
    for piece in pieces(stmt.text):
        if not piece.letter:
            text += _quoted(piece.text.replace("%", "%%"))
            continue
        value, wide = _passed(scope, next(given))
        values.append(value)
        text += f"%{piece.text}{wide}{piece.letter}"
    return hs.BlackBoxStmt(f'printf("{text}"{", {}" * len(values)});', *values)


def _passed(scope: Scope, e: Scalar) -> tuple[Any, str]:
    """A number as C takes it, and what its conversion says of its width."""
    value, dtype = scalars.emit(scope, e), e.dtype
    if dtype.is_float:
        near = dtype in (dtypes.f32, dtypes.f64)
        return value if near else scalars.convert(scope, value, dtype, dtypes.f32), ""
    if dtype.bits == 64:
        return value, "ll"
    return he.Cast(value, data_type("uint32" if dtype.kind == "uint" else "int32")), ""


def _quoted(text: str) -> str:
    """`text` within a C string that is a template too: what means something there, in octal."""
    plain = set(range(32, 127)) - set(b'"\\{}?')
    return "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode())
