"""show_program(p) = p as text, one statement per line: deterministic, made to be read and
diffed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hexcute_core.scalar import Const, show
from hexcute_core.thread.ir import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    Regs,
    RemotePtr,
    Say,
    SetElement,
    SharedPtr,
    Stamp,
    Stmt,
    ThreadParam,
    ThreadProgram,
    While,
)
from hexcute_core.unions import assert_never

INDENT = "  "


def show_program(program: ThreadProgram, spans: bool = False) -> str:
    """`program` as text; with `spans` each statement ends in the source line that wrote it."""
    grid = ", ".join(show(e) for e in program.grid_dim)
    params = ", ".join(_param(p) for p in program.params)
    head = [
        f"kernel {program.name}({params})",
        f"{INDENT}grid ({grid}) threads {program.block_dim}",
    ]
    if program.min_blocks is not None:
        head[-1] += f" min_blocks {program.min_blocks}"
    if program.cluster_dim != (1, 1, 1):
        head[-1] += f" clusters {program.cluster_dim}"
    head.append(f"{INDENT}shared {program.shared_bytes} bytes")
    for m in program.maps:
        along = f" along {m.dims}" if m.dims else ""
        head.append(f"{INDENT}map {m.name}: {m.box}{along} of {m.param}, swizzle {m.swizzle}")
    if program.stamps is not None:
        head.append(f"{INDENT}stamps to {', '.join(program.stamps.params)}")
        for i, interval in enumerate(program.stamps.intervals):
            written = f"  # {interval.span}" if spans and interval.span is not None else ""
            head.append(f"{INDENT}interval {i}: {interval.activity}{written}")
        for i, run in enumerate(program.stamps.runs):
            opened = " ".join("-" if number is None else str(number) for number in run)
            head.append(f"{INDENT}stamps {i}: {opened}")
    return "\n".join([*head, *_block(program.body, INDENT, spans)]) + "\n"


def _param(param: ThreadParam) -> str:
    if not param.pointer:
        return f"{param.name}: {param.dtype}"
    extents = ", ".join(show(e) for e in param.shape)
    if param.strides:
        extents = ", ".join(f"{show(e)}:{show(s)}" for e, s in zip(param.shape, param.strides))
    aligned = " aligned" if param.aligned else ""
    if param.begins > 1 and not param.aligned:
        aligned = f" at a multiple of {param.begins} bytes"
    return f"{param.name}: {param.dtype}[{extents}]{aligned}"


def _block(stmts: Sequence[Stmt], indent: str, spans: bool) -> Iterator[str]:
    for stmt in stmts:
        head, *rest = _statement(stmt, indent, spans)
        span = None if isinstance(stmt, DeclareArray) else stmt.span
        yield indent + head + (f"  # {span}" if spans and span is not None else "")
        yield from rest


def _statement(stmt: Stmt, indent: str, spans: bool) -> Iterator[str]:
    """The statement's own line without indentation, then its body's lines."""
    inner = indent + INDENT
    match stmt:
        case DeclareArray():
            yield f"{stmt.dtype} {stmt.array}[{stmt.size}]"
        case SetElement():
            yield f"{stmt.array}[{show(stmt.index)}] = {show(stmt.value)}"
        case Assign():
            declared = f": {stmt.var.dtype}" if stmt.declares else ""
            promised = f", a multiple of {stmt.multiple}" if stmt.multiple > 1 else ""
            yield f"{stmt.var.name}{declared} = {show(stmt.value)}{promised}"
        case Prim():
            yield " ".join([stmt.name, ", ".join(_operand(o) for o in stmt.operands)]).rstrip()
        case Say():
            shown = ", ".join([repr(stmt.text), *map(show, stmt.args)])
            yield f"{'stop' if stmt.stops else 'printf'} {shown}"
        case Stamp():
            yield f"stamp {stmt.run}.{stmt.at}"
        case For():
            bounds = ", ".join(show(e) for e in (stmt.start, stmt.stop, stmt.step))
            unrolled = "unrolled " if stmt.unroll else ""
            yield f"{unrolled}for {stmt.var.name}: {stmt.var.dtype} in range({bounds})"
            yield from _block(stmt.body, inner, spans)
        case While():
            yield f"while {show(stmt.cond)}"
            yield from _block(stmt.body, inner, spans)
        case If():
            yield f"if {show(stmt.cond)}"
            yield from _block(stmt.then, inner, spans)
            if stmt.otherwise:
                yield f"{indent}else"
                yield from _block(stmt.otherwise, inner, spans)
        case _:
            assert_never(stmt)


def _operand(operand: Operand) -> str:
    match operand:
        case Regs():
            return _regs(operand)
        case GlobalPtr():
            return f"{operand.param} + {show(operand.offset)}"
        case SharedPtr():
            return f"shared + {show(operand.offset)}"
        case RemotePtr():
            return f"shared + {show(operand.offset)} of block {show(operand.rank)}"
        case MapRef():
            return f"{operand.name}[{', '.join(show(c) for c in operand.coords)}]"
        case MatrixDesc():
            layout = f"leading {operand.leading}, stride {operand.stride}"
            return f"matrix(shared + {show(operand.offset)}, {layout}, swizzle {operand.swizzle})"
        case _:
            return show(operand)


def _regs(regs: Regs) -> str:
    """`a[4:8]` for one piece at a known place, else `a[offset + {pieces}:width]`."""
    if isinstance(regs.offset, Const) and len(regs.pieces) == 1:
        first = int(regs.offset.value) + regs.pieces[0]
        return f"{regs.array}[{first}:{first + regs.width}]"
    offset = "" if regs.offset == Const(0, regs.offset.dtype) else f"{show(regs.offset)} + "
    pieces = ", ".join(str(p) for p in regs.pieces)
    return f"{regs.array}[{offset}{{{pieces}}}:{regs.width}]"
