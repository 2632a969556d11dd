"""Our tuned systems: chosen by the project's tuner, on cases that its processes make anew."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer, Settings, TunedPeer
from hexcute_bench.measure import ShapeMeasurement
from hexcute_bench.peers.gemm import hexcute_gemm
from hexcute_bench.shape import Shape
from hexcute_bench.suites import ALL
from hexcute_bench.suites.gemm import GEMM_SM90
from hexcute_core.errors import TunerError
from hexcute_core.tuner import Outcome, Report
from hexcute_kernels.gpus import Gpu

torch = pytest.importorskip("torch")
from hexcute_bench.peers import tuned  # noqa: E402

SHAPE = Shape.of(m=64, n=512, k=256)


@pytest.fixture(autouse=True)
def an_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned, "gpu_here", lambda: Gpu("h200", "sm_90"))


def a_case(shape: Shape = SHAPE) -> GemmCase:
    return GemmCase(shape, sets=2, device="cpu")


def bench() -> Any:
    ours, _ = hexcute_gemm()
    return tuned.bench_of(ours, a_case(), "gemm_sm90", "hexcute_tuned")


def test_a_bench_goes_to_other_processes_and_ranks_there_without_a_gpu() -> None:
    there = pickle.loads(pickle.dumps(bench()))
    assert there == bench() and there.variant == "thin"
    assert there.task.name == "gemm_sm90-hexcute_tuned" and there.task.bucket == str(SHAPE)
    clocks = [there.clocks(config) for config in list(there.configs)[:3]]
    assert all(c > 0 for c in clocks)
    a, b = there._args("meta")
    assert (a.shape, b.dtype, b.device.type) == ((64, 256), torch.float16, "meta")


def test_every_tuned_system_is_found_again_in_its_suite() -> None:
    found = 0
    for suite in ALL:
        for peer in getattr(suite, "peers", ()):
            if isinstance(peer, TunedPeer):
                found += 1
                names = [other.name for other in suite.peers]
                assert names.count(peer.name) == 1 and peer.name.endswith("_tuned")
                with pytest.raises(PeerAbsent):
                    peer.prepare(None)
    assert found >= 8


def test_the_tuners_choice_is_the_one_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def tune(of: Any, configs: Any, **how: Any) -> Report:
        asked.append((of, len(configs)))
        outcomes = [Outcome(c, "timed", 1.0, (float(i),)) for i, c in enumerate(configs[::-1])]
        return Report(of.task, (*outcomes[:3], Outcome(configs[0], "hung")))

    monkeypatch.setattr(tuned, "tune", tune)
    _, peer = hexcute_gemm()
    (candidate,) = peer.tuned(a_case(), "gemm_sm90")
    configs = list(bench().configs)
    assert candidate.name == " ".join(f"{k}={v}" for k, v in vars(configs[-1]).items())
    assert candidate.note == "best of 3" and asked == [(bench(), len(configs))]


class Clock:
    """Every launch takes five microseconds."""

    launches, method = 1, "fake"

    def replay(self, run: Any, sets: int, target_us: float) -> Any:
        self.run, self.sets = run, sets
        return self

    def sample(self) -> float:
        for index in range(self.sets):
            self.run(index)
        return 5.0

    def alive(self) -> bool:
        return True


class Noted(CasePeer):
    """A peer with a tuner, which hears the suite's name and gives one candidate with a note."""

    name = "noted"

    def tuned(self, case: Any, suite: str) -> Any:
        def build() -> Any:
            def run(index: int) -> None:
                case.c[index].copy_(case.a[index].float() @ case.b[index].float().t())

            return run

        return [Candidate(f"of {suite}", build, "best of 7")]


def test_the_harness_tells_a_tuned_peer_its_suite_and_keeps_its_note() -> None:
    settings = Settings.of(True, "graph")
    (row,) = ShapeMeasurement(a_case(), Clock(), settings, "a suite").results([Noted()])
    assert (row.status, row.config, row.notes) == ("ok", "of a suite", ["best of 7"])


def test_a_process_checks_on_a_case_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    of, launched = bench(), []
    suite = replace(GEMM_SM90, peers=hexcute_gemm(), case=a_case)

    class Launches:
        def __init__(self, right: bool) -> None:
            self.right = right

        def __call__(self, a: Any, b: Any, out: Any, **how: Any) -> None:
            launched.append(how["config"])
            out.copy_((a.float() @ b.float().t()) * (1.0 if self.right else 1.5))

    class Fake:
        def __init__(self, run: Any, sets: int) -> None:
            run(sets - 1)

        def sample(self) -> float:
            return 7.0

    monkeypatch.setattr(tuned, "find", lambda names: (suite,))
    monkeypatch.setattr(tuned, "Replay", Fake)
    config = next(iter(of.configs))
    monkeypatch.setattr("hexcute_bench.peers.ours.operator", lambda name: Launches(True))
    of.prepare(config)
    assert of.sample(config) == 7.0 and set(launched) == {config}
    monkeypatch.setattr("hexcute_bench.peers.ours.operator", lambda name: Launches(False))
    with pytest.raises(TunerError, match=r"its results are off by 0"):
        of.prepare(config)
