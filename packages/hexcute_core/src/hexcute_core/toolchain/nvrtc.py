"""NVRTC through ctypes: the eight calls that take a source to a cubin, with their errors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hexcute_core.errors import MissingDependency, ToolchainError
from hexcute_core.toolchain.discovery import NVRTC_FIX, find_nvrtc

_SIGNATURES: dict[str, list[object]] = {
    "nvrtcVersion": [ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)],
    "nvrtcCreateProgram": [
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ],
    "nvrtcCompileProgram": [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
    "nvrtcDestroyProgram": [ctypes.POINTER(ctypes.c_void_p)],
}
_OUTPUTS = ("ProgramLog", "PTX", "CUBIN")


@dataclass(frozen=True)
class Compilation:
    """What one call of the compiler returned; `cubin` and `ptx` are empty where it failed."""

    ok: bool
    log: str
    ptx: str
    cubin: bytes


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """Loads NVRTC once, its built-ins first: it opens them by soname, off the search path."""
    found = find_nvrtc()
    try:
        ctypes.CDLL(str(found.builtins), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(found.library))
    except OSError as error:
        raise MissingDependency(
            f"NVRTC at {found.library} does not load: {error}", fix=NVRTC_FIX
        ) from error
    for name, arguments in _SIGNATURES.items():
        getattr(library, name).argtypes = arguments
    for output in _OUTPUTS:
        getattr(library, f"nvrtcGet{output}Size").argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_size_t),
        ]
        getattr(library, f"nvrtcGet{output}").argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _check(library: ctypes.CDLL, call: str, status: int) -> None:
    if status != 0:
        words = library.nvrtcGetErrorString(status)
        raise ToolchainError(f"{call} failed: {words.decode()}")


def _output(library: ctypes.CDLL, program: ctypes.c_void_p, output: str) -> bytes:
    size = ctypes.c_size_t()
    get_size, get = f"nvrtcGet{output}Size", f"nvrtcGet{output}"
    _check(library, get_size, getattr(library, get_size)(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    _check(library, get, getattr(library, get)(program, buffer))
    return buffer.raw[: size.value]


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")


def version() -> tuple[int, int]:
    """NVRTC's (major, minor). Raises `MissingDependency` where there is none."""
    library = _library()
    major, minor = ctypes.c_int(), ctypes.c_int()
    status = library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    _check(library, "nvrtcVersion", status)
    return major.value, minor.value


@lru_cache(maxsize=1)
def _standing_options() -> tuple[str, ...]:
    """What every compilation is told, where the release knows it.

    Since 12.9 cubins are kept on disk where there is a GPU, and what is taken from there comes
    without the log: neither resources nor warnings that must be errors would be seen. Since 12.4
    the declarations of textures and of the runtime, which no kernel names, can be left out.
    """
    known = {(12, 4): "--minimal", (12, 9): "--no-cache"}
    return tuple(option for since, option in known.items() if version() >= since)


def run(source: str, file_name: str, options: Sequence[str]) -> Compilation:
    """Compiles one source. A source that is wrong gives `ok=False` and the compiler's log."""
    library = _library()
    options = (*_standing_options(), *options)
    program = ctypes.c_void_p()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), file_name.encode(), 0, None, None
    )
    _check(library, "nvrtcCreateProgram", status)
    try:
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        ok = library.nvrtcCompileProgram(program, len(options), flags) == 0
        log = _text(_output(library, program, "ProgramLog"))
        if not ok:
            return Compilation(False, log, "", b"")
        ptx = _text(_output(library, program, "PTX"))
        return Compilation(True, log, ptx, _output(library, program, "CUBIN"))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
