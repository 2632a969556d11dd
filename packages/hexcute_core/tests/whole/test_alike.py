"""What is simulated can be built and launched, or both refuse it with the same words."""

import linecache

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f8e4m3, f32, i8, i16, i32, u8
from hexcute_core.driver.grid import decode, encode, grid_function
from hexcute_core.driver.signature import require
from hexcute_core.errors import FrontendError, LaunchError, SimulationError
from hexcute_core.runtime import best_key
from hexcute_core.runtime.specialisation import LEVEL_BITS
from hexcute_core.scalar import Const, Var, binary, cdiv, unary
from hexcute_core.scalar.exact import exact
from hexcute_core.simulator.lanes.values import storage

m, n = hx.dims("m n")


def kernel_of(parameters, *lines):
    """A kernel of the parameters' text and the lines of its body."""
    head = ("hx.attrs.cuda.grid_dim = 1", "hx.attrs.cuda.block_dim = 32")
    text = f"def kernel({parameters}):\n" + "".join(f"    {line}\n" for line in (*head, *lines))
    name = f"<alike {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = dict(globals())
    exec(compile(text, name, "exec"), scope)
    return hx.kernel(scope["kernel"], cache=False)


def unary_kernel(source, target, expression):
    return kernel_of(
        f"a: {source}[32], b: {target}[32]",
        f"r = hx.register_tensor({source}, (32,))",
        "hx.copy(hx.global_view(a, ((32,), (1,))), r)",
        f"hx.copy({expression}, hx.global_view(b, ((32,), (1,))))",
    )


REFUSED = [
    ("i32", "r ** -1", r"`\*\*` of integers by -1"),
    ("i32", "r ** 65", r"`\*\*` of integers by 65"),
    ("i32", "2 ** r", r"`\*\*` of integers by a number known at run time"),
    ("f32", "r << 1", "`<<` on f32"),
    ("f32", "~r", "`~` on f32"),
    ("f32", "r & 1", "`&` on f32"),
    ("i32", "r << 0.5", "a shift by the f32 `0.5`"),
    ("f32", "r // 2.0", "`//` on f32"),
    ("i32", "r / 2", "`/` on the integers"),
    ("i32", "(r > 0) / (r > 1)", "`/` on the integers"),
    ("i32", "r % 0", "is divided by zero"),
    ("i32", "hx.cdiv(r, 0)", "by zero"),
    ("i8", "r + 300", "i8 has no number 300"),
    ("u8", "r - (-1)", "u8 has no number -1"),
    ("i8", "r + hx.cast(r, u8)", "i8 meets u8"),
    ("i32", "r + 2**40", "i32 has no number 1099511627776"),
    ("f8e4m3", "r * 2.0", "sm_80 has no conversion from wider floats to f8e4m3"),
]


@pytest.mark.parametrize(("source", "expression", "message"), REFUSED)
def test_refused_while_tracing_at_its_line(source, expression, message):
    """A refusal by the tile program comes before both the simulator and the code generator."""
    compiled = unary_kernel(source, source, expression).compile("sm_80")
    with pytest.raises(FrontendError, match=message) as caught:
        _ = compiled.tile
    assert caught.value.span.line == 6 and caught.value.fix


def test_8_bit_floats_move_on_every_target_and_fill():
    kernel = kernel_of(
        "a: f8e4m3[32], b: f8e4m3[32]",
        "r = hx.register_tensor(f8e4m3, (32,))",
        "hx.fill(r, -0.0234375)",
        "hx.copy(r, hx.global_view(b, ((32,), (1,))))",
    )
    b = np.zeros(32, storage(f8e4m3))
    compiled = kernel.compile("sm_80")
    compiled.simulate(b.copy(), b)
    assert compiled.built.cubin and (b.astype(np.float32) == -0.0234375).all()
    assert f"{int(b.view(np.uint8)[0])}" in compiled.source()


