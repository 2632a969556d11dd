"""The process of Hidet's own kernels: builds them with nvcc, times them beside cuBLAS.

    python -m hexcute_bench.peers.hidet_process ORDER

ORDER is JSON with the suite, the shapes, the systems and the settings. Each row is printed as
it is measured, one JSON object a line behind `hidet_link.MARK`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hexcute_bench.cases.gemm import GemmCase, gemm_work
from hexcute_bench.errors import BenchError, DeviceLost
from hexcute_bench.interface import Peer, Settings
from hexcute_bench.measure import Measured, ShapeMeasurement, measured_columns, reason
from hexcute_bench.peers.gemm import Cublas
from hexcute_bench.peers.hidet_gemm import HidetGemm
from hexcute_bench.peers.hidet_import import driver_stub, import_hidet
from hexcute_bench.peers.hidet_link import MARK
from hexcute_bench.rows import FAILED
from hexcute_bench.shape import Shape
from hexcute_bench.timing import CudaClock


def device_arch() -> str:
    """`sm_90` and the like, read without touching CUDA: the builders are forked from here."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        shown = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(f"no GPU for Hidet's kernels: {error}") from error
    return "sm_" + shown.splitlines()[0].strip().replace(".", "")


def tell(shape: Shape, found: Sequence[Measured], case: GemmCase | None) -> None:
    for measured in found:
        row = measured_columns(measured, shape, case, gemm_work(shape))
        print("\n" + MARK + json.dumps(row), flush=True)


def gemm(shapes: Sequence[Shape], systems: Sequence[str], settings: Settings) -> None:
    """Rows of Hidet's GEMMs and cuBLAS for each shape."""
    folder = Path(tempfile.mkdtemp(prefix="hexcute_bench_hidet_"))
    driver_stub(import_hidet(str(folder / "cache")))
    arch = device_arch()
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1), mp_context=context) as pool:
        peers = [HidetGemm(name, arch, folder, pool) for name in systems]
        for shape in shapes:
            for peer in peers:
                peer.order(shape)
        if settings.protocol == "host":
            for peer in peers:
                peer.finish()
        beside: list[Peer] = [Cublas(), *peers]
        for shape in shapes:
            _measure(shape, beside, settings)


def _measure(shape: Shape, peers: Sequence[Peer], settings: Settings) -> None:
    try:
        case = GemmCase(shape)
    except Exception as error:
        failed = [Measured(peer.name, FAILED, notes=[reason(error)]) for peer in peers]
        tell(shape, failed, None)
        return
    try:
        tell(shape, ShapeMeasurement(case, CudaClock(settings), settings).results(peers), case)
    except DeviceLost as lost:
        tell(shape, [lost.measured], case)
        raise


def main(text: str) -> int:
    order = json.loads(text)
    shapes = [Shape.parse(shape) for shape in order["shapes"]]
    try:
        gemm(shapes, order["systems"], Settings(**order["settings"]))
    except BenchError as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
