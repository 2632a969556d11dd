"""define: a Python function -> KernelDef, its parameters read from the annotations.

Positional parameters are tensors (`a: f16[m, k]`) and scalars (`alpha: f32`), in launch order;
keyword-only parameters are compile-time constants. A positional one whose annotation is None is
left out of this kernel: its name is None in the body.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import TypeAlias, Union

from hexcute_core.dtypes import DType, TensorType
from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.functions.source import (
    FunctionSource,
    captured,
    function_source,
    function_span,
)
from hexcute_core.frontend.functions.symbols import Symbol
from hexcute_core.scalar.launch import BUILT_INS


class Required:
    """The default of a compile-time constant that has none."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()


@dataclass(frozen=True)
class TensorParam:
    """A tensor; `extents` are ints or symbols, in elements, and so are `strides`, of which a
    row-major tensor has none."""

    name: str
    dtype: DType
    extents: tuple[int | Symbol, ...]
    span: SourceSpan
    strides: tuple[int | Symbol, ...] = ()

    def __str__(self) -> str:
        extents = [str(e) for e in self.extents]
        pairs = [f"{e}:{s}" for e, s in zip(extents, self.strides)]
        return f"{self.dtype}[{', '.join(pairs or extents)}]"


@dataclass(frozen=True)
class ScalarParam:
    """A number passed at launch."""

    name: str
    dtype: DType
    span: SourceSpan


Parameter: TypeAlias = Union[TensorParam, ScalarParam]


@dataclass(frozen=True)
class Constant:
    """A compile-time constant; `default` is `REQUIRED` where there is none."""

    name: str
    default: object


@dataclass(frozen=True)
class KernelDef:
    """A kernel as written: `params` in launch order, `symbols` in order of first appearance;
    `absent` are names of parameters that are annotated with None."""

    name: str
    fn: FunctionType
    params: tuple[Parameter, ...]
    constants: tuple[Constant, ...]
    symbols: tuple[Symbol, ...]
    source: FunctionSource
    span: SourceSpan
    absent: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[TensorParam, ...]:
        """The tensor parameters, in launch order."""
        return tuple(p for p in self.params if isinstance(p, TensorParam))

    @property
    def scalars(self) -> tuple[ScalarParam, ...]:
        """The scalar parameters, in launch order."""
        return tuple(p for p in self.params if isinstance(p, ScalarParam))


def define(fn: object) -> KernelDef:
    """Reads the signature of kernel function `fn`.

    Raises `FrontendError` at the parameter that is not understood.
    """
    if not isinstance(fn, FunctionType):
        raise FrontendError(
            f"a kernel is a plain function, got {type(fn).__name__}", fix="decorate a `def`"
        )
    if fn.__name__ == "<lambda>":
        raise FrontendError(
            "a kernel is not a plain function definition", span=function_span(fn), fix="use `def`"
        )
    source = function_source(fn)
    arguments = source.node.args
    if arguments.vararg is not None or arguments.kwarg is not None:
        raise FrontendError(
            f"kernel `{fn.__name__}` takes *args or **kwargs",
            span=source.span(source.node),
            fix="name every parameter",
        )
    names = _Names(fn)
    written = [*arguments.posonlyargs, *arguments.args]
    if arguments.defaults:
        raise FrontendError(
            f"parameter `{written[-1].arg}` of kernel `{fn.__name__}` has a default",
            span=source.span(arguments.defaults[-1]),
            fix="launch parameters have none; put compile-time constants after `*`",
        )
    read = {arg.arg: _parameter(source, arg, names) for arg in written}
    params = tuple(p for p in read.values() if p is not None)
    absent = tuple(name for name, p in read.items() if p is None)
    defaults = fn.__kwdefaults__ or {}
    constants = tuple(
        Constant(arg.arg, defaults.get(arg.arg, REQUIRED)) for arg in arguments.kwonlyargs
    )
    span = source.span(source.node)
    symbols = _symbols(params, {*read, *(c.name for c in constants), *BUILT_INS})
    return KernelDef(fn.__name__, fn, params, constants, symbols, source, span, absent)


def _parameter(source: FunctionSource, arg: ast.arg, names: _Names) -> Parameter | None:
    span = source.span(arg)
    if arg.annotation is None:
        raise FrontendError(
            f"parameter `{arg.arg}` has no annotation",
            span=span,
            fix=f"write `{arg.arg}: f16[m, k]` for a tensor, `{arg.arg}: i32` for a scalar, "
            "or put a compile-time constant after `*`",
        )
    annotation = names.resolve(source, arg.annotation)
    match annotation:
        case TensorType(dtype=dtype, extents=extents):
            return _tensor(dtype, extents, arg.arg, span)
        case DType():
            return ScalarParam(arg.arg, annotation, span)
        case None:
            return None
        case _:
            raise FrontendError(
                f"parameter `{arg.arg}` is annotated with {annotation!r}, "
                "which is no tensor or scalar type",
                span=span,
                fix=f"write `{arg.arg}: f16[m, k]` or `{arg.arg}: i32`",
            )


