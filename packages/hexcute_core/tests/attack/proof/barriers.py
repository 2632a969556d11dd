"""Barriers of a replay: whose arrivals make up a phase, and what must hold so that they do so on
every schedule.

A phase k of a barrier is what it is on every schedule if each of its arrivals, and each of its
copies, is after phase k - 1; and a wait for it passes neither early nor never if it is after phase
k - 1 and before phase k + 1. Phases that nobody waits for matter to nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from attack.proof.graph import Graph
from attack.proof.warps import Strand, Unproved, Warp


@dataclass
class Meeting:
    """Phases of a named barrier, of a block's or of a cluster's: each a node, and its arrivals."""

    name: str
    phases: list[int] = field(default_factory=list)
    count: int = 0
    came: list[tuple[Warp, list[int]]] = field(default_factory=list)

    def arrive(self, warp: Warp, count: int) -> int:
        """The warp comes; which phase it is that it comes to."""
        graph = warp.graph
        if self.came and count != self.count:
            raise Unproved(f"{self.name} counts {count} and {self.count}")
        if any(one is warp for one, _ in self.came):
            raise Unproved(f"a warp comes to {self.name} twice in a phase")
        self.count = count
        told = [warp.tell(strand) for strand in warp.strands]
        if self.phases and not all(graph.after(node, self.phases[-1]) for node in told):
            raise Unproved(f"an arrival at {self.name} may come a phase early")
        self.came.append((warp, told))
        phase = len(self.phases)
        if 32 * len(self.came) == count:
            self.phases.append(graph.node([node for _, nodes in self.came for node in nodes]))
            self.came = []
        return phase


@dataclass
class MBarrier:
    """An mbarrier of block `home`: `made` by lanes of `by`, at `at` of their warp's order;
    `shown` is where a fence showed it to engines."""

    name: str
    home: int
    by: Strand
    at: int
    made: int
    count: int
    pending: int
    bytes: int = 0
    shown: tuple[int, int] | None = None
    over: list[int] = field(default_factory=list)
    seen: dict[str, list[int]] = field(default_factory=lambda: {"block": [], "cluster": []})
    waits: list[tuple[int, int]] = field(default_factory=list)
    _came: list[int] = field(default_factory=list)
    _coming: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    _doubt: str | None = None

    @property
    def phase(self) -> int:
        """The phase in progress."""
        return len(self.over)

    def known(self, graph: Graph, strand: Strand, node: int, what: str) -> None:
        """Whoever uses it must know that it was initialised."""
        mine = strand is self.by and len(strand.lanes) == 1
        if not mine and not graph.sees(node, self.made):
            raise Unproved(f"{what} may use {self.name} before it is initialised")

    def shown_to(self, graph: Graph, strand: Strand, node: int, what: str) -> None:
        """An engine must be shown it."""
        if self.shown is None:
            raise Unproved(f"{what} uses {self.name}, which no fence shows it")
        mine = strand is self.by and len(strand.lanes) == 1
        if not mine and not graph.sees(node, self.shown[1]):
            raise Unproved(f"{what} may use {self.name} before a fence shows it")

    def in_phase(self, graph: Graph, node: int, what: str) -> None:
        """`node` must come after the last phase: it is over once all that it waits for has come."""
        if self.over and not all(graph.after(node, came) for came in self._came):
            self._doubt = self._doubt or f"{what} at {self.name} may come in phase {self.phase - 1}"

    def arrive(
        self, graph: Graph, node: int, times: int, size: int, scopes: frozenset[str], what: str
    ) -> None:
        """`times` arrivals, which announce bytes, and are seen by waits of these scopes."""
        self.in_phase(graph, node, what)
        self.pending -= times
        self.bytes += size
        if self.pending < 0:
            raise Unproved(f"more arrivals at {self.name} than it counts")
        self._coming.append((node, scopes))
        self.advance(graph)

    def complete(self, graph: Graph, node: int, size: int) -> None:
        """Bytes have come."""
        self.bytes -= size
        self._coming.append((node, frozenset(("block", "cluster"))))
        self.advance(graph)

    def advance(self, graph: Graph) -> None:
        """The phase ends once all has come."""
        if self.pending or self.bytes:
            return
        self._came = [node for node, _ in self._coming]
        self.over.append(graph.node(after=[*self.over[-1:], *self._came]))
        for scope, phases in self.seen.items():
            sees = [node for node, scopes in self._coming if scope in scopes]
            phases.append(graph.node(sees, [self.over[-1]]))
        self._coming, self.pending = [], self.count

    def test(self, graph: Graph, node: int, phase: int) -> None:
        """A wait for `phase`, at `node`, may not pass when the one before has not ended."""
        if phase > 0 and not graph.after(node, self.over[phase - 1]):
            raise Unproved(f"a wait for phase {phase} of {self.name} may pass early")

    def finish(self, graph: Graph) -> None:
        """No wait may come so late that its phase looks like another; all phases that somebody
        waits for are what they are on every schedule."""
        if self.waits and self._doubt is not None:
            raise Unproved(self._doubt)
        for phase, node in self.waits:
            if len(self.over) > phase + 1 and not graph.after(self.over[phase + 1], node):
                raise Unproved(f"a wait for phase {phase} of {self.name} may come too late")
