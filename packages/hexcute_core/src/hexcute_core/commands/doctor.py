"""`doctor`: what can be done on this machine, by what, and for the rest the line that mends it.

an aim is met  <=>  each of its needs is found
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hexcute_core import backend
from hexcute_core.commands.command import Command, Tell
from hexcute_core.driver import eviction
from hexcute_core.driver.cache import Cache
from hexcute_core.errors import HexcuteError, MissingDependency
from hexcute_core.runtime.cuda_driver import cuda_driver
from hexcute_core.runtime.devices import device_count, runnable
from hexcute_core.toolchain import discovery, nvrtc
from hexcute_core.version import VERSION


@dataclass(frozen=True)
class Need:
    """Something an aim needs: `found` says what stands here, else it is missing and `fix` is the
    line that mends it."""

    name: str
    found: str | None
    fix: str | None = None


@dataclass(frozen=True)
class Aim:
    """Something to do with kernels, and what it needs."""

    name: str
    needs: tuple[Need, ...]

    @property
    def met(self) -> bool:
        return all(need.found is not None for need in self.needs)


def examined() -> tuple[Aim, ...]:
    """What can be done on this machine: to simulate kernels, compile them, show their machine code,
    launch them, and keep them. Imports neither torch nor hidet."""
    return (
        Aim("simulate", (_package("numpy"), _package("ml_dtypes"))),
        Aim("compile", (_hidet(), _nvrtc(), _headers())),
        Aim("sass", (_disassembler(),)),
        Aim("launch", (*_gpus(), _package("torch"))),
        Aim("cache", (_cache(),)),
    )


def _package(name: str) -> Need:
    try:
        return Need(name, f"{name} {importlib.metadata.version(name)}")
    except importlib.metadata.PackageNotFoundError:
        return Need(name, None, f"pip install {name}")


def _asked(name: str, what: Callable[[], str]) -> Need:
    """What a search finds, or says of what it does not find."""
    try:
        return Need(name, what())
    except MissingDependency as error:
        return Need(name, None, error.fix)


def _hidet() -> Need:
    return _asked("hidet", lambda: backend.version().replace("-", " ", 1))


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
    return Need("nvdisasm", found, None if found else discovery.SASS_FIX)


def _gpus() -> list[Need]:
    """A need a GPU; one that is missing where there is none."""
    try:
        driver = cuda_driver()
        count = device_count(driver)
    except HexcuteError as error:
        return [Need("GPU", None, error.fix)]
    if count == 0:
        return [Need("GPU", None, "make a GPU visible: see CUDA_VISIBLE_DEVICES")]
    needs = []
    for device in range(count):
        capability = driver.capability(device)
        name = f"GPU {device}, compute capability {capability[0]}.{capability[1]}"
        target = runnable(capability)
        fix = None if target else "use a GPU of compute capability 8.0 or later"
        needs.append(Need(name, f"{name}, runs {target}" if target else None, fix))
    return needs


def _cache() -> Need:
    cache = Cache()
    fix = "set HEXCUTE_CACHE_DIR to a folder of your own"
    if cache.root is None or not _can_be_written(cache.root):
        return Need(str(cache.root or "a home folder"), None, fix)
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
                tell(f"{head:<15}{need.found or f'{need.name} is missing'}")
                if need.found is None and need.fix:
                    tell(f"{'':<15}  {need.fix}")
    return 0 if all(aim.met for aim in aims if aim.name == "compile") else 1


DOCTOR = Command(
    "doctor", "Say what can be done on this machine, and how what is missing is had.", _options,
    _doctor,
)  # fmt: skip
