"""Cubin -> SASS text, by `nvdisasm` or `cuobjdump`, whichever is there."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from hexcute_core.errors import MissingDependency, ToolchainError
from hexcute_core.toolchain.cubin import Cubin
from hexcute_core.toolchain.discovery import SASS_FIX, find_tool

_TOOLS = (("nvdisasm", ("-c",)), ("cuobjdump", ("-sass",)))
_TIMEOUT_S = 120


def sass(cubin: Cubin | bytes) -> str:
    """Disassembles a cubin. Raises `MissingDependency` where no disassembler is installed."""
    image = cubin.cubin if isinstance(cubin, Cubin) else cubin
    for name, flags in _TOOLS:
        tool = find_tool(name)
        if tool is not None:
            return _run(tool, flags, image)
    raise MissingDependency(
        "SASS needs nvdisasm or cuobjdump, and neither was found", fix=SASS_FIX
    )


def _run(tool: Path, flags: tuple[str, ...], image: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(image)
        done = subprocess.run(
            [str(tool), *flags, str(path)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise ToolchainError(f"{tool.name} could not read the cubin: {done.stderr.strip()}")
    return done.stdout
