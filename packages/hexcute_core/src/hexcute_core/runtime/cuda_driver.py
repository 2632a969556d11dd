"""The CUDA driver through ctypes: the calls a kernel needs from file to launch.

`Driver` is what the rest of the runtime asks for; `CudaDriver` is the one on libcuda, loaded at
first use. Contexts are the devices' primary ones, which torch uses too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from hexcute_core.errors import LaunchError, MissingDependency

LaunchCall: TypeAlias = Callable[[int, int, int, None], int]
"""cuLaunchKernelEx(address of config, function, address of the parameters' addresses, None)."""

INVALID_CONTEXT = 201
_MAX_DYNAMIC_SHARED_BYTES = 8
_MULTIPROCESSORS = 16
_SHARED_BYTES_OPTIN = 97
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_CAPTURE_RELAXED = 2
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
# CUtensorMapDataType: tf32 and the types that it lacks move as the bits they are.
_MAP_TYPES = {
    "f16": 6, "bf16": 9, "f32": 7, "tf32": 7, "f64": 8, "i8": 0, "u8": 0, "bool": 0, "f8e4m3": 0,
    "f8e5m2": 0, "i16": 1, "u16": 1, "i32": 3, "u32": 2, "i64": 5, "u64": 4,
}  # fmt: skip
_MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_NO_INTERLEAVE, _L2_256_BYTES, _ZERO_FILL = 0, 3, 0
_NO_DRIVER_FIX = (
    "install the NVIDIA driver (nvidia-smi must list the GPU); "
    "without a GPU, run the kernel's simulate(...)"
)
_FIXES = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "compile for this GPU's target",
    "CUDA_ERROR_INVALID_IMAGE": "update the NVIDIA driver: it must know the toolkit's cubins",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "use fewer threads per block or smaller register tiles",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an earlier kernel broke this process's context: restart it",
}


class Driver(Protocol):
    """The CUDA driver as the runtime uses it. Handles are integers; failures `LaunchError`."""

    launch: LaunchCall

    def device_count(self) -> int: ...
    def capability(self, device: int) -> tuple[int, int]: ...
    def multiprocessors(self, device: int) -> int: ...
    def shared_limit(self, device: int) -> int: ...
    def primary_context(self, device: int) -> int: ...
    def current_context(self) -> int: ...
    def set_context(self, context: int) -> None: ...
    def load(self, image: bytes, name: str) -> int: ...
    def allow_shared(self, function: int, size: int) -> None: ...
    def words(self, status: int) -> tuple[str, str | None]: ...
    def tensor_map(
        self,
        dtype: str,
        address: int,
        extents: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        swizzle: int,
    ) -> bytes: ...


def _open() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise MissingDependency(
            f"launching needs the NVIDIA driver: {error}", fix=_NO_DRIVER_FIX
        ) from error


class CudaDriver:
    """`Driver` on libcuda. Raises `MissingDependency` where there is no driver or no GPU."""

    def __init__(self) -> None:
        self._lib = _open()
        status = self._lib.cuInit(0)
        if status != 0:
            raise MissingDependency(
                f"the NVIDIA driver does not start: {self.words(status)[0]}", fix=_NO_DRIVER_FIX
            )
        launch: Any = self._lib.cuLaunchKernelEx
        launch.argtypes = [ctypes.c_void_p] * 4
        launch.restype = ctypes.c_int
        self.launch: LaunchCall = launch
        self._contexts: dict[int, int] = {}

    def _call(self, name: str, *args: Any) -> None:
        call = getattr(self._lib, name, None)
        if call is None:
            raise LaunchError(f"the NVIDIA driver has no {name}", fix="update the NVIDIA driver")
        status = call(*args)
        if status != 0:
            words, fix = self.words(status)
            raise LaunchError(f"{name} failed: {words}", fix=fix)

    def words(self, status: int) -> tuple[str, str | None]:
        """A status as 'NAME: description', and what to do about it where that is known."""
        name, description = ctypes.c_char_p(), ctypes.c_char_p()
        self._lib.cuGetErrorName(status, ctypes.byref(name))
        self._lib.cuGetErrorString(status, ctypes.byref(description))
        title = (name.value or f"CUDA error {status}".encode()).decode()
        return f"{title}: {(description.value or b'unknown').decode()}", _FIXES.get(title)

    def device_count(self) -> int:
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def _device(self, device: int) -> ctypes.c_int:
        handle = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(handle), device)
        return handle

    def _attribute(self, device: int, attribute: int) -> int:
        value = ctypes.c_int()
        handle = self._device(device)
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, handle)
        return value.value

    def capability(self, device: int) -> tuple[int, int]:
        """(major, minor) of the GPU: (9, 0) for an H100."""
        major = self._attribute(device, _CAPABILITY_MAJOR)
        return major, self._attribute(device, _CAPABILITY_MINOR)

    def multiprocessors(self, device: int) -> int:
        """Multiprocessors of the GPU: 132 for an H100 SXM."""
        return self._attribute(device, _MULTIPROCESSORS)

    def shared_limit(self, device: int) -> int:
        """Bytes of shared memory a block may have, by opting in."""
        return self._attribute(device, _SHARED_BYTES_OPTIN)

    def primary_context(self, device: int) -> int:
        """The device's primary context, held until the process ends."""
        if device not in self._contexts:
            context = ctypes.c_void_p()
            handle = self._device(device)
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
            self._contexts[device] = context.value or 0
        return self._contexts[device]

    def current_context(self) -> int:
        context = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value or 0

    def set_context(self, context: int) -> None:
        self._call("cuCtxSetCurrent", ctypes.c_void_p(context))

    def load(self, image: bytes, name: str) -> int:
        """Loads machine code into the current context; the function called `name`.

        Loading is allowed while a stream of this thread is being captured.
        """
        mode = ctypes.c_int(_CAPTURE_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self._call("cuModuleLoadData", ctypes.byref(module), image)
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            return function.value or 0
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def allow_shared(self, function: int, size: int) -> None:
        """Lets launches of the function ask for up to `size` bytes of dynamic shared memory."""
        self._call(
            "cuFuncSetAttribute", ctypes.c_void_p(function), _MAX_DYNAMIC_SHARED_BYTES, size
        )

    def tensor_map(
        self,
        dtype: str,
        address: int,
        extents: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        swizzle: int,
    ) -> bytes:
        """The 128 bytes of a CUtensorMap: all innermost first, strides in bytes, without the
        innermost dimension's own."""
        rank = len(extents)
        room = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGNMENT)
        start = -ctypes.addressof(room) % _MAP_ALIGNMENT
        self._call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(ctypes.addressof(room) + start),
            _MAP_TYPES[dtype],
            ctypes.c_uint32(rank),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*extents),
            (ctypes.c_uint64 * rank)(*strides),
            (ctypes.c_uint32 * rank)(*box),
            (ctypes.c_uint32 * rank)(*(1,) * rank),
            _NO_INTERLEAVE,
            _MAP_SWIZZLES[swizzle],
            _L2_256_BYTES,
            _ZERO_FILL,
        )
        return room.raw[start : start + _MAP_BYTES]


@lru_cache(maxsize=1)
def cuda_driver() -> CudaDriver:
    """The process's driver, started at the first call."""
    return CudaDriver()
