"""QuACK's GEMM, written in CUTLASS's Python language: compiled on first use, a kernel a type and
configuration.

The folder of compiled peers holds it as an archive of packages, `site.txz`, and the compiler's
library apart, packed.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.folder import peer_folder, unpack, unpacked

PACKAGES = "nvidia_cutlass_dsl/dsl_packages"
LIBRARIES = f"{PACKAGES}/cutlass/_mlir/_mlir_libs"


@functools.cache
def _gemm() -> Callable[..., Any]:
    """quack.gemm_interface.gemm: installed, or from the folder of compiled peers."""
    try:
        return importlib.import_module("quack.gemm_interface").gemm  # type: ignore[no-any-return]
    except ImportError:
        _load(unpacked("**/site.txz") / "site")
    try:
        return importlib.import_module("quack.gemm_interface").gemm  # type: ignore[no-any-return]
    except ImportError as error:
        raise PeerAbsent(f"quack cannot be imported: {error}") from error


def _load(site: Path) -> None:
    """Puts the packages of `site` on the path of this process and of those that it starts."""
    for library in peer_folder().rglob("_cutlass_ir*.so.xz"):
        unpack(library, site / LIBRARIES)
    paths = [str(site), str(site / PACKAGES)]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = ":".join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")
    importlib.invalidate_caches()


class Quack(CasePeer):
    """Its default configuration; its tuner compiles 44 for each shape, for minutes."""

    name = "quack"

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        gemm = _gemm()

        def build() -> Run:
            transposed = [b.t() for b in case.b]

            def run(index: int) -> None:
                gemm(case.a[index], transposed[index], out=case.c[index], tuned=False)

            return run

        return [Candidate("default", build)]
