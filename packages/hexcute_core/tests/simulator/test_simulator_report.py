"""What a simulation hands back: findings collected, schedules, costs by line, public surface."""

import time

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import dtypes as dt
from hexcute_core import f16, f32
from hexcute_core.commands import main
from hexcute_core.errors import LaunchError, SimulationError, SourceSpan
from hexcute_core.scalar import Const, Unary, Var
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
)
from hexcute_kernels.gemm.pipelined import pipelined_gemm

pytest_plugins = ("pytester",)

TX = Var("threadIdx.x")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
m, n, k = hx.dims("m n k")


def at(line):
    return SourceSpan("kernel.py", line)


def regs(array="r"):
    return Regs(array, ZERO, (0,), 1, dt.f32)


def program(*body, threads=64, shared=512):
    params = (ThreadParam("x", dt.f32, (Const(64, dt.i32),), pointer=True, aligned=True),)
    return ThreadProgram("kernel", params, (ONE, ONE, ONE), threads, shared, body)


def broken():
    """Two races and an uninitialised register, then an access far outside."""
    put = lambda byte, line: Prim("st.shared.4", (SharedPtr(byte), regs()), at(line))  # noqa: E731
    get = lambda byte, line: Prim("ld.shared.4", (regs(), SharedPtr(byte)), at(line))  # noqa: E731
    return program(
        DeclareArray("r", dt.f32, 1),
        put(TX * 4, 5),
        get((TX ^ 1) * 4, 6),
        get((TX ^ 2) * 4, 7),
        Prim("st.global.4", (GlobalPtr("x", TX * 100, dt.f32), regs(), TRUE), at(8)),
        put(TX * 4, 9),
    )


def test_findings_are_collected_once_a_place():
    report = simulate(broken(), {"x": np.zeros(64, np.float32)}, {}, check=False, schedules=5)
    found = [(f.kind, f.span.line, f.other and f.other.line) for f in report.findings]
    assert found == [
        ("uninitialised read", 5, None),
        ("race", 6, 5),
        ("race", 7, 5),
        ("out of bounds", 8, None),
    ]
    first = report.findings[1]
    assert (first.block, first.thread, first.seed) == ((0, 0, 0), 0, 0)
    assert "kernel.py:6: race on shared byte 4" in str(first)
    assert "no findings" not in report.show()
    with pytest.raises(SimulationError, match="uninitialised read") as caught:
        report.check()
    assert caught.value.finding is report.findings[0]


def test_a_checked_run_raises_the_first_finding_and_leaves_the_arrays():
    x = np.zeros(64, np.float32)
    with pytest.raises(SimulationError) as caught:
        simulate(broken(), {"x": x}, {})
    assert caught.value.span == at(5)
    assert caught.value.finding.kind == "uninitialised read"
    assert not x.any()


def test_a_clean_report():
    body = (
        DeclareArray("r", dt.f32, 1),
        SetElement("r", ZERO, Unary("exp2", TX * 1.0, dt.f32) / (TX + 1.0), at(3)),
        Prim("st.shared.4", (SharedPtr(TX * 8), regs()), at(4)),
        Prim("st.global.4", (GlobalPtr("x", TX, dt.f32), regs(), TRUE), at(5)),
    )
    report = simulate(program(*body), {"x": np.zeros(64, np.float32)}, {}, schedules=3)
    assert report.findings == ()
    assert report.deterministic
    assert report.seeds == (0, 1, 2)
    report.check()
    counters = report.counters
    assert counters.special == {"div": 64, "exp2": 64}
    (access,) = counters.shared_accesses
    assert (access.name, access.span, access.cost, access.ideal) == ("st.shared.4", at(4), 4, 2)
    assert access.excess == 2.0
    (access,) = counters.global_accesses
    assert (access.span, access.instructions, access.cost, access.ideal) == (at(5), 2, 8, 8)
    text = report.show()
    assert "1 blocks, 3 schedules\nno findings" in text
    assert "kernel.py:4 st.shared.4" in text
    assert "special-function operations" in text


def test_a_seed_that_finds_something_finds_it_again():
    report = simulate(broken(), {"x": np.zeros(64, np.float32)}, {}, check=False, seed=7)
    assert {f.seed for f in report.findings} == {7}
    again = simulate(broken(), {"x": np.zeros(64, np.float32)}, {}, check=False, seed=7)
    assert again.findings == report.findings
    with pytest.raises(SimulationError, match="seed 7"):
        report.check()


