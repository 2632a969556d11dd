"""The comparison with the profiler: its patterns, its kernels, and how its output is read."""

from __future__ import annotations

import pytest

from hexcute_bench.access_clocks import source
from hexcute_bench.errors import BenchError
from hexcute_bench.warp_accesses import PATTERNS
from hexcute_bench.wavefronts import METRICS, compare, compare_cycles, main, read_profile
from hexcute_core.backend import emit
from hexcute_core.thread import verify
from hexcute_core.toolchain import compile_cubin

BY_NAME = {pattern.name: pattern for pattern in PATTERNS}


def by_definition(pattern):
    """Wavefronts from the bank model, phase by phase, where no lanes share an address."""
    size = 16 if pattern.kind.startswith("ldmatrix") else pattern.size
    lanes = 8 * (pattern.size // 4) if pattern.kind.startswith("ldmatrix") else 32
    width = min(32, 128 // size)
    places = [int(a) for a in pattern.addresses()[:lanes]]
    total = 0
    for first in range(0, lanes, width):
        words = {(a + b) // 4 for a in places[first : first + width] for b in range(0, size, 4)}
        total += max(sum(1 for w in words if w % 32 == bank) for bank in range(32))
    return total


def test_there_are_twenty_layouts_and_more():
    shared = [p for p in PATTERNS if p.kind != "global"]
    assert len(shared) >= 20
    assert {p.size for p in shared if p.kind == "load"} == {4, 8, 16}
    assert {p.size for p in shared if p.kind == "store"} == {4, 8, 16}
    assert any(p.kind.endswith(".trans") for p in shared)
    assert len({p.kernel_name for p in PATTERNS}) == len(PATTERNS)


@pytest.mark.parametrize("name", [n for n, p in BY_NAME.items() if p.kind != "global"])
def test_the_model_is_the_banks_definition(name):
    pattern = BY_NAME[name]
    merged = {"ld8_pairs": 1, "ld8_crossed_pairs": 1, "ld16_pairs": 2}
    assert pattern.access_wavefronts() == merged.get(name, by_definition(pattern))
    expected = pattern.expected()
    what = "shared_st" if pattern.kind == "store" else "shared_ld"
    assert expected[what] == pattern.access_wavefronts()


@pytest.mark.parametrize(
    "name", ["ld8_pairs", "st16_column", "ldmatrix4_trans_column", "g16_tiles"]
)
def test_kernels_verify_and_compile(name):
    pattern = BY_NAME[name]
    verify(pattern.program())
    text = emit(pattern.program(), "sm_90").text
    assert pattern.kernel_name in text
    assert compile_cubin(text, "sm_90").cubin
    if pattern.kind != "global":
        assert compile_cubin(source(pattern), "sm_90").cubin


def profiled(rows):
    columns = ["ID", "Process Name", "Kernel Name", *METRICS.values()]
    quoted = [columns, ["", "", "", *["" for _ in METRICS]], *rows]
    lines = ["==PROF== Connected", *(",".join(f'"{c}"' for c in row) for row in quoted)]
    return "\n".join(lines)


def test_the_profilers_rows_are_read():
    text = profiled([
        ["0", "python", "hexcute_wf_ld4_rows(const int *)", "1", "1,064", "2", "4"],
        ["1", "python", "hexcute_wf_ld4_column", "32", "64", "256", "4"],
    ])  # fmt: skip
    found = read_profile(text, ["wf_ld4_rows", "wf_ld4_column"])
    assert found["wf_ld4_rows"] == {
        "shared_ld": 1, "shared_st": 1064, "global_ld": 2, "global_st": 4
    }  # fmt: skip
    assert found["wf_ld4_column"]["shared_ld"] == 32
    with pytest.raises(BenchError, match="did not report wf_ld8_rows"):
        read_profile(text, ["wf_ld8_rows"])
    broken = profiled([["0", "python", "wf_ld4_rows", "n/a", "1", "2", "4"]])
    with pytest.raises(BenchError, match="lacks a count"):
        read_profile(broken, ["wf_ld4_rows"])


def test_rows_say_whether_the_counts_agree():
    pattern = BY_NAME["ld4_column"]
    right = pattern.expected()
    row = compare(pattern, right)
    assert row["equal"] and row["simulated_shared_ld"] == row["measured_shared_ld"] == 32
    assert not compare(pattern, {**right, "shared_ld": 31})["equal"]
    assert compare_cycles(pattern, 32.9)["equal"]
    assert not compare_cycles(pattern, 16.0)["equal"]


def test_without_a_profiler_the_command_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--out", str(tmp_path / "w.csv")]) == 1
    assert "install Nsight Compute" in capsys.readouterr().err
    assert main(["--list"]) == 0
    assert "ld4_column shared_ld=32" in capsys.readouterr().out
