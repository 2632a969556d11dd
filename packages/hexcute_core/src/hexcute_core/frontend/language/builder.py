"""The tile program under construction: nested blocks of statements, tensors, unique names and ids.

One builder is current in a thread while a kernel is traced; the language's functions write to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Literal

from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.scalar import Binary, Call, Const, Element, Scalar, Var, binary
from hexcute_core.scalar.launch import BUILT_INS
from hexcute_core.scalar.poly import common_factor
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    ClusterOp,
    For,
    ForElements,
    GemmWait,
    If,
    Mbarrier,
    MbarrierOp,
    NamedBarrier,
    NamedBarrierOp,
    Pipeline,
    PipelineRelease,
    PipelineWait,
    Produce,
    RegisterTensor,
    Role,
    Say,
    SetElement,
    Stmt,
    Sync,
    Tensor,
    UpdateElement,
    While,
)
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.visit import operands, results, scalars
from hexcute_core.unions import assert_never

if TYPE_CHECKING:
    from hexcute_core.frontend.language.pipelines import Ring
    from hexcute_core.frontend.language.turns import Turns

Inline = Callable[[FunctionType, tuple[object, ...], dict[str, object]], object]
RegionKind = Literal["kernel", "loop", "branch", "elements", "role", "produce", "combine"]


@dataclass(eq=False)
class Region:
    """A block of statements that run together: the kernel, a run-time loop's body, a branch."""

    kind: RegionKind
    parent: Region | None
    span: SourceSpan
    block: list[Stmt] = field(default_factory=list)
    # Of a loop over elements: the coordinates, and the shape of the tile they run over.
    coords: tuple[Var, ...] = ()
    shape: tuple[int, ...] = ()
    # Whether threads of a block may differ in running it.
    varies: bool = False
    # Of a role: how many threads run it.
    threads: int = 0

    def inside(self, kind: RegionKind) -> Region | None:
        """The innermost region of `kind` around this one, itself included."""
        region: Region | None = self
        while region is not None and region.kind != kind:
            region = region.parent
        return region

    @property
    def at_run_time(self) -> bool:
        """Whether statements of this region may run never or many times."""
        return self.parent is not None

    def describe(self) -> str:
        what = {
            "kernel": "the kernel",
            "loop": "the run-time loop",
            "branch": "the run-time `if`",
            "elements": "the loop over elements",
            "role": "the role",
            "produce": "the slot being filled",
            "combine": "the combination of the scan",
        }[self.kind]
        return f"{what} at line {self.span.line}"


@dataclass
class Launch:
    """What `hx.attrs.cuda` has been given so far, and where that was first read, by name."""

    grid_dim: tuple[Scalar, Scalar, Scalar] | None = None
    block_dim: int | None = None
    min_blocks: int | None = None
    cluster_dim: tuple[int, int, int] = (1, 1, 1)
    merge_roles: bool = False
    read: dict[str, SourceSpan] = field(default_factory=dict)


