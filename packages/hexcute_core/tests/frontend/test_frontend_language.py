"""Pieces of the language that the larger tests do not reach."""

import math

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i8, i32, u32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.scalar import Call, Const, Var, binary
from hexcute_core.simulator import interpret
from hexcute_core.tile import Assign, CallStmt, Elementwise, If, RegisterTensor
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify

m, k = hx.dims("m k")


def program_of(body, **constants):
    function = hx.device(body)

    def kernel(a: f32[m, k], n: i32, *, EXTRA=None):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 16), 4
        hx.attrs.cuda.block_dim = 64
        function(a, n)

    program = trace(define(kernel), constants, Promise())
    verify(program)
    return program


def test_primitives_by_name():
    def body(a, n):
        lane = hx.threadIdx.x % 32
        x = hx.primitive("shfl_sync", 0xFFFF, lane, n, dtype=i32)
        hx.primitive("trap")
        hx.primitive("counter", dtype=u32)
        if x > 2:
            hx.primitive("__nanosleep", x * 2)

    program = program_of(body)
    held, trap, counter, branch = program.body
    assert isinstance(held, Assign) and held.value.name == "shfl_sync"
    assert isinstance(held.value, Call) and held.value.dtype == i32
    assert (trap.name, counter.name) == ("trap", "counter")
    assert isinstance(branch, If) and isinstance(branch.then[0], CallStmt)
    assert branch.then[0].args == (binary("mul", held.var, 2),)


def test_launch_attributes_can_be_read():
    def body(a, n):
        warps = hx.attrs.cuda.block_dim // 32
        assert warps == 2
        assert hx.attrs.cuda.grid_dim[1] is not None
        for tile in range(hx.blockIdx.x, hx.gridDim.x * hx.gridDim.y, hx.gridDim.x):
            hx.primitive("visit", tile, hx.gridDim.z)

    text = show_program(program_of(body))
    grid = "cdiv(m, 16)"
    assert f"for tile in range(blockIdx.x, {grid} * 4, {grid}):" in text
    assert "visit(tile, 1)" in text


def test_the_grid_that_persistent_chose_can_be_read():
    """How many multiprocessors there are is known to the launch; threads see what it made of it."""

    @hx.kernel(cache=False)
    def counted(y: i32[m, 1]):
        hx.attrs.cuda.block_dim = 32
        for tile in hx.persistent(m):
            r = hx.register_tensor(i32, (1, 1))
            hx.fill(r, hx.gridDim.x * 10 + hx.gridDim.y)
            hx.copy(r, hx.global_view(y[tile:, :], ((1, 1), (1, 1))))

    y = np.zeros((5, 1), np.int32)
    compiled = counted.compile("sm_80", aligned=False)
    compiled.simulate(y)
    assert (y == 21).all() and "gridDim.x" in compiled.source()


def test_math_of_python_numbers_happens_now():
    def body(a, n):
        scale = hx.log2(math.e) * hx.rsqrt(64.0) + hx.exp(0.0) + hx.abs(-2)
        assert isinstance(scale, float)
        assert hx.minimum(3, 4) == 3 and hx.maximum(3, 4.5) == 4.5
        assert hx.where(True, 1, 2) == 1 and hx.cdiv(7, 2) == 4
        x = hx.exp2(hx.cast(n, f32) * scale)
        hx.primitive("use", x)

    program = program_of(body)
    text = show_program(program)
    assert f"exp2(f32(n) * {np.float32(math.log2(math.e) / 8 + 1 + 2)!s})" in text


def test_choices_on_tiles_and_scalars():
    def body(a, n):
        r = hx.register_tensor(f32, (8, 8))
        hx.fill(r, 1.0)
        r = r + 1.0 if n > 2 else r * 3.0
        x = 1 if n > 2 else 2.5
        hx.primitive("use", x)
        return r

    program = program_of(body)
    (stmt,) = [s for s in program.body if isinstance(s, Elementwise)]
    assert "select(n > 2, $0 + 1.0, $0 * 3.0)" in show_program(program)
    assert stmt.dst.tensor == "r_1"
    assert "use(select(n > 2, 1.0, 2.5))" in show_program(program)


def helper_that_builds(t, times):
    """A plain function that works on tiles: it runs at trace time."""
    total = t
    for number in range(times):
        total = total * 2.0 + number
        hx.fill(t, 0.0)
    return total


def test_plain_functions_may_use_the_language():
    def kernel(x: f32[4, 8], out: f32[4, 8]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (4, 8))
        hx.copy(hx.global_view(x, ((4, 8), (8, 1))), r)
        hx.copy(helper_that_builds(r, 2), hx.global_view(out, ((4, 8), (8, 1))))

    program = trace(define(kernel), {}, Promise())
    verify(program)
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    out = interpret(program, {"x": x, "out": np.zeros((4, 8), np.float32)}, {})["out"]
    # `total` is computed where Python computes it, before the tile it read is cleared.
    np.testing.assert_array_equal(out, (x * 2 + 0) * 2 + 1)


