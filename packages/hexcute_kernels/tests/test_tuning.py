"""Tuning operators: buckets, rows, what is tried, and the table module, anew from the CSV alone.
The clock is a script, the processes are real."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hexcute_core.errors import LaunchError, TunerError
from hexcute_core.tuner import Outcome, Report
from hexcute_core.tuner import tune as core_tune
from hexcute_kernels import FAMILIES, operator_named, tuned, tuning
from hexcute_kernels.__main__ import main
from hexcute_kernels.buckets import bucket_of
from hexcute_kernels.gemm.candidates import MMA, THIN, WGMMA
from hexcute_kernels.gemm.configs import ThinConfig, WgmmaConfig
from hexcute_kernels.gpus import Gpu, gpu_named
from hexcute_kernels.measured import COLUMNS, config_of, read_csv, rows_of, table_text, write_csv
from hexcute_kernels.moe.configs import ROUTED, MoeConfig
from hexcute_kernels.samples import parse
from hexcute_kernels.tables import Row, Table

torch = pytest.importorskip("torch")
from sample_sizes import SIZES  # noqa: E402

from hexcute_kernels.tuning import (  # noqa: E402
    OperatorBench,
    _check_close,
    bench_of,
    tune_operator,
)

H200 = gpu_named("h200")
THIN_SIZES = "m=64,n=4096,k=4096"


def sizes(text: str) -> dict[str, Any]:
    (found,) = parse(text)
    return found


def bench(operator: str = "matmul", text: str = THIN_SIZES) -> OperatorBench:
    return bench_of(operator, sizes(text), H200)


def timed(of: OperatorBench, us: dict[Any, float]) -> Report:
    """A report of these times."""
    outcomes = [Outcome(config, "timed", 1.0, (time,) * 3) for config, time in us.items()]
    return Report(of.task, tuple(sorted(outcomes, key=lambda o: o.samples)))


def loaded(text: str) -> Any:
    module = ModuleType("table")
    exec(compile(text, "table.py", "exec"), vars(module))
    return module


@pytest.mark.parametrize("name", FAMILIES)
def test_every_operator_can_be_ranked_and_has_a_bucket(name: str) -> None:
    of = bench(name, SIZES[name])
    config = next(iter(of.configs))
    assert of.clocks(config) > 0
    row = of.bucket.row(config)
    problem = operator_named(name).describe(*of._args("meta"))
    assert row.takes(problem)
    assert all(name_ in of.bucket.text for name_ in row.most)


def test_the_cost_model_ranks_what_was_measured_among_the_first() -> None:
    """The rows of the tables were measured; the model sees most of what decides them."""
    for text, most in ((THIN_SIZES, 3), ("m=16,n=4096,k=4096", 8), ("m=4096,n=4096,k=4096", 8)):
        of = bench("matmul", text)
        args = of._args("meta")
        chosen = operator_named("matmul").plan_on(H200, args).config
        ranked = sorted(of.configs, key=of.clocks)
        assert chosen in ranked[:most], (text, ranked.index(chosen))


@pytest.mark.parametrize("table", [MMA])
def test_a_space_holds_the_tables_own_and_more_that_differ(table: Table[Any]) -> None:
    whole = table.whole_space
    assert len(set(whole)) == len(whole) > 5 * len(list(table))
    assert set(table) <= set(whole) and all(isinstance(c, table.kind) for c in whole)


def test_a_bucket_reaches_from_above_half_a_power_of_two_to_it() -> None:
    describe = operator_named("matmul").describe

    def problem(m: int, n: int = 4096, dtype: Any = torch.float16, turned: bool = False) -> Any:
        a, b = torch.empty(m, 64, device="meta"), torch.empty(n, 64, device="meta")
        b = torch.empty(64, n, device="meta").t() if turned else b
        return describe(a.to(dtype), b.to(dtype))

    row = bucket_of(problem(64)).row(next(iter(THIN)))
    assert bucket_of(problem(33)) == bucket_of(problem(64))
    taken = [m for m in (32, 33, 48, 64, 65) if row.takes(problem(m))]
    assert taken == [33, 48, 64]
    assert row.takes(problem(64, 2049)) and not row.takes(problem(64, 2048))
    assert row.takes(problem(64, dtype=torch.bfloat16)), "types of one width are alike"
    assert not row.takes(problem(64, turned=True))
    assert not row.takes(replace(problem(64), aligned=False))
    assert not row.takes(replace(problem(64), bias=True))
    assert row.takes(replace(problem(64), lead=(8, 8)))
    batched = bucket_of(replace(problem(64), batch=3)).row(row.config)
    assert not batched.takes(problem(64)) and not row.takes(replace(problem(64), batch=3))
    fine = bucket_of(problem(64), fine=True)
    assert (fine.least["m"], fine.most["m"], fine.least["n"], fine.most["n"]) == (
        33,
        64,
        3585,
        4096,
    )
    between = bucket_of(problem(129, 6145), fine=True)
    assert (between.least["m"], between.most["m"]) == (129, 160)
    assert (between.least["n"], between.most["n"]) == (6145, 7168)
    for number in (0, 1, 2, 3):
        empty = replace(problem(64), k=number)
        assert bucket_of(empty).row(row.config).takes(empty)


@dataclass(frozen=True)
class Config:
    BM: int

    def blocks(self, problem: Any) -> int:
        return 1


@dataclass(frozen=True)
class Problem:
    m: int


def test_a_gpus_own_rows_come_before_its_kins_and_tuned_ones_before_all() -> None:
    table = Table({"h200": (Row(Config(1)),), "a100": (Row(Config(2)),)})
    measured = {
        "h200": (Row(Config(3), most={"m": 64}),),
        "h100": (Row(Config(4), most={"m": 32}),),
    }

    def choose(gpu: str, m: int) -> int:
        return table.choose(gpu, Problem(m), lambda name: measured.get(name, ())).BM

    assert [choose("h200", m) for m in (32, 64, 65)] == [3, 3, 1]
    # Kin of the H100 are the H200 and the GH200, in this order.
    assert [choose("h100", m) for m in (32, 64, 65)] == [4, 3, 1]
    assert choose("a800", 1) == choose("a100", 1) == 2 and choose("b300", 1) == 1


def test_a_call_chooses_by_the_tuned_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    of = bench()
    row = of.bucket.row(ThinConfig(64, 32, 128, 4, 1))
    rows = {("matmul", "thin", "h200"): (row,)}
    monkeypatch.setattr("hexcute_kernels.operator.tuned_rows", lambda *name: rows.get(name, ()))
    plan = operator_named("matmul").plan_on
    assert plan(H200, of._args("meta")).config == row.config
    assert plan(gpu_named("h100"), of._args("meta")).config == row.config
    other = bench("matmul", "m=64,n=8192,k=4096")._args("meta")
    assert plan(H200, other).config != row.config


def test_tuned_modules_are_found_by_operator_and_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ModuleType("m")
    found.ROWS = {"thin": (Row(Config(7)),)}  # type: ignore[attr-defined]
    monkeypatch.setattr(tuned, "find_spec", lambda name: True if "x_h200" in name else None)
    monkeypatch.setattr(tuned, "import_module", lambda name: found)
    assert tuned.tuned_rows("x", "thin", "h200") == found.ROWS["thin"]
    assert tuned.tuned_rows("x", "mma", "h200") == tuned.tuned_rows("x", "thin", "h100") == ()
    assert tuned.tuned_rows("x", "thin", "some gpu") == ()


def test_the_table_is_what_the_csv_says(tmp_path: Path) -> None:
    path = tmp_path / "matmul_h200.csv"
    small, same, large = (
        bench(),
        bench("matmul", "m=60,n=4096,k=4096"),
        bench("matmul", "m=4096,n=4096,k=4096"),
    )
    a, b, c = list(small.configs)[:3]
    # a is best at 64 rows and bad at 60, c only timed at one of them.
    write_csv(path, rows_of(small, timed(small, {a: 5.0, b: 5.5, c: 1.0})))
    write_csv(path, rows_of(same, timed(same, {a: 9.0, b: 5.5})))
    d, e = list(large.configs)[:2]
    rows = write_csv(path, rows_of(large, timed(large, {d: 90.0, e: 80.0})))
    text = table_text(rows, path.name)
    assert "python -m hexcute_kernels tune matmul` from matmul_h200.csv." in text
    assert "# m=64,n=4096,k=4096: 5.50 us; m=60,n=4096,k=4096: 5.50 us" in text
    assert max(map(len, text.splitlines())) <= 100
    made = loaded(text).ROWS
    assert made["thin"] == (small.bucket.row(b),) and made["wgmma"] == (large.bucket.row(e),)
    assert table_text(read_csv(path), path.name) == text
    # Measured again, the sizes' rows are replaced.
    rows = write_csv(path, rows_of(large, timed(large, {d: 70.0, e: 80.0})))
    assert loaded(table_text(rows, path.name)).ROWS["wgmma"] == (large.bucket.row(d),)
    assert len(rows) == 7 and list(csv.DictReader(path.open())) == rows
    assert tuple(rows[0]) == COLUMNS


def test_of_variants_measured_at_one_size_a_call_takes_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thin = bench()
    wide = replace(thin, variant="wgmma")
    a, b = next(iter(thin.configs)), next(iter(wide.configs))
    matmul, args = operator_named("matmul"), thin._args("meta")
    for us, variant, config in ((5.0, "wgmma", b), (7.0, "thin", a)):
        both = rows_of(thin, timed(thin, {a: 6.0})) + rows_of(wide, timed(wide, {b: us}))
        rows = loaded(table_text(both, "x.csv")).ROWS
        assert rows[variant] == (thin.bucket.row(config),) and sum(map(len, rows.values())) == 1

        def measured(operator: str, name: str, gpu: str, rows: Any = rows) -> Any:
            return rows[name] if name in rows and gpu == "h200" else ()

        monkeypatch.setattr("hexcute_kernels.operator.tuned_rows", measured)
        plan = matmul.plan_on(H200, args)
        assert (plan.variant, plan.config) == (variant, config)
        # Named, the other is taken; and where TMA cannot read the operands.
        assert matmul.plan_on(H200, args, variant="mma").variant == "mma"
        assert matmul.plan_on(H200, args, aligned=False).variant.endswith(("packed", "staged"))


def test_configurations_within_configurations_are_written(tmp_path: Path) -> None:
    of = bench("moe", SIZES["moe"])
    times = {config: 9.0 + i for i, config in enumerate(of.configs)}
    text = table_text(rows_of(of, timed(of, times)), "moe.csv")
    assert "import MoeConfig, W4A16Config" in text
    (row,) = loaded(text).ROWS["wgmma"]
    assert row.config == next(iter(of.configs)) and isinstance(row.config, MoeConfig)


def test_what_was_never_timed_gives_no_row() -> None:
    of = bench()
    failed = Report(of.task, (Outcome(next(iter(of.configs)), "hung", 1.0, (), "no answer"),))
    rows = rows_of(of, failed)
    assert (rows[0]["status"], rows[0]["us"], rows[0]["reason"]) == ("hung", "", "no answer")
    assert loaded(table_text(rows, "x.csv")).ROWS == {"thin": ()}


@pytest.mark.parametrize(
    "text",
    [
        "", "3", "ThinConfig(", "MmaConfig(BM=1)", "__import__('os')", "ThinConfig(BM=open('x'))",
        "ThinConfig(BM=64, BN=8, BK=64, STAGES=6, CONSUMERS=1, SPLITS=1, EARLY=False, X=1)",
        "ThinConfig(64, 8, 64, 6, 1)", "ThinConfig(**{})", "(" * 500,
    ],
)  # fmt: skip
def test_nothing_but_a_configuration_is_read_as_one(text: str) -> None:
    with pytest.raises(TunerError, match="is no ThinConfig"):
        config_of(text, ThinConfig)


def test_configurations_are_read_as_they_are_written() -> None:
    for table in (THIN, WGMMA, ROUTED):
        for config in table:
            assert config_of(repr(config), table.kind) == config


def test_other_files_are_no_measurements(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TunerError, match="it is no CSV of tuning runs"):
        write_csv(tmp_path / "x.csv", [])
    with pytest.raises(TunerError, match="cannot be written"):
        write_csv(tmp_path / "no" / "x.csv", [])
    for rows in ([], rows_of(bench(), timed(bench(), {})) * 2):
        with pytest.raises(TunerError, match="holds rows of 0 operators and GPUs"):
            table_text(rows, "x.csv")


@dataclass(frozen=True)
class OffGpu(OperatorBench):
    """Timed by a script, and checked without a GPU: the smallest tile is wrong, one hangs."""

    def prepare(self, config: Any) -> None:
        assert isinstance(config, WgmmaConfig | ThinConfig)
        if config.BM == 256:
            raise TunerError("its results differ")

    def sample(self, config: Any) -> float:
        return float(config.BN + config.STAGES / 100)

    def alive(self) -> bool:
        return True


def off_gpu(of: OperatorBench, configs: Any, **how: Any) -> Report:
    scripted = OffGpu(of.operator, of.sizes, of.variant, of.gpu, of.exact)
    return core_tune(scripted, configs, **how)


def test_the_command_tunes_and_writes_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stand_in(operator: str, of_sizes: Any, **how: Any) -> Any:
        return tune_operator(operator, of_sizes, tuner=off_gpu, **how)

    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("hexcute_kernels.commands.tune_operator", stand_in)
    for where in ("commands", "tuning"):
        monkeypatch.setattr(f"hexcute_kernels.{where}.gpu_here", lambda: Gpu("h200", "sm_90"))
    table, path = tmp_path / "matmul_h200.py", tmp_path / "r.csv"
    command = [
        "tune", "matmul", "--shapes", "m=64,n=4096,k=4096", "--csv", str(path), "--table",
        str(table), "--top", "3", "--rounds", "2", "--processes", "2",
    ]  # fmt: skip
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "matmul-thin on h200, m=33..64" in printed
    assert f"results in {path}, the table in {table}" in printed
    rows = read_csv(path)
    assert [row["status"] for row in rows].count("timed") == 3
    (row,) = loaded(table.read_text()).ROWS["thin"]
    assert repr(row.config) == rows[0]["config"]
    # What is known is not measured again.
    before = path.read_text()
    assert main(command) == 0 and path.read_text() == before
    assert main([*command, "--top", "0"]) == 1
    assert capsys.readouterr().err == "error: top is 0, expected a number from 1 on\n"


def test_tuning_is_stopped_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*of: Any, **how: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("hexcute_kernels.commands.tune_operator", stop)
    monkeypatch.setattr("hexcute_kernels.commands.gpu_here", lambda: H200)
    assert main(["tune", "matmul", "--shapes", THIN_SIZES]) == 130
    assert capsys.readouterr().err == "stopped; the same command goes on from here\n"


def test_variants_are_those_that_take_the_sizes() -> None:
    assert bench().variant == "thin" and bench("matmul", "m=4096,n=4096,k=4096").variant == "wgmma"
    named = bench_of("matmul", sizes(THIN_SIZES), H200, "mma")
    assert named.variant == "mma" and set(named.configs) == set(MMA)
    with pytest.raises(LaunchError, match="no variant takes this call"):
        bench_of("matmul", sizes("m=64,n=65,k=64"), H200, "wgmma")
    exact = bench_of("matmul", sizes(THIN_SIZES), H200, exact=True)
    assert exact.task.bucket == THIN_SIZES and exact.task != bench().task
    with pytest.raises(TunerError, match="launches nothing"):
        bench("w4a16_matmul", "m=0,n=128,k=256").clocks(
            next(iter(bench("w4a16_matmul", "m=0,n=128,k=256").configs))
        )


def test_results_are_compared_as_sums_in_another_order() -> None:
    want = torch.tensor([8.0, 0.0, -torch.inf, torch.nan, -4.0])
    _check_close(want + torch.tensor([0.1, -0.1, 0.0, 0.0, 0.1]), want)
    _check_close(torch.empty(0), torch.empty(0))
    for place, value in ((0, 8.2), (1, torch.nan), (2, torch.inf), (3, 1.0), (4, -3.8)):
        wrong = want.clone()
        wrong[place] = value
        with pytest.raises(TunerError, match="its results differ by"):
            _check_close(wrong, want)


@pytest.mark.gpu
def test_an_operator_is_tuned_on_the_gpu(tmp_path: Path) -> None:
    text = "m=64,n=1024,k=512"
    of, report = tune_operator("matmul", sizes(text), top=4, rounds=3, root=tmp_path)
    assert report.best.us is not None and 0.5 < report.best.us < 1000
    assert [o.status for o in report.outcomes].count("timed") == 4
    assert loaded(table_text(rows_of(of, report), "x.csv")).ROWS[of.variant]


def test_a_table_that_was_written_makes_no_other_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of a stopped run lies among the sources when the run goes on."""
    monkeypatch.setattr(tuning, "__file__", str(tmp_path / "tuning.py"))
    version = tuning.kernels_version.__wrapped__
    before = version()
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "matmul_h200.py").write_text("ROWS = {}")
    assert version() == before
    (tmp_path / "kernels.py").write_text("")
    assert version() != before
