"""replay(trace) = the accesses of a program, in a graph of what comes before what.

Each warp goes on until it waits for others; which of them goes first does not matter, since
whatever could come out otherwise under another order raises `Unproved`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from attack.proof.barriers import MBarrier, Meeting
from attack.proof.engines import Engines
from attack.proof.graph import Graph
from attack.proof.trace import Event, Trace
from attack.proof.warps import Access, Fence, Strand, Unproved, Warp, together
from hexcute_core.simulator.lanes.values import Array

NOTHING: frozenset[str] = frozenset()
NEAR, FAR = frozenset(("block", "cluster")), frozenset(("cluster",))


class Replay(Engines):
    """Blocks of `cluster` blocks of `threads` threads; `granule` divides all shared accesses."""

    def __init__(self, trace: Trace, threads: int, cluster: int, granule: int) -> None:
        self.graph = Graph()
        self.warps = [
            Warp(self.graph, block, number, events)
            for (block, number), events in sorted(trace.items())
        ]
        self.per_block, self.cluster, self.granule = -(-threads // 32), cluster, granule
        self.accesses: list[Access] = []
        self.fences: list[Fence] = []
        self.barriers: dict[tuple[int, int], MBarrier] = {}
        self.meetings: dict[tuple[object, ...], Meeting] = {}
        self.visits: list[tuple[int, int, str]] = []
        self._came: dict[tuple[int, int, int], int] = {}
        self._open: dict[tuple[int, int], int] = {}
        super().__init__()

    def run(self) -> None:
        """All warps, to their ends; Unproved where they get stuck."""
        moved = True
        while moved:
            moved = False
            for warp in self.warps:
                while not warp.ended and self._step(warp):
                    warp.at += 1
                    moved = True
        if not all(warp.ended for warp in self.warps):
            raise Unproved("not all warps come to their ends")
        for barrier in self.barriers.values():
            barrier.finish(self.graph)
        self._leave()

    def _leave(self) -> None:
        """No block ends while another may still reach into it, nor with copies under way."""
        self.finish_engines()
        exits: dict[int, list[int]] = {}
        for warp in self.warps:
            exits.setdefault(warp.block, []).extend(map(warp.tell, warp.strands))
        entries = {block: [w.entry for w in self.warps if w.block == block] for block in exits}
        for node, block, what in self.visits:
            if not any(self.graph.after(last, node) for last in exits[block]):
                raise Unproved(f"{what} may come when block {block} has ended")
            if not any(self.graph.after(node, entry) for entry in entries[block]):
                raise Unproved(f"{what} may come before block {block} has started")

    def _step(self, warp: Warp) -> bool:
        """The warp's next event; False where it has to wait."""
        event = warp.event
        for form, handle in _HANDLERS:
            if re.fullmatch(form, event.name):
                return handle(self, warp, event)
        raise Unproved(f"nothing is known of {event.name}")

    # Memory.
    def access(
        self, warp: Warp, event: Event, lanes: Array, where: Array, size: int, writes: bool,
        space: tuple[str, object], speaks: bool = True,
    ) -> None:  # fmt: skip
        """Threads at `lanes` of the event touch `size` bytes at each of `where`."""
        granule = self.granule if space[0] == "shared" else 1
        for strand in warp.of(event.lanes):
            rows = np.flatnonzero(np.isin(lanes, strand.lanes))
            if not len(rows):
                continue
            cells = where[rows, None] // granule + np.arange(max(1, size // granule))
            who = np.where(speaks, lanes[rows, None], -1)
            node = warp.do(strand)
            self.accesses.append(
                Access(
                    event.place, space, strand, writes, "generic", cells,
                    np.broadcast_to(who, cells.shape), [node], warp.at, node, warp.at,
                )
            )  # fmt: skip
            if space[0] == "shared" and space[1] != warp.block:
                self.visits.append((node, int(space[1]), event.name))  # type: ignore[call-overload]

    def own_shared(self, warp: Warp, event: Event) -> bool:
        """`ld.shared.B`, `st.shared.B`, ldmatrix and stmatrix."""
        size = int(event.name.rpartition(".")[2]) if "matrix" not in event.name else 16
        place = 0 if event.name.startswith("st") else 1
        lanes, where = np.array(event.lanes), event.values[place]
        speaks = "matrix" not in event.name
        if not speaks:
            rows = lanes < 8 * int(re.search(r"x(\d)", event.name)[1])  # type: ignore[index]
            lanes, where = lanes[rows], where[rows]
        writes = event.name.startswith("st")
        self.access(warp, event, lanes, where, size, writes, ("shared", warp.block), speaks)
        return True

    def other_shared(self, warp: Warp, event: Event) -> bool:
        """`ld.cluster.B`, `st.cluster.B`."""
        writes = event.name.startswith("st")
        where, ranks = event.values[0 if writes else 1]
        size = int(event.name.rpartition(".")[2])
        for rank in np.unique(ranks):
            rows = ranks == rank
            space = ("shared", self.block_of_rank(warp, int(rank)))
            lanes = np.array(event.lanes)[rows]
            self.access(warp, event, lanes, where[rows], size, writes, space)
        return True

    def in_global(self, warp: Warp, event: Event) -> bool:
        """`ld.global.B`, `st.global.B`."""
        writes = event.name.startswith("st")
        (param, where), rows = event.values[0 if writes else 1], event.values[2] != 0
        lanes = np.array(event.lanes)[rows]
        size = int(event.name.rpartition(".")[2])
        self.access(warp, event, lanes, where[rows], size, writes, ("global", param))
        return True

    def proxy(self, warp: Warp, event: Event) -> bool:
        """`fence.proxy`, `fence.proxy.global`."""
        kind = "global" if event.name.endswith("global") else "shared"
        for strand in warp.of(event.lanes):
            self.fences.append(Fence(kind, strand, warp.at, warp.do(strand)))
        return True

    # Barriers.
    def warp_meets(self, warp: Warp, event: Event) -> bool:
        """`bar.warp.sync`."""
        met = self.graph.node([warp.tell(strand) for strand in warp.strands])
        for strand in warp.strands:
            warp.hear(strand, [met])
        return True

    def _meet(self, warp: Warp, meeting: Meeting, count: int, waits: bool) -> bool:
        key = (warp.block, warp.number, warp.at)
        if key not in self._came:
            self._came[key] = meeting.arrive(warp, count)
        phase = self._came[key]
        if not waits:
            return True
        if len(meeting.phases) <= phase:
            return False
        for strand in warp.strands:
            warp.hear(strand, [meeting.phases[phase]])
        return True

    def block_meets(self, warp: Warp, event: Event) -> bool:
        """`bar.sync`, `bar.named.sync` and `.arrive`."""
        number, count = 0, 32 * self.per_block
        if event.values:
            number, count = (int(value[0]) for value in event.values)
        meeting = self.meetings.setdefault(
            (warp.block, number), Meeting(f"barrier {number} of block {warp.block}")
        )
        return self._meet(warp, meeting, count, event.name.endswith("sync"))

    def cluster_meets(self, warp: Warp, event: Event) -> bool:
        """`cluster.arrive`, `cluster.wait`."""
        which = warp.block // self.cluster
        meeting = self.meetings.setdefault(("cluster", which), Meeting(f"cluster {which}"))
        count = 32 * self.per_block * self.cluster
        if event.name == "cluster.arrive":
            self._open[warp.block, warp.number] = meeting.arrive(warp, count)
            return True
        phase = self._open.pop((warp.block, warp.number), -1)
        if phase < 0:
            raise Unproved("a warp waits for its cluster and has not arrived")
        if len(meeting.phases) <= phase:
            self._open[warp.block, warp.number] = phase
            return False
        for strand in warp.strands:
            warp.hear(strand, [meeting.phases[phase]])
        return True

    def initialise(self, warp: Warp, event: Event) -> bool:
        """`mbarrier.init`, by one lane."""
        strand = warp.of(event.lanes)[0]
        place, count = (int(value[0]) for value in event.values)
        if len(event.lanes) != 1 or (warp.block, place) in self.barriers:
            raise Unproved("a barrier is initialised twice")
        name = f"the mbarrier at {place} of block {warp.block}"
        self.barriers[warp.block, place] = MBarrier(
            name, warp.block, strand, warp.at, warp.do(strand), count, count
        )
        return True

    def show(self, warp: Warp, event: Event) -> bool:
        """`fence.mbarrier`."""
        for strand in warp.of(event.lanes):
            node = warp.do(strand)
            for barrier in self.barriers.values():
                if barrier.by is strand and barrier.shown is None:
                    barrier.shown = (warp.at, node)
        return True

    def arrive(self, warp: Warp, event: Event) -> bool:
        """`mbarrier.arrive`, `mbarrier.expect` and arrivals at other blocks."""
        far = "cluster" in event.name
        for rows in together(event):
            place, *more = (int(value[rows[0]]) for value in event.values)
            home = self.block_of_rank(warp, more[0]) if far else warp.block
            size = more[0] if event.name == "mbarrier.expect" else 0
            scopes = NEAR if home == warp.block else FAR if "release" in event.name else NOTHING
            for strand in warp.of(event.lanes[row] for row in rows):
                barrier, node = self.barrier(warp, strand, home, place, event)
                told, times = warp.tell(strand), len(strand.lanes)
                barrier.arrive(
                    self.graph, told, times, size * times, scopes, event.name
                )
                if home != warp.block:
                    self.visits.append((node, home, event.name))
        return True

    def barrier(
        self, warp: Warp, strand: Strand, home: int, place: int, event: Event
    ) -> tuple[MBarrier, int]:
        """The barrier that a strand uses, and where it does."""
        found = self.barriers.get((home, place))
        if found is None:
            raise Unproved(f"{event.name} at byte {place}, where no barrier is")
        node = warp.do(strand)
        found.known(self.graph, strand, node, event.name)
        return found, node

    def wait(self, warp: Warp, event: Event) -> bool:
        """`mbarrier.wait` and `.cluster`: of all strands together, which none can pass before."""
        parts = []
        for rows in together(event):
            place, parity = (int(value[rows[0]]) for value in event.values)
            found = self.barriers.get((warp.block, place))
            if found is None:
                raise Unproved(f"{event.name} at byte {place}, where no barrier is")
            if found.phase & 1 == parity & 1:
                return False
            parts.append((found, warp.of(event.lanes[row] for row in rows)))
        scope = "cluster" if event.name.endswith(".cluster") else "block"
        for found, strands in parts:
            for strand in strands:
                phase = found.phase - 1
                node = self.graph.node([strand.heard])
                found.known(self.graph, strand, node, event.name)
                found.test(self.graph, node, phase)
                passed = self.graph.node(after=strand.tested)
                strand.tested[:] = [passed]
                strand.did.append(passed)
                found.waits.append((phase, passed))
                if phase >= 0:
                    warp.hear(strand, [found.seen[scope][phase]], [found.over[phase]])
        return True

    def block_of_rank(self, warp: Warp, rank: int) -> int:
        """The block of this rank in the warp's cluster."""
        return warp.block // self.cluster * self.cluster + rank


