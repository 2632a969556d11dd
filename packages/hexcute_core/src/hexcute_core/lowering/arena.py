"""One shared arena a kernel: byte offset of every shared tensor, and scratch for reductions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hexcute_core.arch import Arch
from hexcute_core.errors import NoLayout
from hexcute_core.tile import SharedTensor, TileProgram

ALIGNMENT = 128


def tensor_bytes(tensor: SharedTensor) -> int:
    """Bytes of a shared tensor, whole bytes for sub-byte types."""
    elements = 1
    for extent in tensor.shape:
        elements *= extent
    return -(-elements * tensor.dtype.bits // 8)


@dataclass(frozen=True)
class Arena:
    """Offsets and total size, in bytes."""

    offsets: Mapping[str, int]
    size: int


def build_arena(program: TileProgram, arch: Arch, alignment: int, scratch: int = 0) -> Arena:
    """Lays the shared tensors out one after another, `alignment` bytes apart at least, then
    `scratch` bytes under the name ``""``.

    Raises NoLayout where they exceed what a block of `arch` may have.
    """
    offsets: dict[str, int] = {}
    size = 0
    tensors = [t for t in program.tensors if isinstance(t, SharedTensor)]
    for tensor in tensors:
        offsets[tensor.name] = size
        size += -(-tensor_bytes(tensor) // alignment) * alignment
    if scratch:
        offsets[""] = size
        size += scratch
    if size > arch.shared_per_block:
        listed = ", ".join(f"{t.name} {tensor_bytes(t)}" for t in tensors)
        raise NoLayout(
            f"the block needs {size} bytes of shared memory ({listed}), {arch.name} has "
            f"{arch.shared_per_block}",
            program.span,
            "use smaller tiles or fewer stages",
        )
    return Arena(offsets, size)
