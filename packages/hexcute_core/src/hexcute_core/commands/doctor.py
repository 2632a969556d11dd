"""`doctor`: what can be done on this machine, by what, and for the rest the line that mends it.

an aim is met  <=>  each of its needs is found, or optional

What needs numpy to be loaded is imported within the search for it: the doctor runs without.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hexcute_core import backend
from hexcute_core.commands.command import Command, Tell
from hexcute_core.errors import HexcuteError, MissingDependency
from hexcute_core.pip import installing
from hexcute_core.toolchain import discovery, nvrtc
from hexcute_core.version import VERSION


@dataclass(frozen=True)
class Need:
    """Something an aim needs: `found` says what stands here, else `lack` says what is missing and
    `fix` is the line that mends it. Without what is `optional` the aim is met, but for a part."""

    name: str
    found: str | None
    fix: str | None = None
    lack: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class Aim:
    """Something to do with kernels, and what it needs."""

    name: str
    needs: tuple[Need, ...]

    @property
    def met(self) -> bool:
        return all(need.found is not None or need.optional for need in self.needs)


def examined() -> tuple[Aim, ...]:
    """What can be done on this machine: to simulate kernels, compile them, show their machine code,
    launch them, and keep them. Does not import torch, and leaves no hidet for others to find."""
    numpy = _imported("numpy")
    without = numpy.found is None
    return (
        Aim("simulate", (numpy, _narrow_floats(without))),
        Aim("compile", (_hidet(), _nvrtc(), _headers())),
        Aim("sass", (_disassembler(),)),
        Aim("launch", (*([numpy] if without else _gpus()), _package("torch"))),
        Aim("cache", (numpy if without else _cache(),)),
    )


def _package(name: str) -> Need:
    try:
        return Need(name, f"{name} {importlib.metadata.version(name)}")
    except importlib.metadata.PackageNotFoundError:
        return Need(name, None, installing(name), f"{name} is missing")


def _imported(name: str) -> Need:
    """A package that is cheap to import, and so is."""
    found = _package(name)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        lack = f"{name} is missing" if error.name == name else f"{name} cannot be loaded: {error}"
        return Need(name, None, installing(name), lack)
    except ImportError as error:
        return Need(name, None, installing(name), f"{name} cannot be loaded: {error}")
    return found


def _narrow_floats(without_numpy: bool) -> Need:
    # Without numpy, importing it fails with noise on stderr.
    need = _package("ml_dtypes") if without_numpy else _imported("ml_dtypes")
    lack = None if need.found else f"bf16 and 8-bit floats need ml_dtypes: {need.lack}"
    return replace(need, lack=lack, optional=True)


def _asked(name: str, what: Callable[[], str]) -> Need:
    """What a search finds, or says of what it does not find."""
    try:
        return Need(name, what())
    except MissingDependency as error:
        return Need(name, None, error.fix, f"{name} is missing")


def _hidet() -> Need:
    """Loads it as the first compilation does: what it imports may be missing in its turn."""
    try:
        backend.load()
        return Need("hidet", backend.version().replace("-", " ", 1))
    except MissingDependency as error:
        return Need("hidet", None, error.fix, error.message)


def _nvrtc() -> Need:
    def found() -> str:
        major, minor = nvrtc.version()
        return f"NVRTC {major}.{minor} at {discovery.find_nvrtc().library}"

    return _asked("NVRTC", found)


def _headers() -> Need:
    return _asked("CUDA headers", lambda: f"CUDA headers at {discovery.find_headers()}")


def _disassembler() -> Need:
    tools = (discovery.find_tool(name) for name in ("nvdisasm", "cuobjdump"))
    found = next((str(tool) for tool in tools if tool is not None), None)
    if found is None:
        return Need("nvdisasm", None, discovery.SASS_FIX, "nvdisasm is missing")
    return Need("nvdisasm", found)


def _gpus() -> list[Need]:
    """A need a GPU; one that is missing where there is none."""
    from hexcute_core.runtime.cuda_driver import cuda_driver
    from hexcute_core.runtime.devices import device_count, runnable

    try:
        driver = cuda_driver()
        count = device_count(driver)
    except HexcuteError as error:
        return [Need("GPU", None, error.fix, "GPU is missing")]
    if count == 0:
        fix = "make a GPU visible: see CUDA_VISIBLE_DEVICES"
        return [Need("GPU", None, fix, "GPU is missing")]
    needs = []
    for device in range(count):
        capability = driver.capability(device)
        name = f"GPU {device}, compute capability {capability[0]}.{capability[1]}"
        target = runnable(capability)
        if target:
            needs.append(Need(name, f"{name}, runs {target}"))
        else:
            fix = "use a GPU of compute capability 8.0 or later"
            needs.append(Need(name, None, fix, f"{name} is too old"))
    return needs


def _cache() -> Need:
    from hexcute_core.driver import eviction
    from hexcute_core.driver.cache import Cache

    cache = Cache()
    fix = "set HEXCUTE_CACHE_DIR to a folder of your own"
    if cache.root is None:
        return Need("a home folder", None, fix, "a home folder is missing")
    if not _can_be_written(cache.root):
        return Need(str(cache.root), None, fix, f"{cache.root} cannot be written")
    taken = sum(entry.bytes for entry in eviction.kept(cache.root))
    return Need("cache", f"{cache.root}, {taken} of {cache.limit} bytes")


def _can_be_written(path: Path) -> bool:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def _doctor(options: argparse.Namespace, tell: Tell) -> int:
    """Tells what can be done here; 1 where kernels cannot be compiled."""
    aims = examined()
    if options.json:
        tell(json.dumps({aim.name: [vars(need) for need in aim.needs] for aim in aims}, indent=1))
    else:
        tell(f"hexcute_core {VERSION}, Python {platform.python_version()}, {sys.platform}\n")
        for aim in aims:
            for number, need in enumerate(aim.needs):
                head = f"{aim.name:<10}{'yes' if aim.met else 'no':<5}" if number == 0 else ""
                tell(f"{head:<15}{need.found or need.lack}")
                if need.found is None and need.fix:
                    tell(f"{'':<15}  {need.fix}")
    return 0 if all(aim.met for aim in aims if aim.name == "compile") else 1


DOCTOR = Command(
    "doctor", "Say what can be done on this machine, and how what is missing is had.", _options,
    _doctor,
)  # fmt: skip
