"""t[16:32, :, i] -> TileRef: slices keep a mode of the tile, integers drop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hexcute_core.errors import FrontendError
from hexcute_core.scalar import Const, Scalar, ScalarBase, as_scalar, binary, show
from hexcute_core.scalar.poly import difference
from hexcute_core.tile import GlobalView, Tensor, TileRef


@dataclass(frozen=True)
class Range:
    """`size` elements from `start`: a slice whose start may be known only at run time."""

    start: Scalar
    size: int


def ds(start: object, size: object) -> Range:
    """`size` elements from `start`, as a subscript of a tile; `size` is known at compile time."""
    length = static_int(size)
    if length is None or length < 1:
        raise FrontendError(
            f"hx.ds needs a positive size known at compile time, got {_text(size)}",
            fix="pass an int or a compile-time constant of the kernel",
        )
    return Range(as_scalar(start), length)


def static_int(value: object) -> int | None:
    """The int that `value` is at compile time, else None (a bool is not an int)."""
    if isinstance(value, Const) and value.dtype.is_integer:
        return int(value.value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def mode_extents(tensor: Tensor) -> tuple[int | None, ...]:
    """The extent of each mode; None where it is known only at run time."""
    if not isinstance(tensor, GlobalView):
        return tensor.shape
    return tuple(_product([static_int(sub.extent) for sub in mode]) for mode in tensor.modes)


def _product(extents: Sequence[int | None]) -> int | None:
    total = 1
    for extent in extents:
        if extent is None:
            return None
        total *= extent
    return total


def whole(tensor: Tensor) -> TileRef:
    """All of `tensor`; run-time modes have extent 0 until an integer indexes them."""
    extents = mode_extents(tensor)
    zero = as_scalar(0)
    sizes = tuple(0 if extent is None else extent for extent in extents)
    return TileRef(tensor.name, (zero,) * len(sizes), sizes, tuple(range(len(sizes))))


def subscript(ref: TileRef, index: object) -> TileRef:
    """The part of `ref` that `index` selects, one entry per mode of the tile, `:` for the rest.

    Raises `FrontendError` where an index has no meaning or is known to be out of range.
    """
    entries = index if isinstance(index, tuple) else (index,)
    if Ellipsis in [e for e in entries if e is Ellipsis]:
        at = next(i for i, e in enumerate(entries) if e is Ellipsis)
        fill = len(ref.kept) - (len(entries) - 1)
        entries = entries[:at] + (slice(None),) * max(fill, 0) + entries[at + 1 :]
    if any(e is None for e in entries):
        raise _no_new_mode(ref, entries)
    if len(entries) > len(ref.kept):
        raise FrontendError(
            f"{len(entries)} subscripts for a tile of {len(ref.kept)} modes (`{ref.tensor}`)",
            fix=f"write at most {len(ref.kept)}; hx.reshape adds modes",
        )
    starts, extents, kept = list(ref.starts), list(ref.extents), list(ref.kept)
    for mode, entry in zip(ref.kept, entries):
        offset, size = _entry(entry, ref.extents[mode], mode, ref.tensor)
        starts[mode] = binary("add", starts[mode], offset)
        if size is None:
            kept.remove(mode)
        extents[mode] = 1 if size is None else size
    return replace(ref, starts=tuple(starts), extents=tuple(extents), kept=tuple(kept))


def _no_new_mode(ref: TileRef, entries: Sequence[object]) -> FrontendError:
    """`r[:, None]`: a subscript takes parts, and a mode more is another shape."""
    left = [ref.extents[mode] for mode in ref.kept]
    shape = [1 if e is None else left.pop(0) for e in entries if e is None or left] + left
    plain = all(shape) and all(e is None or e == slice(None) for e in entries)
    whole = ", ".join(map(str, shape)) if plain else "..."
    return FrontendError(
        f"`None` in a subscript of the tile `{ref.tensor}`: it adds no mode",
        fix=f"write hx.reshape({ref.tensor}, ({whole})) for a tile in registers,"
        " or give the view of memory a mode of extent 1",
    )


def _entry(entry: object, extent: int, mode: int, tensor: str) -> tuple[Scalar, int | None]:
    """(start, size) of one subscript; size None for an integer. `extent` 0 means run-time."""
    match entry:
        case slice(start=None, stop=None, step=None):
            return as_scalar(0), extent
        case slice():
            return _slice(entry, extent, mode, tensor)
        case Range():
            start = static_int(entry.start)
            _check(start, entry.size, extent, mode, tensor)
            return entry.start, entry.size
        case bool():
            pass
        case int() | ScalarBase():
            known = static_int(entry)
            if known is not None and known < 0 and extent:
                known, entry = known + extent, known + extent
            _check(known, 1, extent, mode, tensor)
            offset = as_scalar(entry)
            if offset.dtype.is_integer:
                return offset, None
        case _:
            pass
    raise FrontendError(
        f"mode {mode} of `{tensor}` cannot be indexed by {_text(entry)}",
        fix="use an integer, a slice with a constant size, or hx.ds(start, size)",
    )


def _slice(entry: slice, extent: int, mode: int, tensor: str) -> tuple[Scalar, int]:
    if entry.step is not None and static_int(entry.step) != 1:
        raise FrontendError(
            f"mode {mode} of `{tensor}` is sliced with a step",
            fix="slices of tiles are contiguous; use a global view with that stride",
        )
    start = 0 if entry.start is None else entry.start
    stop = (extent or None) if entry.stop is None else entry.stop
    size = None if stop is None else difference(stop, start)
    if size is None or size < 1:
        raise FrontendError(
            f"the slice of mode {mode} of `{tensor}` needs a positive size known at compile time",
            fix="write t[start : start + 16] with a constant size, or hx.ds(start, 16)",
        )
    _check(static_int(start), size, extent, mode, tensor)
    return as_scalar(start), size


def _check(start: int | None, size: int, extent: int, mode: int, tensor: str) -> None:
    if start is not None and (start < 0 or (extent and start + size > extent)):
        raise FrontendError(
            f"[{start}, {start + size}) is out of range for mode {mode} of `{tensor}`, "
            f"whose extent is {extent}",
            fix=f"stay within [0, {extent})",
        )


def _text(value: object) -> str:
    return show(value) if isinstance(value, ScalarBase) else repr(value)  # type: ignore[arg-type]
