"""One launch: grid, stream, parameters and tensor maps packed into prepared memory, then one call.

    memory: CUlaunchConfig | 8 bytes per value | padding | 128 bytes per tensor map | attributes

Blocks of memory are taken from a pool, so that threads may launch the same kernel at once. Calls
that differ in stream and addresses alone keep a block each, which nothing is written to again.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hexcute_core.runtime.cuda_driver import Driver
from hexcute_core.runtime.image import KernelImage
from hexcute_core.runtime.tensor_maps import MAP_ALIGNMENT, MAP_BYTES, MapOf

Grid: TypeAlias = tuple[int, int, int]
Launch: TypeAlias = Callable[[Grid, int, Sequence[Any]], int]
"""Takes grid, stream and the kernel's values; gives the driver's status."""
MOST_KEPT = 512
"""Blocks of memory a fixed launch keeps; calls with more addresses than this in turn pack again."""

# CUlaunchConfig: grid, block, shared bytes; stream, attributes, their number.
_CONFIG = "<7I4xQQI4x"
_SLOT_BYTES = 8
# CUlaunchAttribute: its kind, padding to 8 bytes, a union of 64 bytes.
_ATTRIBUTE = "<I4x3I52x"
_CLUSTER_DIMENSION, _PROGRAMMATIC_SERIALIZATION = 4, 6


class _Layout:
    """Format and offsets of a kernel's launch memory."""

    def __init__(self, image: KernelImage) -> None:
        codes, maps = image.signature.value_codes, len(image.maps)
        slots = (f"{code}{_SLOT_BYTES - struct.calcsize(code)}x" for code in codes)
        text = _CONFIG + "".join(slots)
        padding = -struct.calcsize(text) % MAP_ALIGNMENT if maps else 0
        self.format = struct.Struct(f"{text}{padding}x" + f"{MAP_BYTES}s" * maps)
        first = struct.calcsize(_CONFIG)
        behind = first + len(codes) * _SLOT_BYTES + padding
        self.offsets = (
            *(first + i * _SLOT_BYTES for i in range(len(codes))),
            *(behind + i * MAP_BYTES for i in range(maps)),
        )
        packed = [struct.pack(_ATTRIBUTE, *fields) for fields in _attributes(image)]
        self.attributes, self.attribute_count = b"".join(packed), len(packed)


def _attributes(image: KernelImage) -> list[tuple[int, int, int, int]]:
    """Kind and first three words of each launch attribute."""
    found: list[tuple[int, int, int, int]] = []
    if image.cluster_dim != (1, 1, 1):
        found.append((_CLUSTER_DIMENSION, *image.cluster_dim))
    if image.dependent:
        found.append((_PROGRAMMATIC_SERIALIZATION, 1, 0, 0))
    return found


class _Block:
    """Memory of one launch from `start` on, a multiple of 64; `config`, `params` and `attributes`
    are addresses: of the configuration, of the parameters' addresses, of the attributes or 0."""

    def __init__(self, layout: _Layout) -> None:
        size = layout.format.size + len(layout.attributes)
        self.memory = bytearray(size + MAP_ALIGNMENT)
        base = ctypes.addressof((ctypes.c_char * len(self.memory)).from_buffer(self.memory))
        self.start = -base % MAP_ALIGNMENT
        self.config = base + self.start
        addresses = (self.config + offset for offset in layout.offsets)
        self._addresses = (ctypes.c_void_p * max(len(layout.offsets), 1))(*addresses)
        self.params = ctypes.addressof(self._addresses)
        end = self.start + layout.format.size
        self.memory[end : end + len(layout.attributes)] = layout.attributes
        self.attributes = base + end if layout.attributes else 0


Packed: TypeAlias = tuple[int, int, int, _Block]
"""Addresses of configuration, function and parameters' addresses, and the block they lie in, which
is to be held while the driver reads it."""
_Fill: TypeAlias = Callable[[_Block, Grid, int, Sequence[Any]], None]


def _filler(image: KernelImage, layout: _Layout, maps: Sequence[MapOf]) -> _Fill:
    """Packs one launch into a block."""
    pack, shared, count = layout.format.pack_into, image.shared_bytes, layout.attribute_count
    bx, by, bz = image.block_dim

    def fill(block: _Block, grid: Grid, stream: int, values: Sequence[Any]) -> None:
        if maps:
            values = [*values, *[descriptor(values) for descriptor in maps]]
        gx, gy, gz = grid
        pack(
            block.memory, block.start, gx, gy, gz, bx, by, bz, shared, stream, block.attributes,
            count, *values,
        )  # fmt: skip

    return fill


def make_launch(
    image: KernelImage, function: int, driver: Driver, maps: Sequence[MapOf] = ()
) -> Launch:
    """The launch of a loaded function, with all that does not change already looked up."""
    layout = _Layout(image)
    fill, call, pool = _filler(image, layout, maps), driver.launch, [_Block(layout)]

    def launch(grid: Grid, stream: int, values: Sequence[Any]) -> int:
        try:
            block = pool.pop()
        except IndexError:
            block = _Block(layout)
        fill(block, grid, stream, values)
        status = call(block.config, function, block.params, None)
        pool.append(block)
        return status

    return launch


class FixedLaunches:
    """Launches on one grid with these values behind the tensors' addresses; `kept` holds what was
    packed, by stream and addresses."""

    def __init__(
        self,
        image: KernelImage,
        function: int,
        maps: Sequence[MapOf],
        grid: Grid,
        numbers: Sequence[Any],
    ) -> None:
        self._layout = _Layout(image)
        self._fill = _filler(image, self._layout, maps)
        self._function, self._grid, self._numbers = function, grid, numbers
        self.kept: dict[tuple[int, ...], Packed] = {}

    def pack(self, stream_and_addresses: tuple[int, ...]) -> Packed:
        """Packs a launch that is not among those kept, and keeps it."""
        block, (stream, *addresses) = _Block(self._layout), stream_and_addresses
        self._fill(block, self._grid, stream, [*addresses, *self._numbers])
        if len(self.kept) >= MOST_KEPT:
            self.kept.clear()
        packed = self.kept[stream_and_addresses] = (
            block.config, self._function, block.params, block,
        )  # fmt: skip
        return packed