@hx.device
def grow(count):
    total = 0
    for i in range(count):
        total = total + i
    return total


def helper_that_calls_a_device_function(count):
    return grow(count) + 1


def test_device_functions_called_from_plain_ones():
    def body(a, n):
        hx.primitive("use", helper_that_calls_a_device_function(n))

    text = show_program(program_of(body))
    assert "for i in range(0, n, 1):\n    total = total + i\n" in text
    assert "use(t + 1)" in text or "use(total + 1)" in text


def test_keyword_arguments_stars_and_defaults():
    @hx.device
    def many(a, b=2, *rest, c=3, **named):
        hx.primitive("many", a, b, c, *rest, *named.values())

    def body(a, n):
        values = (n, 5)
        many(*values, 6, 7, d=8)
        settings = {"c": 9}
        many(1, **settings)

    text = show_program(program_of(body))
    assert "many(n, 5, 3, 6, 7, 8)" in text and "many(1, 2, 9)" in text


def test_containers_of_tiles_and_of_settings():
    def body(a, n):
        config = {"rows": 16, "names": ["a", "b"]}
        tiles = [hx.register_tensor(f32, (config["rows"], 8)) for _ in range(3)]
        for number, tile in enumerate(tiles):
            hx.fill(tile, number)
        tiles[1] += tiles[0]
        total = sum(tiles)
        config["rows"] = 4
        tiles.append(total)
        assert len(tiles) == 4 and config["rows"] == 4 and "b" in config["names"]

    program = program_of(body)
    assert sum(isinstance(t, RegisterTensor) for t in program.tensors) >= 4


def test_integers_divide_as_in_python():
    def body(a, n):
        for i in range(8):
            hx.primitive("plain", i // 3, i % 3, (i + m) // 2)
        hx.primitive("signed", (n - 1) % 4, (n - 1) // 4)

    text = show_program(program_of(body))
    assert "plain(i // 3, i % 3, (i + m) // 2)" in text
    assert "signed((n + -1) % 4, (n + -1) // 4)" in text


def test_a_number_that_a_type_lacks_is_refused_beside_it():
    def body(a, n):
        r = hx.register_tensor(i8, (8, 8))
        assert (r + 100).dtype == i8
        hx.primitive("use", 1 if n < 2**40 else 0)
        _ = r + 300

    with pytest.raises(FrontendError, match="i8 has no number 300"):
        program_of(body)


def test_scalars_of_other_types():
    def body(a, n):
        half = hx.cast(n, f16)
        word = hx.cast(7, u32)
        hx.primitive("use", half * 2.5, word << 3, hx.cast(2.5, i32), hx.cast(True, i32))

    program = program_of(body)
    first = program.body[0].args
    assert [e.dtype for e in first] == [f16, u32, i32, i32]
    assert first[1] == Const(56, u32) and first[2] == Const(2, i32)


def test_names_of_symbols_and_constants_in_a_kernel():
    def body(a, n):
        assert a.shape[0] is not None and a.dtype == f32
        hx.primitive("use", a.shape[1], m)

    program = program_of(body)
    assert program.body[0].args == (Var("k"), Var("m"))


def test_helpers_see_constants_of_the_kernel():
    def kernel(a: f32[m, k], *, KIND="sum", BM: int = 16):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
        hx.attrs.cuda.block_dim = 32
        if KIND == "sum":
            hx.primitive("sum")
        elif KIND in ("max", "min"):
            hx.primitive("extreme")
        else:
            assert KIND is None, f"KIND is {KIND}"

    definition = define(kernel)
    for kind, name in (("sum", "sum"), ("min", "extreme")):
        assert trace(definition, {"KIND": kind}, Promise()).body[0].name == name
    assert trace(definition, {"KIND": None, "BM": 4}, Promise()).body == ()
    with pytest.raises(FrontendError, match="assertion failed: KIND is other"):
        trace(definition, {"KIND": "other"}, Promise())


def test_constant_factors_stay_outside_held_values():
    def body(a, n):
        tile = 0
        for _ in range(n):
            row = tile * 64 + 32
            tile = tile + 1
            r = hx.register_tensor(f32, (8, 8))
            hx.copy(hx.global_view(a[row:, :], ((8, 8), (k, 1))), r)

    text = show_program(program_of(body))
    assert "var row: i32 = tile\n" in text
    assert "view a((row * 64) + 32, 0)" in text
