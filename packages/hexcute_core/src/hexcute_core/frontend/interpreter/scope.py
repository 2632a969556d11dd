"""Run-time regions: what happens to a name that a loop body or a branch assigns.

Scalars bound outside and needed after the region (or by its next iteration) move into a variable
declared before it; register tiles are updated in place; a name first assigned inside gets its
variable, zeroed, before the region; anything else may be read inside but is lost afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan
from hexcute_core.frontend.interpreter.aliases import aliases, own_copy, release
from hexcute_core.frontend.interpreter.frame import Binding, Frame, Lost, Mutable, Pending
from hexcute_core.frontend.interpreter.sharing import Sharing
from hexcute_core.frontend.language.builder import Builder, Region, RegionKind
from hexcute_core.frontend.language.tiles import Tile
from hexcute_core.scalar import Scalar, ScalarBase, as_scalar
from hexcute_core.tile import Assign


def is_scalar(value: object) -> bool:
    """Whether a variable can hold `value`."""
    return isinstance(value, (bool, int, float, ScalarBase))


def variable_type(value: object) -> DType:
    """The type of a variable that starts with `value`: i32 for ints, f32 for floats."""
    return as_scalar(value).dtype


def zero(dtype: DType) -> Scalar:
    return as_scalar(False if dtype == dtypes.boolean else 0, dtype)


def declare(builder: Builder, name: str, value: object, dtype: DType) -> Mutable:
    """A mutable variable declared in the current block."""
    var = builder.variable(name, dtype)
    builder.emit(Assign(var, as_scalar(value), True, builder.span))
    builder.mutable.add(var.name)
    return Mutable(var)


@dataclass
class Entry:
    """What entering a region put aside: bindings to give back, names lost once it is left."""

    frame: Frame
    sharing: Sharing
    span: SourceSpan
    kind: RegionKind
    local: tuple[str, ...] = ()
    # Names assigned in a role and read after it: only its threads know them.
    escaping: tuple[str, ...] = ()
    lost: dict[str, Binding] = field(default_factory=dict)
    before: dict[str, Binding | None] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    # For each block of the region: the block, and what it gave a value that had none for sure.
    assigned: list[tuple[Region, frozenset[str]]] = field(default_factory=list)


def prepare(
    builder: Builder,
    sharing: Sharing,
    frame: Frame,
    node: ast.stmt,
    names: Mapping[str, bool],
    kind: RegionKind,
) -> Entry:
    """Makes the names that region `node` writes ready for it, in the block around it.

    `names` are those of `flow.writes`: a tile that is only `+=`-ed stays shared with its aliases.
    """
    flow, around = frame.flow, builder.region
    if kind == "role":
        escaping = tuple(n for n in names if n in flow.live_out[id(node)])
        escaping = tuple(n for n in escaping if names[n] or not _is_tile(frame, n))
        return Entry(frame, sharing, builder.span, kind, tuple(names), escaping)
    needed = flow.live_out[id(node)] | flow.carried.get(id(node), frozenset())
    local = tuple(name for name in names if name not in needed)
    entry = Entry(frame, sharing, builder.span, kind, local)
    for name in names:
        binding = frame.bindings.get(name)
        if name not in needed:
            continue
        if binding is None or isinstance(binding.value, Lost):
            frame.bindings[name] = Binding(Pending(around), around, builder.span)
        elif is_scalar(binding.value):
            value = binding.value
            held = declare(builder, name, value, variable_type(value))
            frame.bindings[name] = Binding(held, around, builder.span)
        elif isinstance(binding.value, Tile) and binding.value.in_registers:
            if names[name]:
                _separate(builder, sharing, frame, name, binding.value)
        elif kind in ("loop", "elements") and not isinstance(binding.value, (Mutable, Pending)):
            entry.lost[name] = binding
    return entry


def _is_tile(frame: Frame, name: str) -> bool:
    return name in frame.bindings and isinstance(frame.bindings[name].value, Tile)


def _separate(builder: Builder, sharing: Sharing, frame: Frame, name: str, tile: Tile) -> None:
    """Makes the tile of `name` its own, so that updating it in place changes no other name."""
    if frame.bindings[name].region is not builder.region:
        release(sharing, frame, name, tile)
    elif not tile.is_whole or any(aliases(frame, name, tile.tensor.name)):
        own_copy(sharing, frame, name)


@contextmanager
def inside(builder: Builder, entry: Entry) -> Iterator[Region]:
    """Opens one block of the region and closes its names when it is left."""
    frame = entry.frame
    entry.before = dict(frame.bindings)
    with builder.nested(entry.kind) as region:
        region.span = entry.span
        for name in entry.local:
            if name in frame.bindings:
                frame.bindings[name] = replace(frame.bindings[name], region=region)
        for name, binding in entry.lost.items():
            reason = f"is changed by {region.describe()} and has no single value in it"
            frame.bindings[name] = replace(binding, value=_lost(reason), region=region)
        with entry.sharing.region(entry.kind):
            yield region
    _open(entry, region)
    for name, binding in list(frame.bindings.items()):
        if binding.region is not region:
            continue
        unchanged = name in entry.lost and isinstance(binding.value, Lost)
        # Nobody reads a local name after the region, but code there may assign it again and must
        # then find where an outer loop wants its value.
        if not unchanged and name not in entry.local:
            entry.changed.add(name)
        previous = entry.before.get(name)
        if previous is None:
            del frame.bindings[name]
        else:
            frame.bindings[name] = previous


def _open(entry: Entry, region: Region) -> None:
    """What the block assigned for the first time has no value for sure where it did not run."""
    frame, assigned = entry.frame, set()
    for name, before in entry.before.items():
        now = frame.bindings.get(name)
        had = before is not None and before.unsure is None and not isinstance(before.value, Pending)
        if had or now is None or now.unsure is not None or isinstance(now.value, (Pending, Lost)):
            continue
        assigned.add(name)
        frame.bindings[name] = replace(now, unsure=region)
    entry.assigned.append((region, frozenset(assigned)))


def finish(builder: Builder, entry: Entry, runs: bool = False) -> None:
    """After the region: names it changed, other than by a variable or in place, are lost; names
    that it alone assigns have a value where every branch does so, or where it surely `runs`."""
    frame = entry.frame
    if runs or (entry.kind == "branch" and len(entry.assigned) > 1):
        for name in frozenset.intersection(*(names for _, names in entry.assigned)):
            frame.bindings[name] = replace(frame.bindings[name], unsure=None)
    for name in sorted(entry.changed):
        what = {
            "branch": "run-time `if`",
            "loop": "run-time loop",
            "elements": "run-time loop over elements",
        }
        reason = (
            f"was last assigned inside the {what.get(entry.kind, 'block')} at line "
            f"{entry.span.line} and has no single value after it"
        )
        frame.bindings[name] = Binding(_lost(reason), builder.region, builder.span)
    for name in entry.escaping:
        reason = f"was assigned in the role at line {entry.span.line}, whose threads alone know it"
        lost = Lost(reason, "compute it before the roles, or in each role that needs it")
        frame.bindings[name] = Binding(lost, builder.region, builder.span)
    for name, binding in list(frame.bindings.items()):
        if isinstance(binding.value, Pending) and binding.value.region is builder.region:
            del frame.bindings[name]


def _lost(reason: str) -> Lost:
    return Lost(reason, "use it inside, or use a number or a register tile that is assigned before")
