"""Every operator as torch knows it, none forgotten: what its schema, fake tensors and traces say is
true of stand-ins on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import hexcute_kernels
from hexcute_kernels import FAMILIES, operator_named
from hexcute_kernels.operator import Operator, output_names

torch = pytest.importorskip("torch")
from registered_checks import opcheck  # noqa: E402
from sample_sizes import SIZES  # noqa: E402


def filled(operator: Operator[Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What stands in for the operator: results of their shapes, types and orders, and a trace in
    every argument that it writes to."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    made = [output.empty(tensors[0]) for output in operator.results(operator.describe(*args))]
    for number, result in enumerate(made):
        result.fill_(number + 1)
    for parameter, value in zip(operator.schema.parameters, args, strict=True):
        if parameter.written:
            value.zero_()
    return tuple(made)


def call(operator: Operator[Any], *args: Any, variant: Any = None, **given: Any) -> Any:
    made = filled(operator, operator.schema.bind(args, given))
    return made[0] if len(made) == 1 else made


def call_into(operator: Operator[Any], *args: Any, variant: Any = None, **given: Any) -> None:
    outs = [given.pop(name) for name in output_names(operator.schema.results)]
    for out, made in zip(outs, filled(operator, operator.schema.bind(args, given)), strict=True):
        out.copy_(made)


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu() -> Iterator[None]:
    hexcute_kernels.register()
    library = torch.library.Library("hexcute", "IMPL")
    for name in FAMILIES:
        library.impl(name, partial(call, operator_named(name)), "CPU")
        library.impl(f"{name}.out", partial(call_into, operator_named(name)), "CPU")
    yield
    library._destroy()


def test_every_operator_has_a_sample() -> None:
    assert set(SIZES) == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_opcheck(name: str) -> None:
    opcheck(name, "cpu")
