"""From a definition: the runtime's signature, the divisors that calls are told apart by, promises.

A symbol that is some tensor's row length is specialised on the elements in 16 bytes; one with
`multiple_of=` on that number alone, and a call that breaks it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm, prod

from hexcute_core.errors import FrontendError, LaunchError
from hexcute_core.frontend import REQUIRED, KernelDef
from hexcute_core.frontend import TensorParam as Tensor
from hexcute_core.runtime import (
    ScalarParam,
    Signature,
    SymbolParam,
    TensorParam,
    decode,
    default_divisors,
    packed_divisors,
)
from hexcute_core.runtime.signature import ALIGNMENT
from hexcute_core.runtime.specialisation import NARROW_LIMIT
from hexcute_core.strides import reach
from hexcute_core.tile.promise import Promise

_UNALIGNED = "compile it with aligned=False, or call the kernel itself, or its simulate"


def signature_of(definition: KernelDef) -> Signature:
    """How the runtime calls the kernel."""
    params = tuple(
        TensorParam(
            p.name, p.dtype.name, tuple(map(_extent, p.extents)), tuple(map(_extent, p.strides))
        )
        if isinstance(p, Tensor)
        else ScalarParam(p.name, p.dtype.name)
        for p in definition.params
    )
    symbols = tuple(SymbolParam(s.name, multiple_of=s.multiple_of) for s in definition.symbols)
    return Signature(definition.name, params, symbols, definition.span)


def _extent(extent: object) -> int | str:
    return extent if isinstance(extent, int) else str(getattr(extent, "name", extent))


def divisors_of(definition: KernelDef, signature: Signature) -> dict[str, int]:
    """For each symbol that calls are specialised on, the divisor in question."""
    found = default_divisors(signature)
    found.update({s.name: s.multiple_of for s in definition.symbols if s.multiple_of > 1})
    return {s.name: found[s.name] for s in definition.symbols if s.name in found}


def promise_of(
    definition: KernelDef, signature: Signature, divisors: Mapping[str, int], key: int
) -> Promise:
    """What calls with specialisation `key` promise.

    Raises LaunchError where a symbol breaks its `multiple_of`.
    """
    known = decode(signature, divisors, key)
    multiples = _multiples(signature, divisors, key)
    _require_promised(signature, multiples)
    wide = known.wide or any(_wide(tensor) for tensor in definition.tensors)
    return Promise(
        tuple(multiples.items()), frozenset(known.aligned), wide, frozenset(known.apart),
        known.begins,
    )  # fmt: skip


def _require_promised(signature: Signature, multiples: Mapping[str, int]) -> None:
    """Raises LaunchError where a symbol breaks its `multiple_of`."""
    for symbol in signature.symbols:
        if multiples.get(symbol.name, 1) % symbol.multiple_of:
            raise LaunchError(
                f"{signature.kernel}: {symbol.name} is not a multiple of {symbol.multiple_of}, "
                f"as hx.dim({symbol.name!r}, multiple_of={symbol.multiple_of}) promises",
                signature.span,
                "pad the tensor, or drop the promise",
            )


def _multiples(signature: Signature, divisors: Mapping[str, int], key: int) -> dict[str, int]:
    """Known divisors of symbols: what specialisation `key` says, and that packed rows are whole
    bytes."""
    known = dict(decode(signature, divisors, key).multiples)
    for name, elements in packed_divisors(signature).items():
        known[name] = lcm(known.get(name, 1), elements)
    return known


def _wide(tensor: Tensor) -> bool:
    """Whether a tensor of fixed extents needs 64-bit offsets, whatever it is called with."""
    shape, strides = (
        [number for number in numbers if isinstance(number, int)]
        for numbers in (tensor.extents, tensor.strides)
    )
    if len(shape) < len(tensor.extents) or len(strides) < len(tensor.strides):
        return False
    return (reach(shape, strides) if strides else prod(shape)) >= NARROW_LIMIT


def constants_of(definition: KernelDef, given: Mapping[str, object]) -> dict[str, object]:
    """All compile-time constants: `given` over the defaults.

    Raises FrontendError for a name the kernel does not have or one it needs.
    """
    names = [c.name for c in definition.constants]
    for name in given:
        if name not in names:
            raise FrontendError(
                f"{definition.name} has no compile-time constant {name!r}",
                definition.span,
                f"its constants are {', '.join(names) or 'none'}",
            )
    whole = {c.name: given.get(c.name, c.default) for c in definition.constants}
    for name, value in whole.items():
        if value is REQUIRED:
            raise FrontendError(
                f"{definition.name} needs the compile-time constant {name!r}",
                definition.span,
                f"pass {name}=...",
            )
    return whole


def require(signature: Signature, divisors: Mapping[str, int], promise: Promise, key: int) -> None:
    """Refuses arguments, of specialisation `key`, that break what a kernel was compiled for."""
    found = decode(signature, divisors, key)
    multiples = _multiples(signature, divisors, key)
    _require_promised(signature, multiples)
    for name, multiple in promise.multiples:
        if name in divisors and multiples.get(name, 1) % multiple:
            raise LaunchError(
                f"{signature.kernel}: compiled for {name} a multiple of {multiple}",
                signature.span,
                _UNALIGNED,
            )
    if found.wide and not promise.wide:
        raise LaunchError(
            f"{signature.kernel}: compiled for tensors of fewer than 2^31 elements",
            signature.span,
            "call the kernel itself, or its simulate: it is compiled for what it gets",
        )
    alike = promise.apart - set(found.apart)
    if alike:
        name = min(alike)
        raise LaunchError(
            f"{signature.kernel}: it writes {name!r}, and several of its elements are one place of "
            "memory, as those of an expanded tensor are",
            signature.span,
            f"pass {name}.clone(), whose elements lie apart",
        )
    begins = {**dict.fromkeys(found.aligned, ALIGNMENT), **dict(found.begins)}
    for name, multiple in promise.begins:
        if begins.get(name, 1) % multiple:
            raise LaunchError(
                f"{signature.kernel}: compiled for {name} at a multiple of {multiple} bytes",
                signature.span,
                _UNALIGNED,
            )
    missing = promise.aligned - set(found.aligned)
    if missing:
        raise LaunchError(
            f"{signature.kernel}: compiled for 16-byte aligned {sorted(missing)}",
            signature.span,
            _UNALIGNED,
        )
