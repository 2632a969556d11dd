"""hx.printf and hx.device_assert: who speaks, what is said, where it ends, and what is refused."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest
from machine_code import opcodes_of
from refusals import Refusals, check_tile_refused

import hexcute_core as hx
from hexcute_core import bf16, boolean, f16, f32, f64, i8, i32, i64, u32, u64
from hexcute_core.dtypes import DType
from hexcute_core.errors import MissingDependency, SimulationError, VerifyError
from hexcute_core.scalar import Const, Var
from hexcute_core.scalar.formats import said
from hexcute_core.thread import Say, ThreadParam, ThreadProgram, show_program, verify

m = hx.dim("m")
TARGETS = ["sm_80", "sm_90"]


@hx.kernel(cache=False)
def talking(x: f32[m], big: i64, bits: u32):
    hx.attrs.cuda.grid_dim = 2
    hx.attrs.cuda.block_dim = 64
    b, r = hx.blockIdx.x, hx.register_tensor(f32, (8,))
    hx.copy(hx.global_view(x, ((8,), (1,))), r)
    half = hx.cast(r, f16)
    if b == 1:
        hx.printf('block %d of %u: "100%%" {ok} \\ ', b, hx.gridDim.x)
        hx.printf("%5.2f|%-4d|%+.1e?\n", 1.5, 7, 0.5)
        hx.printf("%d %x %X %o\n", big, bits, -1, 8)
        for (i,) in hx.elements(half):
            if i % 4 == 1:
                hx.printf("element %02d: %g, %d\n", i, half[i], half[i] > 2.0)
        if hx.threadIdx.x > 61:
            hx.printf("thread %d\n", hx.threadIdx.x)
        for i in range(2):
            hx.printf("%d ", i)
        hx.printf("done\n")


SAID = """block 1 of 2: "100%" {ok} \\  1.50|7   |+5.0e-01?
5000000000 2a FFFFFFFF 10
element 01: 1, 0
element 05: 5, 1
thread 62
thread 63
0 1 done
"""


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("target", TARGETS)
def test_who_says_what(target: str, seed: int) -> None:
    """One thread for its block, one for an element, single threads for themselves."""
    kernel = talking.compile(target, verify=True)
    x = np.arange(8, dtype=np.float32)
    report = kernel.simulate(x, 5_000_000_000, 42, seed=seed, compare=True)
    if seed == 0:
        assert report.printed == SAID
        assert report.show().startswith(SAID + "2 blocks")
    # Warps come in any order.
    assert sorted(report.printed.split()) == sorted(SAID.split())


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_source_says(target: str) -> None:
    kernel = talking.compile(target)
    source = kernel.source()
    assert r'printf("block %d of %u: \042100%%\042 \173ok\175 \134 ", ' in source
    assert r'printf("%5.2f|%-4d|%+.1e\077\012", 1.5f, ' in source
    assert r'printf("%lld %x %X %o\012", big, ' in source
    assert re.search(r'printf\("element %02d: %g, %d\\012", .*hx_f16_to_f32', source)


def test_roles_say_once_each() -> None:
    @hx.kernel(cache=False)
    def kernel(x: f16[64, 64]):
        hx.attrs.cuda.grid_dim = 1
        s, pipe = hx.shared_tensor(f16, (64, 64, 1)), hx.pipeline(1)
        with hx.warp_groups_producer():
            hx.printf("fills\n")
            with pipe.produce() as at:
                hx.copy(hx.global_view(x, ((64, 64), (64, 1))), s[:, :, at])
        with hx.warp_groups_consumer(2):
            r = hx.register_tensor(f16, (64, 64))
            with pipe.consume() as at:
                hx.copy(s[:, :, at], r)
            hx.printf("reads %d\n", at)

    report = kernel.compile("sm_90", verify=True).simulate(np.zeros((64, 64), np.float16))
    assert report.printed == "fills\nreads 0\n"


@hx.kernel(cache=False)
def asserting(x: f32[m], y: f32[m], limit: i32):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 32)
    hx.attrs.cuda.block_dim = 64
    r = hx.register_tensor(f32, (32,))
    hx.copy(hx.global_view(x[hx.blockIdx.x * 32 :], ((32,), (1,))), r)
    hx.device_assert(hx.blockIdx.x < limit, "too many blocks")
    for (i,) in hx.elements(r):
        hx.device_assert(r[i] >= 0.0, "negative: 100% {wrong}")
    hx.copy(r, hx.global_view(y[hx.blockIdx.x * 32 :], ((32,), (1,))))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("target", TARGETS)
def test_what_does_not_hold_is_an_error_at_its_line(target: str, seed: int) -> None:
    kernel, x = asserting.compile(target, verify=True, aligned=False), np.ones(50, np.float32)
    y = np.zeros_like(x)
    kernel.simulate(x, y, 2, seed=seed, compare=True)
    assert np.array_equal(x, y)
    with pytest.raises(SimulationError, match="assertion failed: too many blocks") as caught:
        kernel.simulate(x, y, 1, seed=seed)
    line = linecache.getline(caught.value.span.file, caught.value.span.line)
    assert 'hx.blockIdx.x < limit, "too many blocks"' in line
    x[40] = -1
    report = kernel.simulate(x, y, 2, seed=seed, check=False)
    (found,) = report.findings
    assert (found.kind, found.block) == ("assertion", (1, 0, 0))
    assert "negative: 100% {wrong}" in found.message


def test_the_tile_program_asserts_as_well() -> None:
    from hexcute_core.simulator.oracle.interpreter import interpret

    x = np.ones(50, np.float32)
    program = asserting.compile("sm_80", aligned=False).tile
    with pytest.raises(SimulationError, match="assertion failed: too many blocks"):
        interpret(program, {"x": x, "y": np.zeros_like(x)}, {"limit": 1, "m": 50})


@pytest.mark.parametrize("target", TARGETS)
def test_an_assertion_becomes_a_text_and_a_trap(target: str) -> None:
    kernel = asserting.compile(target)
    source = kernel.source()
    assert r'assertion failed: negative: 100%% \173wrong\175 [block %d, %d, %d thread %d]' in source
    try:
        opcodes = opcodes_of(kernel.sass())
    except MissingDependency as error:
        pytest.skip(str(error))
    assert sum(op.startswith("BPT.TRAP") for op in opcodes) >= 2


@pytest.mark.parametrize(
    ("text", "value", "dtype", "shown"),
    [
        ("%d", -3, i8, "-3"), ("%u", -1, i32, "4294967295"), ("%x", -1, i64, "f" * 16),
        ("%d", True, boolean, "1"), ("%5.1f|", 2.25, f64, "  2.2|"), ("%g", 0.5, bf16, "0.5"),
        ("%u", 2**64 - 1, u64, "18446744073709551615"), ("%%%d%%", 4, u32, "%4%"),
    ],
)  # fmt: skip
def test_numbers_as_c_shows_them(text: str, value: float, dtype: DType, shown: str) -> None:
    assert said(text, [(value, dtype)]) == shown


refused = Refusals()


@refused.case("a text with 2 conversions got 1 values", "a value for each")
def too_few(a, r, q, s, n):
    hx.printf("%d %d\n", n)  # here


@refused.case("no conversion %l", "%d", "percent sign")
def a_width_of_c(a, r, q, s, n):
    hx.printf("%ld\n", n)  # here


@refused.case("no conversion %s", "%f")
def a_text_of_c(a, r, q, s, n):
    hx.printf("%s\n", n)  # here


@refused.case("of the i32 `n` by %f", "write %d")
def an_integer_as_a_float(a, r, q, s, n):
    hx.printf("%f\n", n)  # here


@refused.case("of the f32 `0.5` by %d", "write %f")
def a_float_as_an_integer(a, r, q, s, n):
    hx.printf("%d\n", 0.5)  # here


@refused.case("of f16 register tile `r`", "hx.elements(tile)")
def a_tile(a, r, q, s, n):
    hx.printf("%f\n", r)  # here


@refused.case("takes a text first", "hx.printf(")
def no_text(a, r, q, s, n):
    hx.printf(n)  # here


@refused.case("in which threads differ", "one of them speaks for all")
def a_number_of_the_thread(a, r, q, s, n):
    hx.printf("%d\n", hx.threadIdx.x)  # here


@refused.case("hx.device_assert of f16 register tile `r`", "assert of its elements")
def an_asserted_tile(a, r, q, s, n):
    hx.device_assert(r, "whole")  # here


@refused.case("never holds: never", "compile-time constants")
def what_never_holds(a, r, q, s, n):
    hx.device_assert(1 > 2, "never")  # here


@pytest.mark.parametrize(("body", "expected", "threads"), refused.params)
def test_refused(body, expected, threads) -> None:
    check_tile_refused(body, expected)


def program(stmt: Say) -> ThreadProgram:
    one = Const(1, i32)
    params = (ThreadParam("n", i32),)
    return ThreadProgram("probe", params, (one, one, one), 32, 0, (stmt,))


def test_the_thread_program() -> None:
    n = Var("n", i32)
    text = show_program(program(Say("%d\n", (n,), False)))
    assert text.splitlines()[-1].strip() == r"printf '%d\n', n"
    verify(program(Say("%d\n", (n,), False)))
    for wrong in (Say("%f\n", (n,), False), Say("\n", (n,), False), Say("%d", (), False)):
        with pytest.raises(VerifyError, match="of other numbers than it shows"):
            verify(program(wrong))
