"""What a kernel writes has a place of memory for each of its elements.

Of tensors with strides of their own that has to be said: an expanded dimension has one element, at
which several numbers stand, and whichever is written last would remain.
"""

from __future__ import annotations

from dataclasses import replace

from hexcute_core.errors import FrontendError
from hexcute_core.scalar import is_const
from hexcute_core.tile import Copy, GlobalTensor, GlobalView, TileProgram, TileRef, UpdateElement
from hexcute_core.tile.visit import statements


def check_writes(program: TileProgram) -> TileProgram:
    """`program`, which promises that the tensors it writes lie apart, and nothing of others. Raises
    FrontendError, located, at a write to one that is not known to."""
    written: set[str] = set()
    for stmt in statements(program.body):
        if not isinstance(stmt, (Copy, UpdateElement)):
            continue
        view = _view(program, stmt.dst)
        param = None if view is None else program.param(view.param)
        if param is None or not param.strides:
            continue
        written.add(param.name)
        still = _still(param)
        if still is not None or param.name not in program.promise.apart:
            said = "" if still is None else f": dimension {still} is declared with stride 0"
            raise FrontendError(
                f"`{param.name}` is written, and several of its elements are one place of memory"
                f"{said}",
                span=stmt.span,
                fix=f"pass a tensor whose elements lie apart, such as {param.name}.clone()"
                if still is None
                else f"name the stride by a symbol, or leave dimension {still} out",
            )
    apart = program.promise.apart & written
    return replace(program, promise=replace(program.promise, apart=apart))


def _view(program: TileProgram, ref: TileRef) -> GlobalView | None:
    tensor = program.tensor(ref.tensor)
    return tensor if isinstance(tensor, GlobalView) else None


def _still(param: GlobalTensor) -> int | None:
    """A dimension along which a step of the declaration stays where it is."""
    pairs = enumerate(zip(param.shape, param.strides))
    return next((d for d, (e, s) in pairs if is_const(s, 0) and not is_const(e, 1)), None)