class Builder:
    """Collects one program. `span` is the place being traced, `hint` the name wanted next."""

    def __init__(
        self,
        span: SourceSpan,
        reserved: Iterable[str],
        uniform: Iterable[str],
    ) -> None:
        self.span = span
        self.top = self.region = Region("kernel", None, span)
        self.tensors: dict[str, Tensor] = {}
        self.launch = Launch()
        # Symbols and scalar parameters: what a grid dimension may depend on.
        self.uniform = frozenset(uniform)
        # Variables that hold a long expression of those alone, and the expression.
        self.of_symbols: dict[str, Scalar] = {}
        self.mutable: set[str] = set()
        # Variables, and register tiles of one element, that may differ between the threads of a
        # block.
        self._varying = {name for name in BUILT_INS if name.startswith("threadIdx")}
        # Depth of user functions that Python itself runs: their locals are not ours to watch.
        self.native = 0
        self.hint: str | None = None
        self.inline: Inline | None = None
        # Called with the tensor of every write, and whether the write makes a new value for a name
        # (`name = value`) instead of changing what every name of the tensor sees.
        self.watch: Callable[[str, bool], None] | None = None
        self._defining = False
        self.written: list[str] = []
        self.pipelines: list[Pipeline] = []
        self.rings: list[Ring] = []
        self.roles: list[Role] = []
        self.mbarriers: list[Mbarrier] = []
        self.named_barriers: list[NamedBarrier] = []
        self.turns: list[Turns] = []
        # The order in one of whose turns the trace stands.
        self.order: Turns | None = None
        self._names = set(reserved) | set(BUILT_INS)
        # The number that a base was last given, below which none is free.
        self._numbers: dict[str, int] = {}
        self._ids = 0

    def error(self, message: str, fix: str | None = None) -> FrontendError:
        """An error placed where the trace stands."""
        return FrontendError(message, span=self.span, fix=fix)

    def unique(self, base: str) -> str:
        """`base`, or `base_1`, `base_2`, ...: a name no tensor or variable has yet."""
        name, number = base, self._numbers.get(base, 0)
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        self._numbers[base] = number
        return name

    def take_hint(self, default: str) -> str:
        """The unique name for a tensor being made: the assigned name where there is one."""
        hint, self.hint = self.hint, None
        return self.unique(hint or default)

    def next_id(self) -> int:
        self._ids += 1
        return self._ids - 1

    def add_tensor(self, tensor: Tensor) -> None:
        self.tensors[tensor.name] = tensor
        if self.watch is not None:
            self.watch(tensor.name, True)

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the current block, noting what it writes."""
        match stmt:
            case SetElement():
                self._write(stmt.tensor)
                self._note(stmt.tensor, self.varies(stmt.value))
            case Assign():
                self.written.append(stmt.var.name)
                if self.varies(stmt.value) or self._varying_region() is not None:
                    self._varying.add(stmt.var.name)
            case UpdateElement():
                if stmt.old is not None:
                    # Each thread that updates finds what the ones before it left.
                    self._varying.add(stmt.old.name)
            case _ if isinstance(stmt, TileOp):
                self.tile_operation(stmt.span)
                if not isinstance(stmt, ForElements):
                    # What a loop over elements writes was noted at the statements in it.
                    differs = any(ref.tensor in self._varying for ref in operands(stmt))
                    differs = differs or any(self.varies(e) for e in scalars(stmt))
                    for ref in results(stmt):
                        self._write(ref.tensor)
                        self._note(ref.tensor, differs)
            case (
                Sync() | AsyncCommit() | AsyncWait() | GemmWait() | Produce() | PipelineWait()
                | PipelineRelease()
            ):  # fmt: skip
                self.tile_operation(stmt.span)
            case (
                CallStmt() | For() | While() | If() | Role() | MbarrierOp() | NamedBarrierOp()
                | ClusterOp() | Say()
            ):  # fmt: skip
                # Threads may differ in running these.
                pass
            case _:
                assert_never(stmt)
        self.region.block.append(stmt)

    def _write(self, tensor: str) -> None:
        self.written.append(tensor)
        if self.watch is not None:
            self.watch(tensor, self._defining)

    def single(self, tensor: str) -> bool:
        """Whether it is a register tile of one element, which all threads hold alike."""
        found = self.tensors.get(tensor)
        return isinstance(found, RegisterTensor) and prod(found.shape) == 1

    def _note(self, tensor: str, differs: bool) -> None:
        """Notes whether threads may put different numbers into `tensor`, if that is one number."""
        if self.single(tensor) and (differs or self._varying_region() is not None):
            self._varying.add(tensor)

    def tile_operation(self, span: SourceSpan) -> None:
        """Refuses what all threads do together inside a loop over one thread's elements."""
        around = self.region.inside("elements")
        if around is not None:
            raise FrontendError(
                f"a tile operation or barrier inside {around.describe()}, where each thread visits "
                "its own elements",
                span=span,
                fix="move it out of the loop; inside it read and write t[i, j]",
            )
        around = self._varying_region()
        if around is not None:
            who = "block" if self.region.inside("role") is None else "role"
            raise FrontendError(
                f"a tile operation or barrier inside {around.describe()}, whose condition depends "
                f"on the thread: all threads of the {who} must reach it",
                span=span,
                fix=f"move it out, or make the condition depend on the {who} alone",
            )

    def varies(self, e: Scalar) -> bool:
        """Whether threads of a block are known to differ in `e`."""
        return any(
            (isinstance(node, Element) and not self.single(node.array))
            or (isinstance(node, Element) and node.array in self._varying)
            or (isinstance(node, Call) and node.name == "elect")
            or (isinstance(node, Var) and node.name in self._varying)
            for node in walk(e)
        )

    @property
    def apart(self) -> bool:
        """Whether single threads run what is traced now, each for itself."""
        return self.region.inside("elements") is not None or self._varying_region() is not None

    def _varying_region(self) -> Region | None:
        region: Region | None = self.region
        while region is not None and not region.varies:
            region = region.parent
        return region

    @contextmanager
    def defining(self) -> Iterator[None]:
        """What is written inside makes new values."""
        outer, self._defining = self._defining, True
        try:
            yield
        finally:
            self._defining = outer

    @contextmanager
    def nested(self, kind: RegionKind) -> Iterator[Region]:
        """Opens a block; statements go there until it is left."""
        outer = self.region
        self.region = Region(kind, outer, self.span)
        try:
            yield self.region
        finally:
            self.region = outer

    def variable(self, base: str, dtype: DType) -> Var:
        return Var(self.unique(base), dtype)

    def volatile(self, e: Scalar) -> bool:
        """Whether evaluating `e` later may give another value than now."""
        return any(
            isinstance(node, (Element, Call))
            or (isinstance(node, Var) and node.name in self.mutable)
            for node in walk(e)
        )

    def stable(self, e: Scalar, base: str = "t") -> Scalar:
        """`e`, held in variables of its own where evaluating it later could differ."""
        return self.keep(e, base) if self.volatile(e) else e

    def keep(self, e: Scalar, base: str) -> Scalar:
        """`e` in a new variable; its constant factor or term stays outside, as a known divisor."""
        if isinstance(e, Binary) and e.op == "add" and isinstance(e.b, Const):
            return binary("add", self.keep(e.a, base), e.b)
        factor, rest = common_factor(e) if e.dtype.is_integer else (1, e)
        return self.hold(e, base) if factor == 1 else binary("mul", self.hold(rest, base), factor)

    def hold(self, e: Scalar, base: str) -> Var:
        """A new variable that holds the value `e` has now."""
        var = self.variable(base, e.dtype)
        self.emit(Assign(var, e, True, self.span))
        return var


_CURRENT: ContextVar[Builder | None] = ContextVar("hexcute_builder", default=None)


def current(what: str) -> Builder:
    """The builder of the kernel being traced; `what` names the caller in the error."""
    builder = _CURRENT.get()
    if builder is None:
        raise FrontendError(
            f"{what} is only meaningful while a kernel is compiled",
            fix="call it in a function decorated with @hx.kernel or @hx.device",
        )
    return builder


def tracing() -> Builder | None:
    """The builder of the kernel being traced, or None."""
    return _CURRENT.get()


@contextmanager
def use(builder: Builder) -> Iterator[Builder]:
    """Makes `builder` current."""
    token = _CURRENT.set(builder)
    try:
        yield builder
    finally:
        _CURRENT.reset(token)
