"""Arguments against a signature: what is bound, which class of kernel it asks for, what is refused.

Torch is a stand-in here; numpy arrays go the simulator's way.
"""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexcute_core.errors import LaunchError, SourceSpan
from hexcute_core.runtime import (
    HOST,
    ScalarParam,
    Signature,
    Specialisation,
    SymbolParam,
    TensorParam,
    best_key,
    bind,
    decode,
    default_divisors,
    make_binder,
)

GEMM = Signature(
    "matmul",
    (
        TensorParam("a", "f16", ("m", "k")),
        TensorParam("b", "f16", ("n", "k")),
        ScalarParam("alpha", "f32"),
        TensorParam("c", "f16", ("m", "n")),
    ),
    (SymbolParam("m"), SymbolParam("n"), SymbolParam("k")),
    SourceSpan("gemm.py", 7),
)


class Tensor:
    """What a binder asks of a torch tensor."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: str = "torch.float16",
        device: int = 0,
        address: int = 4096,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.shape, self.dtype, self.address = shape, sys.intern(dtype), address
        self.device = types.SimpleNamespace(type="cuda" if device >= 0 else "cpu", index=device)
        self.strides = strides

    def get_device(self) -> int:
        return int(self.device.index)

    def data_ptr(self) -> int:
        return self.address

    def is_contiguous(self) -> bool:
        return self.strides is None

    def stride(self) -> tuple[int, ...]:
        assert self.strides is not None
        return self.strides


Tensor.__module__ = "torch"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch")
    module.__version__ = "0"  # type: ignore[attr-defined]
    for name in ("float16", "float32", "int8"):
        setattr(module, name, sys.intern(f"torch.{name}"))
    monkeypatch.setitem(sys.modules, "torch", module)


def call(m: int = 32, n: int = 24, k: int = 40, **changes: Any) -> list[Any]:
    args = {
        "a": Tensor((m, k), address=1024),
        "b": Tensor((n, k), address=2048),
        "alpha": 0.5,
        "c": Tensor((m, n), address=4096),
    }
    assert changes.keys() <= args.keys()
    return list({**args, **changes}.values())


@pytest.mark.usefixtures("torch")
def test_values_are_pointers_then_scalars_then_symbols() -> None:
    key, device, values = make_binder(GEMM)(call())
    assert values == (1024, 2048, 4096, 0.5, 32, 24, 40)
    assert device == 0
    assert key == best_key(GEMM, default_divisors(GEMM)) == 0b1111111111
    assert GEMM.value_names == ("a", "b", "c", "alpha", "m", "n", "k")
    assert GEMM.value_codes == ("Q", "Q", "Q", "f", "i", "i", "i")


@pytest.mark.usefixtures("torch")
def test_bind_gives_the_same_by_name() -> None:
    bound = bind(GEMM, call())
    assert bound.pointers == {"a": 1024, "b": 2048, "c": 4096}
    assert bound.scalars == {"alpha": 0.5}
    assert bound.symbols == {"m": 32, "n": 24, "k": 40}


def test_numpy_arrays_bind_without_torch() -> None:
    a, b, c = (np.zeros(s, np.float16) for s in ((3, 5), (4, 5), (3, 4)))
    bound = bind(GEMM, (a, b, 1, c))
    assert bound.pointers == {"a": a.ctypes.data, "b": b.ctypes.data, "c": c.ctypes.data}
    assert bound.symbols == {"m": 3, "n": 4, "k": 5}
    assert bound.device == HOST


def test_the_divisor_is_16_bytes_of_the_narrowest_type_whose_rows_it_measures() -> None:
    assert default_divisors(GEMM) == {"n": 8, "k": 8}
    mixed = Signature(
        "mixed",
        (
            TensorParam("a", "f32", ("m", "k")),
            TensorParam("b", "i8", ("k", "n")),
            TensorParam("c", "f32", ("m", "n")),
            TensorParam("d", "f32", ("n", 64)),
        ),
        (SymbolParam("n"), SymbolParam("m"), SymbolParam("k")),
    )
    assert default_divisors(mixed) == {"n": 16, "k": 4}


@pytest.mark.usefixtures("torch")
@given(
    st.lists(st.integers(0, 64), min_size=3, max_size=3),
    st.integers(1, 2**17),
    st.integers(1, 2**17),
    st.integers(1, 2**17),
)
def test_a_key_says_exactly_what_holds(offsets: list[int], m: int, n: int, k: int) -> None:
    binder, divisors = make_binder(GEMM), default_divisors(GEMM)
    shapes = {"a": (m, k), "b": (n, k), "c": (m, n)}
    changes = {
        name: Tensor(shape, address=1 << 20 | offset)
        for (name, shape), offset in zip(shapes.items(), offsets, strict=True)
    }
    key, _, _ = binder(call(m, n, k, **changes))
    assert decode(GEMM, divisors, key) == Specialisation(
        aligned=tuple(x for x, o in zip("abc", offsets, strict=True) if o % 16 == 0),
        begins=tuple(
            (x, math.gcd(o, 16))
            for x, o in zip("abc", offsets, strict=True)
            if o % 4 == 0 and o % 16
        ),
        multiples=tuple(
            (s, math.gcd(v, 8)) for s, v in (("n", n), ("k", k)) if v % 2 == 0
        ),
        wide=max(map(math.prod, shapes.values())) >= 2**31,
    )


@pytest.mark.usefixtures("torch")
def test_a_tensor_of_2_to_the_31_elements_is_wide_and_one_less_is_not() -> None:
    one = Signature("one", (TensorParam("a", "i8", ("n",)),), (SymbolParam("n", "i64"),))
    for n, wide in ((2**31 - 16, False), (2**31, True)):
        key, _, _ = make_binder(one)([Tensor((n,), "torch.int8")])
        assert decode(one, {"n": 16}, key).wide is wide
        assert decode(one, {"n": 16}, key).multiples == (("n", 16),)


REFUSED = {
    "count": (lambda: call()[:3], r"expected 4 arguments \(a, b, alpha, c\), got 3"),
    "kind": (lambda: call(a=[1.0]), r"'a': expected a torch tensor on a GPU f16\[m, k\], got list"),
    "none": (lambda: call(c=None), r"'c': expected a torch tensor .*, got NoneType"),
    "numpy": (lambda: call(b=np.zeros((24, 40), np.float16)), r"'b'.*, got numpy\.ndarray"),
    "dtype": (
        lambda: call(b=Tensor((24, 40), "torch.float32")),
        r"'b': expected dtype float16 \(f16\), got float32\n  fix: pass b.to\(torch.float16\)",
    ),
    "rank": (
        lambda: call(a=Tensor((2, 32, 40))),
        r"'a': expected shape \[m, k\], got 3 dimensions: \[2, 32, 40\]",
    ),
    "symbol": (
        lambda: call(b=Tensor((24, 48))),
        r"'b': expected shape \[n, k\] with k = 40 \(from 'a' dimension 1\), "
        r"got \[24, 48\]: dimension 1 is 48",
    ),
    "output": (
        lambda: call(c=Tensor((32, 25))),
        r"'c': .* n = 24 \(from 'b' dimension 0\), got \[32, 25\]: dimension 1 is 25",
    ),
    "strides": (
        lambda: call(a=Tensor((32, 40), strides=(1, 32))),
        r"'a': expected a contiguous .* strides \(40, 1\), got strides \(1, 32\)"
        r"\n  fix: pass a.contiguous\(\)",
    ),
    "host": (
        lambda: call(a=Tensor((32, 40), device=-1)),
        r"'a': expected a tensor on a GPU, got .*\n  fix: pass a.cuda\(\)",
    ),
    "two devices": (
        lambda: call(c=Tensor((32, 24), device=1)),
        r"'c': expected a tensor on .* like 'a'",
    ),
    "scalar": (lambda: call(alpha="2"), r"'alpha': expected a Python int or float .*, got str"),
    "tensor for scalar": (
        lambda: call(alpha=Tensor(())),
        r"'alpha': expected a Python int or float .*, got torch.Tensor",
    ),
}


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(LaunchError, match=r"^gemm\.py:7: matmul: (argument )?" + words):
        make_binder(GEMM)(make())


def test_numpy_misfits_are_named_too() -> None:
    a, b, c = (np.zeros(s, np.float16) for s in ((3, 5), (4, 5), (3, 4)))
    with pytest.raises(LaunchError, match=r"'b': expected dtype float16 \(f16\), got float64"):
        bind(GEMM, (a, b.astype(float), 1.0, c))
    with pytest.raises(LaunchError, match=r"strides \(5, 1\), got strides \(1, 3\)(.|\n)*ascontig"):
        bind(GEMM, (np.asfortranarray(a), b, 1.0, c))
    with pytest.raises(LaunchError, match=r"'c': expected a numpy array f16\[m, n\], got float"):
        bind(GEMM, (a, b, 1.0, 2.0))
    with pytest.raises(LaunchError, match=r"with m = 3 .* dimension 0 is 9"):
        bind(GEMM, (a, b, 1.0, np.zeros((9, 4), np.float16)))


COPIED = ", a copy: keep it under a name where the kernel writes to it"


def of(dtype: str, *shape: int | str) -> Signature:
    params = (TensorParam("x", dtype, shape or ("n",)),)
    symbols = (SymbolParam("n"),) if "n" in params[0].shape else ()
    return Signature("k", params, symbols, SourceSpan("k.py", 3))


ZEROS = np.zeros(8, np.float32)
MENDED = {
    "truths for bytes": (of("u8"), ZEROS.astype(bool), "pass x.view(np.uint8)"),
    "signs for none": (of("u32"), ZEROS.astype(np.int32), "pass x.view(np.uint32)"),
    "bytes for truths": (of("bool"), ZEROS.astype(np.uint8), "pass x.astype(np.bool_)" + COPIED),
    "wider": (of("f16"), ZEROS, "pass x.astype(np.float16)" + COPIED),
    "whole numbers": (of("f32"), ZEROS.astype(np.int32), "pass x.astype(np.float32)" + COPIED),
    "bits": (
        of("bf16"),
        ZEROS.astype(np.uint16),
        "pass x.view(ml_dtypes.bfloat16) where it holds their bits, "
        "else x.astype(ml_dtypes.bfloat16)" + COPIED,
    ),
    "bytes of a narrow type": (
        of("f8e4m3"), ZEROS.astype(np.uint8), "pass x.view(ml_dtypes.float8_e4m3fn) where"
    ),
    "more dimensions": (
        of("f32"), ZEROS.reshape(2, 2, 2), "pass x[0, 0] or x.reshape(...), of rank 1"
    ),
    "fewer dimensions": (
        of("f32", "n", "n"), ZEROS, "pass x[None] or x.reshape(...), of rank 2"
    ),
    "another extent": (
        of("f32", 4), ZEROS, "pass a tensor with 4 elements there, or declare that extent by a"
    ),
    "two extents": (
        of("f32", "n", "n"), ZEROS.reshape(2, 4), "pass tensors that agree on n, or declare"
    ),
    "gaps": (
        of("f32"),
        ZEROS[::2],
        f"pass np.ascontiguousarray(x){COPIED}, or declare its strides",
    ),
    "a list": (of("f16"), [1.0, 2.0], "pass np.array(x, np.float16)" + COPIED),
    "an array of another library": (
        of("f16"), types.SimpleNamespace(__array_interface__={}), "pass np.array(x, np.float16)"
    ),
    "nothing": (of("f16"), None, "pass a numpy array of rank 1 and dtype np.float16"),
}


@pytest.mark.parametrize("case", MENDED)
def test_an_array_that_does_not_fit_is_told_how_it_would(case: str) -> None:
    signature, value, fix = MENDED[case]
    with pytest.raises(LaunchError, match=r"^k\.py:3: k: argument 'x': ") as caught:
        bind(signature, [value])
    assert (caught.value.fix or "").startswith(fix)


LAUNCHED = {
    "count": (lambda: call()[:3], "pass a, b, alpha, c, in this order"),
    "list": (
        lambda: call(a=[1.0]), 'pass torch.tensor(a, dtype=torch.float16, device="cuda")' + COPIED
    ),
    "nothing": (
        lambda: call(c=None),
        "pass a torch tensor on a GPU of rank 2 and dtype torch.float16",
    ),
    "array": (
        lambda: call(b=np.zeros((24, 40), np.float16)),
        "pass torch.from_numpy(b).cuda(), or numpy arrays alone to a simulation",
    ),
    "dtype": (
        lambda: call(b=Tensor((24, 40), "torch.float32")), "pass b.to(torch.float16)" + COPIED
    ),
    "rank": (
        lambda: call(a=Tensor((2, 32, 40))), "pass a[0] or a.reshape(...), of rank 2"
    ),
    "symbol": (lambda: call(b=Tensor((24, 48))), "pass tensors that agree on k, or declare"),
    "strides": (
        lambda: call(a=Tensor((32, 40), strides=(1, 32))),
        f"pass a.contiguous(){COPIED}, or declare its strides",
    ),
    "sparse": (lambda: call(a=Sparse((32, 40))), "pass a.to_dense(), a copy: keep it under a name"),
    "host": (
        lambda: call(a=Tensor((32, 40), device=-1)), "pass a.cuda(), or a.numpy() to a simulation"
    ),
    "text": (lambda: call(alpha="2"), "pass a number, such as float(alpha)"),
}


class Sparse(Tensor):
    """What a binder gets of a sparse tensor."""

    layout = "torch.sparse_coo"

    def is_contiguous(self) -> bool:
        raise RuntimeError("sparse tensors do not have is_contiguous")


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("case", LAUNCHED)
def test_a_tensor_that_does_not_fit_is_told_how_it_would(case: str) -> None:
    make, fix = LAUNCHED[case]
    with pytest.raises(LaunchError, match=r"^gemm\.py:7: matmul: ") as caught:
        make_binder(GEMM)(make())
    assert (caught.value.fix or "").startswith(fix)


@pytest.mark.usefixtures("torch")
def test_a_tensor_of_truths_is_taken_as_bytes_by_a_view() -> None:
    with pytest.raises(LaunchError, match="got bool") as caught:
        make_binder(of("i8"))([Tensor((8,), "torch.bool")])
    assert caught.value.fix == "pass x.view(torch.int8)"
    assert make_binder(of("i8"))([Tensor((8,), "torch.int8")])[2] == (4096, 8)


def test_what_a_fix_says_is_taken() -> None:
    truths = np.ones(8, bool)
    assert bind(of("u8"), [truths.view(np.uint8)]).pointers == {"x": truths.ctypes.data}
    assert bind(of("f32", 4), [ZEROS[:4]]).symbols == {}
    assert bind(of("f32"), [ZEROS.reshape(2, 2, 2)[0, 0]]).symbols == {"n": 2}
    assert bind(of("f32", 1, "n"), [ZEROS[None]]).symbols == {"n": 8}


@pytest.mark.parametrize("shape", [(), (4,), ("n", "n"), (2, "n", 3, "n")])
def test_odd_shapes_bind(shape: tuple[int | str, ...]) -> None:
    symbols = (SymbolParam("n"),) if "n" in shape else ()
    signature = Signature("odd", (TensorParam("a", "f32", shape),), symbols)
    sizes = tuple(7 if extent == "n" else int(extent) for extent in shape)
    assert bind(signature, [np.zeros(sizes, np.float32)]).symbols == ({"n": 7} if symbols else {})
    for axis in range(len(sizes)):
        wrong = tuple(size + (i == axis) for i, size in enumerate(sizes))
        with pytest.raises(LaunchError, match="'a': expected shape"):
            bind(signature, [np.zeros((*wrong, 1), np.float32)])
        if shape != ("n",):
            with pytest.raises(LaunchError, match="'a': expected shape"):
                bind(signature, [np.zeros(wrong, np.float32)])


def test_a_kernel_without_arguments_binds() -> None:
    bound = bind(Signature("empty", ()), ())
    assert (bound.values, bound.key) == ((), 0)
    with pytest.raises(LaunchError, match="expected 0 arguments"):
        bind(Signature("empty", ()), (1,))


def test_a_signature_that_cannot_be_launched_is_refused_when_made() -> None:
    with pytest.raises(LaunchError, match="no tensor's shape names the symbol 'q'"):
        Signature("k", (TensorParam("a", "f16", ("m",)),), (SymbolParam("q"),))
    with pytest.raises(LaunchError, match="a tensor of type f4 cannot be passed as 'a'"):
        Signature("k", (TensorParam("a", "f4", ("m",)),))
    with pytest.raises(LaunchError, match="a number of type bf16 cannot be passed as 'x'"):
        Signature("k", (ScalarParam("x", "bf16"),))
    with pytest.raises(LaunchError, match="a symbol of type f32 cannot be passed as 'm'"):
        Signature("k", (TensorParam("a", "f16", ("m",)),), (SymbolParam("m", "f32"),))


def test_torch_without_the_dtype_says_so(torch: None) -> None:
    with pytest.raises(LaunchError, match="torch 0 has no dtype bfloat16"):
        make_binder(Signature("k", (TensorParam("a", "bf16", ("m",)),)))
