"""What is written into a tile by other names is read there: it is a new tile, not the one renamed.

In numpy a reshaped array is the same memory. Who takes that for granted here would write into the
new tile, read the old one, and get no word of it.
"""

from __future__ import annotations

from hexcute_core.errors import FrontendError
from hexcute_core.scalar import Element
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import ForElements, Relabel, Stmt, TileProgram
from hexcute_core.tile.ir import Simple, TileOp
from hexcute_core.tile.visit import results, scalars, statements, tensors


def check_renamed(program: TileProgram) -> None:
    """Raises FrontendError, located, at the first write into the result of `hx.reshape`,
    `hx.transpose` or `hx.bitcast` if nothing but such writes touches it."""
    renamed = {s.dst.tensor for s in statements(program.body) if isinstance(s, Relabel)}
    written: dict[str, TileOp] = {}
    for stmt in statements(program.body):
        into = _written(stmt) & renamed
        renamed -= _touched(stmt, renamed) - into
        if isinstance(stmt, TileOp) and not isinstance(stmt, Relabel):
            for name in sorted(into):
                written.setdefault(name, stmt)
    for name, stmt in written.items():
        if name in renamed:
            raise FrontendError(
                f"what is written into `{name}` is read by nobody: hx.reshape, hx.transpose and "
                "hx.bitcast give new tiles, not other names of the old one's elements",
                span=stmt.span,
                fix=f"write into the tile that was renamed, or read `{name}` afterwards",
            )


def _written(stmt: Stmt) -> frozenset[str]:
    """The tensors that `stmt` writes and does not also hand on element by element."""
    if isinstance(stmt, ForElements) or not isinstance(stmt, TileOp):
        return frozenset()
    return frozenset(ref.tensor for ref in results(stmt))


def _touched(stmt: Stmt, names: set[str]) -> set[str]:
    """Those of the tensors that `stmt` names itself, whatever it does with them."""
    if isinstance(stmt, TileOp):
        return names.intersection(tensors(stmt))
    if isinstance(stmt, Simple):
        # Few kinds of these name tiles, each in its own field.
        return {name for name in names if f"'{name}'" in repr(stmt)}
    read = (s.array for e in scalars(stmt) for s in walk(e) if isinstance(s, Element))
    return names.intersection(read)
