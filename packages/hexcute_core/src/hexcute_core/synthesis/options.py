"""The legal instructions of every copy, each with its clocks where nothing conflicts.

What an instruction costs depends on the layouts alone, so copies that look alike (the stages of a
prologue, the loop's) share one list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd, lcm
from typing import Literal

from hexcute_core.arch import Arch, CopyRow, Fragment, Mode
from hexcute_core.arch.updates import update_rows
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis.copies import Candidate, Rejection, memory_copies, register_copies
from hexcute_core.synthesis.cost import (
    arrival_cost,
    bulk_cost,
    global_cost,
    least_wavefronts,
    packing_cost,
    shared_cost,
    update_cost,
    working_warps,
)
from hexcute_core.synthesis.graph import Graph, WeightedOp
from hexcute_core.synthesis.memory import WIDEST, GlobalTile, describe_global
from hexcute_core.synthesis.operands import SPANS, Plan, bulk_plan
from hexcute_core.synthesis.solution import (
    BulkPlan,
    CopyPlan,
    Operand,
    Rejected,
    WgmmaPlan,
    subject,
)
from hexcute_core.tile import Copy, Gemm, GlobalView, RegisterTensor, SharedTensor, TileRef
from hexcute_core.tile.layouts import layout_of


@dataclass(frozen=True)
class Option:
    """A plan with its clocks in one block, once, if its shared side has no conflicts."""

    plan: Plan
    bound: float


@dataclass(frozen=True, eq=False)
class Options:
    """The choices of one copy, cheapest first, and what cannot carry it.

    Compared by identity: copies with equal choices are given the same object, so that the slices
    of a buffer that a loop reads one after another choose together.
    """

    choices: tuple[Option, ...]
    refused: tuple[Rejection, ...]

    @property
    def least(self) -> float:
        return self.choices[0].bound


@dataclass
class CopyOptions:
    """Makes the options of a program's copies; remembers them by what they depend on. `only` names
    the single instruction of some of them."""

    graph: Graph
    arch: Arch
    only: Mapping[str, str] = field(default_factory=dict)
    _known: dict[object, Options] = field(default_factory=dict)
    _equal: dict[object, Options] = field(default_factory=dict)
    _tiles: dict[TileRef, GlobalTile] = field(default_factory=dict)

    def of(self, item: WeightedOp, fragments: Mapping[str, Fragment]) -> Options:
        """Raises NoLayout, located, where no instruction can carry the copy `item`."""
        op, threads = item.op, item.team.threads
        assert isinstance(op, Copy)
        src, dst = self.graph.tensors[op.src.tensor], self.graph.tensors[op.dst.tensor]
        memory: GlobalTile | None = None
        for ref, tensor in ((op.src, src), (op.dst, dst)):
            if isinstance(tensor, GlobalView):
                memory = self._tile(ref)
        bits = src.dtype.bits
        fragment: Fragment | None = None
        load = isinstance(dst, RegisterTensor) or isinstance(src, GlobalView)
        if isinstance(dst, RegisterTensor) or isinstance(src, RegisterTensor):
            fragment = layout_of(fragments, op.dst if isinstance(dst, RegisterTensor) else op.src)
        elif memory is None or (isinstance(src, GlobalView) and isinstance(dst, GlobalView)):
            raise NoLayout(
                f"copy between two {'shared' if memory is None else 'global'} tensors "
                f"`{src.name}` and `{dst.name}`",
                op.span,
                "copy through a register tensor",
            )
        starts = self._starts(op)
        remote = any(ref.rank is not None for ref in (op.src, op.dst))
        if remote and not any("remote" in (row.src, row.dst) for row in self.arch.copies):
            raise NoLayout(
                f"{self.arch.name} has no clusters, whose blocks could {subject(op)}",
                op.span,
                'compile with target="sm_90"',
            )
        outside = op.src if isinstance(src, GlobalView) else op.dst
        # What completes on an mbarrier of the author's, or combines, goes by TMA or not at all.
        alone = op.completes is not None or op.reduce is not None
        bulk = fragment is None and (item.pipeline is not None or not load or alone)
        name = "tma.load" if load else "tma.store"
        name = name if op.reduce is None else f"tma.reduce.{op.reduce}"
        fills = item.pipeline is not None and fragment is None and load
        wishes = self._wishes(op) if memory is None else ()
        key = (
            memory, fragment, op.dst.shape, bits, name, threads, starts, outside if bulk else None,
            fills, alone, remote, _way(op), wishes, self.only.get(subject(op)),
        )  # fmt: skip
        if key not in self._known:
            if fragment is not None:
                found: Iterable[Candidate | BulkPlan] = register_copies(
                    self.arch, fragment, bits, memory, load, starts, remote, self._updates(op),
                    wishes,
                )
            else:
                assert memory is not None
                found = self._bulk(outside, name, alone) if bulk else ()
                if not alone:
                    plain = memory_copies(
                        self.arch, op.dst.shape, bits, memory, threads, load, starts
                    )
                    found = (*found, *plain)
            updates = op.update is not None
            self._known[key] = self._priced(found, memory, bits, threads, fills, updates, key[-1])
        options = self._known[key]
        if not options.choices:
            listed = "; ".join(f"{r.name}: {r.reason}" for r in options.refused)
            moves = f"copies `{src.name}` to `{dst.name}`"
            if op.update is not None:
                moves = f"updates `{dst.name}` by `{src.name}`"
            raise NoLayout(
                f"no instruction of {self.arch.name} {moves}: {listed}",
                op.span,
                self._remedy(bits, alone),
            )
        return options

    def _updates(self, op: Copy) -> tuple[CopyRow, ...] | None:
        """The instructions that update what `op` would write; None where it copies."""
        if op.update is None:
            return None
        target = self.graph.tensors[op.dst.tensor]
        space: Literal["global", "shared"] = (
            "global" if isinstance(target, GlobalView) else "shared"
        )
        return update_rows(
            self.arch, space, op.update.op, target.dtype, op.update.old is not None,
            op.update.order, op.update.scope == "block",
        )  # fmt: skip

    def _remedy(self, bits: int, alone: bool) -> str | None:
        """What helps a copy that nothing can carry."""
        if alone and self.arch.bulk is None:
            return 'compile with target="sm_90"'
        if alone:
            return (
                "only TMA does this: give it a tensor that starts at a multiple of 16 bytes, with "
                "rows, tiles and their starts of such multiples; hx.dim(name, multiple_of=...) "
                "promises rows"
            )
        if bits < 8:
            return (
                "make the tile's contiguous dimension a whole number of bytes, and let it begin at "
                f"a multiple of {8 // bits} elements"
            )
        return None

    def operand(self, op: Gemm, side: str, plan: WgmmaPlan) -> Options:
        """The ways in which wgmma may find operand `side` of `op` in shared memory, widest rows
        first: a narrower row costs more passes over the banks."""
        ref = op.a if side == "a" else op.b
        bits = self.graph.tensors[ref.tensor].dtype.bits
        rows = 64 if side == "a" else plan.row.tile[1]
        majors = plan.row.a_majors if side == "a" else plan.row.b_majors
        # Warp groups and repetitions start at whole runs where the rows themselves are contiguous.
        starts = gcd(ref.shape[0] // plan.groups[0 if side == "a" else 1], rows)
        key = (side, ref.shape, bits, rows, majors, starts)
        if key not in self._known:
            choices = []
            for major in majors:
                letter = "k" if major == "k" else "m"
                contiguous = ref.shape[1] if letter == "k" else starts
                for passes, span in enumerate(SPANS):
                    if contiguous % (span * 8 // bits) == 0:
                        operand = Operand(letter, span, rows, plan.row.tile[2])
                        choices.append(Option(operand, float(passes)))
            choices.sort(key=lambda o: o.bound)
            self._known[key] = Options(tuple(choices), ())
        return self._known[key]

    def _bulk(self, ref: TileRef, name: str, alone: bool) -> Iterator[BulkPlan | Rejection]:
        """TMA under every swizzle; that there is none is told where nothing else will do."""
        program, facts = self.graph.program, self.graph.facts
        reason = None
        for span in SPANS if self.arch.bulk is not None or alone else ():
            plan = bulk_plan(program, facts, self.arch, ref, span, name)
            if isinstance(plan, BulkPlan):
                yield plan
            elif plan != reason:
                reason = plan
                yield Rejection(name, plan)

    def _tile(self, ref: TileRef) -> GlobalTile:
        if ref not in self._tiles:
            self._tiles[ref] = describe_global(self.graph.program, self.graph.facts, ref)
        return self._tiles[ref]

    def _wishes(self, op: Copy) -> tuple[tuple[Mode, ...], ...]:
        """The digits that copies between the shared side of `op` and global memory would have one
        after another, where those are not of one dimension."""
        shared = next((r for r in (op.src, op.dst) if not self.graph.is_register(r)), op.src)
        found: list[tuple[Mode, ...]] = []
        for item in self.graph.ops:
            sides = (item.op.src, item.op.dst) if isinstance(item.op, Copy) else ()
            if shared.tensor not in (ref.tensor for ref in sides):
                continue
            for ref in sides:
                view = self.graph.tensors[ref.tensor]
                if isinstance(view, GlobalView) and ref.shape == shared.shape:
                    run = self._tile(ref).run
                    found += [run] if run and run not in found else []
        return tuple(found)

    def _starts(self, op: Copy) -> tuple[int, ...]:
        """Divisors of where the shared side of a copy begins, by tile dimension, as far as they
        matter: to whole runs of a tile or of an instruction, which divide its extent or a word."""
        for ref in (op.src, op.dst):
            tensor = self.graph.tensors[ref.tensor]
            if isinstance(tensor, SharedTensor):
                word = max(1, WIDEST * 8 // tensor.dtype.bits)
                return tuple(
                    gcd(self.graph.facts.divisor(ref.starts[m]), lcm(ref.extents[m], word))
                    for m in ref.kept
                )
        return ()

    def _priced(
        self,
        found: Iterable[Candidate | BulkPlan],
        memory: GlobalTile | None,
        bits: int,
        threads: int,
        fills: bool,
        updates: bool,
        only: str | None,
    ) -> Options:
        choices: list[Option] = []
        refused: list[Rejection] = []
        for candidate in found:
            if isinstance(candidate, Rejection):
                refused.append(candidate)
            elif only not in (None, candidate.name):
                refused.append(Rejection(candidate.name, f"only {only} was asked for"))
            else:
                clocks = _bound(candidate, memory, bits, threads, updates)
                if fills and isinstance(candidate, CopyPlan):
                    clocks += arrival_cost(candidate, threads)
                choices.append(Option(candidate, clocks))
        choices.sort(key=lambda o: o.bound)
        options = Options(tuple(choices), tuple(refused))
        return self._equal.setdefault((options.choices, options.refused), options)


def _way(op: Copy) -> object:
    """What kind of update a copy is, as far as its instructions depend on it."""
    update = op.update
    return None if update is None else (
        update.op, update.order, update.scope, update.old is not None
    )  # fmt: skip


def _bound(
    plan: CopyPlan | BulkPlan, memory: GlobalTile | None, bits: int, threads: int, updates: bool
) -> float:
    if isinstance(plan, BulkPlan):
        return bulk_cost(plan)
    total, warps = 0.0, working_warps(plan, threads)
    if updates:
        total += update_cost(plan, warps)
    if memory is not None:
        total += global_cost(plan, memory, bits, warps)
    if {"shared", "remote"} & {plan.row.src, plan.row.dst} or plan.second is not None:
        total += shared_cost(plan, least_wavefronts(plan, bits), warps)
    return total + packing_cost(plan, bits, warps)


def refusals(op: Copy, options: Options) -> Iterable[Rejected]:
    """What cannot carry `op`, for the reader."""
    return (Rejected(subject(op), r.name, r.reason, op.span) for r in options.refused)
