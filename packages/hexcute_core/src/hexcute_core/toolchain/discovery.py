"""Where the CUDA compiler, its headers and the binary tools are on this machine.

Searched in this order: the `nvidia` wheels of this environment, then the toolkits named by
`CUDA_HOME` and `CUDA_PATH`, then `/usr/local/cuda*`. Nothing is loaded here.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hexcute_core.errors import MissingDependency
from hexcute_core.pip import installing

NVRTC_FIX = installing('"nvidia-cuda-nvrtc==13.0.*" "nvidia-cuda-runtime==13.0.*"')
HEADERS_FIX = installing('"nvidia-cuda-runtime==13.0.*"')
SASS_FIX = installing("nvidia-cuda-nvdisasm")

_LIBRARY_FOLDERS = ("lib", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_INCLUDE_FOLDERS = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
_PROBE_HEADER = "cuda_fp16.h"


@dataclass(frozen=True)
class Nvrtc:
    """The compiler's library, the built-ins it opens by name, and its major version."""

    library: Path
    builtins: Path
    major: int


def _package_folder(name: str) -> tuple[Path, ...]:
    """The folders of an installed package, which is not imported. The folder one stands in does
    not count, though Python looks there too: what is found is loaded and run."""
    here = Path.cwd()
    places = (Path(entry).resolve() for entry in sys.path if entry)
    folders = dict.fromkeys(place / name for place in places if place != here)
    return tuple(folder for folder in folders if folder.is_dir())


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.name))


def _wheel_roots() -> Iterator[Path]:
    """`nvidia/cu13` and its like hold a whole toolkit; CUDA 12's wheels have a folder a part."""
    for folder in _package_folder("nvidia"):
        yield from sorted(folder.glob("cu[0-9]*"), key=_version, reverse=True)
        yield from (folder / "cuda_nvrtc", folder / "cuda_runtime")


def _toolkit_roots() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    local = Path("/usr/local")
    yield local / "cuda"
    yield from sorted(local.glob("cuda-[0-9]*"), key=_version, reverse=True)


def roots() -> tuple[Path, ...]:
    """The existing toolkit-like folders, best first, each once."""
    candidates = (*_wheel_roots(), *_toolkit_roots())
    return tuple(dict.fromkeys(path.resolve() for path in candidates if path.is_dir()))


def _libraries(root: Path, pattern: str) -> list[Path]:
    found = (path for folder in _LIBRARY_FOLDERS for path in (root / folder).glob(pattern))
    return sorted(found, key=_version, reverse=True)


@lru_cache(maxsize=1)
def find_nvrtc() -> Nvrtc:
    """The first NVRTC whose built-ins lie beside it. Raises `MissingDependency`."""
    searched = roots()
    for root in searched:
        for library in _libraries(root, "libnvrtc.so.[0-9]*"):
            major = _version(library)[0]
            beside = sorted(library.parent.glob(f"libnvrtc-builtins.so.{major}.*"), key=_version)
            if beside:
                return Nvrtc(library, beside[-1], major)
    places = ", ".join(str(root) for root in searched) or "no CUDA folder at all"
    raise MissingDependency(
        f"NVRTC, the CUDA runtime compiler, is needed to build kernels; searched {places}",
        fix=NVRTC_FIX,
    )


@lru_cache(maxsize=1)
def find_headers() -> Path:
    """The folder of `cuda_fp16.h` and its siblings. Raises `MissingDependency`."""
    for root in roots():
        for name in _INCLUDE_FOLDERS:
            if (root / name / _PROBE_HEADER).is_file():
                return root / name
    raise MissingDependency(
        f"the source includes CUDA headers, and no folder with {_PROBE_HEADER} was found",
        fix=HEADERS_FIX,
    )


@lru_cache(maxsize=4)
def find_tool(name: str) -> Path | None:
    """An executable such as `nvdisasm`: in a toolkit, in Triton's package, or on PATH."""
    folders = [root / "bin" for root in roots()]
    folders += [folder / "backends" / "nvidia" / "bin" for folder in _package_folder("triton")]
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return folder / name
    on_path = shutil.which(name)
    return None if on_path is None else Path(on_path)
