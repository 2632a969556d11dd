"""The harness on fake peers: resume, failures, wrong results, choice, and what rows say."""

from __future__ import annotations

import json
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from hexcute_bench.errors import BenchError, DeviceLost, PeerAbsent
from hexcute_bench.interface import ProcessPeer
from hexcute_bench.rows import TIMED_COLUMNS, ResultFile

# pytest's importlib mode gives test folders no package: the fakes are loaded by path.
_spec = util.spec_from_file_location("bench_fakes", Path(__file__).with_name("conftest.py"))
assert _spec is not None and _spec.loader is not None
fakes = util.module_from_spec(_spec)
sys.modules["bench_fakes"] = fakes
_spec.loader.exec_module(fakes)


def rows(out: Path) -> list[dict[str, str]]:
    return list(ResultFile(out / "fake.csv", TIMED_COLUMNS).rows)


def by_system(out: Path, shape: int = 0) -> dict[str, dict[str, str]]:
    wanted = str(fakes.SHAPES[shape])
    return {row["system"]: row for row in rows(out) if row["shape"] == wanted}


def test_each_shape_and_system_gets_a_row_with_time_rate_and_environment(bench: Any) -> None:
    ours = fakes.FakePeer("hexcute", {"slow": 9.0, "fast": 5.0})
    assert bench.run(fakes.suite(ours, fakes.base()))
    assert [(row["shape"], row["system"]) for row in rows(bench.out)] == [
        (str(shape), name) for shape in fakes.SHAPES for name in ("hexcute", "base")
    ]
    row = by_system(bench.out)["hexcute"]
    assert (row["status"], row["config"], row["time_us"]) == ("ok", "fast", "5")
    assert float(row["tflops"]) == pytest.approx(2e6 * 16 / 5 * 1e-6)
    assert float(row["tbps"]) == pytest.approx(1e6 / 5 * 1e-6)
    assert (row["gpu"], row["run"], row["commit"], row["sets"]) == ("fake GPU", "run1", "abc", "3")
    seen = json.loads((bench.out / "environment.json").read_text())
    assert seen["run1"]["suites"]["fake"]["protocol"] == "graph"


def test_an_interrupted_run_goes_on_and_loses_nothing(bench: Any) -> None:
    first, stopped = fakes.FakePeer("hexcute", {"x": 5.0}), fakes.base()

    def interrupted(shape: Any) -> Any:
        if shape["m"] == 4096:
            raise KeyboardInterrupt
        return fakes.FakeCase(shape)

    with pytest.raises(KeyboardInterrupt):
        bench.run(fakes.suite(first, stopped, case=interrupted))
    before = rows(bench.out)
    assert len(before) == 4
    again = fakes.FakePeer("hexcute", {"x": 5.0})
    assert bench.run(fakes.suite(again, fakes.base()))
    assert again.prepared == [str(fakes.SHAPES[2])]
    assert rows(bench.out)[:4] == before and len(rows(bench.out)) == 6


def test_a_line_cut_short_is_dropped_and_measured_again(bench: Any) -> None:
    bench.run(fakes.suite(fakes.base()))
    path = bench.out / "fake.csv"
    path.write_text(path.read_text()[:-40])
    peer = fakes.base()
    bench.run(fakes.suite(peer))
    assert peer.prepared == [str(fakes.SHAPES[2])]
    assert [row["shape"] for row in rows(bench.out)] == [str(shape) for shape in fakes.SHAPES]


def test_a_peer_added_later_is_measured_beside_the_baseline_of_its_own_run(bench: Any) -> None:
    bench.run(fakes.suite(fakes.base()))
    base = fakes.base(only=20.0)
    bench.run(fakes.suite(fakes.FakePeer("late", {"x": 8.0}), base))
    last = rows(bench.out)[-2:]
    assert {row["system"] for row in last} == {"late", "base"}
    assert {row["run"] for row in last} == {"run2"}
    assert len(base.prepared) == 3


def test_absent_and_failing_peers_are_in_the_result_and_are_tried_again(bench: Any) -> None:
    broken = fakes.FakePeer("broken", {"x": 1.0}, broken=OSError("no symbol\nsecond line"))
    bench.run(fakes.suite(fakes.base(), fakes.absent("away"), broken))
    found = by_system(bench.out)
    assert (found["away"]["status"], found["away"]["note"]) == ("absent", "no such library")
    assert (found["broken"]["status"], found["broken"]["note"]) == ("failed", "OSError: no symbol")
    assert found["base"]["status"] == "ok"
    assert found["away"]["time_us"] == ""
    mended = fakes.FakePeer("broken", {"x": 1.0})
    bench.run(fakes.suite(fakes.base(), mended))
    assert len(mended.prepared) == 3


def test_a_wrong_result_is_flagged_and_not_timed(bench: Any) -> None:
    bench.run(fakes.suite(fakes.base(), fakes.FakePeer("bad", {"x": 0.1}, wrong=0.5)))
    row = by_system(bench.out)["bad"]
    assert (row["status"], row["time_us"], row["config"]) == ("wrong", "", "x")
    assert float(row["error"]) == pytest.approx(0.5)


@pytest.mark.parametrize(("slack", "status"), [(1.0, "wrong"), (4.0, "ok")])
def test_a_peer_that_rounds_more_has_a_bound_of_its_own(
    bench: Any, slack: float, status: str
) -> None:
    rounding = fakes.FakePeer("rounding", {"x": 0.1}, wrong=2e-3, slack=slack)
    bench.run(fakes.suite(fakes.base(), rounding))
    row = by_system(bench.out)["rounding"]
    assert (row["status"], float(row["tolerance"])) == (status, pytest.approx(slack * 1e-3))


