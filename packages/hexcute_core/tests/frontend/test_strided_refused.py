"""Strides that are none, tensors that do not have them, and writes to expanded elements: refused,
each where it stands."""

import linecache

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from strided_kernels import COLUMNS, ROWS, anyhow, halves, m, n, rows, sm, sn

import hexcute_core as hx
from hexcute_core import f16, u4
from hexcute_core.errors import FrontendError, LaunchError, SimulationError
from hexcute_core.runtime import Signature, SymbolParam, TensorParam, bind
from hexcute_core.simulator import simulate


def refused(body: object) -> tuple[str, str, str]:
    """Message, fix and line of the error of compiling a kernel."""
    with pytest.raises(FrontendError) as caught:
        assert hx.kernel(body, cache=False).compile("sm_90").tile  # type: ignore[call-overload]
    span = caught.value.span
    assert span is not None
    line = linecache.getline(span.file, span.line).strip()
    return caught.value.message, str(caught.value.fix), line


def mixed(x: f16[m:sm, n]):
    pass


def stepped(x: f16[m:sm:2, n:1:1]):
    pass


def backward(x: f16[m:-1]):
    pass


def fraction(x: f16[m:0.5]):
    pass


def computed(x: f16[m : 2 * sm, n:1]):
    pass


def packed(x: u4[m:sm, n:1]):
    pass


