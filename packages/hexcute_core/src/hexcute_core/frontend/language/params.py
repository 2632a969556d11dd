"""`a[bm:, :]`: a tensor parameter and the buffer coordinate its views start from; `a[i, j]`: the
number there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hexcute_core.dtypes import DType
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.lift import strides
from hexcute_core.frontend.language.reads import read
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.scalar import Scalar, ScalarBase, as_scalar, binary, show
from hexcute_core.scalar.poly import scalar
from hexcute_core.tile import GlobalTensor


@dataclass(frozen=True)
class Param:
    """A tensor parameter, its origin moved by subscripts; `fixed` dimensions had an integer."""

    tensor: GlobalTensor
    origin: tuple[Scalar, ...]
    fixed: frozenset[int] = frozenset()

    @property
    def shape(self) -> tuple[Scalar | int, ...]:
        """Extents of the whole parameter."""
        known = (static_int(extent) for extent in self.tensor.shape)
        return tuple(e if k is None else k for e, k in zip(self.tensor.shape, known))

    @property
    def strides(self) -> tuple[Scalar | int, ...]:
        """Strides of the whole parameter, in elements, whether it has its own or is row-major."""
        units = [scalar(unit) for unit in strides(self.tensor)]
        known = [static_int(unit) for unit in units]
        return tuple(unit if k is None else k for unit, k in zip(units, known))

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def __getitem__(self, index: object) -> Any:
        """The origin moved: one entry per dimension, `start:` or an integer. With an integer for
        every dimension, the number that stands there, which all threads read."""
        builder = current("a[start:, :]")
        entries = index if isinstance(index, tuple) else (index,)
        free = [d for d in range(len(self.origin)) if d not in self.fixed]
        if len(entries) > len(free):
            raise builder.error(
                f"{len(entries)} subscripts for the parameter `{self.tensor.name}`, which has "
                f"{len(free)} dimensions left",
                fix=f"write at most {len(free)}",
            )
        origin, fixed = list(self.origin), set(self.fixed)
        for dim, entry in zip(free, entries):
            if not isinstance(entry, slice):
                fixed.add(dim)
            origin[dim] = binary("add", origin[dim], self._start(dim, entry))
        if len(fixed) == len(origin):
            return read(self.tensor, tuple(origin))
        return Param(self.tensor, tuple(origin), frozenset(fixed))

    def _start(self, dim: int, entry: object) -> object:
        start = entry
        where = f"dimension {dim} of the parameter `{self.tensor.name}`"
        if isinstance(entry, slice):
            if entry.stop is not None or entry.step is not None:
                raise current("a[start:]").error(
                    f"{where} is sliced with an end or a step",
                    fix="write only the start, a[start:]; the view's layout says how far it goes",
                )
            start = 0 if entry.start is None else entry.start
        number = isinstance(start, (int, ScalarBase)) and not isinstance(start, bool)
        if not number or not as_scalar(start).dtype.is_integer:
            raise current("a[start:]").error(
                f"{where} cannot start at {start!r}",
                fix="use an integer or an integer scalar of the kernel",
            )
        known = static_int(start)
        if known is not None and known < 0:
            # numpy counts a constant from the end, a start computed at run time lies before 0.
            extent = show(self.tensor.shape[dim])
            raise current("a[start:]").error(
                f"{where} starts at the constant {known}, which may be meant from its end or "
                "before its beginning",
                fix=f"write {extent} - {-known} for the last ones; a view that begins before the "
                "tensor starts at what the kernel computes, as in a[bm - 1 :]",
            )
        return start