def test_an_output_left_unwritten_is_wrong(bench: Any) -> None:
    bench.run(fakes.suite(fakes.base(), fakes.FakePeer("lazy", {"x": 0.1}, lazy=True)))
    row = by_system(bench.out)["lazy"]
    assert (row["status"], row["error"]) == ("wrong", "nan")


def test_only_a_right_configuration_can_win(bench: Any) -> None:
    peer = fakes.FakePeer("hexcute", {"quick": 1.0, "right": 4.0}, failing=("quick",))
    bench.run(fakes.suite(fakes.base(), peer))
    row = by_system(bench.out)["hexcute"]
    assert (row["status"], row["config"], row["time_us"]) == ("ok", "right", "4")
    assert "1 of 2 configurations failed, first quick: MemoryError" in row["note"]


def test_a_result_that_goes_wrong_while_it_is_timed_is_flagged(bench: Any) -> None:
    peer = fakes.FakePeer("hexcute", {"x": 4.0})
    build = peer._build

    def tiring(case: Any, name: str) -> Any:
        run, count = build(case, name), [0]

        def later(index: int) -> None:
            count[0] += 1
            run(index)
            if count[0] > 10:
                case.outputs[index] += 1.0

        later.micros = 4.0  # type: ignore[attr-defined]
        return later

    peer._build = tiring
    bench.run(fakes.suite(fakes.base(), peer))
    row = by_system(bench.out)["hexcute"]
    assert row["status"] == "wrong" and "after the timed replays" in row["note"]


def test_a_peer_that_breaks_the_device_stops_the_run_and_is_left_out_of_the_next(
    bench: Any,
) -> None:
    broken = fakes.FakePeer("broken", {"x": 1.0}, broken=RuntimeError("illegal address"))
    with pytest.raises(DeviceLost, match="broken broke the device for this process"):
        bench.run(fakes.suite(broken, fakes.base()), alive=False)
    assert [row["system"] for row in rows(bench.out)] == ["broken"]
    again = fakes.FakePeer("broken", {"x": 1.0})
    bench.run(fakes.suite(again, fakes.base()))
    assert again.prepared == []
    bench.run(fakes.suite(again, fakes.base()), systems=("broken",))
    assert again.prepared == [str(shape) for shape in fakes.SHAPES]


def test_filters_peers_and_quick_narrow_the_run(bench: Any) -> None:
    ours = fakes.FakePeer("hexcute", {"x": 5.0})
    bench.run(fakes.suite(ours, fakes.base(), fakes.absent("away")), filters=("m>=32,m<2048",),
              systems=("hexcute",))  # fmt: skip
    assert [(row["shape"], row["system"]) for row in rows(bench.out)] == [
        (str(fakes.SHAPES[1]), "base"), (str(fakes.SHAPES[1]), "hexcute"),
    ]  # fmt: skip
    with pytest.raises(BenchError, match="no peer 'cublas'; it has base"):
        bench.run(fakes.suite(fakes.base()), systems=("cublas",))


def test_time_that_ran_out_leaves_the_rest_for_the_next_run(bench: Any) -> None:
    assert not bench.run(fakes.suite(fakes.base()), seconds=-1.0)
    assert rows(bench.out) == []
    assert bench.run(fakes.suite(fakes.base()))


def test_inputs_that_cannot_be_made_fail_the_shape_only(bench: Any) -> None:
    def scarce(shape: Any) -> Any:
        if shape["m"] == 4096:
            raise MemoryError("out of memory")
        return fakes.FakeCase(shape)

    bench.run(fakes.suite(fakes.base(), case=scarce))
    assert [row["status"] for row in rows(bench.out)] == ["ok", "ok", "failed"]


def test_peers_of_another_process_send_their_rows(bench: Any) -> None:
    asked: list[list[str]] = []

    def other(suite: str, shapes: Any, systems: Any, settings: Any) -> Any:
        asked.append([str(shape) for shape in shapes])
        for shape in shapes:
            for system in ("base", *systems):
                yield {"shape": str(shape), "system": system, "status": "ok", "time_us": 3.0}

    group = ProcessPeer(("guest",), "guest's own", other)
    what = fakes.suite(fakes.base(), processes=(group,))
    assert bench.run(what)
    guests = [row for row in rows(bench.out) if row["process"] == "guest's own"]
    assert [row["system"] for row in guests] == ["base", "guest"] * 3
    assert bench.run(what)
    assert len(asked) == 1


def test_a_process_that_gives_up_is_reported(bench: Any) -> None:
    for error, status in ((PeerAbsent("not installed"), "absent"), (BenchError("died"), "failed")):

        def gone(suite: str, shapes: Any, systems: Any, settings: Any, error: Any = error) -> Any:
            raise error
            yield {}

        what = fakes.suite(fakes.base(), processes=(ProcessPeer(("guest",), "own", gone),))
        assert not bench.run(what)
        assert rows(bench.out)[-1]["note"] == str(error)
        assert rows(bench.out)[-1]["status"] == status


def test_a_result_file_of_another_version_is_refused(bench: Any) -> None:
    (bench.out / "fake.csv").write_text("suite,shape\nfake,m=1\n")
    with pytest.raises(BenchError, match="other columns"):
        bench.run(fakes.suite(fakes.base()))