def _tensor(
    dtype: DType, written: tuple[object, ...], name: str, span: SourceSpan
) -> TensorParam:
    """`written` are extents, or slices `extent:stride`."""
    pairs = [e for e in written if isinstance(e, slice)]
    extents = tuple(
        _extent(e.start if isinstance(e, slice) else e, name, span) for e in written
    )
    if not extents:
        raise FrontendError(f"tensor `{name}` has no extents", span=span)
    if not pairs:
        _whole_bytes(dtype, extents[-1], name, span)
        return TensorParam(name, dtype, extents, span)
    if len(pairs) != len(written) or any(pair.step is not None for pair in pairs):
        raise FrontendError(
            f"tensor `{name}` has dimensions that are not written as extent:stride",
            span=span,
            fix="write each as in `f16[m:s, k:1]`, or none: rows that follow one another have no "
            "strides to name",
        )
    if dtype.bits < 8:
        raise FrontendError(
            f"tensor `{name}` has strides, and elements of {dtype} are packed: its rows follow one "
            "another",
            span=span,
            fix=f"write `{dtype}[m, k]`, or declare the bytes, `u8[m:s, k:1]`",
        )
    return TensorParam(
        name, dtype, extents, span, tuple(_stride(pair.stop, name, span) for pair in pairs)
    )


def _stride(stride: object, name: str, span: SourceSpan) -> int | Symbol:
    if isinstance(stride, Symbol):
        return stride
    if isinstance(stride, int) and not isinstance(stride, bool) and 0 <= stride < 2**31:
        return stride
    raise FrontendError(
        f"stride {stride} of tensor `{name}` is neither a symbol nor an int from 0 to 2^31 - 1",
        span=span,
        fix='name it: `s = hx.dim("s")` and `f16[m:s, k:1]`',
    )


def _extent(extent: object, name: str, span: SourceSpan) -> int | Symbol:
    if isinstance(extent, Symbol):
        return extent
    if isinstance(extent, int) and not isinstance(extent, bool) and extent >= 1:
        return extent
    raise FrontendError(
        f"extent {extent} of tensor `{name}` is neither a positive int nor a symbol",
        span=span,
        fix='name it: `m, k = hx.dims("m k")` and `f16[m, k]`',
    )


def _whole_bytes(dtype: DType, last: int | Symbol, name: str, span: SourceSpan) -> None:
    """Refuses rows of packed elements that would end inside a byte."""
    if isinstance(last, int) and last * dtype.bits % 8:
        raise FrontendError(
            f"rows of tensor `{name}` are {last} elements of {dtype}, {last * dtype.bits} bits, "
            "which are no whole bytes",
            span=span,
            fix=f"pad the rows to a multiple of {8 // dtype.bits} elements",
        )


def _symbols(params: tuple[Parameter, ...], taken: set[str]) -> tuple[Symbol, ...]:
    found: dict[str, Symbol] = {}
    for param in params:
        named = (*param.extents, *param.strides) if isinstance(param, TensorParam) else ()
        for extent in named:
            if not isinstance(extent, Symbol):
                continue
            before = found.setdefault(extent.name, extent)
            if before.multiple_of != extent.multiple_of:
                raise FrontendError(
                    f"symbol `{extent.name}` is promised to be a multiple of "
                    f"{before.multiple_of} and of {extent.multiple_of}",
                    span=param.span,
                    fix="use one symbol object for all parameters",
                )
            if extent.name in taken:
                raise FrontendError(
                    f"symbol `{extent.name}` has the name of a parameter",
                    span=param.span,
                    fix="rename one of them",
                )
    return tuple(found.values())


class _Names:
    """The names an annotation of `fn` may use: captured, local to the defining function, global."""

    def __init__(self, fn: FunctionType) -> None:
        self._globals = fn.__globals__
        self._locals = {**_defining_locals(fn), **captured(fn)}
        self._annotations = dict(fn.__annotations__)

    def resolve(self, source: FunctionSource, node: ast.expr) -> object:
        """The object an annotation stands for; a string is evaluated."""
        text = ast.unparse(node)
        value: object = next(
            (v for k, v in self._annotations.items() if k == _owner(source, node)), text
        )
        for _ in range(2):
            if not isinstance(value, str):
                return value
            try:
                value = eval(value, dict(self._globals), self._locals)
            except FrontendError as error:
                error.span = error.span or source.span(node)
                raise
            except Exception as error:
                raise FrontendError(
                    f"the annotation `{text}` cannot be evaluated: {type(error).__name__}: {error}",
                    span=source.span(node),
                    fix="define its names at module level, before the kernel",
                ) from None
        return value


def _owner(source: FunctionSource, node: ast.expr) -> str:
    arguments = source.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return next(arg.arg for arg in every if arg.annotation is node)


def _defining_locals(fn: FunctionType) -> dict[str, object]:
    """Locals of the function that is executing the `def` of `fn`, where it is still running.

    A string annotation does not capture the names it uses, so they are looked up there.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if any(constant is fn.__code__ for constant in frame.f_code.co_consts):
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}
