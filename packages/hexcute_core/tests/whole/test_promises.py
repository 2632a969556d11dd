"""hx.multiple_of: a divisor that the author knows reaches addresses; a broken one is refused at
launch, found by the simulator, or located where it is written."""

import linecache

import numpy as np
import pytest
import strided_kernels as strided

import hexcute_core as hx
from hexcute_core import f16, f32, i32, u4
from hexcute_core.driver.built import Built, from_data, to_data
from hexcute_core.driver.container import Malformed
from hexcute_core.driver.launchable import promising
from hexcute_core.errors import FrontendError, LaunchError, SimulationError
from hexcute_core.frontend import define, trace
from hexcute_core.runtime import bind
from hexcute_core.scalar import Var, as_scalar
from hexcute_core.tile import Assign
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise

m, n = hx.dims("m n")
WIDTH = 64


@hx.kernel
def part(x: f16[m, n], y: f16[m, WIDTH], first: i32, *, PROMISED: int = 1):
    """y = columns of x from `first` on."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 16)
    hx.attrs.cuda.block_dim = 32
    bm = hx.blockIdx.x * 16
    first = hx.multiple_of(first, PROMISED)
    r = hx.register_tensor(f16, (16, WIDTH))
    hx.copy(hx.global_view(x[bm:, first:], ((16, WIDTH), (n, 1))), r)
    hx.copy(r, hx.global_view(y[bm:, :], ((16, WIDTH), (WIDTH, 1))))


@hx.kernel
def pages(x: f16[m, n], starts: i32[m], y: f16[m, WIDTH], *, PROMISED: int = 8):
    """Row i of y begins at starts[i] of row i of x."""
    hx.attrs.cuda.grid_dim = m
    hx.attrs.cuda.block_dim = 32
    row = hx.blockIdx.x
    start = hx.multiple_of(starts[row], PROMISED)
    s = hx.shared_tensor(f16, (1, WIDTH))
    hx.copy(hx.global_view(x[row:, start:], ((1, WIDTH), (n, 1))), s)
    hx.syncthreads()
    hx.copy(s, hx.global_view(y[row:, :], ((1, WIDTH), (WIDTH, 1))))


def arrays(rows: int = 20, columns: int = 160) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).integers(-9, 10, (rows, columns)).astype(np.float16)
    return x, np.zeros((rows, WIDTH), np.float16)


def loads(compiled: hx.CompiledKernel) -> list[str]:
    """The instructions of the copies from x."""
    lines = compiled.explain(rejected=0).splitlines()
    return [line.split(": ")[1].split(" x")[0] for line in lines if "copy view_x" in line]


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("promised, name", [(1, "ld.global.2"), (2, "ld.global.4"),
                                            (4, "ld.global.8"), (8, "ld.global.16"),
                                            (24, "ld.global.16"), (3, "ld.global.2")])  # fmt: skip
def test_a_promise_of_a_parameter_widens_copies(promised: int, name: str, target: str) -> None:
    compiled = part.compile(target, verify=True, PROMISED=promised)
    assert loads(compiled) == [name]
    x, y = arrays()
    compiled.simulate(x, y, 24, compare=True)
    assert np.array_equal(y, x[:, 24 : 24 + WIDTH])


def test_a_promise_of_a_number_from_memory_lets_cp_async_take_16_bytes() -> None:
    x, y = arrays()
    starts = (np.arange(20, dtype=np.int32) % 4) * 8
    for target in ("sm_80", "sm_90"):
        compiled = pages.compile(target, verify=True)
        assert loads(compiled) == ["cp.async.16"]
        assert loads(pages.compile(target, PROMISED=1)) == ["ld.global.2 + st.shared.2"]
        compiled.simulate(x, starts, y, compare=True)
        assert np.array_equal(y, np.stack([row[s : s + WIDTH] for row, s in zip(x, starts)]))


def test_tma_takes_what_is_promised_to_begin_at_16_bytes() -> None:
    def boxes(promised: int) -> list[str]:
        @hx.kernel(cache=False)
        def boxed(x: f16[m, n], y: f16[m, 64], first: i32):
            hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
            gx = hx.global_view(
                x[hx.blockIdx.x * 64 :, hx.multiple_of(first, promised) :], ((64, 64), (n, 1))
            )
            s, pipe = hx.shared_tensor(f16, (64, 64, 1)), hx.pipeline(1)
            with hx.warp_groups_producer(), pipe.produce() as slot:
                hx.copy(gx, s[:, :, slot])
            with hx.warp_groups_consumer(), pipe.consume() as slot:
                r = hx.register_tensor(f16, (64, 64))
                hx.copy(s[:, :, slot], r)
                hx.copy(r, hx.global_view(y[hx.blockIdx.x * 64 :, :], ((64, 64), (64, 1))))

        compiled = boxed.compile("sm_90", verify=True)
        x, y = arrays(64)
        compiled.simulate(x, y, 16, compare=True)
        assert np.array_equal(y, x[:, 16:80])
        return [plan.name for plan in compiled.solution.bulk.values()]

    assert boxes(8) == ["tma.load"]
    assert boxes(4) == []


@pytest.mark.parametrize("expression, known", [
    (lambda a, b: a, 8), (lambda a, b: a * b, 96), (lambda a, b: a + b, 4),
    (lambda a, b: a // 4, 2), (lambda a, b: a // 3, 1), (lambda a, b: hx.cdiv(a, 8) * 16, 16),
    (lambda a, b: hx.minimum(a, 20), 4), (lambda a, b: a % 12, 4), (lambda a, b: -a, 8),
    (lambda a, b: a << 2, 32), (lambda a, b: a >> 1, 4), (lambda a, b: hx.blockIdx.x * b, 12),
    (lambda a, b: a if b > 3 else 2 * b, 8), (lambda a, b: (a + b) & -16, 16),
    (lambda a, b: a & b, 8), (lambda a, b: a | b, 4), (lambda a, b: (a ^ 0) & 255, 8),
    (lambda a, b: hx.multiple_of(a + 3, 16), 16), (lambda a, b: hx.multiple_of(a, 6), 24),
    (lambda a, b: b // 12 * 12 - a, 4), (lambda a, b: hx.cast(a, hx.i64) * b, 96),
])  # fmt: skip
def test_divisors_go_through_arithmetic(expression: object, known: int) -> None:
    def kernel(x: f32[m], first: i32, second: i32):
        hx.attrs.cuda.grid_dim = 4
        hx.attrs.cuda.block_dim = 32
        a, b = hx.multiple_of(first, 8), hx.multiple_of(second, 12)
        hx.global_view(x[expression(a, b) :], ((32,), (1,)))

    program = trace(define(kernel), {}, Promise())
    assert Facts(program).divisor(program.tensors[0].origin[0]) == known


def test_a_program_shows_what_is_promised() -> None:
    text = show_program(part.compile("sm_80", PROMISED=8).tile)
    assert "var first_1: i32 = first, a multiple of 8" in text


def beginning(array: np.ndarray, at: int) -> np.ndarray:
    """A copy that begins `at` bytes behind a multiple of 16."""
    room = np.zeros(array.nbytes + 32 + at, np.uint8)
    start = -room.ctypes.data % 16 + at
    there = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    there[...] = array
    return there


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("at, width", [(0, 16), (8, 8), (4, 4), (12, 4), (2, 2)])
def test_pointers_at_8_and_4_bytes_move_as_many(at: int, width: int, target: str) -> None:
    x, y = arrays(20, 128)
    x, starts = beginning(x, at), np.zeros(20, np.int32)
    key = bind(pages.signature, (x, starts, y), pages.divisors).key
    compiled = pages.specialise(target, key, {"PROMISED": 8}, verify=True)
    (name,) = loads(compiled)
    assert name == (f"cp.async.{width}" if width > 2 else "ld.global.2 + st.shared.2")
    compiled.simulate(x, starts, y, compare=True)
    assert np.array_equal(y, x[:, :WIDTH])
    if 2 < width < 16:
        assert f"x at a multiple of {width} bytes" in show_program(compiled.tile)
        with pytest.raises(LaunchError, match=f"for x at a multiple of {width} bytes") as caught:
            compiled.simulate(beginning(x, 2), starts, y)
        assert "aligned=False, or call the kernel itself" in caught.value.fix
        key = bind(part.signature, (x, y, 0), part.divisors).key
        text = part.specialise(target, key, {"PROMISED": 8}).explain()
        assert f"`x` is not known to begin at a multiple of 16 bytes but of {width}; wider" in text
        # What an aligned pointer is a multiple of, it is of less.
        compiled.simulate(beginning(x, 0), starts, y)


# ---- what is refused ----


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_broken_promise_is_a_finding(target: str) -> None:
    x, y = arrays()
    with pytest.raises(SimulationError, match="12 is no multiple of 8, as hx") as caught:
        part.simulate(x, y, 12, target=target, PROMISED=8)
    span = caught.value.span
    assert "hx.multiple_of(first, PROMISED)" in linecache.getline(span.file, span.line)
    assert caught.value.fix == "promise a number that divides it, or none"
    part.simulate(x, y, 12, target=target, PROMISED=4)
    with pytest.raises(SimulationError, match="5 is no multiple of 8"):
        pages.simulate(x, np.full(20, 5, np.int32), y, target=target)
    with pytest.raises(SimulationError, match="5 is no multiple of 8"):
        pages.simulate(x, np.full(20, 5, np.int32), y, target=target, compare=True)


def test_a_launch_that_breaks_a_promise_is_refused() -> None:
    kernel = part.compile("sm_80", PROMISED=8)
    assert [(str(e), multiple) for e, multiple in kernel.built.promised] == [("first", 8)]
    names = kernel.signature.value_names
    grid = promising(lambda v: (1, 1, 1), kernel.built.promised, names, kernel.signature)
    assert grid((0, 0, 16, 20, 160)) == (1, 1, 1)
    with pytest.raises(LaunchError, match="first is 12, which is no multiple of 8") as caught:
        grid((0, 0, 12, 20, 160))
    assert caught.value.fix == "pass another number, or promise one that divides it"
    assert caught.value.span == kernel.signature.span
    # What no launch knows is not asked there.
    assert pages.compile("sm_80").built.promised == ()


@pytest.mark.parametrize("damaged", [
    [["first", 8]], [[{"var": "first", "dtype": "i32"}, "8"]], [[{"var": "first"}, 8]],
    [[{"var": "first", "dtype": "i32"}, 1]], [3], "8",
])  # fmt: skip
def test_promises_are_kept_as_data(damaged: object) -> None:
    one = as_scalar(1)
    built = Built(b"", "sm_80", "", "", "", "f", 0, 32, (one, one, one), 1, False,
                  promised=((Var("first"), 8),))  # fmt: skip
    files, meta = to_data(built)
    assert from_data(files, meta) == built
    with pytest.raises(Malformed):
        from_data(files, {**meta, "promised": damaged})


def none(x: f16[m], first: i32):
    hx.multiple_of(first, 0)


def unknown(x: f16[m], first: i32):
    hx.multiple_of(first, first)


def untrue(x: f16[m]):
    hx.multiple_of(12, 8)


def tile(x: f16[m]):
    hx.multiple_of(hx.register_tensor(f16, (32,)), 8)


def real(x: f16[m], scale: f32):
    hx.multiple_of(scale, 8)


def fraction(x: f16[m]):
    hx.multiple_of(1.5, 8)


REFUSED = {
    none: ("hx.multiple_of by int 0, which is no int from 1", "write hx.multiple_of(first, 8)"),
    unknown: ("known at compile time", "write hx.multiple_of(first, 8)"),
    untrue: ("hx.multiple_of(12, 8), which it is not", "promise a number that divides it"),
    tile: ("hx.multiple_of of f16 register tile", "promise it of an integer: a scalar"),
    real: ("hx.multiple_of of the f32 `scale`", "promise it of an integer"),
    fraction: ("hx.multiple_of of float 1.5", "promise it of an integer: a scalar parameter"),
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body.__name__)
def test_what_promises_nothing_is_refused_where_it_stands(body: object) -> None:
    with pytest.raises(FrontendError) as caught:
        trace(define(body), {}, Promise())
    message, fix = REFUSED[body]
    assert message in caught.value.message and fix in str(caught.value.fix)
    span = caught.value.span
    assert "hx.multiple_of(" in linecache.getline(span.file, span.line)


def test_a_number_that_is_known_stays_one() -> None:
    def kernel(x: u4[m, n]):
        hx.attrs.cuda.grid_dim = hx.multiple_of(m, 2) // 2
        hx.attrs.cuda.block_dim = 32
        assert hx.multiple_of(24, 8) == 24

    program = trace(define(kernel), {}, Promise())
    assert [stmt.multiple for stmt in program.body if isinstance(stmt, Assign)] == [2]
    assert str(program.grid_dim[0]) == "m // 2"


# ---- what explain() says of narrow copies ----


@hx.kernel
def columns_of(x: f16[m, n], y: f16[n, m]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    r = hx.register_tensor(f16, (64, 64))
    hx.copy(hx.global_view(x, ((64, 64), (n, 1))), r)
    hx.copy(r, hx.global_view(y, ((64, 64), (1, m))))


@hx.kernel
def odd(x: f16[m, 100], y: f16[m, 100]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    s, at = hx.shared_tensor(f16, (64, 96)), hx.blockIdx.x * 2
    hx.copy(hx.global_view(x[:, at:], ((64, 96), (100, 1))), s)
    hx.syncthreads()
    hx.copy(s, hx.global_view(y, ((64, 96), (100, 1))))


NARROW = [
    (part, {}, "moves 2 bytes at once, not 16: the tile begins at first in a row, which may be any "
     "number; wider with hx.multiple_of(first, 8) where that holds"),
    (part, {"PROMISED": 4}, "moves 8 bytes at once, not 16: the tile begins at first_1 in a row, "
     "which is known as a multiple of 4; wider with hx.multiple_of(first_1, 8)"),
    (part, {"PROMISED": 8, "aligned": False}, "moves 2 bytes at once, not 16: `x` is not known to "
     "begin at a multiple of 16 bytes, and the row length n of `x` may be any number; wider with "
     "`x` at one, and n a multiple of 8"),
    (columns_of, {}, "r -> view_y moves 2 bytes at once, not 16: no thread of"),
    (columns_of, {}, "holds 8 consecutive elements side by side; wider with hx.rearrange"),
    (odd, {}, "the tile begins at blockIdx.x * 2 in a row, which is known as a multiple of 2"),
    (odd, {}, "s -> view_y moves 8 bytes at once, not 16: the row length 100 of `y` is a "
     "multiple of 4; wider with padding to a multiple of 8"),
    (strided.anyhow, {}, "no stride of `x` is declared as 1; wider with a declaration of the "
     "dimension whose elements follow one another, as in `x: f16[m:sm, n:1]`"),
    (strided.rows, {"aligned": False}, "the stride sm of dimension 0 of `x` may be any number"),
]  # fmt: skip


@pytest.mark.parametrize("kernel, options, text", NARROW)
def test_explain_says_why_a_copy_is_narrow_and_what_widens_it(
    kernel: hx.Kernel, options: dict, text: str
) -> None:
    for target in ("sm_80", "sm_90"):
        found = [line for line in kernel.compile(target, **options).explain().splitlines()
                 if line.startswith("narrow: ")]  # fmt: skip
        assert any(text in line for line in found), found


def test_what_cannot_be_wider_is_not_called_narrow() -> None:
    for kernel in (strided.rows, strided.columns, strided.staged, pages):
        assert "narrow: " not in kernel.compile("sm_80").explain()
    # The shares of threads and the rows of the tile are as wide as that.
    assert "narrow: " not in strided.counted.compile("sm_80").explain()
    assert '"narrow": []' in strided.rows.compile("sm_80").explain(form="json")
    assert "moves 2 bytes at once" in part.compile("sm_80").explain(form="html")
