"""trace: KernelDef, constants, promise -> TileProgram, by interpreting the kernel's syntax tree."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import replace

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.functions.signature import REQUIRED, KernelDef, TensorParam
from hexcute_core.frontend.functions.symbols import Symbol
from hexcute_core.frontend.interpreter.calls import ReturnValue, call, inline
from hexcute_core.frontend.interpreter.engine import Engine, ExprHandler
from hexcute_core.frontend.interpreter.expressions import EXPRESSIONS
from hexcute_core.frontend.interpreter.frame import Binding, Frame
from hexcute_core.frontend.interpreter.statements import STATEMENTS
from hexcute_core.frontend.language.builder import Builder, use
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.pipelines import check_passing
from hexcute_core.frontend.language.remote import check_remote
from hexcute_core.frontend.language.roles import check_roles, role_threads
from hexcute_core.frontend.language.turns import barriers_of
from hexcute_core.frontend.laws.agreement import check_agreement
from hexcute_core.frontend.laws.pending import check_pending
from hexcute_core.frontend.laws.renamed import check_renamed
from hexcute_core.frontend.laws.role_laws import check_laws
from hexcute_core.frontend.laws.writes import check_writes
from hexcute_core.scalar import Scalar, Var, as_scalar
from hexcute_core.tile import GlobalTensor, TileProgram
from hexcute_core.tile.promise import Promise

_EXPRESSIONS: dict[type[ast.expr], ExprHandler] = {**EXPRESSIONS, ast.Call: call}


def trace(kernel: KernelDef, constants: Mapping[str, object], promise: Promise) -> TileProgram:
    """The tile program of `kernel` for these compile-time constants.

    Constants not given take their defaults. `promise` is what the specialisation relies on; the
    symbols' own `multiple_of` is added to it. Raises `FrontendError` at the user's line.
    """
    values = _constants(kernel, constants)
    promised = _promise(kernel, promise)
    try:
        return _trace(kernel, values, promised)
    except FrontendError as error:
        # The frames below are the interpreter's, not the user's.
        raise error.with_traceback(None) from None
    except RecursionError:
        raise FrontendError(
            f"{kernel.name}: something in it contains itself, or nests deeper than Python goes",
            kernel.span,
            "pass lists and dicts that end, and let helpers call no deeper",
        ) from None


def _constants(kernel: KernelDef, given: Mapping[str, object]) -> dict[str, object]:
    known = {constant.name: constant.default for constant in kernel.constants}
    for name in given:
        if name not in known:
            raise FrontendError(
                f"kernel `{kernel.name}` has no compile-time constant `{name}`",
                span=kernel.span,
                fix=f"its constants are {', '.join(known)}" if known else "it has none",
            )
    values = {**known, **given}
    for name, value in values.items():
        if value is REQUIRED:
            raise FrontendError(
                f"the compile-time constant `{name}` of kernel `{kernel.name}` is not given",
                span=kernel.span,
                fix=f"pass {name}=... or give it a default",
            )
    return values


def _promise(kernel: KernelDef, promise: Promise) -> Promise:
    multiples = dict(promise.multiples)
    for symbol in kernel.symbols:
        divisor = math.lcm(multiples.get(symbol.name, 1), symbol.multiple_of)
        if divisor > 1:
            multiples[symbol.name] = divisor
    return replace(promise, multiples=tuple(sorted(multiples.items())))


def _extents(numbers: tuple[int | Symbol, ...]) -> tuple[Scalar, ...]:
    return tuple(Var(n.name, n.dtype) if isinstance(n, Symbol) else as_scalar(n) for n in numbers)


def _trace(kernel: KernelDef, values: Mapping[str, object], promise: Promise) -> TileProgram:
    """One pass over the kernel."""
    params = tuple(
        GlobalTensor(p.name, p.dtype, _extents(p.extents), p.span, _extents(p.strides))
        for p in kernel.tensors
    )
    scalars = tuple((p.name, p.dtype) for p in kernel.scalars)
    symbols = tuple(symbol.name for symbol in kernel.symbols)
    uniform = [name for name, _ in scalars] + list(symbols)
    reserved = [*(p.name for p in params), *uniform]
    builder = Builder(kernel.span, reserved, uniform)
    engine = Engine(builder, _EXPRESSIONS, STATEMENTS)
    frame = engine.frame = Frame(kernel.source, builder.top)
    builder.inline = lambda fn, args, kwargs: inline(
        engine, engine.frame or frame, fn, args, kwargs
    )
    _bind_parameters(kernel, frame, params, values)
    with use(builder):
        try:
            engine.execute(frame, kernel.source.node.body)
        except ReturnValue as returned:
            if returned.value is not None:
                raise FrontendError(
                    f"kernel `{kernel.name}` returns a value",
                    span=kernel.span,
                    fix="copy results to a tensor parameter",
                ) from None
    launch = builder.launch
    block_dim = launch.block_dim or role_threads(builder)
    if launch.grid_dim is None or block_dim is None:
        missing = "grid_dim" if launch.grid_dim is None else "block_dim"
        raise FrontendError(
            f"kernel `{kernel.name}` does not set hx.attrs.cuda.{missing}",
            span=kernel.span,
            fix=f"write hx.attrs.cuda.{missing} = "
            + ("hx.cdiv(m, BM), hx.cdiv(n, BN)" if missing == "grid_dim" else "128"),
        )
    check_roles(builder, block_dim, launch.min_blocks)
    claims = any(role.registers for role in builder.roles)
    program = TileProgram(
        kernel.name,
        params,
        scalars,
        symbols,
        launch.grid_dim,
        block_dim,
        tuple(builder.tensors.values()),
        tuple(builder.top.block),
        promise,
        kernel.span,
        # Register claims take effect only where the launch fixes the share: one block at least.
        launch.min_blocks or (1 if claims else None),
        tuple(builder.pipelines),
        launch.cluster_dim,
        tuple(builder.mbarriers),
        (*builder.named_barriers, *barriers_of(builder.turns)),
        launch.merge_roles,
    )
    check_agreement(program)
    check_laws(program)
    check_passing(builder.rings)
    check_remote(program)
    check_pending(program)
    check_renamed(program)
    return check_writes(program)


def _bind_parameters(
    kernel: KernelDef,
    frame: Frame,
    params: tuple[GlobalTensor, ...],
    values: Mapping[str, object],
) -> None:
    region, zero = frame.region, as_scalar(0)
    tensors = {p.name: p for p in params}
    for written in kernel.params:
        value: object
        if isinstance(written, TensorParam):
            tensor = tensors[written.name]
            value = Param(tensor, (zero,) * len(tensor.shape))
        else:
            value = Var(written.name, written.dtype)
        frame.bindings[written.name] = Binding(value, region, written.span)
    for name, constant in {**values, **dict.fromkeys(kernel.absent)}.items():
        frame.bindings[name] = Binding(constant, region, kernel.span)