WORDS = """
    NULL INT_MAX CUDA_VERSION CUDART_VERSION NAN _BOOL _Pragma linux unix printf clock half float4
    uint32_t size_t dim3 atomicAdd min max double int template new typename char8_t warpSize
    threadIdx arena hx_x __x main cudaStream_t a0 signed this operator
"""


def test_parameters_symbols_and_scalars_may_have_any_name():
    tensors = WORDS.split()
    lines = ["r = hx.register_tensor(f32, (32,))"]
    for word in tensors:
        lines.append(f"hx.copy(hx.global_view({word}, ((32,), (1,))), r)")
        lines.append(f"hx.copy(r + 1.0, hx.global_view({word}, ((32,), (1,))))")
    kernel = kernel_of(", ".join(f"{word}: f32[32]" for word in tensors), *lines)
    assert kernel.compile("sm_80").built.cubin
    lines = ["NULL = hx.register_tensor(i32, (1,))", "hx.fill(NULL, INT_MAX + register)",
             "hx.copy(NULL, hx.global_view(void, ((1,), (1,))))"]  # fmt: skip
    scope = "INT_MAX: i32, register: i32, void: i32[1]"
    compiled = kernel_of(scope, *lines).compile("sm_80")
    out = np.zeros(1, np.int32)
    compiled.simulate(2**31 - 1, 2, out)
    assert compiled.built.cubin and out[0] == -(2**31) + 1


@hx.kernel(cache=False)
def number(out: i32[1], n: i32, s: i8, x: f32):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(i32, 1)
    hx.fill(r, n + s)
    hx.copy(r, hx.global_view(out, (1, 1)))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((2**40, 0, 0.0), "1099511627776 is no i32"),
        ((0, 200, 0.0), "200 is no i8"),
        ((0, 0, 1e300), "1e\\+300 is no f32"),
        ((0.5, 0, 0.0), "expected a Python int for i32"),
    ],
)
def test_numbers_that_a_parameter_cannot_take(numbers, message):
    with pytest.raises(LaunchError, match=message):
        number.simulate(np.zeros(1, np.int32), *numbers)


def test_numbers_at_the_ends_of_a_parameter_and_what_is_no_finite_number():
    out = np.zeros(1, np.int32)
    for x in (float("inf"), float("nan"), -3e38):
        number.simulate(out, -(2**31), 127, x)
        assert out[0] == -(2**31) + 127


def test_an_output_that_cannot_be_written():
    out = np.zeros(1, np.int32)
    out.setflags(write=False)
    with pytest.raises(SimulationError, match="argument out: number writes it") as caught:
        number.simulate(out, 1, 1, 1.0)
    assert "copy()" in caught.value.fix


@hx.kernel(cache=False)
def rows(a: u8[m], b: u8[16], *, TILE: int = 1 << 22):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, TILE)
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(u8, (16,))
    hx.fill(r, 7)
    if hx.blockIdx.x == 0:
        hx.copy(r, hx.global_view(b, ((16,), (1,))))


@pytest.mark.parametrize("size", [2**31 - 1, 2**31])
def test_extents_at_the_end_of_32_bits(size):
    grid = rows.compile("sm_80").tile.grid_dim[0]
    assert exact(grid, {"m": size}) == -(-size >> 22)
    assert grid_function((decode(encode(grid)),) * 3, ["m"])([size])[0] == -(-size // (1 << 22))


def test_an_extent_past_32_bits_is_refused():
    pieces = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2**31,), (0,))
    with pytest.raises(LaunchError, match="2147483648 elements, at most 2147483647"):
        rows.simulate(pieces, np.zeros(16, np.uint8), target="sm_80")


