"""Values that outlive the statement that made them: lazy tiles computed, changing scalars held.

A name, an argument and a container keep a value while variables change under it, so whatever reads
a mutable variable, a register element or a call is first held in a variable of its own.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from hexcute_core.frontend.language.builder import Builder
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.subscript import Range
from hexcute_core.frontend.language.tiles import LazyTile, Tile, materialize
from hexcute_core.scalar import Scalar, ScalarBase, free_vars
from hexcute_core.scalar.visit import walk

# A scalar of more nodes than this gets a variable when it is bound: each use would repeat them all,
# and a number made of the one before, twice, doubles them at every step.
LARGE = 16
# Of symbols and scalar parameters alone; a launch's grid depends on those, as they are written.
LARGE_OF_SYMBOLS = 64
# Of one expression as it is written: every stage goes through it, node inside node.
LONGEST = 128


def settle(builder: Builder, value: object, base: str) -> object:
    """`value`, safe to keep; `base` names the variables and tensors this may make."""
    match value:
        case LazyTile():
            builder.hint = base
            return materialize(value)
        case Tile():
            starts = tuple(builder.stable(start, f"{base}_at") for start in value.ref.starts)
            if starts == value.ref.starts:
                return value
            return Tile(value.tensor, replace(value.ref, starts=starts))
        case Param():
            origin = tuple(builder.stable(start, f"{base}_at") for start in value.origin)
            return value if origin == value.origin else replace(value, origin=origin)
        case ScalarBase():
            return _scalar(builder, value, base)  # type: ignore[arg-type]
        case Range():
            return replace(value, start=_scalar(builder, value.start, base))
        case slice():
            return slice(
                settle(builder, value.start, base),
                settle(builder, value.stop, base),
                settle(builder, value.step, base),
            )
        case tuple() if type(value) is tuple:
            return tuple(settle(builder, item, base) for item in value)
        case list():
            value[:] = [settle(builder, item, base) for item in value]
            return value
        case dict():
            for key, item in value.items():
                value[key] = settle(builder, item, base)
            return value
        case _:
            return value


def shortened(builder: Builder, value: object) -> object:
    """`value`, part of an expression; one that has grown too long in a variable or tile."""
    match value:
        case LazyTile(expr=ScalarBase() as e) if _longer(e, LONGEST):
            return materialize(value)
        case ScalarBase() if _longer(value, LONGEST):  # type: ignore[arg-type]
            return _scalar(builder, value, "t")  # type: ignore[arg-type]
        case _:
            return value


def _longer(e: Scalar, most: int) -> bool:
    return sum(1 for _ in islice(walk(e), most + 1)) > most


def _scalar(builder: Builder, e: Scalar, base: str) -> Scalar:
    if builder.volatile(e):
        return builder.keep(e, base)
    if _longer(e, LARGE) and free_vars(e) - builder.uniform - builder.of_symbols.keys():
        return builder.keep(e, base)
    if not _longer(e, LARGE_OF_SYMBOLS):
        return e
    var = builder.hold(e, base)
    builder.of_symbols[var.name] = e
    return var
