"""ThreadProgram -> Hidet IR -> CUDA source; the only folder that knows hidet.

`shim` loads hidet, `statements` and `scalars` translate, `accesses` and `prims` turn primitives
into calls of one-instruction functions (`asm`), `codegen` prints.
"""

from __future__ import annotations

from hexcute_core.backend.hidet import shim
from hexcute_core.backend.source import CudaSource, LocatedSource
from hexcute_core.thread import ThreadProgram


def emit(program: ThreadProgram, arch: str) -> CudaSource:
    """CUDA source of `program`; see `hexcute_core.backend.emit`."""
    with shim.ours():
        load()
        from hexcute_core.backend.hidet.kernel import translate

        text, entry = translate(program, arch)
    return CudaSource(text, entry, version())


def located(program: ThreadProgram, arch: str) -> LocatedSource:
    """The same with the span of each line; see `hexcute_core.backend.located`."""
    with shim.ours():
        load()
        from hexcute_core.backend.hidet.kernel import translate
        from hexcute_core.backend.hidet.marks import Marks

        marks = Marks()
        text, entry = translate(program, arch, marks)
        bare, spans = marks.read(text)
    return LocatedSource(CudaSource(bare, entry, version()), spans)


def load() -> None:
    """Imports hidet and what translates to it."""
    with shim.ours():
        shim.load()
        # Everything below imports hidet at its top, so it comes after the shim.
        import hexcute_core.backend.hidet.kernel


def version() -> str:
    """`hidet-X.Y.Z`, read from the installed package's metadata."""
    return f"hidet-{shim.installed_version()}"
