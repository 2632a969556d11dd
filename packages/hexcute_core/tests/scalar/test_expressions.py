"""Expressions mean in the simulator, and on a GPU, what docs/language.md says of them."""

import warnings
from typing import Any

import pytest
from expression_values import CELLS, COMPARISONS, FLOATS, FUNCTIONS, INTEGERS, SUB_BYTE
from random_expressions import (
    STORED,
    Expression,
    Maker,
    arguments,
    draw,
    inputs,
    kernel_of,
    wrong,
)

GROUP = 50
SAMPLE = range(4)
SWEEP = range(1000, 1040)


def simulated(expressions: list[Expression], known: dict[str, Any], target: str = "sm_90") -> Any:
    """The compiled kernel, once what it computes in the simulator is what is meant."""
    kernel, names = kernel_of(expressions, known)
    args = arguments(expressions, known, names)
    compiled = kernel.compile(target)
    compiled.simulate(*args)
    assert wrong(expressions, names, args) == []
    return compiled


@pytest.mark.parametrize("seed", SAMPLE)
def test_random_expressions(seed):
    known = inputs(seed)
    simulated(draw(seed, GROUP, known), known)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SWEEP)
def test_many_random_expressions(seed):
    known = inputs(seed)
    simulated(draw(seed, GROUP, known), known)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", SWEEP)
def test_many_random_expressions_on_a_gpu(seed):
    launched(seed, draw(seed, GROUP, inputs(seed), narrow=on_hopper()))


def on_hopper() -> bool:
    """Whether the GPU converts 8-bit floats."""
    torch: Any = pytest.importorskip("torch")
    return bool(torch.cuda.get_device_capability() >= (8, 9))


def launched(seed: int, expressions: list[Expression]) -> None:
    """Fails unless a launch leaves what the expressions mean."""
    from gpu_mirror import bits_of, on_gpu

    known = inputs(seed)
    kernel, names = kernel_of(expressions, known)
    args = arguments(expressions, known, names)
    moved = [on_gpu(a) if hasattr(a, "dtype") else a for a in args]
    kernel(*moved)
    left = [bits_of(m).view(a.dtype) if hasattr(a, "dtype") else a for m, a in zip(moved, args)]
    assert wrong(expressions, names, left) == []


def every_operation(family: str, known: dict[str, Any], narrow: bool) -> list[Expression]:
    """Each operator and function on each type it takes, and each conversion."""
    maker = Maker(0, known, narrow)
    types = [*SUB_BYTE, *(t for t in STORED if narrow or not t.startswith("f8")), "boolean"]
    found: list[Expression] = []

    def tile(t: str, name: str = "a") -> Expression:
        if t in STORED:
            return Expression(f"{name}_{t}", t, known[f"{name}_{t}"], True)
        return maker.cast(Expression(f"{name}_i32", "i32", known[f"{name}_i32"], True), t)

    for t in types:
        a, b = tile(t), tile(t, "b")
        match family:
            case "casts":
                found += [maker.cast(a, other) for other in types if other != t]
            case "comparisons":
                found += [maker.compare(op, a, b, t) for op in COMPARISONS]
            case "functions" if t in FLOATS:
                found += [maker.approximate(name, t) for name in (*FUNCTIONS, "/")]
                found += [maker.real_unary(op, a) for op in ("-", "abs", "isnan", "floor", "ceil")]
            case "arithmetic" if t in FLOATS:
                found += [maker.binary(op, a, b, t)
                          for op in ("+", "-", "*", "hx.minimum", "hx.maximum")]  # fmt: skip
                found += [maker.power(a, n) for n in range(1, 5)]
            case "arithmetic" if t == "boolean":
                found += [maker.binary(op, a, b, t) for op in (
                    "+", "-", "*", "&", "|", "^", "hx.minimum", "hx.maximum"
                )]  # fmt: skip
                found += [maker.whole_unary(op, a) for op in ("-", "~", "abs")]
            case "arithmetic" if t in INTEGERS:
                found += [maker.binary(op, a, b, t) for op in (
                    "+", "-", "*", "//", "%", "hx.cdiv", "&", "|", "^", "hx.minimum", "hx.maximum"
                )]  # fmt: skip
                found += [maker.shift(op, a, tile("i8", "b")) for op in ("<<", ">>")]
                found += [maker.whole_unary(op, a) for op in ("-", "~", "abs")]
                found += [maker.power(a, n) for n in (0, 1, 5, 64)]
            case _:
                pass
    return [maker.cast(e, "i32") if e.dtype in SUB_BYTE else e for e in found]


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("family", ["casts", "comparisons", "functions", "arithmetic"])
def test_every_operation_is_simulated_and_built_alike(family, target):
    known = inputs(7)
    expressions = every_operation(family, known, narrow=target == "sm_90")
    assert {e.dtype for e in expressions} <= set(CELLS)
    compiled = simulated(expressions, known, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled.built.cubin


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["casts", "comparisons", "functions", "arithmetic"])
def test_every_operation_on_a_gpu(family):
    launched(7, every_operation(family, inputs(7), narrow=on_hopper()))
