"""The calls of the CUDA driver that recording and replaying launches need, through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_DYNAMIC_SHARED_BYTES = 8
_USUAL_SHARED_BYTES = 48 * 1024
_MAP_ALIGNMENT = 64


class GpuError(Exception):
    """A call of the driver that failed."""


class Gpu:
    """Memory, code and launches of the context that is current; handles and addresses are
    integers. Raises GpuError."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._lib, name)(*args)
        if status != 0:
            raise GpuError(f"{name} gave {status}")

    def open(self, device: int = 0) -> None:
        """Makes the device's primary context current."""
        self._call("cuCtxSetCurrent", self._primary(device))

    def _primary(self, device: int) -> ctypes.c_void_p:
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(handle), device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        return context

    @contextmanager
    def current(self) -> Iterator[None]:
        """Lends the first device's context to a thread that has none."""
        context = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        if context.value is not None:
            yield
            return
        self._call("cuCtxPushCurrent_v2", self._primary(0))
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(context))

    def wait(self) -> None:
        """Until all that was launched is over."""
        self._call("cuCtxSynchronize")

    def capturing(self, stream: int) -> bool:
        """Whether launches in a stream are being captured, so that they do not run."""
        status = ctypes.c_int()
        try:
            self._call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
        except GpuError:
            return True
        return status.value != 0

    def is_memory(self, address: int) -> bool:
        """Whether there is memory of a GPU at an address."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        found = (ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
        try:
            self._call("cuMemGetAddressRange_v2", *found)
        except GpuError:
            return False
        return True

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def read(self, address: int, size: int) -> bytearray:
        data = bytearray(size)
        there = (ctypes.c_char * size).from_buffer(data)
        self._call("cuMemcpyDtoH_v2", there, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data

    def write(self, address: int, data: bytes) -> None:
        size = ctypes.c_size_t(len(data))
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, size)

    def fill(self, address: int, word: int, count: int, stream: int) -> None:
        """Words of 32 bits, in a stream."""
        self._call(
            "cuMemsetD32Async", ctypes.c_uint64(address), ctypes.c_uint32(word),
            ctypes.c_size_t(count), ctypes.c_void_p(stream),
        )  # fmt: skip

    def load(self, image: bytes, name: str) -> tuple[int, int]:
        """The module, and its function of a name."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return module.value or 0, function.value or 0

    def unload(self, module: int) -> None:
        self._call("cuModuleUnload", ctypes.c_void_p(module))

    def parameter_sizes(self, function: int) -> tuple[int, ...]:
        """Bytes of each of a function's parameters."""
        sizes: list[int] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while True:
            which = (ctypes.c_void_p(function), ctypes.c_size_t(len(sizes)))
            try:
                self._call("cuFuncGetParamInfo", *which, ctypes.byref(offset), ctypes.byref(size))
            except GpuError:
                return tuple(sizes)
            sizes.append(size.value)

    def moved_map(self, tensor_map: bytes, address: int) -> bytes:
        """A CUtensorMap of the same tensor at another address."""
        room = ctypes.create_string_buffer(len(tensor_map) + _MAP_ALIGNMENT)
        start = -ctypes.addressof(room) % _MAP_ALIGNMENT
        room[start : start + len(tensor_map)] = tensor_map  # type: ignore[call-overload]
        place = ctypes.c_void_p(ctypes.addressof(room) + start)
        self._call("cuTensorMapReplaceAddress", place, ctypes.c_void_p(address))
        return room.raw[start : start + len(tensor_map)]

    def launch(
        self,
        function: int,
        shape: bytes,
        shared: int,
        attributes: tuple[bytes, int],
        values: Sequence[bytes],
    ) -> None:
        """`shape`: the first 28 bytes of a CUlaunchConfig, from the grid to the shared bytes;
        `attributes`: those of the launch, and their number."""
        if shared > _USUAL_SHARED_BYTES:
            handle = ctypes.c_void_p(function)
            self._call("cuFuncSetAttribute", handle, _DYNAMIC_SHARED_BYTES, shared)
        packed, count = attributes
        listed = ctypes.create_string_buffer(packed, max(len(packed), 1))
        where = ctypes.addressof(listed) if count else 0
        config = shape + bytes(12) + where.to_bytes(8, "little") + count.to_bytes(8, "little")
        rooms = [_aligned(value) for value in values]
        addresses = (ctypes.c_void_p * max(len(rooms), 1))(*(address for _, address in rooms))
        self._call("cuLaunchKernelEx", config, ctypes.c_void_p(function), addresses, None)


def _aligned(value: bytes) -> tuple[Any, int]:
    """Memory with a parameter at an address that any type may have, and the address."""
    room = ctypes.create_string_buffer(len(value) + _MAP_ALIGNMENT)
    start = -ctypes.addressof(room) % _MAP_ALIGNMENT
    room[start : start + len(value)] = value  # type: ignore[call-overload]
    return room, ctypes.addressof(room) + start