def test_a_kernel_for_small_tensors_does_not_take_a_large_one():
    @hx.kernel(cache=False)
    def row(a: u8[m, n], b: u8[16]):
        hx.attrs.cuda.grid_dim = m
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(u8, (1, 16))
        hx.copy(hx.global_view(a[hx.blockIdx.x :, :], ((1, 16), (n, 1))), r)
        hx.copy(r, hx.global_view(b, ((1, 16), (16, 1))))

    promise = row.compile("sm_80").tile.promise
    best = best_key(row.signature, row.divisors)
    key = best | 1 << LEVEL_BITS * (len(row.signature.tensors) + len(row.divisors))
    with pytest.raises(LaunchError, match="fewer than 2\\^31 elements"):
        require(row.signature, row.divisors, promise, key)


def test_fixed_extents_of_2_31_elements_are_indexed_in_64_bits():
    @hx.kernel(cache=False)
    def row(x: i8[32769, 65536], y: i8[1, 512]):
        hx.attrs.cuda.grid_dim = 32769
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i8, (1, 512))
        hx.copy(hx.global_view(x[hx.blockIdx.x :, :], ((1, 512), (65536, 1))), r)
        hx.copy(r, hx.global_view(y, ((1, 512), (512, 1))))

    compiled = row.compile("sm_80")
    assert compiled.tile.promise.wide and "long long" in compiled.source()


def test_a_grid_without_blocks_runs_nothing_and_one_too_large_is_refused():
    out = np.zeros(1, np.int32)

    @hx.kernel(cache=False)
    def many(out: i32[1], x: i32, y: i32):
        hx.attrs.cuda.grid_dim = x, y
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i32, 1)
        hx.fill(r, 1)
        hx.copy(r, hx.global_view(out, (1, 1)))

    many.simulate(out, 0, 5)
    assert out[0] == 0
    for x, y in ((-1, 1), (1, 65536)):
        with pytest.raises(SimulationError, match="can be launched"):
            many.simulate(out, x, y)


def test_the_host_computes_grids_as_the_simulator_does():
    x = Var("x", i32)
    for e in (
        binary("sub", cdiv(x, 64), 1), unary("neg", binary("floordiv", unary("neg", x), 64)),
        binary("mod", unary("neg", x), Const(7, i32)), binary("pow", x, 2), binary("max", x, 3),
    ):  # fmt: skip
        function = grid_function((decode(encode(e)), x, x), ["x"])
        for value in (-(2**31), -65, -1, 0, 1, 63, 64, 65, 2**31 - 1):
            assert function([value])[0] == exact(e, {"x": value}), str(e)


@pytest.mark.parametrize(
    ("dtype", "cells", "meant"),
    [
        (i8, [100, 100, -3, 5], [202 - 256]),
        (u8, [200, 100, 3, 5], [308 - 256]),
        (i16, [30000, 30000, 0, 1], [60001 - 65536]),
        (hx.u32, [2**31, 2**31, 0, 9], [9]),
        (hx.i64, [2**62, 2**61, 2**53, 1], [2**62 + 2**61 + 2**53 + 1]),
        (hx.f16, [2048.0, 1.0, 1.0, 0.5], [2050.0]),
        (f8e4m3, [256.0, 256.0, 8.0, 1.0], [448.0]),
        (hx.boolean, [True, True, False, True], [3]),
    ],
    ids=str,
)
def test_sums_are_accumulated_in_32_bits_and_converted_once(dtype, cells, meant):
    result = "i32" if dtype == hx.boolean else str(dtype)
    kernel = kernel_of(
        f"a: hx.{'boolean' if dtype == hx.boolean else dtype}[4, 4], b: hx.{result}[4, 1]",
        "r = hx.register_tensor(a.dtype, (4, 4))",
        "hx.copy(hx.global_view(a, ((4, 4), (4, 1))), r)",
        "hx.copy(hx.sum(r, 1), hx.global_view(b, ((4, 1), (1, 1))))",
    )
    a = np.array([cells] * 4, np.float64 if dtype.is_float else storage(dtype))
    b = np.zeros((4, 1), storage(getattr(hx, result)))
    compiled = kernel.compile("sm_90")
    compiled.simulate(a.astype(storage(dtype)), b)
    assert (b.astype(object).ravel() == meant * 4).all()
    assert compiled.built.cubin
