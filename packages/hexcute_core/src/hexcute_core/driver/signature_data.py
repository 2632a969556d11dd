"""A signature and what a kernel was compiled for <-> JSON, read back only if it can be one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from hexcute_core.driver.container import Malformed
from hexcute_core.errors import LaunchError, SourceSpan
from hexcute_core.runtime import ParamSpec, ScalarParam, Signature, SymbolParam, TensorParam
from hexcute_core.tile.promise import Promise


def to_data(signature: Signature, divisors: Mapping[str, int], promise: Promise) -> dict[str, Any]:
    """As JSON; of the place in the author's source without the folder."""
    span = signature.span
    return {
        "kernel": signature.kernel,
        "params": [
            [p.name, p.dtype_name, list(p.shape), list(p.strides)]
            if isinstance(p, TensorParam)
            else [p.name, p.dtype_name]
            for p in signature.params
        ],
        "symbols": [_symbol(symbol) for symbol in signature.symbols],
        "span": None if span is None else [PurePath(span.file).name, span.line, span.col],
        "divisors": [list(pair) for pair in divisors.items()],
        "multiples": [list(pair) for pair in promise.multiples],
        "aligned": sorted(promise.aligned),
        "wide": promise.wide,
        "apart": sorted(promise.apart),
        "begins": [list(pair) for pair in promise.begins],
    }


def from_data(data: Mapping[str, Any]) -> tuple[Signature, dict[str, int], Promise]:
    """What `to_data` gave. Raises Malformed for anything else."""
    try:
        params = tuple(_param(row) for row in data["params"])
        symbols = tuple(SymbolParam(*row) for row in data["symbols"])
        span = None if data["span"] is None else SourceSpan(*data["span"])
        signature = Signature(data["kernel"], params, symbols, span)
        divisors = dict(data["divisors"])
        multiples = tuple((name, multiple) for name, multiple in data["multiples"])
        promise = Promise(
            multiples, frozenset(data["aligned"]), data["wide"], frozenset(data["apart"]),
            tuple((name, multiple) for name, multiple in data["begins"]),
        )  # fmt: skip
        same = to_data(signature, divisors, promise) == data and _sound(signature, promise)
        fits = {*divisors, *dict(multiples)} <= {s.name for s in symbols}
        numbers = [*divisors.values(), *dict(multiples).values()]
        numbers += [symbol.multiple_of for symbol in symbols]
        same &= fits and all(type(n) is int and 0 < n < 2**31 for n in numbers)
    except (LaunchError, LookupError, TypeError, ValueError, AttributeError):
        same = False
    if not same:
        raise Malformed("its signature is not one that a kernel can have")
    return signature, divisors, promise


def _symbol(symbol: SymbolParam) -> list[Any]:
    promised = [symbol.multiple_of] if symbol.multiple_of != 1 else []
    return [symbol.name, symbol.dtype_name, *promised]


def _param(row: list[Any]) -> ParamSpec:
    match row:
        case [str(name), str(dtype), list(shape), list(strides)]:
            return TensorParam(name, dtype, tuple(shape), tuple(strides))
        case [str(name), str(dtype)]:
            return ScalarParam(name, dtype)
        case _:
            raise Malformed("a parameter is no tensor and no number")


def _sound(signature: Signature, promise: Promise) -> bool:
    """Whether names are names, each once, and extents are numbers or symbols."""
    names = [param.name for param in (*signature.params, *signature.symbols)]
    symbols = {symbol.name for symbol in signature.symbols}
    extents = [e for tensor in signature.tensors for e in (*tensor.shape, *tensor.strides)]
    span = signature.span
    return (
        isinstance(signature.kernel, str)
        and all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names)
        and all(e in symbols if isinstance(e, str) else type(e) is int and e >= 0 for e in extents)
        and all(len(t.strides) in (0, len(t.shape)) for t in signature.tensors)
        and promise.aligned <= {tensor.name for tensor in signature.tensors}
        and all(type(b) is int and b in (4, 8) for b in dict(promise.begins).values())
        and {*dict(promise.begins)} <= {tensor.name for tensor in signature.tensors}
        and promise.apart <= {tensor.name for tensor in signature.strided}
        and type(promise.wide) is bool
        and (span is None or (isinstance(span.file, str) and type(span.line) is int))
    )