def unsaid(x: f16[m:sm, n:sn]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    hx.global_view(x, ((8, 8), (sm, 1)))


def twice(x: f16[m:sm, n:sm]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    hx.global_view(x, ((8, 8), (sm, sm)))


def symbolic(x: f16[m:1]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    hx.global_view(x, ((8, 8), (sm, 1)))


def still(x: f16[m:0, n:1]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f16, (8, 8))
    hx.fill(r, 0.0)
    hx.copy(r, hx.global_view(x, ((8, 8), (hx.along(0), 1))))


NAME_IT = 'name it: `s = hx.dim("s")` and `f16[m:s, k:1]`'
REFUSED = {
    mixed: ("dimensions that are not written as extent:stride", "write each as"),
    stepped: ("dimensions that are not written as extent:stride", "write each as"),
    backward: ("stride -1 of tensor `x`", NAME_IT),
    fraction: ("stride 0.5 of tensor `x`", NAME_IT),
    computed: ("is neither a symbol nor an int", NAME_IT),
    packed: ("elements of u4 are packed", "u8[m:s, k:1]"),
    unsaid: ("stride 1 is no multiple of any stride of the buffer: (sm, sn)", "one of them"),
    twice: ("those of the dimensions 0 and 1 are the same", "hx.along(dim, step)"),
    symbolic: ("stride sm is ambiguous: over the buffer's strides (1)", "hx.along(dim, step)"),
    still: ("dimension 0 is declared with stride 0", "name the stride by a symbol"),
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body.__name__)
def test_a_form_that_is_none_is_refused_where_it_stands(body: object) -> None:
    message, fix, _ = refused(body)
    assert REFUSED[body][0] in message and REFUSED[body][1] in fix


def test_the_line_of_a_write_to_expanded_elements_is_named() -> None:
    y = np.lib.stride_tricks.as_strided(np.zeros(COLUMNS, np.float16), (ROWS, COLUMNS), (0, 2))
    with pytest.raises(FrontendError) as caught:
        anyhow.simulate(halves(ROWS, COLUMNS), y)
    assert "`y` is written, and several of its elements are one place" in caught.value.message
    assert "y.clone()" in str(caught.value.fix)
    assert "hx.copy(r, hx.global_view(y" in linecache.getline(
        caught.value.span.file, caught.value.span.line
    )
    compiled = anyhow.compile("sm_90", aligned=False)
    with pytest.raises(LaunchError, match="it writes 'y', and several of its elements"):
        compiled.simulate(halves(ROWS, COLUMNS), y)
    # What is only read may lie anywhere.
    x = np.broadcast_to(halves(1, COLUMNS), (ROWS, COLUMNS))
    out = np.zeros((ROWS, COLUMNS), np.float16)
    compiled.simulate(x, out)
    assert np.array_equal(x, out)


ARGUMENTS = {
    "backwards": (
        lambda: halves(ROWS, COLUMNS)[:, ::-1], "from 0 on", "pass np.ascontiguousarray(x)",
        lambda: np.ascontiguousarray(halves(ROWS, COLUMNS)[:, ::-1]),
    ),
    "between elements": (
        lambda: as_strided(np.zeros(9999, np.float16), (ROWS, COLUMNS), (3, 2)),
        "whole elements", "pass np.ascontiguousarray(x)", lambda: halves(ROWS, COLUMNS),
    ),
    "not the stride that is said": (
        lambda: halves(ROWS, 2 * COLUMNS)[:, ::2], "expected 1 as in",
        "pass a tensor with that stride, or declare it by a symbol",
        lambda: halves(ROWS, 2 * COLUMNS)[:, COLUMNS:],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_array_that_does_not_fit_is_named(name: str) -> None:
    make, message, fix, instead = ARGUMENTS[name]
    out = np.zeros((ROWS, COLUMNS), np.float16)
    with pytest.raises(LaunchError, match=message) as caught:
        rows.simulate(make(), out)
    assert "'x'" in caught.value.message and caught.value.fix == fix
    rows.simulate(instead(), out)
    assert np.array_equal(out, instead())
    if fix.endswith("symbol"):
        anyhow.simulate(make(), out)
        assert np.array_equal(out, make())


def test_a_simulation_of_a_program_compares_strides() -> None:
    program = rows.compile("sm_80", aligned=False).thread
    x, y = halves(ROWS, 128)[:, :COLUMNS], np.zeros((ROWS, COLUMNS), np.float16)
    numbers = {"m": ROWS, "n": COLUMNS, "sm": 128}
    simulate(program, {"x": x, "y": y}, numbers)
    assert np.array_equal(x, y)
    with pytest.raises(SimulationError, match="expected the strides \\(120, 1\\)") as caught:
        simulate(program, {"x": x, "y": y}, {**numbers, "sm": 120})
    assert caught.value.fix == (
        "pass an array with the strides that the symbols give, or other symbols"
    )


def test_symbols_of_strides_agree() -> None:
    signature = Signature(
        "f",
        (TensorParam("a", "f16", ("m", "k"), ("s", 1)),
         TensorParam("b", "f16", ("k", "m"), ("s", 1)), TensorParam("c", "f16", ("s",))),
        tuple(map(SymbolParam, ("m", "k", "s"))),
    )  # fmt: skip
    a, b, c = np.zeros((4, 9), np.float16), np.zeros((5, 9), np.float16), np.zeros(9, np.float16)
    bound = bind(signature, (a[:, :5], b[:, :4], c))
    assert bound.symbols == {"m": 4, "k": 5, "s": 9}
    for args, text in (
        ((a[:, :5], np.zeros((5, 8), np.float16)[:, :4], c), "expected s = 9"),
        ((a[:, :5], b[:, :4], c[:8]), "expected s = 8"),
        ((a[::2, :5], b[:, :4], c), "shape"),
    ):
        with pytest.raises(LaunchError, match=text) as caught:
            bind(signature, args)
        if "b" in caught.value.message and "expected s = 9" in text:
            assert caught.value.fix == "declare the strides of each tensor by symbols of its own"
    # A dimension with one element has no stride to agree with.
    one = bind(signature, (a[:1, :1], b[:1, :1], c))
    assert one.symbols == {"m": 1, "k": 1, "s": 9}


def test_between_rows_is_out_of_bounds_and_arguments_may_interlock() -> None:
    whole = halves(ROWS, 2 * COLUMNS)
    x, y = whole[:, :COLUMNS], whole[:, COLUMNS:]
    anyhow.simulate(x, y)
    assert np.array_equal(x, y)
    with pytest.raises(SimulationError, match="overlap in memory"):
        anyhow.simulate(whole[:, :COLUMNS], whole[:, 8 : 8 + COLUMNS])
