"""What runs beside the threads of a replay: copies and products, each from where it is issued to
where somebody has waited for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from attack.proof.barriers import MBarrier
from attack.proof.graph import Graph
from attack.proof.trace import Boxes, Event
from attack.proof.warps import Access, Strand, Unproved, Warp
from hexcute_core.simulator.instructions.boxes import CHUNK, shared_chunks
from hexcute_core.simulator.instructions.matrices import MatrixShape
from hexcute_core.simulator.instructions.wgmma import ROWS, WARPS, M, parse
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.thread import MatrixDesc

Groups = dict[tuple[int, int, int], list[list[Access]]]
"""By strand, the accesses of each group; the last is the open one."""


@dataclass
class Product:
    """A product of a warp group: how many warps have issued it, and what it reads."""

    warps: int = 0
    starts: list[int] = field(default_factory=list)
    reads: list[Access] = field(default_factory=list)
    end: int | None = None


class Engines(ABC):
    """The copies and products under way."""

    graph: Graph
    accesses: list[Access]
    granule: int
    visits: list[tuple[int, int, str]]
    cluster: int

    def __init__(self) -> None:
        self._copies: Groups = {}
        self._stores: Groups = {}
        self._loads: list[tuple[MBarrier, int]] = []
        self._issued: dict[tuple[int, int], list[list[int]]] = {}
        self._products: dict[tuple[int, int, int], Product] = {}

    @abstractmethod
    def barrier(
        self, warp: Warp, strand: Strand, home: int, place: int, event: Event
    ) -> tuple[MBarrier, int]:
        """The barrier that a strand uses, and where it does."""

    def finish_engines(self) -> None:
        """Everything must have been waited for."""
        for groups in self._stores.values():
            if any(a.end is None and not a.writes for group in groups for a in group):
                raise Unproved("nobody waits for a store")
        for barrier, phase in self._loads:
            if not any(waited == phase for waited, _ in barrier.waits):
                raise Unproved(f"nobody waits for phase {phase} of {barrier.name}")

    def _engine(
        self, warp: Warp, event: Event, strand: Strand, where: Array, size: int, writes: bool,
        space: tuple[str, object], lane: int, starts: list[int],
    ) -> Access:  # fmt: skip
        granule = self.granule if space[0] == "shared" else 1
        cells = where.reshape(-1, 1) // granule + np.arange(max(1, size // granule))
        access = Access(
            event.place, space, strand, writes, "async", cells, np.full(cells.shape, lane),
            starts, warp.at, atomic="reduce" in event.name,
        )  # fmt: skip
        self.accesses.append(access)
        return access

    def _end(self, warp: Warp, strand: Strand, access: Access) -> None:
        """A thread has waited for what it started."""
        if access.end is None:
            access.end, access.last = self.graph.node(access.starts), warp.at
            strand.did.append(access.end)

    # cp.async.
    def copy_async(self, warp: Warp, event: Event) -> bool:
        """`cp.async.B dst, src, pred`."""
        size = int(event.name.rpartition(".")[2])
        target, (param, source), reads = event.values
        for strand in warp.of(event.lanes):
            groups = self._copies.setdefault(strand.name, [[]])
            starts = [self.graph.node([strand.heard])]
            rows = warp.index(event, strand.lanes)
            for where, space, writes in (
                (target[rows], ("shared", warp.block), True),
                (source[rows[reads[rows] != 0]], ("global", param), False),
            ):
                access = self._engine(
                    warp, event, strand, where, size, writes, space, -1, starts
                )
                access.proxy = "generic"
                lanes = np.array(strand.lanes) if writes else np.array(strand.lanes)[
                    reads[rows] != 0
                ]  # fmt: skip
                access.lanes = np.broadcast_to(lanes[:, None], access.cells.shape)
                groups[-1].append(access)
        return True

    def commit_async(self, warp: Warp, event: Event) -> bool:
        """`cp.async.commit`."""
        for strand in warp.of(event.lanes):
            self._copies.setdefault(strand.name, [[]]).append([])
        return True

    def wait_async(self, warp: Warp, event: Event) -> bool:
        """`cp.async.wait n`."""
        keep = int(event.values[0][0])
        for strand in warp.of(event.lanes):
            groups = self._copies.get(strand.name, [[]])
            for group in groups[: max(0, len(groups) - 1 - keep)]:
                for access in group:
                    self._end(warp, strand, access)
        return True

    def arrive_after_async(self, warp: Warp, event: Event) -> bool:
        """`cp.async.mbarrier place`: nothing but the copies is told."""
        place = int(event.values[0][0])
        if (event.values[0] != place).any():
            raise Unproved("lanes arrive at several barriers")
        for strand in warp.of(event.lanes):
            barrier, node = self.barrier(warp, strand, warp.block, place, event)
            barrier.in_phase(self.graph, node, event.name)
            copies = [a for g in self._copies.get(strand.name, []) for a in g if a.end is None]
            # A thread asks for the arrival behind the waits that it has passed.
            end = self.graph.node([a.starts[0] for a in copies], [node, *strand.tested])
            for access in copies:
                # Its own thread, too, has to wait at the barrier.
                access.end, access.last = end, len(warp.events)
            both = frozenset(("block", "cluster"))
            barrier.arrive(self.graph, end, len(strand.lanes), 0, both, event.name)
        return True

    # Bulk copies.
    def load_bulk(self, warp: Warp, event: Event) -> bool:
        """`tma.load dst, box, mbarrier[, mask]`, `bulk.load dst, src, bytes, mbarrier`."""
        bulk = event.name.startswith("bulk")
        place = event.values[3 if bulk else 2]
        for row, lane in enumerate(event.lanes):
            (strand,) = (s for s in warp.strands if lane in s.lanes)
            homes = [warp.block]
            if ".multicast" in event.name:
                mask = int(event.values[3][row])
                first = warp.block // self.cluster * self.cluster
                homes = [first + rank for rank in range(self.cluster) if mask >> rank & 1]
            source, chunks, size = _moved(event, row, bulk)
            for home in homes:
                barrier, node = self.barrier(warp, strand, home, int(place[row]), event)
                barrier.shown_to(self.graph, strand, node, event.name)
                start = self.graph.node([strand.heard])
                barrier.in_phase(self.graph, start, event.name)
                access = self._engine(
                    warp, event, strand, chunks, CHUNK, True,
                    ("shared", home), lane, [start],
                )  # fmt: skip
                read = self._engine(
                    warp, event, strand, source[1], source[2], False, ("global", source[0]),
                    lane, [start],
                )  # fmt: skip
                access.end = read.end = self.graph.node([start])
                access.last = read.last = len(warp.events)
                self._loads.append((barrier, barrier.phase))
                barrier.complete(self.graph, access.end, size)
                if home != warp.block:
                    self.visits.append((start, home, event.name))
        return True

    def store_bulk(self, warp: Warp, event: Event) -> bool:
        """`tma.store box, src`, `tma.reduce`, `bulk.store dst, src, bytes`."""
        bulk = event.name.startswith("bulk")
        for row, lane in enumerate(event.lanes):
            (strand,) = (s for s in warp.strands if lane in s.lanes)
            if len(strand.lanes) != 1:
                raise Unproved("lanes that are not told apart store by TMA")
            target, chunks, _ = _moved(event, row, bulk, store=True)
            starts = [self.graph.node([strand.heard])]
            groups = self._stores.setdefault(strand.name, [[]])
            groups[-1].append(
                self._engine(
                    warp, event, strand, chunks, CHUNK, False, ("shared", warp.block), lane, starts
                )
            )
            groups[-1].append(
                self._engine(
                    warp, event, strand, target[1], target[2], True, ("global", target[0]), lane,
                    starts,
                )
            )  # fmt: skip
        return True

    def commit_bulk(self, warp: Warp, event: Event) -> bool:
        """`tma.commit`."""
        for strand in warp.of(event.lanes):
            self._stores.setdefault(strand.name, [[]]).append([])
        return True

    def wait_bulk(self, warp: Warp, event: Event) -> bool:
        """`tma.wait n`, `tma.wait.read n`."""
        keep, reads = int(event.values[0][0]), event.name.endswith(".read")
        for strand in warp.of(event.lanes):
            groups = self._stores.get(strand.name, [[]])
            for group in groups[: max(0, len(groups) - 1 - keep)]:
                for access in group:
                    if not (reads and access.writes):
                        self._end(warp, strand, access)
        return True

    # Products.
    def multiply(self, warp: Warp, event: Event) -> bool:
        """`wgmma c, a, b, accumulate`: of four warps, none of which reads before all have come."""
        shape, stmt = parse(event.name, None), event.stmt
        group, row = divmod(warp.number, WARPS)
        issued = self._issued.setdefault((warp.block, warp.number), [[0]])
        issued[-1][0] += 1
        number = issued[-1][0]
        product = self._products.setdefault((warp.block, group, number), Product())
        product.warps += 1
        starts = product.starts
        starts += [self.graph.node([s.heard], s.tested) for s in warp.strands]
        for index, matrix in (
            (1, MatrixShape(M, shape.k, shape.a, shape.a_k_major)),
            (2, MatrixShape(shape.n, shape.k, shape.b, shape.b_k_major)),
        ):
            desc = stmt.operands[index]
            if not isinstance(desc, MatrixDesc):
                continue
            rows = range(row * ROWS, row * ROWS + ROWS) if index == 1 else range(shape.n)
            where = matrix.chunks(
                int(event.values[index][0]), rows, desc.leading, desc.stride, desc.swizzle
            )
            access = self._engine(
                warp, event, warp.strands[0], where, CHUNK, False, ("shared", warp.block), -1,
                starts,
            )  # fmt: skip
            product.reads.append(access)
        return True

    def commit_products(self, warp: Warp, event: Event) -> bool:
        """`wgmma.commit`."""
        issued = self._issued.setdefault((warp.block, warp.number), [[0]])
        issued.append([issued[-1][0]])
        return True

    def wait_products(self, warp: Warp, event: Event) -> bool:
        """`wgmma.wait n`: for the products of all four warps."""
        issued = self._issued.get((warp.block, warp.number), [[0]])
        keep, group = int(event.values[0][0]), warp.number // WARPS
        closed = issued[:-1]
        if len(closed) <= keep:
            return True
        number = closed[len(closed) - keep - 1][0]
        products = [self._products[warp.block, group, n] for n in range(1, number + 1)]
        if any(product.warps < WARPS for product in products):
            return False
        for product in products:
            if product.end is None:
                product.end = self.graph.node(after=product.starts)
                for access in product.reads:
                    access.end, access.last = product.end, len(warp.events)
        ends = [product.end for product in products if product.end is not None]
        for strand in warp.strands:
            warp.hear(strand, (), ends)
        return True


def _moved(
    event: Event, row: int, bulk: bool, store: bool = False
) -> tuple[tuple[str, Array, int], Array, int]:
    """Of a bulk copy: parameter, byte addresses and the bytes of each in global memory, the pieces
    in shared memory, and how many bytes they are."""
    shared, far = event.values[1 if store else 0], event.values[0 if store else 1]
    start = int(shared[row])
    if bulk:
        param, where = far
        size = int(event.values[2][row])
        steps = np.arange(0, size, CHUNK)
        return (param, where[row] + steps, CHUNK), start + steps, size
    assert isinstance(far, Boxes)
    box = far.boxes[row]
    chunks = shared_chunks(start, box, far.swizzle)
    return (far.param, box.address[box.inside], box.size), chunks, box.bytes
