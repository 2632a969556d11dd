"""`CudaDriver` against a library that answers as libcuda does: handles in full, errors in words."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from hexcute_core.errors import LaunchError, MissingDependency
from hexcute_core.runtime import cuda_driver
from hexcute_core.runtime.cuda_driver import CudaDriver

HANDLE = 0x7F12_3456_789A_BCD0
"""A handle as wide as an address: cut to 32 bits anywhere, it differs."""


class Answer:
    """One entry point: logs its plain arguments, writes `out` through the first, returns 0."""

    def __init__(self, library: Libcuda, name: str, out: Any) -> None:
        self.library, self.name, self.out = library, name, out

    def __call__(self, *args: Any) -> int:
        plain = [getattr(arg, "value", arg) for arg in args if not hasattr(arg, "_obj")]
        self.library.log.append((self.name, *plain))
        status = self.library.failing.get(self.name, 0)
        if status == 0 and self.out is not None:
            for arg in args:
                if hasattr(arg, "_obj"):
                    arg._obj.value = self.out(*plain) if callable(self.out) else self.out
        return status


class Libcuda:
    """Entry points by name, and which of them fail with which status."""

    answers: dict[str, Any] = {
        "cuDeviceGetCount": 2,
        "cuDeviceGet": lambda ordinal: ordinal + 40,
        "cuDeviceGetAttribute": lambda attribute, device: {75: 9, 76: 0, 97: 232448}[attribute],
        "cuDevicePrimaryCtxRetain": HANDLE,
        "cuCtxGetCurrent": HANDLE + 1,
        "cuModuleLoadData": HANDLE + 2,
        "cuModuleGetFunction": HANDLE + 3,
        "cuThreadExchangeStreamCaptureMode": 0,
        "cuGetErrorName": b"CUDA_ERROR_NO_BINARY_FOR_GPU",
        "cuGetErrorString": b"no kernel image is available",
    }

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.failing: dict[str, int] = {}
        self._made: dict[str, Answer] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return self._made.setdefault(name, Answer(self, name, self.answers.get(name)))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Libcuda:
    library = Libcuda()
    monkeypatch.setattr(cuda_driver, "_open", lambda: library)
    return library


def test_handles_and_attributes_come_through_whole(library: Libcuda) -> None:
    driver = CudaDriver()
    assert library.log == [("cuInit", 0)]
    assert driver.device_count() == 2
    assert driver.capability(1) == (9, 0)
    assert ("cuDeviceGetAttribute", 75, 41) in library.log
    assert driver.shared_limit(0) == 232448
    assert driver.current_context() == HANDLE + 1
    driver.set_context(HANDLE)
    driver.allow_shared(HANDLE + 3, 100_000)
    assert library.log[-2:] == [
        ("cuCtxSetCurrent", HANDLE),
        ("cuFuncSetAttribute", HANDLE + 3, 8, 100_000),
    ]


def test_a_primary_context_is_retained_once(library: Libcuda) -> None:
    driver = CudaDriver()
    assert driver.primary_context(1) == driver.primary_context(1) == HANDLE
    assert library.log.count(("cuDevicePrimaryCtxRetain", 41)) == 1


def test_loading_is_allowed_during_capture_and_the_mode_comes_back(library: Libcuda) -> None:
    driver = CudaDriver()
    assert driver.load(b"image", "kernel") == HANDLE + 3
    assert [entry[0] for entry in library.log[1:]] == [
        "cuThreadExchangeStreamCaptureMode",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuThreadExchangeStreamCaptureMode",
    ]
    assert library.log[2] == ("cuModuleLoadData", b"image")
    assert library.log[3] == ("cuModuleGetFunction", HANDLE + 2, b"kernel")
    library.failing["cuModuleLoadData"] = 209
    with pytest.raises(
        LaunchError,
        match="cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image"
        "(.|\n)*fix: compile for this GPU's target",
    ):
        driver.load(b"image", "kernel")
    assert library.log[-1][0] == "cuThreadExchangeStreamCaptureMode"


def test_a_driver_that_does_not_start_is_a_missing_dependency(library: Libcuda) -> None:
    library.failing["cuInit"] = 100
    with pytest.raises(MissingDependency, match=r"does not start(.|\n)*nvidia-smi"):
        CudaDriver()


def test_an_unknown_status_still_has_words(library: Libcuda) -> None:
    library.failing = {"cuGetErrorName": 1, "cuGetErrorString": 1}
    assert CudaDriver().words(4711) == ("CUDA error 4711: unknown", None)


def test_a_launch_passes_four_addresses(library: Libcuda) -> None:
    driver = CudaDriver()
    assert driver.launch(HANDLE, HANDLE + 3, HANDLE + 4, None) == 0
    entry = library.log[-1]
    assert entry == ("cuLaunchKernelEx", HANDLE, HANDLE + 3, HANDLE + 4, None)
    assert driver.launch.argtypes == [ctypes.c_void_p] * 4  # type: ignore[attr-defined]
