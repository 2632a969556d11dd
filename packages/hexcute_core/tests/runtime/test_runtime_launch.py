"""Launches through a stand-in driver that reads the launch's memory back, as the real one does."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hexcute_core.errors import HexcuteError, LaunchError, MissingDependency
from hexcute_core.runtime import (
    KernelImage,
    LoadedKernel,
    ScalarParam,
    Signature,
    SymbolParam,
    TensorParam,
    device_count,
    device_target,
)
from hexcute_core.runtime import cuda_driver as cuda_driver_module
from hexcute_core.runtime.devices import runs_on
from hexcute_core.runtime.torch_link import TorchLink, torch_link

SIGNATURE = Signature(
    "kernel",
    (
        TensorParam("x", "f16", ("m",)),
        ScalarParam("scale", "f32"),
        ScalarParam("flag", "i8"),
        TensorParam("y", "f16", ("m",)),
    ),
    (SymbolParam("m"),),
)
IMAGE = KernelImage("kernel_0", b"code", "sm_90a", 100_000, (128, 2, 1), SIGNATURE)
VALUES = (2**48 + 16, 64, 0.25, -3, 1000)


class CudaLaunchConfig(ctypes.Structure):
    """CUlaunchConfig, as cuda.h declares it."""

    _fields_ = [
        *((f"grid{axis}", ctypes.c_uint) for axis in "XYZ"),
        *((f"block{axis}", ctypes.c_uint) for axis in "XYZ"),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


TYPES = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_float, ctypes.c_int8, ctypes.c_int32)


class FakeDriver:
    """Records what reaches the driver; `statuses` are returned by coming launches, then 0."""

    def __init__(self, capability: tuple[int, int] = (9, 0), devices: int = 2) -> None:
        self._capability, self._devices = capability, devices
        self.context = 100
        self.log: list[tuple[Any, ...]] = []
        self.launches: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.before_read: Callable[[], Any] = lambda: None

    def launch(self, config: int, function: int, params: int, extra: None) -> int:
        self.before_read()
        seen = CudaLaunchConfig.from_address(config)
        addresses = (ctypes.c_void_p * len(TYPES)).from_address(params)
        self.launches.append(
            {
                "grid": (seen.gridX, seen.gridY, seen.gridZ),
                "block": (seen.blockX, seen.blockY, seen.blockZ),
                "shared": seen.shared,
                "stream": seen.stream,
                "attributes": (seen.attributes, seen.attribute_count),
                "values": tuple(
                    kind.from_address(at).value for kind, at in zip(TYPES, addresses, strict=True)
                ),
                "function": function,
                "context": self.context,
            }
        )
        return self.statuses.pop(0) if self.statuses else 0

    def device_count(self) -> int:
        return self._devices

    def capability(self, device: int) -> tuple[int, int]:
        return self._capability

    def shared_limit(self, device: int) -> int:
        return 232_448

    def primary_context(self, device: int) -> int:
        return 100 + device

    def current_context(self) -> int:
        return self.context

    def set_context(self, context: int) -> None:
        self.context = context

    def load(self, image: bytes, name: str) -> int:
        self.log.append(("load", image, name, self.context))
        return 1000 + self.context

    def allow_shared(self, function: int, size: int) -> None:
        self.log.append(("allow", function, size))

    def words(self, status: int) -> tuple[str, str | None]:
        return f"CUDA_ERROR_{status}: no luck", "try again"


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


def kernel(driver: FakeDriver, image: KernelImage = IMAGE) -> LoadedKernel:
    torch = TorchLink(lambda: driver.context - 100, lambda device: 7000 + device)
    return LoadedKernel(image, driver, torch)


def test_the_driver_finds_grid_block_stream_and_parameters_in_place(driver: FakeDriver) -> None:
    kernel(driver).launch_bound((5, 6, 7), 0, VALUES)
    assert driver.launches == [
        {
            "grid": (5, 6, 7),
            "block": (128, 2, 1),
            "shared": 100_000,
            "stream": 7000,
            "attributes": (None, 0),
            "values": VALUES,
            "function": 1100,
            "context": 100,
        }
    ]


def test_a_kernel_loads_once_a_device_and_at_its_first_launch(driver: FakeDriver) -> None:
    loaded = kernel(driver)
    assert driver.log == []
    for _ in range(3):
        loaded.launch_bound((1, 1, 1), 0, VALUES)
    loaded.load(0)
    assert driver.log == [("load", b"code", "kernel_0", 100), ("allow", 1100, 100_000)]
    loaded.load(1)
    assert driver.log[2:] == [("load", b"code", "kernel_0", 101), ("allow", 1101, 100_000)]
    assert driver.context == 100


def test_little_shared_memory_needs_no_permission(driver: FakeDriver) -> None:
    small = KernelImage("kernel_0", b"code", "sm_90a", 49152, (32, 1, 1), SIGNATURE)
    kernel(driver, small).load(0)
    assert [entry[0] for entry in driver.log] == ["load"]


def test_tensors_elsewhere_launch_there_and_the_context_comes_back(driver: FakeDriver) -> None:
    kernel(driver).launch_bound((1, 1, 1), 1, VALUES)
    (launch,) = driver.launches
    assert (launch["context"], launch["stream"], launch["function"]) == (101, 7001, 1101)
    assert driver.context == 100


def test_the_context_comes_back_when_loading_fails(driver: FakeDriver) -> None:
    def refuse(image: bytes, name: str) -> int:
        raise LaunchError("bad image")

    driver.load = refuse  # type: ignore[method-assign]
    with pytest.raises(LaunchError, match="bad image"):
        kernel(driver).load(1)
    assert driver.context == 100


def test_a_thread_without_a_context_gets_one(driver: FakeDriver) -> None:
    loaded = kernel(driver)
    loaded.load(0)
    driver.statuses = [201]
    loaded.launch_bound((1, 1, 1), 0, VALUES)
    assert len(driver.launches) == 2
    driver.statuses = [201, 201]
    with pytest.raises(LaunchError, match="CUDA_ERROR_201"):
        loaded.launch_bound((1, 1, 1), 0, VALUES)


def test_an_empty_grid_is_no_error(driver: FakeDriver) -> None:
    driver.statuses = [1]
    kernel(driver).launch_bound((4, 0, 1), 0, VALUES)


def test_the_drivers_refusal_is_told(driver: FakeDriver) -> None:
    loaded = kernel(driver)
    driver.statuses = [700]
    with pytest.raises(
        LaunchError,
        match=r"kernel: the launch on GPU 0 failed: CUDA_ERROR_700: no luck\n  fix: try",
    ):
        loaded.launch_bound((1, 1, 1), 0, VALUES)
    driver.statuses = [1]
    with pytest.raises(LaunchError, match="70000 blocks along y, at most 65535"):
        loaded.launch_bound((1, 70000, 1), 0, VALUES)


@pytest.mark.parametrize(
    ("grid", "values", "words"),
    [
        ((1, 1, 1), (*VALUES[:4], 2**31), "m = 2147483648 does not fit"),
        ((1, 1, 1), (*VALUES[:3], 200, 1), "flag = 200 does not fit"),
        ((-1, 1, 1), VALUES, r"expected a grid .*, got \(-1, 1, 1\)"),
        ((1.5, 1, 1), VALUES, r"expected a grid .*, got \(1\.5, 1, 1\)"),
    ],
)
def test_numbers_that_do_not_fit_are_named(
    driver: FakeDriver, grid: Any, values: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(LaunchError, match=words):
        kernel(driver).launch_bound(grid, 0, values)
    assert driver.launches == []


def test_code_for_another_gpu_is_refused_before_loading() -> None:
    driver = FakeDriver(capability=(8, 0))
    with pytest.raises(LaunchError, match=r"sm_90a does not run on GPU 0.* 8\.0\n.*\"sm_80\""):
        kernel(driver).load(0)
    huge = KernelImage("kernel_0", b"code", "sm_80", 300_000, (32, 1, 1), SIGNATURE)
    with pytest.raises(LaunchError, match="300000 bytes of shared memory, GPU 0 has 232448"):
        kernel(driver, huge).load(0)
    assert driver.log == []


@pytest.mark.parametrize(
    ("arch", "runs"),
    [
        ("sm_90a", {(9, 0)}),
        ("sm_80", {(8, 0), (8, 6), (8, 9)}),
        ("sm_86", {(8, 6), (8, 9)}),
        ("sm_89", {(8, 9)}),
    ],
)
def test_which_code_runs_where(arch: str, runs: set[tuple[int, int]]) -> None:
    gpus = {(8, 0), (8, 6), (8, 9), (9, 0), (10, 0)}
    assert {gpu for gpu in gpus if runs_on(arch, gpu)} == runs


def test_a_fixed_launch_differs_in_addresses_and_stream_alone(driver: FakeDriver) -> None:
    streams = [7]
    torch = TorchLink(lambda: driver.context - 100, lambda device: streams[0])
    launch = LoadedKernel(IMAGE, driver, torch).fixed((5, 6, 7), 0, VALUES)
    assert driver.launches == []
    calls = [(16, 32, 7), (48, 64, 7), (16, 32, 7), (16, 32, 8)]
    for x, y, stream in calls:
        streams[0] = stream
        launch([x, y])
    seen = [(*launched["values"], launched["stream"]) for launched in driver.launches]
    assert seen == [(x, y, *VALUES[2:], stream) for x, y, stream in calls]
    assert {launched["grid"] for launched in driver.launches} == {(5, 6, 7)}


def test_a_fixed_launch_of_ever_new_addresses_keeps_few(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hexcute_core.runtime.launching.MOST_KEPT", 2)
    launch = kernel(driver).fixed((1, 1, 1), 0, VALUES)
    for address in range(16, 160, 16):
        launch([address, 16])
    assert [launched["values"][0] for launched in driver.launches] == list(range(16, 160, 16))


def test_a_fixed_launch_elsewhere_or_refused_is_as_any_other(driver: FakeDriver) -> None:
    launch = kernel(driver).fixed((1, 1, 1), 1, VALUES)
    launch([16, 32])
    assert (driver.launches[0]["context"], driver.context) == (101, 100)
    launch = kernel(driver).fixed((1, 1, 1), 0, VALUES)
    driver.statuses = [1, 1]
    with pytest.raises(LaunchError, match="the launch on GPU 0 failed: CUDA_ERROR_1"):
        launch([16, 32])
    empty = kernel(driver).fixed((0, 1, 1), 0, VALUES)
    driver.statuses = [1, 1]
    empty([16, 32])
    small = kernel(driver).fixed((1, 1, 1), 0, (*VALUES[:4], 2**31))
    with pytest.raises(LaunchError, match="m = 2147483648 does not fit"):
        small([16, 32])


def test_threads_launching_one_kernel_do_not_mix_their_parameters(driver: FakeDriver) -> None:
    """Every launch waits until all threads are inside one: their memory must be distinct."""
    threads, rounds = 4, 20
    barrier = threading.Barrier(threads)
    driver.before_read = lambda: barrier.wait(20)
    driver.set_context = lambda context: None  # type: ignore[method-assign]
    loaded = kernel(driver)

    def work(thread: int) -> None:
        for i in range(rounds):
            loaded.launch_bound((1, 1, 1), 0, (thread, i, 0.5, thread, i))

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, thread) for thread in range(threads)]:
            done.result(timeout=60)
    assert len([entry for entry in driver.log if entry[0] == "load"]) == 1
    seen = sorted(launch["values"] for launch in driver.launches)
    assert seen == sorted((t, i, 0.5, t, i) for t in range(threads) for i in range(rounds))


def test_parameters_have_their_own_types() -> None:
    assert struct.calcsize("<" + "".join(SIGNATURE.value_codes)) == 8 + 8 + 4 + 1 + 4
    assert ctypes.sizeof(CudaLaunchConfig) == 56


def test_gpus_are_counted_and_named_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_count(FakeDriver(devices=3)) == 3
    assert device_target(0, FakeDriver(capability=(8, 9))) == "sm_89"
    with pytest.raises(LaunchError, match=r"7\.5; expected one of 8\.0, 8\.6, 8\.9, 9\.0"):
        device_target(0, FakeDriver(capability=(7, 5)))

    def no_library(name: str) -> ctypes.CDLL:
        raise OSError(f"{name}: cannot open shared object file")

    cuda_driver_module.cuda_driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert device_count() == 0
    with pytest.raises(MissingDependency, match=r"libcuda\.so\.1(.|\n)*fix: install the NVIDIA"):
        device_target()
    monkeypatch.undo()
    cuda_driver_module.cuda_driver.cache_clear()


def test_torch_without_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_link.cache_clear()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(HexcuteError, match=r"torch built for CUDA(.|\n)*pip install torch"):
        torch_link()
