"""global_view(b, (shape, stride)): modes of coordinate steps over a parameter's buffer."""

from __future__ import annotations

from dataclasses import replace

from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.lift import Along, Refused, lift
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.rows import named_mode, names_places
from hexcute_core.frontend.language.subscript import static_int, whole
from hexcute_core.frontend.language.tiles import Tile, describe
from hexcute_core.scalar import as_scalar
from hexcute_core.tile import GlobalView, SubMode, TileRef


def global_view(buffer: object, layout: object) -> Tile:
    """A view of tensor parameter `buffer`, its origin moved by subscripts such as `a[bm:, :]`.

    `layout` is (shape, stride), in elements, one entry per mode; an entry may be a tuple of
    sub-modes, first fastest. Strides are read against the buffer's own and become
    steps along its dimensions; `hx.along(dim, step)` names the dimension directly. One stride may
    be a shared tile of i32, which says where each element of its mode lies. Raises `FrontendError`
    where a stride has no single meaning.
    """
    builder = current("hx.global_view")
    if not isinstance(buffer, Param):
        raise builder.error(
            f"hx.global_view expects a tensor parameter, got {describe(buffer)}",
            fix="pass a parameter annotated like `a: f16[m, k]`, or a[start:, :] of it",
        )
    if not isinstance(layout, tuple) or len(layout) != 2:
        raise builder.error(
            "the layout of a global view is a pair (shape, stride)",
            fix="write hx.global_view(a, ((BM, BK), (k, 1)))",
        )
    shape, stride = (e if isinstance(e, tuple) else (e,) for e in layout)
    if len(shape) != len(stride):
        raise builder.error(
            f"the layout's shape has {len(shape)} modes and its stride {len(stride)}",
            fix="give one stride per mode",
        )
    name = builder.take_hint(f"view_{buffer.tensor.name}")
    named = [m for m, s in enumerate(stride) if names_places(s)]
    if len(named) > 1:
        raise builder.error(
            f"modes {named[0]} and {named[1]} of a view are named by tiles",
            fix="name the rows of one mode, and let the others step",
        )
    modes: list[tuple[SubMode, ...]] = []
    rows: TileRef | None = None
    for e, s in zip(shape, stride):
        if names_places(s):
            mode, rows = named_mode(buffer, e, s)
            modes.append((mode,))
        else:
            modes.append(_mode(buffer, e, s))
    origin = tuple(builder.stable(start, f"{name}_at") for start in buffer.origin)
    view = GlobalView(
        name, buffer.tensor.name, buffer.dtype, origin, tuple(modes), builder.span,
        named[0] if named else None,
    )  # fmt: skip
    builder.add_tensor(view)
    return Tile(view, replace(whole(view), rows=rows))


def _mode(buffer: Param, shape: object, stride: object) -> tuple[SubMode, ...]:
    builder = current("hx.global_view")
    if isinstance(shape, tuple) != isinstance(stride, tuple) or (
        isinstance(shape, tuple) and isinstance(stride, tuple) and len(shape) != len(stride)
    ):
        raise builder.error(
            f"shape {_text(shape)} and stride {_text(stride)} of a mode are not congruent",
            fix="nest the strides exactly as the shape",
        )
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        return tuple(sub for e, s in zip(shape, stride) for sub in _mode(buffer, e, s))
    if names_places(stride):
        raise builder.error(
            "a tile of numbers names the rows of a sub-mode",
            fix="name the rows of a mode without sub-modes, as in ((BM, BK), (rows, 1))",
        )
    extent, known = as_scalar(shape), static_int(shape)
    if not extent.dtype.is_integer or (known is not None and known < 1):
        raise builder.error(
            f"{_text(shape)} is not an extent of a view", fix="use a positive integer"
        )
    step = stride if isinstance(stride, Along) else as_scalar(stride)
    lifted = lift(step, extent, buffer.tensor, buffer.fixed)
    if isinstance(lifted, Refused):
        raise builder.error(f"{lifted.reason} (view of `{buffer.tensor.name}`)", lifted.fix)
    return (SubMode(extent, as_scalar(lifted.step), lifted.dim),)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_text(v) for v in value) + ")"
    return str(value)


def along(dim: int, step: int | Tile = 1) -> Along:
    """A stride of `step` elements along dimension `dim` of the buffer, whatever its extents, or a
    tile of numbers that are coordinates there."""
    return Along(dim, step)
