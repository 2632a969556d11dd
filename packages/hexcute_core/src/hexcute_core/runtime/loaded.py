"""`LoadedKernel`: a kernel image, loaded on each GPU at its first launch there."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hexcute_core.errors import LaunchError
from hexcute_core.runtime.binding import Binder, make_binder
from hexcute_core.runtime.cuda_driver import INVALID_CONTEXT, Driver, cuda_driver
from hexcute_core.runtime.devices import runnable, runs_on
from hexcute_core.runtime.image import KernelImage
from hexcute_core.runtime.launching import FixedLaunches, Grid, Launch, make_launch
from hexcute_core.runtime.tensor_maps import map_of
from hexcute_core.runtime.torch_link import TorchLink, torch_link

_DEFAULT_SHARED_BYTES = 48 * 1024
_MAX_GRID = (2**31 - 1, 65535, 65535)


class LoadedKernel:
    """A kernel ready to launch on torch's current stream; safe to share between threads.

    `driver` and `torch` stand in for libcuda and torch in tests.
    """

    def __init__(
        self, image: KernelImage, driver: Driver | None = None, torch: TorchLink | None = None
    ) -> None:
        self.image = image
        self._driver = driver or cuda_driver()
        torch = torch or torch_link()
        self._current_device, self._current_stream = torch.current_device, torch.current_stream
        self._launches: dict[int, Launch] = {}
        self._functions: dict[int, int] = {}
        self._lock = threading.Lock()
        self._binder: Binder | None = None
        self._maps = tuple(map_of(m, image.signature, self._driver) for m in image.maps)

    def launch(self, grid: Grid, *args: Any) -> None:
        """Checks torch tensors and numbers against the signature, and launches.

        Raises `LaunchError` naming the argument that does not fit.
        """
        if self._binder is None:
            self._binder = make_binder(self.image.signature)
        _, device, values = self._binder(args)
        self.launch_bound(grid, device, values)

    def launch_bound(self, grid: Grid, device: int, values: Sequence[Any]) -> None:
        """Launches what a binder of this signature returned. An empty grid does nothing.

        The call returns before the kernel has run. Raises `LaunchError`.
        """
        launch = self._launches.get(device)
        if launch is None:
            launch = self._load(device)
        try:
            if self._current_device() == device:
                status = launch(grid, self._current_stream(device), values)
            else:
                status = self._launch_elsewhere(launch, grid, device, values)
        except (struct.error, OverflowError) as error:
            raise self._error(self._unpackable(grid, values), str(error)) from None
        if status != 0:
            self._recover(status, launch, grid, device, values)

    def fixed(
        self, grid: Grid, device: int, values: Sequence[Any]
    ) -> Callable[[Sequence[int]], None]:
        """The launch of what `launch_bound` takes, for calls in which only addresses differ:
        called with the tensors' addresses, in order, it checks nothing."""
        self.load(device)
        count = len(self.image.signature.tensors)
        numbers = tuple(values[count:])
        fixed = FixedLaunches(self.image, self._functions[device], self._maps, grid, numbers)
        packed, pack = fixed.kept.get, fixed.pack
        call, bound = self._driver.launch, self.launch_bound
        current_device, current_stream = self._current_device, self._current_stream

        def launch(addresses: Sequence[int]) -> None:
            if current_device() == device:
                which = (current_stream(device), *addresses)
                try:
                    config, function, params, _held = packed(which) or pack(which)
                except struct.error as error:
                    raise self._error(self._unpackable(grid, values), str(error)) from None
                if call(config, function, params, None) == 0:
                    return
            # Another GPU's context, or a refusal: the general launch deals with both.
            bound(grid, device, (*addresses, *numbers))

        return launch

    def load(self, device: int) -> None:
        """Loads the kernel on a GPU now, instead of at its first launch there."""
        if device not in self._launches:
            self._load(device)

    def _error(self, message: str, cause: str | None = None, fix: str | None = None) -> LaunchError:
        signature = self.image.signature
        tail = "" if cause is None else f" ({cause})"
        return LaunchError(f"{signature.kernel}: {message}{tail}", signature.span, fix)

    def _load(self, device: int) -> Launch:
        with self._lock:
            if device in self._launches:
                return self._launches[device]
            image, driver = self.image, self._driver
            self._check_device(device)
            before = driver.current_context()
            driver.set_context(driver.primary_context(device))
            try:
                function = driver.load(image.cubin, image.name)
                if image.shared_bytes > _DEFAULT_SHARED_BYTES:
                    driver.allow_shared(function, image.shared_bytes)
            finally:
                driver.set_context(before)
            self._functions[device] = function
            self._launches[device] = launch = make_launch(image, function, driver, self._maps)
            return launch

    def _check_device(self, device: int) -> None:
        image, capability = self.image, self._driver.capability(device)
        if not runs_on(image.arch, capability):
            (major, minor), target = capability, runnable(capability)
            raise self._error(
                f"code for {image.arch} does not run on GPU {device}, which has compute "
                f"capability {major}.{minor}",
                fix=f'compile it with target="{target}"' if target else "run it on another GPU",
            )
        limit = self._driver.shared_limit(device)
        if image.shared_bytes > limit:
            raise self._error(
                f"a block needs {image.shared_bytes} bytes of shared memory, GPU {device} has "
                f"{limit} a block",
                fix="use smaller shared tensors or fewer pipeline stages",
            )

    def _launch_elsewhere(
        self, launch: Launch, grid: Grid, device: int, values: Sequence[Any]
    ) -> int:
        """Launches with the device's context current, and puts back the one that was."""
        driver = self._driver
        before = driver.current_context()
        driver.set_context(driver.primary_context(device))
        try:
            return launch(grid, self._current_stream(device), values)
        finally:
            driver.set_context(before)

    def _recover(
        self, status: int, launch: Launch, grid: Grid, device: int, values: Sequence[Any]
    ) -> None:
        """A refused launch: nothing to do, a thread without a context yet, or an error."""
        if 0 in grid:
            return
        if status == INVALID_CONTEXT:
            self._driver.set_context(self._driver.primary_context(device))
            status = launch(grid, self._current_stream(device), values)
            if status == 0:
                return
        for axis, extent, limit in zip("xyz", grid, _MAX_GRID, strict=True):
            if extent > limit:
                raise self._error(
                    f"the grid has {extent} blocks along {axis}, at most {limit} can be launched",
                    fix="put the longest dimension along x"
                    if axis != "x"
                    else "give each block more of the work",
                )
        for axis, extent, blocks in zip("xyz", grid, self.image.cluster_dim, strict=True):
            if extent % blocks:
                raise self._error(
                    f"the grid has {extent} blocks along {axis}, no multiple of its clusters' "
                    f"{blocks}",
                    fix="round the grid up, and let the blocks past the end do nothing",
                )
        words, fix = self._driver.words(status)
        raise self._error(f"the launch on GPU {device} failed: {words}", fix=fix)

    def _unpackable(self, grid: Grid, values: Sequence[Any]) -> str:
        """Which number does not fit the type the kernel takes it in."""
        signature = self.image.signature
        for name, code, value in zip(
            signature.value_names, signature.value_codes, values, strict=True
        ):
            try:
                struct.pack(f"<{code}", value)
            except (struct.error, OverflowError):
                return f"{name} = {value} does not fit the type the kernel was compiled for"
        return f"expected a grid of three sizes of at most {_MAX_GRID}, got {grid}"
