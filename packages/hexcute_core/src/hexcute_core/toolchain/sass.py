"""Cubin -> SASS text, by `nvdisasm` or `cuobjdump`, whichever is there."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from hexcute_core.errors import MissingDependency, ToolchainError
from hexcute_core.toolchain.cubin import Cubin
from hexcute_core.toolchain.discovery import SASS_FIX, find_tool

# Since sm_70 branches name their targets: following the data to find them takes a third longer.
_TOOLS = (("nvdisasm", ("-c", "-ndf")), ("cuobjdump", ("-sass",)))
_LINES = ("nvdisasm", ("-c", "-gi"))
_TIMEOUT_S = 120


def sass(cubin: Cubin | bytes, *, lines: bool = False) -> str:
    """Disassembles a cubin, with `lines` by nvdisasm alone, in front of an instruction the lines of
    the source that it is of. Raises `MissingDependency` where no disassembler is installed."""
    image = cubin.cubin if isinstance(cubin, Cubin) else cubin
    tools = (_LINES,) if lines else _TOOLS
    for name, flags in tools:
        tool = find_tool(name)
        if tool is not None:
            return _run(tool, flags, image)
    raise MissingDependency(
        "lines of machine code need nvdisasm, which was not found" if lines
        else "SASS needs nvdisasm or cuobjdump, and neither was found", fix=SASS_FIX,
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
