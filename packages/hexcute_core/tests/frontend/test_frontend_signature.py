"""Signatures of kernels: parameters, symbols, constants, annotations as objects or as strings."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError, LaunchError
from hexcute_core.frontend import (
    REQUIRED,
    ScalarParam,
    TensorParam,
    define,
    trace,
)
from hexcute_core.scalar import Var, show
from hexcute_core.tile.promise import Promise

m, n, k = hx.dims("m n k")
k8 = hx.dim("k", multiple_of=8)


def sample(a: f16[m, k], alpha: f32, b: "f16[k, 64]", *, BM: int = 128, KIND):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 32


def test_parameters_in_launch_order():
    kernel = define(sample)
    assert kernel.name == "sample"
    assert [(p.name, type(p)) for p in kernel.params] == [
        ("a", TensorParam), ("alpha", ScalarParam), ("b", TensorParam),
    ]  # fmt: skip
    assert kernel.tensors[0].extents == (m, k) and kernel.tensors[1].extents == (k, 64)
    assert kernel.scalars[0].dtype == f32
    assert kernel.symbols == (m, k)
    assert [(c.name, c.default) for c in kernel.constants] == [("BM", 128), ("KIND", REQUIRED)]


def test_the_program_repeats_them_and_adds_the_symbols_promises():
    def kernel(a: f16[m, k8], alpha: f32):
        hx.attrs.cuda.grid_dim = 2, 3
        hx.attrs.cuda.block_dim = 64

    program = trace(define(kernel), {}, Promise((("k", 12), ("m", 2)), frozenset({"a"}), True))
    assert [p.name for p in program.params] == ["a"]
    assert program.params[0].shape == (Var("m"), Var("k"))
    assert program.scalars == (("alpha", f32),)
    assert program.symbols == ("m", "k")
    assert program.promise == Promise((("k", 24), ("m", 2)), frozenset({"a"}), True)
    assert [e.value for e in program.grid_dim] == [2, 3, 1]


def test_compile_time_constants():
    kernel = define(sample)
    assert trace(kernel, {"KIND": "x", "BM": 64}, Promise()).block_dim == 32
    with pytest.raises(FrontendError, match="`KIND` of kernel `sample` is not given"):
        trace(kernel, {}, Promise())
    with pytest.raises(FrontendError, match="no compile-time constant `BN`"):
        trace(kernel, {"BN": 1, "KIND": 2}, Promise())


def test_symbols():
    assert [s.name for s in hx.dims("a, b c")] == ["a", "b", "c"]
    assert hx.dim("k", multiple_of=8).multiple_of == 8
    assert show(hx.cdiv(m, 64)) == show(hx.cdiv(Var("m"), 64))
    for wrong in ("", "1x", "a-b"):
        with pytest.raises(FrontendError):
            hx.dims(wrong)
    with pytest.raises(FrontendError, match="positive int"):
        hx.dim("k", multiple_of=0)


def module_of(tmp_path, text):
    path = tmp_path / "kernels.py"
    path.write_text(textwrap.dedent(text))
    namespace = {"__name__": "kernels", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    return namespace


def test_string_annotations_find_names_of_the_defining_function(tmp_path):
    names = module_of(
        tmp_path,
        """
        from __future__ import annotations
        import hexcute_core as hx
        from hexcute_core.frontend import define

        def make(width):
            rows, cols = hx.dims("rows cols")
            elem = hx.bf16

            def kernel(a: elem[rows, width], b: elem[rows, cols], s: hx.i64):
                pass

            return define(kernel)
        """,
    )
    kernel = names["make"](48)
    assert [repr(p.extents) for p in kernel.tensors] == [
        "(Symbol('rows'), 48)", "(Symbol('rows'), Symbol('cols'))",
    ]  # fmt: skip
    assert kernel.tensors[0].dtype == hx.bf16 and kernel.scalars[0].dtype == hx.i64


def no_annotation(a):
    pass


def odd_annotation(a: int):
    pass


def odd_extent(a: f16[m, -3]):
    pass


def fractional_extent(a: f16[m, 2.5]):
    pass


def default_argument(a: f16[m] = None):
    pass


def variadic(*tensors):
    pass


def unknown_annotation(a: "f16[m, missing]"):  # noqa: F821
    pass


def two_promises(a: f16[m, k], b: f16[m, k8]):
    pass


def symbol_named_as_parameter(m: f16[m, k]):
    pass


@pytest.mark.parametrize(
    "fn, words",
    [
        (no_annotation, "`a` has no annotation"),
        (odd_annotation, "no tensor or scalar type"),
        (odd_extent, "extent -3 of tensor `a`"),
        (fractional_extent, "extent 2.5 of tensor `a`"),
        (default_argument, "has a default"),
        (variadic, r"\*args"),
        (unknown_annotation, "NameError: name 'missing' is not defined"),
        (two_promises, "multiple of 1 and of 8"),
        (symbol_named_as_parameter, "name of a parameter"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_odd_signatures_are_refused_at_their_line(fn, words):
    with pytest.raises(FrontendError, match=words) as caught:
        define(fn)
    assert caught.value.span.file == __file__ and caught.value.fix
    assert caught.value.span.line == fn.__code__.co_firstlineno


def test_what_is_no_function():
    with pytest.raises(FrontendError, match="a kernel is a plain function"):
        define(len)
    with pytest.raises(FrontendError, match="not a plain function definition"):
        define(lambda a: None)
    namespace = {}
    exec("def typed(a): pass", namespace)
    with pytest.raises(FrontendError, match="source text of `typed` is not available"):
        define(namespace["typed"])


def test_a_kernel_may_be_a_method_of_nothing_but_sits_anywhere():
    class Holder:
        @staticmethod
        def kernel(a: f16[m, k], *, BM=16):
            hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
            hx.attrs.cuda.block_dim = 32

    assert trace(define(Holder.kernel), {}, Promise()).grid_dim[0] == hx.cdiv(Var("m"), 16)


def test_importing_the_language_is_light():
    code = (
        "import sys, hexcute_core as hx; "
        "heavy = {'numpy', 'torch', 'hidet', 'cuda', 'hexcute_core.driver'} & set(sys.modules); "
        "assert not heavy, heavy; assert hx.f16.bits == 16"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_unknown_names_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(hx, "nothing")  # noqa: B009
    assert "kernel" in hx.__all__
    assert all(hasattr(hx, name) for name in hx.__all__ if name != "kernel")


def test_annotations_of_scalars_keep_their_order():
    def kernel(s: i32, a: f16[m], t: f32):
        hx.attrs.cuda.grid_dim = s
        hx.attrs.cuda.block_dim = 32

    assert [p.name for p in define(kernel).params] == ["s", "a", "t"]
    assert trace(define(kernel), {}, Promise()).grid_dim[0] == Var("s")


def doubled_or_shifted(shift_type):
    """A kernel of y = 2 x, or of y = x + shift where a shift has a type."""

    @hx.kernel(cache=False)
    def kernel(x: f16[64, 64], shift: shift_type, y: f16[64, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f16, (64, 64))
        hx.copy(hx.global_view(x, ((64, 64), (64, 1))), r)
        r = 2 * r if shift is None else r + hx.cast(shift, f16)
        hx.copy(r, hx.global_view(y, ((64, 64), (64, 1))))

    return kernel


def test_a_parameter_annotated_with_none_is_left_out_and_none_in_the_body():
    without, given = doubled_or_shifted(None), doubled_or_shifted(f32)
    assert [p.name for p in without.definition.params] == ["x", "y"]
    assert [p.name for p in given.definition.params] == ["x", "shift", "y"]
    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
    without.simulate(x, y)
    assert (y == 2).all()
    given.simulate(x, 0.5, y)
    assert (y == 1.5).all()
    with pytest.raises(LaunchError, match=r"expected 2 arguments \(x, y\), got 3"):
        without.simulate(x, 0.5, y)


def test_a_symbol_may_not_have_the_name_of_a_parameter_that_is_left_out():
    size = hx.dim("extra")
    with pytest.raises(FrontendError, match="symbol `extra` has the name of a parameter"):

        @hx.kernel
        def kernel(x: f16[size], extra: None):
            pass
