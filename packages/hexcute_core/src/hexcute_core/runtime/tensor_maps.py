"""Tensor maps at launch: a kernel's values -> the 128 bytes of each descriptor, kept for reuse.

A descriptor depends on the tensor's address, extents and strides alone; one seen before costs the
look-up of a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import itemgetter
from typing import Any, TypeAlias

from hexcute_core.dtypes import BY_NAME
from hexcute_core.errors import LaunchError
from hexcute_core.runtime.cuda_driver import Driver
from hexcute_core.runtime.signature import ALIGNMENT, Signature, TensorParam
from hexcute_core.thread import TensorMap
from hexcute_core.thread.verify_sm90 import box_problem

MapOf: TypeAlias = Callable[[Sequence[Any]], bytes]
"""Takes the kernel's values; gives the descriptor."""

MAP_BYTES = 128
MAP_ALIGNMENT = 64
MOST_KEPT = 4096
"""Descriptors kept a map; calls with more tensors than this in turn encode again."""
_LARGEST_EXTENT, _STRIDE_LIMIT = 2**32, 2**40
# Where an empty tensor's map points, to one row of 16 bytes that nothing moves.
_NOWHERE = 256


class _Maker:
    """Makes the descriptors of one map; raises what is wrong with the tensor."""

    def __init__(self, tensor_map: TensorMap, signature: Signature, driver: Driver) -> None:
        self.map, self.signature, self.driver = tensor_map, signature, driver
        tensors = {t.name: t for t in signature.tensors}
        if tensor_map.param not in tensors:
            raise self.error(f"the tensor map {tensor_map.name} is of no tensor of the kernel")
        self.param: TensorParam = tensors[tensor_map.param]
        bits = BY_NAME[self.param.dtype_name].bits
        # Packed elements are moved as the bytes that hold them.
        self.per_byte, self.bits = max(1, 8 // bits), max(8, bits)
        self.element = "u8" if self.per_byte > 1 else self.param.dtype_name
        self.names = signature.value_names
        problem = box_problem(tensor_map.box, tensor_map.swizzle, self.bits)
        if problem is None and len(tensor_map.box) != len(self.param.shape):
            problem = f"the tensor has {len(self.param.shape)} dimensions"
        if problem is not None:
            box = " x ".join(map(str, tensor_map.box))
            raise self.error(f"argument {self.param.name!r}: no boxes of {box}: {problem}")

    def error(self, message: str, fix: str | None = None) -> LaunchError:
        return LaunchError(f"{self.signature.kernel}: {message}", self.signature.span, fix)

    @property
    def places(self) -> tuple[int, ...]:
        """Where the address, run-time extents and strides stand among the kernel's values."""
        written = (*self.param.shape, *self.param.strides)
        extents = dict.fromkeys(e for e in written if isinstance(e, str))
        return tuple(self.names.index(name) for name in (self.param.name, *extents))

    def make(self, values: Sequence[Any]) -> bytes:
        at = self.names.index
        address = values[at(self.param.name)]
        extents, steps = (
            [e if isinstance(e, int) else values[at(e)] for e in numbers]
            for numbers in (self.param.shape, self.param.strides)
        )
        extents[-1] //= self.per_byte
        steps = steps or [prod(extents[d + 1 :]) for d in range(len(extents))]
        dims = self.map.dims or range(len(extents))
        extents, steps = [extents[d] for d in dims], [steps[d] for d in dims]
        if 0 in extents:
            row = ALIGNMENT * 8 // self.bits
            extents, steps, address = [*(1 for _ in dims[1:]), row], [row for _ in dims], _NOWHERE
        size = self.bits // 8
        strides = [step * size for step in steps[-2::-1]]
        if self.param.strides:
            # The stride of a dimension with one element is never taken, and may be any.
            pairs = zip(extents[-2::-1], strides)
            strides = [stride if extent > 1 else ALIGNMENT for extent, stride in pairs]
        self._check(address, extents, strides)
        return self.driver.tensor_map(
            self.element, address, extents[::-1], strides, self.map.box[::-1],
            self.map.swizzle,
        )  # fmt: skip

    def _check(self, address: int, extents: Sequence[int], strides: Sequence[int]) -> None:
        name = self.param.name
        if address % ALIGNMENT:
            raise self.error(
                f"argument {name!r}: a tensor moved by TMA starts at a multiple of {ALIGNMENT} "
                f"bytes, got address {address:#x}",
                fix=f"pass {name}.clone()",
            )
        for axis, extent in enumerate(extents):
            if extent > _LARGEST_EXTENT:
                raise self.error(
                    f"argument {name!r}: dimension {axis} is {extent}, TMA takes at most 2^32"
                )
        for stride in strides:
            if stride % ALIGNMENT:
                raise self.error(
                    f"argument {name!r}: TMA moves rows of a multiple of {ALIGNMENT} "
                    f"bytes, a row of {list(extents)} {self.element} has {stride}",
                    fix="pad the rows",
                )
            if stride >= _STRIDE_LIMIT:
                raise self.error(
                    f"argument {name!r}: a stride is {stride} bytes, TMA takes less "
                    "than 2^40"
                )


def map_of(tensor_map: TensorMap, signature: Signature, driver: Driver) -> MapOf:
    """The descriptor as a function of a kernel's values. Raises `LaunchError` for a map that no
    tensor of the signature can have; the function raises it naming the tensor that does not fit.
    """
    maker = _Maker(tensor_map, signature, driver)
    key_of = itemgetter(*maker.places)
    kept: dict[Any, bytes] = {}

    def look_up(values: Sequence[Any]) -> bytes:
        key = key_of(values)
        found = kept.get(key)
        if found is None:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[key] = found = maker.make(values)
        return found

    return look_up
