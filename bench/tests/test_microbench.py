"""The microbenchmark: its kernels as machine code, and that its barriers never hang."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from hexcute_bench.microbench import async_rows, probe
from hexcute_bench.microbench.catalog import rows
from hexcute_bench.microbench.device import build
from hexcute_bench.microbench.remote_rows import NEIGHBOUR
from hexcute_bench.microbench.shared_rows import load
from hexcute_core.arch import arch
from hexcute_core.scalar import Call, Const, Var
from hexcute_core.simulator import SimulationReport, simulate
from hexcute_core.thread import Assign, ThreadProgram, verify
from hexcute_core.toolchain.discovery import find_tool
from hexcute_core.toolchain.sass import sass

ROWS = {row.name: row for row in rows(90)}
PROBES = {
    f"{row.name} {quantity}": found
    for row in ROWS.values()
    for quantity, found in (("issue", row.issue), ("latency", row.latency))
    if found is not None
}
needs_sass = pytest.mark.skipif(
    find_tool("nvdisasm") is None and find_tool("cuobjdump") is None, reason="no disassembler"
)


def test_every_row_of_the_tables_is_measured():
    for row in (*arch("sm_90").copies, *arch("sm_90").mmas):
        places = (row.name, f"{row.name}.l2", f"{row.name}.dram")
        assert row.name in ROWS or {*places[1:]} <= ROWS.keys(), row.name
    kinds = {(r.c_dtype.name, r.a_dtype.name) for r in arch("sm_90").wgmmas}
    alike = {"u8": "i8", "f8e5m2": "f8e4m3"}
    for c, a in kinds:
        a = alike.get(a, a)
        widths = {
            int(found[1]) for name in ROWS
            if (found := re.fullmatch(rf"wgmma\.64x(\d+)x\d+\.{c}\.{a}\.{a}", name))
        }  # fmt: skip
        assert {8, 64, 128, 256} <= widths
    assert len({r.name for r in rows(90)}) == len(rows(90))
    later = ("tma", "wgmma", "stmatrix", "ld.cluster", "st.cluster")
    assert not any(r.name.startswith(later) for r in rows(80))


def test_every_probe_verifies_and_has_a_name_of_its_own():
    for found in PROBES.values():
        verify(found.program)
        assert len(found.trips) >= 4 and found.calls > 0
    assert len({p.program.name for p in PROBES.values()}) == len(PROBES)


def loop_of(text: str) -> list[str]:
    """Opcodes between the last label that a branch goes back to and that branch, per trip."""
    lines = [re.sub(r"/\*.*?\*/", "", line).strip() for line in text.splitlines()]
    labels: dict[str, int] = {}
    best: list[str] = []
    for at, text_line in enumerate(lines):
        label = re.fullmatch(r"(\.L_x_\d+):", text_line)
        back = re.search(r"BRA `\((\.L_x_\d+)\)", text_line)
        if label:
            labels[label[1]] = at
        elif back and back[1] in labels:
            inside = lines[labels[back[1]] : at]
            found = (re.match(r"(?:@!?U?P\d+ )?([A-Z][\w.]*)", text_line) for text_line in inside)
            ops = [match[1] for match in found if match]
            best = max(best, ops, key=len)
    return best


@needs_sass
@pytest.mark.parametrize(
    ("name", "opcode", "times"),
    [
        ("ld.shared.16 issue", r"LDS\.128", 8),
        ("ld.shared.16 latency", r"LDS\.128", 8),
        ("ld.shared.1 issue", r"LDS\.U8", 8),
        ("st.shared.4 issue", r"STS", 8),
        ("st.shared.4 latency", r"(STS|LDS)", 16),
        ("ld.cluster.16 issue", r"LD\.E\.128", 8),
        ("ld.cluster.4 latency", r"LD\.E", 8),
        ("st.cluster.8 issue", r"ST\.E\.64", 8),
        ("st.cluster.4 latency", r"(ST|LD)\.E", 16),
        ("ldmatrix.x4.trans latency", r"LDSM\.16\.MT88\.4", 8),
        ("ld.global.16.l2 issue", r"LDG\.E\.128", 8),
        ("ld.global.4.dram latency", r"LDG\.E", 4),
        ("st.global.8.l2 issue", r"STG\.E\.64", 8),
        ("cp.async.8.l2 issue", r"LDGSTS", 8),
        ("mma.16x8x16.f32.f16.f16 issue", r"HMMA\.16816\.F32", 8),
        ("mma.16x8x32.i32.i8.i8 latency", r"IMMA\.16832", 8),
        ("wgmma.64x64x16.f32.f16.f16 issue", r"HGMMA\.64x64x16", 16),
        ("wgmma.64x128x32.f32.f8e4m3.f8e4m3 latency", r"QGMMA\.64x128x32", 1),
        ("bar.sync.8 latency", r"BAR\.SYNC", 4),
        ("tma.load.8192.dram issue", r"UTMALDG", 16),
    ],
)
def test_the_loop_runs_what_it_times(name, opcode, times):
    text = sass(build(PROBES[name], "sm_90").cubin)
    assert sum(1 for op in loop_of(text) if re.match(opcode, op)) == times


@needs_sass
@pytest.mark.parametrize(
    ("name", "opcode"),
    [("fma.f32 issue", "FFMA"), ("exp2 latency", r"MUFU\.EX2"), ("shfl.xor issue", "SHFL")],
)
def test_unrolled_loops_run_whole_trips(name, opcode):
    loop = loop_of(sass(build(PROBES[name], "sm_90").cubin))
    times = sum(1 for op in loop if re.match(opcode, op))
    assert times and times % 8 == 0
    others = [op for op in loop if not re.match(opcode, op)]
    assert len(others) <= times / 4 + 2


def without_clock(program: ThreadProgram) -> ThreadProgram:
    """The program with zeros for the clock, which the simulator has not."""
    zero = Const(0, probe.dt.i64)
    body = tuple(
        Assign(s.var, zero, True) if isinstance(s, Assign) and isinstance(s.value, Call) else s
        for s in program.body
    )
    return ThreadProgram(**{**vars(program), "body": body})


@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("which", ["box", "mbarrier"])
def test_barriers_never_hang_and_boxes_never_race(monkeypatch, which, trips):
    monkeypatch.setattr(probe, "DATA_BYTES", 2**20)
    row = async_rows._box(8, "l2", False) if which == "box" else async_rows._mbarrier()
    for found in (row.issue, row.latency):
        assert not run(without_clock(found.program), trips).findings


@pytest.mark.parametrize("size", [16, 1])
def test_neighbours_stay_until_both_are_done(monkeypatch, size):
    monkeypatch.setattr(probe, "DATA_BYTES", 2**20)
    made = load(NEIGHBOUR, size).latency.program
    program = replace(without_clock(made), grid_dim=(Const(2, probe.dt.i32), *made.grid_dim[1:]))
    report = run(program, 3)
    assert not report.findings
    assert report.counters.bytes[f"ld.cluster.{size}"] == 2 * 3 * 8 * 32 * size


def run(program: ThreadProgram, trips: int) -> SimulationReport:
    """The probe on zeros."""
    kinds = {"i64": np.int64, "u32": np.uint32, "f16": np.float16}
    arrays = {
        p.name: np.zeros(tuple(int(e.value) for e in p.shape), dtype=kinds[p.dtype.name])
        for p in program.params
        if p.pointer
    }
    return simulate(program, arrays, {Var("trips").name: trips}, schedules=2)
