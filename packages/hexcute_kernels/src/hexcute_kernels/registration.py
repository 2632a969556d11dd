"""Operators as torch knows them: `torch.ops.hexcute.<name>`, and `.out` with given outputs.

    hexcute::matmul(Tensor a, Tensor b, *, str? variant=None) -> Tensor
    hexcute::matmul.out(Tensor a, Tensor b, *, str? variant=None, Tensor(out!) out) -> ()

Imported where torch is there already: by a call inside `torch.compile`, or to register.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from hexcute_core.errors import LaunchError
from hexcute_kernels import operator_named
from hexcute_kernels.operator import Operator, output_names
from hexcute_kernels.tensors import (
    Output,
    check_output,
    check_tensor,
    no_gradient,
)

NAMESPACE = "hexcute"
_DONE: dict[str, Operator[Any]] = {}


@cache
def library() -> Any:
    """The registry's owner; registrations last as long as it."""
    return torch.library.Library(NAMESPACE, "FRAGMENT")


def register(operator: Operator[Any]) -> None:
    """Registers the operator, the first time it is asked for."""
    if operator.name not in _DONE:
        _DONE[operator.name] = operator
        _define(operator)
    if _DONE[operator.name] is not operator:
        raise LaunchError(f"two operators are called {operator.name}")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _registered(name: str) -> bool:
    """Registers the operator of this name; true when that is done. Tracers call it with a name,
    since not all of them take an object for a constant."""
    if name not in _DONE:
        register(operator_named(name))
    return True


def traced(
    operator: Operator[Any],
    args: tuple[Any, ...],
    out: Any,
    variant: str | None,
    config: Any,
    named: Mapping[str, Any],
) -> Any:
    """A call as torch's tracers see it: one operator of the graph."""
    if config is not None:
        raise LaunchError(
            f"{operator.name}: a configuration cannot be given inside torch.compile",
            fix="leave it to the table, or name a variant",
        )
    args = operator.schema.bind(args, named)
    _registered(operator.name)
    known = getattr(torch.ops.hexcute, operator.name)
    if out is None:
        return known.default(*args, variant=variant)
    outs = out if isinstance(out, tuple) else (out,)
    known.out(*args, variant=variant, **dict(zip(output_names(len(outs)), outs)))
    return out


def _define(operator: Operator[Any]) -> None:
    schema = operator.schema
    inside, returns = schema.text[len(schema.name) + 1 :].split(") -> ")
    names = output_names(schema.results)
    outs = "".join(f", Tensor({name}!) {name}" for name in names)
    variant = "*, str? variant=None"
    lib = library()
    lib.define(f"{schema.name}({inside}, {variant}) -> {returns}")
    lib.define(f"{schema.name}.out({inside}, {variant}{outs}) -> ()")

    def call(*args: Any, variant: str | None = None, **given: Any) -> Any:
        whole = schema.bind(args, given)
        return operator.run(whole, None, variant, None)

    def call_out(*args: Any, variant: str | None = None, **given: Any) -> None:
        outs = tuple(given.pop(name) for name in names)
        operator.run(schema.bind(args, given), outs, variant, None)

    def fake(*args: Any, variant: str | None = None, **given: Any) -> Any:
        whole = schema.bind(args, given)
        made = [_empty(operator, whole, output) for output in _described(operator, whole)]
        return made[0] if len(made) == 1 else tuple(made)

    def fake_out(*args: Any, variant: str | None = None, **given: Any) -> None:
        outs = [given.pop(name) for name in names]
        expected = _described(operator, schema.bind(args, given))
        for name, tensor, output in zip(names, outs, expected, strict=True):
            check_output(operator.name, name, tensor, output)

    def backward(context: Any, *gradients: Any) -> None:
        raise no_gradient(operator.name)

    # One implementation for every device: it tells what it expects of tensors elsewhere.
    for name, implementation, shapes in (
        (schema.name, call, fake),
        (f"{schema.name}.out", call_out, fake_out),
    ):
        lib.impl(name, implementation, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", shapes, lib=lib)
    # Of operators that write to arguments torch knows no gradient; the call itself says so.
    if not any(parameter.written for parameter in schema.parameters):
        torch.library.register_autograd(f"{NAMESPACE}::{schema.name}", backward, lib=lib)


def _described(operator: Operator[Any], args: tuple[Any, ...]) -> tuple[Output, ...]:
    """The results' shapes and types, of tensors that may have no data."""
    for parameter, value in zip(operator.schema.parameters, args, strict=True):
        if parameter.kind == "Tensor" and not (parameter.optional and value is None):
            check_tensor(operator.name, parameter.name, value)
    return operator.results(operator.describe(*args))


def _empty(operator: Operator[Any], args: tuple[Any, ...], output: Output) -> Any:
    tensors = (
        value
        for parameter, value in zip(operator.schema.parameters, args, strict=True)
        if parameter.kind == "Tensor" and value is not None
    )
    return output.empty(next(tensors))