Handler = Callable[[Replay, Warp, Event], bool]
_SIZES = r"(1|2|4|8|16)"
_HANDLERS: tuple[tuple[str, Handler], ...] = (
    (rf"(ld|st)\.shared\.{_SIZES}", Replay.own_shared),
    (r"(ld|st)matrix\..*", Replay.own_shared),
    (rf"(ld|st)\.cluster\.{_SIZES}", Replay.other_shared),
    (rf"(ld|st)\.global\.{_SIZES}", Replay.in_global),
    (r"fence\.proxy(\.global)?", Replay.proxy),
    (r"bar\.warp\.sync", Replay.warp_meets),
    (r"bar\.sync|bar\.named\.(sync|arrive)", Replay.block_meets),
    (r"cluster\.(arrive|wait)", Replay.cluster_meets),
    (r"mbarrier\.init", Replay.initialise),
    (r"fence\.mbarrier", Replay.show),
    (r"mbarrier\.(expect|arrive.*)", Replay.arrive),
    (r"mbarrier\.wait(\.cluster)?", Replay.wait),
    (r"cp\.async\.(4|8|16)", Replay.copy_async),
    (r"cp\.async\.commit", Replay.commit_async),
    (r"cp\.async\.wait", Replay.wait_async),
    (r"cp\.async\.mbarrier", Replay.arrive_after_async),
    (r"(tma|bulk)\.load.*", Replay.load_bulk),
    (r"(tma|bulk)\.(store|reduce).*", Replay.store_bulk),
    (r"tma\.commit", Replay.commit_bulk),
    (r"tma\.wait(\.read)?", Replay.wait_bulk),
    (r"wgmma\.64x.*", Replay.multiply),
    (r"wgmma\.commit", Replay.commit_products),
    (r"wgmma\.wait", Replay.wait_products),
)
