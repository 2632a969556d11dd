"""torch's own checks of an operator that is registered, for every type of tensors."""

from __future__ import annotations

from typing import Any

import torch
from sample_sizes import sampled

import hexcute_kernels
from hexcute_kernels import operator_named

# Torch compares arguments before and after with arithmetic that it lacks for these types.
NARROW = (torch.float8_e4m3fn, torch.float8_e5m2)
OF_NARROW = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def bits(tensor: Any) -> Any:
    return tensor.contiguous().view(torch.uint8)


def opcheck(name: str, device: str) -> None:
    """`torch.library.opcheck` of the operator's call and of the one with given outputs, and that
    neither writes to an argument which the schema calls read."""
    hexcute_kernels.register()
    packet, operator = getattr(torch.ops.hexcute, name), operator_named(name)
    for overload, into in ((packet.default, False), (packet.out, True)):
        args, outs = sampled(name, device)
        given = outs if into else {}
        read = [
            (value, value.clone())
            for parameter, value in zip(operator.schema.parameters, args, strict=True)
            if isinstance(value, torch.Tensor) and not parameter.written
        ]
        overload(*args, **given)
        assert all(torch.equal(bits(value), bits(before)) for value, before in read)
        tensors = [x for x in (*args, *outs.values()) if isinstance(x, torch.Tensor)]
        narrow = any(x.dtype in NARROW for x in tensors)
        torch.library.opcheck(overload, args, given, test_utils=OF_NARROW if narrow else "ALL")
