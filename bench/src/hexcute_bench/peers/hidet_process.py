"""The process of Hidet's own kernels: builds them with nvcc, times them beside the baseline.

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
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hexcute_bench.cases.attention import AttentionCase, forward_work
from hexcute_bench.cases.gemm import GemmCase, gemm_work
from hexcute_bench.errors import BenchError, DeviceLost, PeerAbsent
from hexcute_bench.interface import Case, Peer, Settings, Work
from hexcute_bench.measure import Measured, ShapeMeasurement, measured_columns, reason
from hexcute_bench.peers.attention import FlashAttention3, flash_attention_2
from hexcute_bench.peers.gemm import Cublas
from hexcute_bench.peers.hidet_attention import HidetAttention
from hexcute_bench.peers.hidet_build import HidetPeer
from hexcute_bench.peers.hidet_gemm import HidetGemm
from hexcute_bench.peers.hidet_import import driver_stub, import_hidet
from hexcute_bench.peers.hidet_link import ABSENT_CODE, MARK
from hexcute_bench.rows import FAILED
from hexcute_bench.shape import Shape
from hexcute_bench.timing import CudaClock


@dataclass(frozen=True)
class Operator:
    """What an operator's suites need here; `links` are the baselines timed in this process."""

    case: Callable[[Shape], Case]
    work: Callable[[Shape], Work]
    links: tuple[Peer, ...]
    peer: Callable[[str, str, Path, Executor], HidetPeer]


_GEMM = Operator(GemmCase, gemm_work, (Cublas(),), HidetGemm)
_FORWARD = Operator(
    AttentionCase, forward_work, (FlashAttention3(), flash_attention_2()), HidetAttention
)
OPERATORS = {"gemm_sm80": _GEMM, "gemm_sm90": _GEMM, "mha_forward": _FORWARD}


def device_arch() -> str:
    """`sm_90` and the like, read without touching CUDA: the builders are forked from here."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        shown = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(f"no GPU for Hidet's kernels: {error}") from error
    return "sm_" + shown.splitlines()[0].strip().replace(".", "")


def run(
    operator: Operator, shapes: Sequence[Shape], systems: Sequence[str], settings: Settings
) -> None:
    """Prints the rows of Hidet's kernels and the links for each shape."""
    folder = Path(tempfile.mkdtemp(prefix="hexcute_bench_hidet_"))
    driver_stub(import_hidet(str(folder / "cache")))
    arch = device_arch()
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1), mp_context=context) as pool:
        peers = [operator.peer(name, arch, folder, pool) for name in systems]
        for shape in shapes:
            for peer in peers:
                peer.order(shape)
        if settings.protocol == "host":
            for peer in peers:
                peer.finish()
        for shape in shapes:
            _measure(operator, shape, [*operator.links, *peers], settings)


def _measure(
    operator: Operator, shape: Shape, peers: Sequence[Peer], settings: Settings
) -> None:
    work = operator.work(shape)

    def tell(found: Sequence[Measured], case: Case | None) -> None:
        for measured in found:
            row = measured_columns(measured, shape, case, work)
            print("\n" + MARK + json.dumps(row), flush=True)

    try:
        case = operator.case(shape)
    except Exception as error:
        tell([Measured(peer.name, FAILED, notes=[reason(error)]) for peer in peers], None)
        return
    try:
        tell(ShapeMeasurement(case, CudaClock(settings), settings).results(peers), case)
    except DeviceLost as lost:
        tell([lost.measured], case)
        raise


def main(text: str) -> int:
    order = json.loads(text)
    shapes = [Shape.parse(shape) for shape in order["shapes"]]
    try:
        if order["suite"] not in OPERATORS:
            raise BenchError(f"Hidet has no kernels for the suite {order['suite']}")
        operator = OPERATORS[order["suite"]]
        run(operator, shapes, order["systems"], Settings(**order["settings"]))
    except BenchError as error:
        print(error, flush=True)
        return ABSENT_CODE if isinstance(error, PeerAbsent) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
