"""One function being interpreted: its source, the names it can see, what each stands for now.

A name is bound in a region. `Mutable` values live in a variable of the program; `Pending` ones get
their variable at the first assignment; `Lost` ones may not be read.
"""

from __future__ import annotations

import ast
import builtins
import difflib
from dataclasses import dataclass, field

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.functions.flow import Flow, flow_of, reads
from hexcute_core.frontend.functions.source import FunctionSource, captured
from hexcute_core.frontend.functions.symbols import Symbol
from hexcute_core.frontend.language.builder import Region, RegionKind
from hexcute_core.scalar import Var


@dataclass(frozen=True)
class Mutable:
    """The name's value is what `var` holds when the program runs."""

    var: Var


@dataclass(frozen=True)
class Pending:
    """Assigned in a region that is being traced and needed after it; `region` will declare it."""

    region: Region


@dataclass(frozen=True)
class Lost:
    """The trace no longer knows one value for the name; `reason` says why, `fix` what to do."""

    reason: str
    fix: str


@dataclass(frozen=True)
class Binding:
    """`unsure`, where there is one, is a region that alone assigns the name and may not run."""

    value: object
    region: Region
    span: SourceSpan
    unsure: Region | None = None


_WHEN: dict[RegionKind, str] = {
    "branch": "but not on every path",
    "loop": "and may run no time at all",
    "elements": "and a thread may own no element",
}


@dataclass(frozen=True)
class LoopMark:
    """The innermost Python-level loop: whether it is expanded now, and where its body stands."""

    expanded: bool
    region: Region


@dataclass(eq=False)
class Frame:
    """The state of one call; `caller` is the frame that inlined it."""

    source: FunctionSource
    region: Region
    caller: Frame | None = None
    bindings: dict[str, Binding] = field(default_factory=dict)
    loops: list[LoopMark] = field(default_factory=list)
    # Tests inside regions by identity: what their names were bound to, and whether they hold.
    decided: dict[int, tuple[tuple[Binding | None, ...], bool | None]] = field(
        default_factory=dict
    )
    # The statement being traced, innermost, and the call in it that is being inlined.
    current: ast.stmt | None = None
    call: ast.Call | None = None

    @property
    def flow(self) -> Flow:
        return flow_of(self.source.node)

    def span(self, node: ast.AST) -> SourceSpan:
        return self.source.span(node)

    def error(self, node: ast.AST, message: str, fix: str | None = None) -> FrontendError:
        """An error placed at `node`."""
        return FrontendError(message, span=self.span(node), fix=fix)

    def used(self) -> frozenset[str] | None:
        """Names that may still be read after what is being traced; None: any of them.

        The arguments of a call that is being inlined have been read already.
        """
        if self.current is None:
            return None
        return self.flow.live_out[id(self.current)] | frozenset(reads(self.current, self.call))

    def depth(self) -> int:
        """How many calls are being inlined."""
        return 0 if self.caller is None else 1 + self.caller.depth()

    def lookup(self, node: ast.Name) -> object:
        """What a name stands for: local, captured, global or built-in."""
        binding = self.bindings.get(node.id)
        if binding is not None:
            return self._value(node, binding)
        if node.id in self.flow.locals:
            raise self.error(
                node,
                f"`{node.id}` is read before it is assigned",
                fix=f"give `{node.id}` a value first",
            )
        fn = self.source.fn
        for names in (captured(fn), fn.__globals__, vars(builtins)):
            if node.id in names:
                value = names[node.id]
                return Var(value.name, value.dtype) if isinstance(value, Symbol) else value
        known = [*self.flow.locals, *captured(fn), *fn.__globals__]
        near = difflib.get_close_matches(node.id, known, n=1)
        raise self.error(
            node,
            f"the name `{node.id}` is not defined",
            fix=f"did you mean `{near[0]}`?" if near else "define or import it",
        )

    def _value(self, node: ast.Name, binding: Binding) -> object:
        if binding.unsure is not None:
            where = binding.unsure
            other = ", or in every branch of it" if where.kind == "branch" else ""
            raise self.error(
                node,
                f"`{node.id}` may not have a value here: {where.describe()} assigns it, "
                + _WHEN.get(where.kind, "and may not run"),
                fix=f"assign `{node.id}` before {where.describe()}{other}",
            )
        match binding.value:
            case Mutable(var=var):
                return var
            case Pending():
                raise self.error(
                    node,
                    f"`{node.id}` is read before its first assignment, in a region that runs at "
                    "run time",
                    fix=f"initialise `{node.id}` before {binding.region.describe()}"
                    if binding.region.at_run_time
                    else f"initialise `{node.id}` before the loop or `if`",
                )
            case Lost(reason=reason, fix=fix):
                raise self.error(node, f"`{node.id}` {reason}", fix=fix)
            case value:
                return value
