"""The microbenchmark without a GPU: the fit, the supervisor, the CSV and the data module."""

from __future__ import annotations

import random
import sys
import time

import pytest

from hexcute_bench.errors import BenchError
from hexcute_bench.microbench import record, supervise, table
from hexcute_bench.microbench.__main__ import main
from hexcute_bench.microbench.catalog import rows
from hexcute_bench.microbench.fit import line
from hexcute_core.arch import Timing
from hexcute_core.arch import timings as arch_timings
from hexcute_core.arch.timings import Measured, timed

ABOUT = {"gpu": "NVIDIA H100 80GB HBM3", "driver": "580.1", "commit": "abc", "sm_clock_mhz": "1980"}
DOCUMENTED = Timing(4.0, 40.0, "a manual")


def test_the_slope_leaves_out_start_and_end():
    exact = line({n: [1000.0 + 32.5 * n] for n in (64, 128, 192, 256)})
    assert exact.slope == pytest.approx(32.5) and exact.fixed == pytest.approx(1000)
    assert exact.error < 1e-9
    noise = random.Random(7)
    samples = {
        n: [500 + 12 * n + noise.uniform(-3, 3) for _ in range(4)] + [9e6]
        for n in (64, 128, 192, 256)
    }
    found = line(samples)
    assert found.slope == pytest.approx(12, rel=0.01) and found.error < 0.01
    bent = line({1: [10.0], 2: [20.0], 3: [60.0]})
    assert bent.error > 0.1


def test_no_line_without_growth_or_samples():
    with pytest.raises(BenchError, match="took no longer"):
        line({1: [10.0], 2: [10.0]})
    with pytest.raises(BenchError, match="two numbers of trips"):
        line({1: [10.0]})
    with pytest.raises(BenchError, match="two numbers of trips"):
        line({1: [10.0], 2: []})


def job(name):
    """What the supervisor reads of a job; the rest travels as it is."""
    return (name, "issue", None, None)


FAKE = """
import json, pickle, sys, time
print(json.dumps({"ready": True}), flush=True)
for name, quantity, *_ in pickle.loads(open(sys.argv[1], "rb").read()):
    if name == "hangs":
        time.sleep(600)
    if name == "dies":
        sys.exit("illegal address")
    print(json.dumps({"name": name, "quantity": quantity, "clocks": 1.0, "error": 0.0}), flush=True)
"""


def test_a_hanging_and_a_dying_kernel_cost_their_own_rows_only():
    jobs = [job(name) for name in ("a", "hangs", "b", "dies", "c")]
    begun = time.monotonic()
    results = supervise.run(jobs, 60, (sys.executable, "-c", FAKE), job_seconds=1.0)
    assert time.monotonic() - begun < 30
    assert [r["name"] for r in results] == ["a", "hangs", "b", "dies", "c"]
    assert ["failed" in r for r in results] == [False, True, False, True, False]
    assert "silent" in results[1]["failed"] and "illegal address" in results[3]["failed"]


def test_the_supervisor_ends_in_time():
    jobs = [job("hangs"), job("a")]
    results = supervise.run(jobs, 1.5, (sys.executable, "-c", FAKE), job_seconds=60.0)
    assert ["failed" in r for r in results] == [True, True]
    assert "no time" in results[1]["failed"]


def results_of(clocks):
    return [
        {"name": name, "quantity": q, "clocks": value, "error": 0.01}
        for name, pair in clocks.items()
        for q, value in zip(record.QUANTITIES, pair)
        if value is not None
    ]


CLOCKS = {
    "ld.shared.4": (1.0, 23.0), "st.shared.4": (1.1, 26.5), "stmatrix.x4": (4.0, None),
    "ld.global.16.l2": (8.0, 260.0), "ld.global.16.dram": (30.0, 600.0),
    "wgmma.64x64x16.f32.f16.f16": (32.0, 60.0), "wgmma.64x128x16.f32.f16.f16": (64.0, 100.0),
    "wgmma.64x8x32.i32.i8.i8": (16.0, 30.0),
}  # fmt: skip


def test_csv_and_data_module(tmp_path, capsys):
    found = record.records(rows(90), results_of(CLOCKS), ABOUT)
    by_name = {r["name"]: r for r in found}
    assert by_name.keys() == CLOCKS.keys()
    assert by_name["st.shared.4"]["latency"] == "3.50"
    assert "latency" not in by_name["stmatrix.x4"]
    assert "issue: 16 warps" in by_name["ld.shared.4"]["method"]
    path = tmp_path / "bench" / "results" / "microbench.csv"
    record.write(path, found)
    assert record.read(path)[0]["gpu"] == ABOUT["gpu"]
    assert main(["--table", str(path)]) == 0
    text = capsys.readouterr().out
    made = {}
    exec(compile(text, "timings", "exec"), made)
    assert made["ROWS"]["ld.shared.4"] == (1.0, 23.0)
    assert made["ROWS"]["stmatrix.x4"] == (4.0, None)
    assert made["SOURCE"] == "bench/results/microbench.csv, NVIDIA H100 80GB HBM3"
    assert main(["--table", str(path), "--out", str(tmp_path / "t.py")]) == 0
    assert (tmp_path / "t.py").read_text() == text
    assert all(len(row) <= 100 for row in text.splitlines())


def test_a_table_is_of_one_gpu(tmp_path):
    other = [{"name": "a", "issue": "1", "latency": "", "gpu": gpu} for gpu in ("A100", "H100")]
    with pytest.raises(BenchError, match="2 GPUs"):
        table.text(other, "sm_90", "x.csv")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BenchError, match="no table"):
        record.read(tmp_path / "x.csv")
    assert main(["--table", str(tmp_path / "none.csv")]) == 2
    assert main([]) == 2


def test_a_store_is_not_told_without_the_load_it_contains():
    clocks = {"st.shared.4": (1.1, 26.5)}
    (found,) = record.records(rows(90), results_of(clocks), ABOUT)
    assert "latency" not in found and found["issue"] == "1.10"


@pytest.fixture
def measured(monkeypatch):
    source = "bench/results/h100/microbench.csv, H100"
    monkeypatch.setitem(arch_timings.MEASURED, "sm_90", Measured(source, CLOCKS))
    return source


def test_measured_timings_belong_to_their_table(measured):
    assert timed("sm_90", "ld.shared.4", DOCUMENTED) == Timing(1.0, 23.0, measured)
    assert timed("sm_80", "ld.shared.4", DOCUMENTED) is DOCUMENTED
    assert timed("sm_90", "ld.shared.8", DOCUMENTED) is DOCUMENTED
    assert timed("sm_90", "ld.global.16", DOCUMENTED) == Timing(8.0, 600.0, measured)
    partly = timed("sm_90", "stmatrix.x4", DOCUMENTED)
    assert (partly.issue, partly.latency) == (4.0, 40.0)
    assert partly.source == f"{measured}; latency: a manual"


def test_wgmma_between_measured_widths_and_of_like_types(measured):
    between = timed("sm_90", "wgmma.64x96x16.f32.f16.f16", DOCUMENTED)
    assert (between.issue, between.latency) == (48.0, 80.0)
    assert timed("sm_90", "wgmma.64x256x16.f32.f16.f16", DOCUMENTED) is DOCUMENTED
    assert timed("sm_90", "wgmma.64x8x32.i32.u8.u8", DOCUMENTED).issue == 16.0
    assert timed("sm_90", "wgmma.64x64x16.f32.bf16.bf16", DOCUMENTED) is DOCUMENTED
