"""What calls have in common that do the same with other data: (arguments, names) -> (key,
addresses), by straight-line code made once per operator.

Every call pays for this. So the questions to its arguments are written out one after the other, and
their answers are one tuple, which is looked up as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hexcute_kernels.schema import Parameter

ALIGNMENT = 16
"""Bytes: where TMA and the widest copies may begin."""
SCALARS: frozenset[type] = frozenset({type(None), int, float, bool, str})
"""Classes of the arguments that are no tensors."""
UNKNOWN = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)
"""What a reader raises for arguments that no call was prepared for."""

Reader = Callable[..., "tuple[tuple[Any, ...], list[int]]"]
"""Takes the arguments, the given outputs where there are any, the variant and the configuration."""


def make_reader(parameters: tuple[Parameter, ...], outputs: int, classes: set[type]) -> Reader:
    """The reader of calls with these parameters, and with so many outputs given (0: with none).

    `classes` are those of the tensors that calls were prepared with: the address may be asked of
    plain tensors alone, and what may be asked of others is found out when a call is prepared.
    """
    lines: list[str] = []
    key = ["variant", "config"]
    addresses: list[str] = []
    optional: list[str] = []
    for i, parameter in enumerate(parameters):
        if parameter.kind != "Tensor":
            # 1, True and 1.0 are equal to a dictionary, and not to an operator.
            lines += [f"if a{i}.__class__ not in scalars: raise KeyError"]
            key += [f"a{i}.__class__", f"a{i}"]
        elif parameter.optional:
            inside = [f"    {line}" for line in _tensor(f"a{i}", i)]
            known = ", ".join(_facts(f"a{i}", i))
            lines += [f"if a{i} is None: k{i} = None", "else:", *inside, f"    k{i} = {known}"]
            key += [f"k{i}"]
            optional += [f"if a{i} is not None: addresses.append(p{i})"]
        else:
            lines += _tensor(f"a{i}", i)
            key += _facts(f"a{i}", i)
            # What is left out has no address, and those behind it keep their order.
            if optional:
                optional += [f"addresses.append(p{i})"]
            else:
                addresses += [f"p{i}"]
    for j in range(outputs):
        place = len(parameters) + j
        lines += _tensor(f"o{j}", place)
        key += _facts(f"o{j}", place)
        if optional:
            optional += [f"addresses.append(p{place})"]
        else:
            addresses += [f"p{place}"]
    given = "outs, " if outputs else ""
    unpacked = [f"({''.join(f'a{i}, ' for i in range(len(parameters)))}) = args"]
    if outputs:
        unpacked += [f"({''.join(f'o{j}, ' for j in range(outputs))}) = outs"]
    whole = [
        *unpacked, *lines, f"addresses = [{', '.join(addresses)}]", *optional,
        f"return ({', '.join(key)}), addresses",
    ]  # fmt: skip
    text = "\n    ".join([f"def read(args, {given}variant, config):", *whole])
    scope: dict[str, Any] = {"classes": classes, "scalars": SCALARS, "recorded": _recorded}
    exec(compile(text, f"<reader of {len(parameters)} arguments>", "exec"), scope)
    reader: Reader = scope["read"]
    return reader


def _tensor(name: str, place: int) -> list[str]:
    """Reads an address, of a tensor that has one."""
    return [
        f"if {name}.__class__ not in classes: raise KeyError",
        f"p{place} = {name}.data_ptr()",
    ]


def _facts(name: str, place: int) -> list[str]:
    """All that a plan looks at. The strides of what is contiguous follow from its shape, but where
    an extent is 1, and there nothing depends on them."""
    return [
        f"{name}.shape",
        f"{name}.is_contiguous() or {name}.stride()",
        f"{name}.dtype",
        f"{name}.get_device()",
        f"p{place} % {ALIGNMENT} == 0",
        f"{name}.requires_grad and recorded()",
    ]


def _recorded() -> bool:
    """Whether torch records gradients."""
    import torch

    return bool(torch.is_grad_enabled())