@hx.kernel(cache=False)
def matmul(a: f16[m, k], b: f16[n, k], c: f32[m, n], *, BM: int = 32, BK: int = 32):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BM)
    hx.attrs.cuda.block_dim = 32
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BM
    ga = hx.global_view(a[bm:, :], ((BM, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BM, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BM, BK))
    rc = hx.register_tensor(f32, (BM, BM))
    hx.fill(rc, 0.0)
    for i in range(hx.cdiv(k, BK)):
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.gemm(rc, ra, rb)
    hx.copy(rc, hx.global_view(c[bm:, bn:], ((BM, BM), (n, 1))))


def operands(rows=64, columns=64, depth=64):
    rng = np.random.default_rng(2)
    a = rng.integers(-4, 5, (rows, depth)).astype(np.float16)
    b = rng.integers(-4, 5, (columns, depth)).astype(np.float16)
    return a, b, np.zeros((rows, columns), dtype=np.float32)


def test_a_compiled_kernel_simulates():
    a, b, c = operands()
    compiled = matmul.compile("sm_80")
    report = compiled.simulate(a, b, c, schedules=2)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert report.outputs["c"] is c
    assert report.counters.tensor == {"mma.16x8x16.f32.f16.f16": 2 * 64**3}
    c[:] = -1
    part = compiled.simulate(a, b, c, blocks=[(1, 0, 0)])
    assert part.blocks == ((1, 0, 0),)
    assert (c[:32] == -1).all() and (c[32:, 32:] == -1).all()


def test_a_kernel_simulates_what_a_launch_would_run():
    a, b, c = operands(depth=63)
    report = matmul.simulate(a, b, c, target="sm_80", schedules=2, BK=16)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert report.seeds == (0, 1)
    with pytest.raises(LaunchError, match="expected 3 arguments"):
        matmul.simulate()


def test_a_block_of_the_pipelined_kernel_is_quick():
    """128 x 128 with K = 256 by 128 threads, once lowered: five seconds at most."""
    compiled = pipelined_gemm(f16).compile("sm_80", BM=128, BN=128, WARPS=4)
    assert compiled.thread.block_dim == 128
    a, b, _ = operands(128, 128, 256)
    c = np.zeros((128, 128), dtype=np.float16)
    start = time.process_time()
    compiled.simulate(a, b, c)
    assert time.process_time() - start < 5
    np.testing.assert_array_equal(c.astype(np.float32), a.astype(np.float32) @ b.astype("f4").T)


def test_arguments_that_do_not_fit_are_refused():
    a, b, c = operands(depth=63)
    with pytest.raises(LaunchError, match="compiled for k a multiple of 8"):
        matmul.compile("sm_80").simulate(a, b, c)


def test_the_command_line_simulates(capsys):
    spec = f"{__file__}:matmul"
    sizes = ["--shape", "m=40", "n=32", "--shape", "k=64"]
    arguments = ["simulate", spec, "--target", "sm_80", "--set", "BK=16", *sizes]
    assert main([*arguments, "--unaligned", "--schedules", "2", "--block", "1"]) == 0
    text = capsys.readouterr().out
    assert "1 blocks, 2 schedules\nno findings" in text
    assert "bit for bit" in text
    assert main(["simulate", spec, "--target", "sm_80", "--shape", "m=40"]) == 1
    assert "matmul needs the sizes" in capsys.readouterr().err


INNER = """
import numpy as np
import pytest
from hexcute_core.errors import SimulationError
from {module} import matmul, operands

def test_right(simulate_kernel):
    a, b, c = operands(depth=63)
    report = simulate_kernel(matmul, a, b, c, BM=16)
    assert report.seeds == (5, 6, 7)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)

def test_compiled(simulate_kernel):
    report = simulate_kernel(matmul.compile("sm_80"), *operands(), schedules=1, compare=False)
    assert report.seeds == (5,)

def test_a_wrong_type(simulate_kernel):
    a, b, c = operands()
    simulate_kernel(matmul, a, b, c.astype(np.float64))
"""


def test_the_fixture_runs_users_kernels(pytester, monkeypatch):
    import sys
    from pathlib import Path

    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    pytester.makepyfile(INNER.format(module=Path(__file__).stem))
    plugin = ("-p", "hexcute_core.pytest_plugin", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess(*plugin, "--simulate-seed=5", "--simulate-schedules=3")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*LaunchError*"])


def row_sums(values):
    """A sum along a row of `values`, compiled, with its arguments."""
    n = len(values)

    @hx.kernel(cache=False)
    def total(x: hx.f32[1, n], y: hx.f32[1, 1]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        r = hx.register_tensor(hx.f32, (1, n))
        hx.copy(hx.global_view(x, ((1, n), (n, 1))), r)
        hx.copy(hx.sum(r, 1), hx.global_view(y, ((1, 1), (1, 1))))

    x = np.array([values], dtype=np.float32)
    return total, (x, np.zeros((1, 1), np.float32))


def test_simulate_compares_with_the_tile_program_where_asked():
    kernel, args = row_sums(np.arange(256) % 7)
    report = kernel.simulate(*args, target="sm_80", compare=True, schedules=2)
    assert report.wrong == () and args[1][0, 0] == args[0].sum()
    again = kernel.compile("sm_80").simulate(*args, blocks=[(0, 0, 0)], compare=True)
    assert again.wrong == ()


def test_what_differs_from_the_tile_program_is_an_error_with_a_way_on():
    # Sums that round depend on their order, which lanes and tile program do not share.
    kernel, args = row_sums(np.random.default_rng(1).standard_normal(2048) ** 5)
    assert kernel.simulate(*args, target="sm_80").wrong == ()
    report = kernel.simulate(*args, target="sm_80", check=False, compare=True)
    assert report.wrong == ("y",)
    with pytest.raises(SimulationError, match="total: y not what the tile program means") as caught:
        kernel.compile("sm_80").simulate(*args, compare=True)
    assert caught.value.span == kernel.definition.span
    assert "compare=False" in caught.value.fix
