"""CUDA source, arch, options -> `Cubin`: a pure function of the three and of the toolchain."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from hexcute_core.arch import features
from hexcute_core.errors import ToolchainError
from hexcute_core.toolchain import nvrtc
from hexcute_core.toolchain.cubin import Cubin, parse_resources
from hexcute_core.toolchain.discovery import find_headers, find_nvrtc

TARGETS = {target.name: target.code for target in features.TARGETS.values()}

_FILE_NAME = "kernel.cu"
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
# ptxas goes on after these, with code that is slow or hangs: setmaxnreg ignored, wgmma serialized.
_BROKEN = re.compile(r"\((C7508|C7511)\)|\((C75\d\d)\) Potential Performance Loss")
_TIMING = re.compile(r"^ptxas info\s*: Compile time = .*\n?", re.MULTILINE)
_BROKEN_FIX = {
    "C7508": "launch bounds must fix the register count: set attrs.cuda.min_blocks = 1 "
    "and a constant block size",
}


def _full_arch(arch: str) -> str:
    if arch in TARGETS.values():
        return arch
    if arch not in TARGETS:
        expected = ", ".join(TARGETS)
        raise ToolchainError(f"unknown target {arch!r}: expected one of {expected}")
    return TARGETS[arch]


def _refuse_broken_code(log: str, arch: str) -> None:
    found = _BROKEN.search(log)
    if found is None:
        return
    code = found.group(1) or found.group(2)
    line = next(line for line in log.splitlines() if code in line)
    raise ToolchainError(
        f"ptxas for {arch} made code that must not run: {line.strip()}",
        fix=_BROKEN_FIX.get(code),
    )


def compile_cubin(source: str, arch: str, options: tuple[str, ...] = ()) -> Cubin:
    """Compiles CUDA `source` for `arch` (`sm_90` means `sm_90a`), no GPU needed.

    `options` are NVRTC's own flags, after ours. Kernels want `extern "C"` to keep their names.
    Raises `ToolchainError` with the log where the source is wrong or ptxas warns of C7508 or
    C7511, `MissingDependency` where NVRTC or the headers that the source includes are missing.
    """
    full = _full_arch(arch)
    flags = [f"--gpu-architecture={full}", "--std=c++17", "--ptxas-options=-v"]
    if _INCLUDE.search(source):
        flags.append(f"--include-path={find_headers()}")
    done = nvrtc.run(source, _FILE_NAME, [*flags, *options])
    log = _TIMING.sub("", done.log).rstrip()
    if not done.ok:
        raise ToolchainError(f"NVRTC for {full} refused the source:\n{log}")
    _refuse_broken_code(log, full)
    return Cubin(done.cubin, done.ptx, log, full, options, parse_resources(log))


def load() -> None:
    """Loads the compiler's library, which the first `compile_cubin` would do otherwise."""
    nvrtc.version()


def _identity(path: Path) -> str:
    return f"{path.name}:{path.stat().st_size}"


@lru_cache(maxsize=1)
def toolchain_version() -> str:
    """Names the compiler and headers for cache keys, without loading them.

    File names carry the release (`libnvrtc-builtins.so.13.0`), sizes tell builds of it apart.
    """
    found = find_nvrtc()
    headers = find_headers()
    files = [found.library, found.builtins, *sorted(headers.glob("cuda_[fb]*.h*"))]
    return "nvrtc " + " ".join(_identity(path) for path in files)
