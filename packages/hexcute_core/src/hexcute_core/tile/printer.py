"""show_program(p) = p as text, one statement per line: deterministic, made to be read and diffed.

A tile is written as its tensor with a subscript: `ga[:, :, i]`, `rc[16:+32, :]` (start, size),
`sa of block 1` where it lies in another block of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hexcute_core.arch.updates import MemoryOrder
from hexcute_core.scalar import Const, Scalar, is_const, show
from hexcute_core.tile.barriers import (
    BarrierStmt,
    ClusterOp,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
)
from hexcute_core.tile.ir import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GemmWait,
    If,
    Prefetch,
    Produce,
    Rearrange,
    Reduce,
    Relabel,
    Role,
    Scan,
    SetElement,
    Stmt,
    Sync,
    TileProgram,
    While,
)
from hexcute_core.tile.says import Say
from hexcute_core.tile.tensors import (
    GlobalView,
    RegisterTensor,
    SharedTensor,
    SubMode,
    Tensor,
    TileRef,
)
from hexcute_core.tile.updates import Update, UpdateElement, UpdateScope
from hexcute_core.unions import assert_never

INDENT = "  "


def show_extents(shape: Sequence[Scalar], strides: Sequence[Scalar]) -> str:
    """`m, k`, or `m:s, k:1` where a tensor has strides of its own."""
    extents = [show(extent) for extent in shape]
    pairs = [f"{extent}:{show(stride)}" for extent, stride in zip(extents, strides)]
    return ", ".join(pairs or extents)


def show_program(program: TileProgram, spans: bool = False) -> str:
    """`program` as text; with `spans` each statement ends in the source line that wrote it."""
    params = [f"{p.name}: {p.dtype}[{show_extents(p.shape, p.strides)}]" for p in program.params]
    params += [f"{name}: {dtype}" for name, dtype in program.scalars]
    grid = ", ".join(show(extent) for extent in program.grid_dim)
    lines = [
        f"kernel {program.name}({', '.join(params)})",
        f"{INDENT}grid ({grid}) threads {program.block_dim}",
    ]
    if program.min_blocks is not None:
        lines[-1] += f" min_blocks {program.min_blocks}"
    if program.cluster_dim != (1, 1, 1):
        lines[-1] += f" clusters {_shape(program.cluster_dim)}"
    if program.merge_roles:
        lines[-1] += " roles merged"
    promise = [f"{name} % {divisor} == 0" for name, divisor in program.promise.multiples]
    promise += [f"{name} aligned" for name in sorted(program.promise.aligned)]
    promise += [f"{name} at a multiple of {n} bytes" for name, n in program.promise.begins]
    promise += ["64-bit offsets"] if program.promise.wide else []
    if promise:
        lines.append(f"{INDENT}promised {', '.join(promise)}")
    lines += [INDENT + _tensor(tensor) for tensor in program.tensors]
    lines += [INDENT + line for line in _barriers(program)]
    tensors = {tensor.name: tensor for tensor in program.tensors}
    return "\n".join([*lines, *_Printer(tensors, spans).block(program.body, INDENT)]) + "\n"


def show_tile(ref: TileRef, tensors: Mapping[str, Tensor]) -> str:
    """A tile as a program prints it, `ra[:, :, 1]`."""
    return _Printer(dict(tensors), False).ref(ref)


def _barriers(program: TileProgram) -> Iterator[str]:
    for p in program.pipelines:
        read = "" if p.readers == "all" else ", each read by one role"
        yield f"{p.name} = pipeline of {p.stages} slots{read}"
    for b in program.mbarriers:
        yield f"{b.name} = {b.size} mbarriers of {b.count} arrivals"
    for named in program.named_barriers:
        yield f"{named.name} = named barrier of {named.threads} threads"


def _barrier(stmt: BarrierStmt) -> str:
    match stmt:
        case MbarrierOp():
            use = f"{stmt.action} {stmt.barrier}[{show(stmt.index)}]"
            what = {"expect": " bytes ", "wait": " parity ", "remote": " block "}
            return use if stmt.value is None else use + what[stmt.action] + show(stmt.value)
        case NamedBarrierOp():
            return f"{stmt.action} {stmt.barrier}"
        case ClusterOp():
            return f"cluster {stmt.action}"
        case _:
            assert_never(stmt)


def _tensor(tensor: Tensor) -> str:
    match tensor:
        case GlobalView():
            origin = ", ".join(show(start) for start in tensor.origin)
            modes = ", ".join(_mode(m, i == tensor.named) for i, m in enumerate(tensor.modes))
            return f"{tensor.name} = view {tensor.param}({origin}) {tensor.dtype} ({modes})"
        case SharedTensor():
            named = "" if tensor.layout is None else f" as {tensor.layout}"
            return f"{tensor.name} = shared {tensor.dtype} {_shape(tensor.shape)}{named}"
        case RegisterTensor():
            named = "" if tensor.arranged is None else f" with {tensor.arranged}"
            return f"{tensor.name} = registers {tensor.dtype} {_shape(tensor.shape)}{named}"
        case _:
            assert_never(tensor)


def _shape(extents: Sequence[int]) -> str:
    return f"({', '.join(str(extent) for extent in extents)})"


def _mode(mode: Sequence[SubMode], named: bool) -> str:
    subs = [f"{show(s.extent)}:{'rows' if named else show(s.step)}@{s.dim}" for s in mode]
    return subs[0] if len(subs) == 1 else f"({', '.join(subs)})"


class _Printer:
    def __init__(self, tensors: dict[str, Tensor], spans: bool) -> None:
        self.tensors = tensors
        self.spans = spans

    def block(self, body: Sequence[Stmt], indent: str) -> Iterator[str]:
        for stmt in body:
            head, *rest = self.statement(stmt, indent)
            yield indent + head + (f"  # {stmt.span}" if self.spans else "")
            yield from rest

    def ref(self, ref: TileRef) -> str:
        """A tile as text; a tensor the program does not have prints its whole subscript."""
        whole = self._whole(ref.tensor)
        parts = []
        for mode, (start, extent) in enumerate(zip(ref.starts, ref.extents)):
            full = mode < len(whole) and extent == whole[mode] and start == Const(0, start.dtype)
            if mode not in ref.kept:
                parts.append(show(start))
            else:
                parts.append(":" if full else f"{show(start)}:+{extent}")
        named = "" if all(part == ":" for part in parts) else f"[{', '.join(parts)}]"
        where = "" if ref.rank is None else f" of block {show(ref.rank)}"
        rows = "" if ref.rows is None else f" at {self.ref(ref.rows)}"
        natural = list(ref.kept) == sorted(ref.kept)
        turned = "" if natural else f" modes {', '.join(map(str, ref.kept))}"
        return f"{ref.tensor}{named}{turned}{where}{rows}"

    def _whole(self, name: str) -> tuple[int, ...]:
        tensor = self.tensors.get(name)
        if tensor is None:
            return ()
        if not isinstance(tensor, GlobalView):
            return tensor.shape
        return tuple(_extent(mode) for mode in tensor.modes)

    def update(self, update: Update) -> str:
        """How a copy updates what it would write."""
        text = f" by {update.op}"
        text += "" if update.compare is None else f" where it is {self.ref(update.compare)}"
        text += "" if update.old is None else f" giving {self.ref(update.old)}"
        return text + _order(update.order, update.scope)

    def statement(self, stmt: Stmt, indent: str) -> Iterator[str]:
        """The statement's own line without indentation, then its body's lines."""
        inner = indent + INDENT
        match stmt:
            case Fill():
                yield f"%{stmt.id} fill {self.ref(stmt.dst)} = {show(stmt.value)}"
            case Copy():
                how = "" if stmt.reduce is None else f" by {stmt.reduce}"
                if stmt.completes is not None:
                    how += f" completes {stmt.completes[0]}[{show(stmt.completes[1])}]"
                how += "" if stmt.hint is None else f" {stmt.hint}"
                how += "" if stmt.outside is None else f" outside {show(stmt.outside)}"
                what = "copy"
                if stmt.update is not None:
                    what, how = "update", self.update(stmt.update)
                yield f"%{stmt.id} {what} {self.ref(stmt.src)} -> {self.ref(stmt.dst)}{how}"
            case Prefetch():
                yield f"%{stmt.id} prefetch {self.ref(stmt.src)}"
            case Gemm():
                warps = "" if stmt.warps is None else f" warps {_shape(stmt.warps)}"
                operands = f"{self.ref(stmt.a)} * {self.ref(stmt.b)}^T"
                later = " asynchronous" if stmt.asynchronous else ""
                adds, onto = "=" if is_const(stmt.accumulate, False) else "+=", ""
                if not is_const(stmt.accumulate):
                    onto = f" onto it if {show(stmt.accumulate)}"
                yield f"%{stmt.id} gemm {self.ref(stmt.c)} {adds} {operands}{onto}{warps}{later}"
            case CastTile():
                yield f"%{stmt.id} cast {self.ref(stmt.src)} -> {self.ref(stmt.dst)}"
            case Relabel():
                turned = "" if stmt.order == tuple(range(len(stmt.order))) else f" by {stmt.order}"
                yield f"%{stmt.id} relabel {self.ref(stmt.src)}{turned} -> {self.ref(stmt.dst)}"
            case Elementwise():
                sources = ", ".join(f"${i} = {self.ref(r)}" for i, r in enumerate(stmt.srcs))
                where = f" where {sources}" if sources else ""
                yield f"%{stmt.id} {self.ref(stmt.dst)} = {show(stmt.expr)}{where}"
            case Reduce():
                along = f"along {stmt.axis}" + (f" keep {stmt.keep}" if stmt.keep > 1 else "")
                yield f"%{stmt.id} {stmt.op} {self.ref(stmt.src)} {along} -> {self.ref(stmt.dst)}"
            case Scan():
                sources, results = (", ".join(map(self.ref, r)) for r in (stmt.srcs, stmt.dsts))
                way = f"along {stmt.axis}" + (" from the end" if stmt.reverse else "")
                yield f"%{stmt.id} scan {sources} {way} by {_scalars(stmt.combine)} -> {results}"
            case Rearrange():
                layout = "" if stmt.layout is None else f" as {stmt.layout}"
                yield f"%{stmt.id} rearrange {self.ref(stmt.src)} -> {self.ref(stmt.dst)}{layout}"
            case Sync():
                yield "syncthreads"
            case AsyncCommit():
                yield "cp_async_commit"
            case AsyncWait():
                yield f"cp_async_wait {stmt.pending}"
            case Assign():
                declared = f"var {stmt.var.name}: {stmt.var.dtype}"
                promised = f", a multiple of {stmt.multiple}" if stmt.multiple > 1 else ""
                name = declared if stmt.declares else stmt.var.name
                yield f"{name} = {show(stmt.value)}{promised}"
            case GemmWait():
                yield f"gemm_wait {stmt.pending}"
            case Produce():
                slot = f"{stmt.pipeline}[{show(stmt.stage)}] phase {show(stmt.phase)}"
                yield f"produce {slot}:"
                yield from self.block(stmt.body, inner)
            case PipelineWait():
                slot = f"{stmt.pipeline}[{show(stmt.stage)}] phase {show(stmt.phase)}"
                yield f"wait {slot}"
            case PipelineRelease():
                yield f"release {stmt.pipeline}[{show(stmt.stage)}]"
            case Role():
                registers = "" if stmt.registers is None else f" registers {stmt.registers}"
                threads = f"[{stmt.first}, {stmt.first + stmt.threads})"
                yield f"{stmt.kind} threads {threads}{registers}:"
                yield from self.block(stmt.body, inner)
            case MbarrierOp() | NamedBarrierOp() | ClusterOp():
                yield _barrier(stmt)
            case Say():
                if stmt.holds is None:
                    shown = ", ".join([repr(stmt.text), *map(show, stmt.args)])
                    yield f"printf{' once' if stmt.once else ''} {shown}"
                else:
                    yield f"assert {show(stmt.holds)}, {stmt.text!r}"
            case UpdateElement():
                gives = "" if stmt.old is None else f"var {stmt.old.name}: {stmt.old.dtype} = "
                where = "" if stmt.compare is None else f" where it is {show(stmt.compare)}"
                given = f"{self.ref(stmt.dst)} by {stmt.op} {show(stmt.value)}{where}"
                yield f"{gives}update {given}{_order(stmt.order, stmt.scope)}"
            case CallStmt():
                yield f"{stmt.name}({_scalars(stmt.args)})"
            case SetElement():
                yield f"{stmt.tensor}[{_scalars(stmt.coords)}] = {show(stmt.value)}"
            case ForElements():
                coords = ", ".join(var.name for var in stmt.coords)
                yield f"%{stmt.id} for {coords} in elements({self.ref(stmt.ref)}):"
                yield from self.block(stmt.body, inner)
            case For():
                bounds = _scalars((stmt.start, stmt.stop, stmt.step))
                name = "unroll" if stmt.unroll else "range"
                yield f"for {stmt.var.name} in {name}({bounds}):"
                yield from self.block(stmt.body, inner)
            case While():
                yield f"while {show(stmt.cond)}:"
                yield from self.block(stmt.body, inner)
            case If():
                yield f"if {show(stmt.cond)}:"
                yield from self.block(stmt.then, inner)
                if stmt.otherwise:
                    yield indent + "else:"
                    yield from self.block(stmt.otherwise, inner)
            case _:
                assert_never(stmt)


def _extent(mode: Sequence[SubMode]) -> int:
    """The extent of a mode, 0 where it is known only at run time."""
    total = 1
    for sub in mode:
        total *= int(sub.extent.value) if isinstance(sub.extent, Const) else 0
    return total


def _order(order: MemoryOrder, scope: UpdateScope) -> str:
    """What an update's memory order and scope are, where they are not relaxed and the GPU."""
    near = "" if scope == "gpu" else f" in the {scope}"
    return ("" if order == "relaxed" else f" {order}") + near


def _scalars(scalars: Sequence[Scalar]) -> str:
    return ", ".join(show(e) for e in scalars)
