"""Ratios, means, tables and figures from CSV files alone."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

from hexcute_bench.cli import main  # noqa: E402
from hexcute_bench.errors import BenchError  # noqa: E402
from hexcute_bench.figures import catalog  # noqa: E402
from hexcute_bench.figures.end_to_end import end_to_end, speedups, title  # noqa: E402
from hexcute_bench.report.data import geometric_mean, paper, timed  # noqa: E402
from hexcute_bench.report.entries import ENTRIES  # noqa: E402
from hexcute_bench.report.summary import as_csv, as_latex, as_markdown, summary  # noqa: E402
from hexcute_bench.rows import TIMED_COLUMNS, ResultFile  # noqa: E402
from hexcute_bench.suites.end_to_end import END_TO_END  # noqa: E402
from hexcute_bench.suites.gemm import GEMM_SM80, SHAPES  # noqa: E402


def write(folder: Path, *rows: dict[str, Any], suite: str = "gemm_sm80") -> None:
    common = {"suite": suite, "status": "ok", "protocol": "graph", "process": "main", "run": "1"}
    ResultFile(folder / f"{suite}.csv", TIMED_COLUMNS).append({**common, **row} for row in rows)


def row(system: str, time_us: float, shape: int = 0, **more: Any) -> dict[str, Any]:
    return {"shape": str(SHAPES[shape]), "system": system, "time_us": time_us, **more}


def ratio(folder: Path, system: str) -> float:
    times = timed(folder, "gemm_sm80", "cublas")
    return float(times[times["system"] == system]["ratio"].iloc[0])


def test_geometric_means() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))
    with pytest.raises(BenchError, match="positive"):
        geometric_mean([1.0, 0.0])


def test_a_ratio_holds_within_one_run_and_process(tmp_path: Path) -> None:
    write(tmp_path, row("cublas", 10.0), row("triton", 20.0))
    write(tmp_path, row("cublas", 40.0, run="2"), row("hexcute", 20.0, run="2"))
    write(tmp_path, row("cublas", 15.0, run="2", process="hidet"),
          row("hidet_f16", 30.0, run="2", process="hidet"))  # fmt: skip
    assert ratio(tmp_path, "triton") == pytest.approx(0.5)
    assert ratio(tmp_path, "hexcute") == pytest.approx(2.0)
    assert ratio(tmp_path, "hidet_f16") == pytest.approx(0.5)
    times = timed(tmp_path, "gemm_sm80", "cublas")
    assert list(times[times["system"] == "cublas"]["time_us"]) == [40.0]


def test_a_run_without_the_baseline_is_seen_by_way_of_shared_peers(tmp_path: Path) -> None:
    write(tmp_path, row("cublas", 10.0), row("triton", 20.0), row("hexcute", 10.0))
    write(tmp_path, row("triton", 30.0, run="2"), row("hexcute", 10.0, run="2"))
    assert ratio(tmp_path, "triton") == pytest.approx(0.5)
    assert ratio(tmp_path, "hexcute") == pytest.approx(1.5)
    write(tmp_path, row("hexcute", 10.0, run="3"))
    assert math.isnan(ratio(tmp_path, "hexcute"))


def test_the_newest_row_counts_and_wrong_ones_never_do(tmp_path: Path) -> None:
    write(tmp_path, row("cublas", 10.0), row("hexcute", 20.0), row("hexcute", 5.0))
    write(tmp_path, row("triton", 1.0, status="wrong"), row("hidet_f16", 1.0, protocol="host"))
    times = timed(tmp_path, "gemm_sm80", "cublas")
    assert dict(zip(times["system"], times["ratio"])) == {"cublas": 1.0, "hexcute": 2.0}


def filled(folder: Path) -> None:
    """Every GEMM shape: ours at 0.8 of cuBLAS below M=2048, at 1.25 above."""
    for index, shape in enumerate(SHAPES):
        slower = 1.25 if shape["m"] < 2048 else 0.8
        write(folder, row("cublas", 100.0, index), row("hexcute_tuned", 100.0 * slower, index),
              row("hexcute", 110.0 * slower, index), row("triton", 200.0, index),
              row("triton_tma", 160.0, index))  # fmt: skip


def test_the_summary_has_a_mean_for_each_regime_beside_the_papers(tmp_path: Path) -> None:
    filled(tmp_path)
    frame = summary(ENTRIES[:1], tmp_path, {("gemm_sm80", "hexcute"): 65})
    few, many = (line for _, line in frame.iterrows())
    assert (few["regime"], few["shapes"], few["measured"]) == ("M<=128", 24, 24)
    assert (many["regime"], many["shapes"]) == ("M>=2048", 16)
    assert few["tuned"] == pytest.approx(0.8) and many["tuned"] == pytest.approx(1.25)
    assert few["hexcute"] == pytest.approx(0.8 / 1.1)
    assert few["best"] == pytest.approx(0.8) and many["best"] == pytest.approx(1.25)
    assert few["triton"] == pytest.approx(100 / 160)
    assert many["paper_hexcute"] == pytest.approx(1.02, abs=0.01)
    assert (few["loc_hexcute"], few["paper_loc_cuda"]) == (65, 703)
    assert "| 0.80 |" in as_markdown(frame) and r"M$\ge$2048" in as_latex(frame)
    assert pd.read_csv(io.StringIO(as_csv(frame)))["tuned"][1] == 1.25


def test_the_summary_says_how_many_shapes_were_measured(tmp_path: Path) -> None:
    write(tmp_path, row("cublas", 10.0), row("hexcute", 20.0))
    frame = summary(ENTRIES[:1], tmp_path, {})
    assert list(frame["measured"]) == [1, 0]
    assert frame["hexcute"][0] == pytest.approx(0.5) and math.isnan(frame["hexcute"][1])


def test_figures_are_the_same_bytes_every_time_and_a_change_is_found(tmp_path: Path) -> None:
    results, first, second = tmp_path / "results", tmp_path / "a", tmp_path / "b"
    filled(results)
    drawn = catalog.draw(results, first)
    assert [path.name for path in drawn] == ["gemm_sm80.svg", "gemm_sm80.pdf"]
    catalog.draw(results, second)
    for path in drawn:
        assert path.read_bytes() == (second / path.name).read_bytes()
    text = drawn[0].read_text()
    assert "<dc:date>" not in text and str(tmp_path) not in text
    assert catalog.differences(results, first) == []
    write(results, row("hexcute", 300.0))
    assert catalog.differences(results, first) == ["gemm_sm80.svg differs", "gemm_sm80.pdf differs"]
    drawn[0].unlink()
    (first / "moe.svg").write_text("left over")
    found = catalog.differences(results, first)
    assert "gemm_sm80.svg is missing" in found and "moe.svg has no results" in found


def test_the_papers_numbers_cover_each_suites_shapes(tmp_path: Path) -> None:
    reported = paper("gemm_sm80", "cublas")
    assert set(reported["shape"]) == {str(shape) for shape in GEMM_SM80.shapes}
    ours = reported[reported["system"] == "hexcute"]
    large = ours[ours["shape"].str.startswith("m=2048")]
    assert geometric_mean(large["ratio"]) == pytest.approx(1.0, abs=0.05)


def test_the_command_line_draws_checks_and_reports(tmp_path: Path, capsys: Any) -> None:
    results, figures = tmp_path / "results", tmp_path / "figures"
    filled(results)
    places = ["--results", str(results), "--figures", str(figures)]
    assert main(["figures", *places, "--check"]) == 1
    assert main(["figures", *places]) == 0
    assert main(["figures", *places, "--check"]) == 0
    assert main(["table", *places, "--check"]) == 1
    assert main(["table", *places]) == 0
    assert main(["table", *places, "--check"]) == 0
    capsys.readouterr()
    write(results, row("hidet_f16", 0.0, status="absent", note="hidet does not import"))
    assert main(["report", "--results", str(results), "gemm_sm80"]) == 0
    said = capsys.readouterr().out
    assert "- M>=2048, geometric means over cublas: hexcute 1.136 (16 shapes)" in said
    assert "absent: hidet_f16" in said and "hidet does not import" in said
    assert main(["report", "nothing"]) == 2


def test_a_models_speedups_are_of_one_key_each(tmp_path: Path) -> None:
    """The newest right rows of a key, and no ratio where one side is missing or wrong."""
    common = {"model": "qwen", "baseline": "deepgemm", "prompt": 128, "status": "ok"}

    def line(batch: int, system: str, latency_ms: float, **more: Any) -> dict[str, Any]:
        key = f"qwen deepgemm batch={batch} prompt=128"
        given = {"key": key, "batch": batch, "system": system, "latency_ms": latency_ms}
        return {**common, **given, **more}

    ResultFile(tmp_path / "end_to_end.csv", END_TO_END.columns).append([
        line(1, "hexcute", 50.0), line(1, "deepgemm", 60.0),
        line(4, "hexcute", 50.0), line(4, "deepgemm", 60.0, status="wrong"),
        line(1, "hexcute", 40.0), line(16, "deepgemm", 60.0),
    ])  # fmt: skip
    found = speedups(tmp_path)
    assert list(found["batch"]) == [1]
    assert float(found["ratio"].iloc[0]) == pytest.approx(1.5)
    assert {path.suffix for path in end_to_end(tmp_path, tmp_path)} == {".svg", ".pdf"}
    assert end_to_end(tmp_path / "none", tmp_path) == []


def test_a_models_title_says_over_how_many_gpus_it_is_cut() -> None:
    assert title("qwen", "1") == "Qwen3-32B-FP8"
    assert title("qwen", "2") == "Qwen3-32B-FP8, 2 GPUs"
    assert title("deepseek", "1") == "DeepSeek-R1-AWQ, 1 GPU of eight"
    apart = title("deepseek", "2, experts by number, exchange")
    assert apart == "DeepSeek-R1-AWQ, 2 GPUs of eight\nexperts by number, exchange"


def test_switches_of_attention_are_drawn_where_they_were_timed(tmp_path: Path) -> None:
    table = "switch,d,causal,heads,s,without_us,with_us\n" + "".join(
        f"GUESS,{d},{mask},16,{s},11.0,10.0\n"
        for d, mask, s in ((64, "no", 1024), (128, "no", 4096), (128, "yes", 4096))
    )
    (tmp_path / "attention_switches.csv").write_text(table)
    drawn = catalog.draw(tmp_path, tmp_path / "drawn")
    assert [path.name for path in drawn] == ["attention_switches.svg", "attention_switches.pdf"]
