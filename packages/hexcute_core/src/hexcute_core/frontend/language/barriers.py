"""Barriers under the author's control: mbarriers, named barriers, turns between roles, clusters.

A thread that runs one of their statements takes part: they may stand under conditions that
threads do not share.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core import dtypes
from hexcute_core.arch.groups import WARP
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.launch import told
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import describe
from hexcute_core.scalar import Call, Scalar, ScalarBase, Var, add, as_scalar, mod, mul
from hexcute_core.tile import ClusterOp, Mbarrier, MbarrierOp, NamedBarrier, NamedBarrierOp

MAX_ARRIVALS = 2**20 - 1
MAX_MBARRIERS = 256


def _integer(builder: Builder, value: object, what: str, fix: str) -> Scalar:
    number = isinstance(value, (int, ScalarBase)) and not isinstance(value, bool)
    scalar = as_scalar(value) if number else None
    if scalar is None or not scalar.dtype.is_integer:
        raise builder.error(f"{what} takes an integer, got {describe(value)}", fix=fix)
    return scalar


@dataclass(frozen=True)
class MbarrierAt:
    """One mbarrier."""

    barrier: Mbarrier
    index: Scalar

    def arrive(self, rank: object = None) -> None:
        """One arrival by every thread that runs this; at the same mbarrier of block `rank` of the
        cluster, where given."""
        builder = current("mbarrier.arrive")
        if rank is None:
            self._emit(builder, "arrive", None)
        else:
            block = _integer(builder, rank, "mbarrier.arrive", "write bar.arrive(rank=0)")
            self._emit(builder, "remote", block)

    def expect(self, bytes: object) -> None:
        """One arrival by every thread that runs this, and `bytes` more that TMA has to bring before
        the phase completes."""
        builder = current("mbarrier.expect")
        count = _integer(
            builder, bytes, "mbarrier.expect", "write bar.expect(sa.nbytes), by one thread"
        )
        self._emit(builder, "expect", count)

    def wait(self, parity: object) -> None:
        """Until the phase of `parity` has completed: the first phase has parity 0, a fresh mbarrier
        passes a wait for 1."""
        builder = current("mbarrier.wait")
        wanted = _integer(builder, parity, "mbarrier.wait", "write bar.wait(i // STAGES % 2)")
        self._emit(builder, "wait", wanted)

    def _emit(self, builder: Builder, action: str, value: Scalar | None) -> None:
        name = self.barrier.name
        builder.emit(MbarrierOp(action, name, self.index, value, builder.span))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Mbarriers:
    """What `hx.mbarrier` makes: index it by a number, or use it as one where it has only one."""

    barrier: Mbarrier

    def __getitem__(self, index: object) -> MbarrierAt:
        builder = current("mbarrier[i]")
        number = _integer(builder, index, "an mbarrier's index", "write bars[s]")
        known = static_int(index)
        if known is not None and not 0 <= known < self.barrier.size:
            raise builder.error(
                f"mbarrier {known} of `{self.barrier.name}`, which has {self.barrier.size}",
                fix=f"use an index from 0 to {self.barrier.size - 1}",
            )
        return MbarrierAt(self.barrier, builder.stable(number, "at"))

    def _single(self, what: str) -> MbarrierAt:
        if self.barrier.size != 1:
            raise current(what).error(
                f"{what} on {self.barrier.size} mbarriers at once", fix="index them: bars[s]"
            )
        return MbarrierAt(self.barrier, as_scalar(0))

    def arrive(self, rank: object = None) -> None:
        """As of the only one."""
        self._single("mbarrier.arrive").arrive(rank)

    def expect(self, bytes: object) -> None:
        """As of the only one."""
        self._single("mbarrier.expect").expect(bytes)

    def wait(self, parity: object) -> None:
        """As of the only one."""
        self._single("mbarrier.wait").wait(parity)


def completion(value: object) -> tuple[str, Scalar]:
    """The mbarrier that `hx.copy(..., mbarrier=value)` completes on."""
    builder = current("hx.copy")
    if isinstance(value, Mbarriers):
        value = value._single("hx.copy")
    if not isinstance(value, MbarrierAt):
        raise builder.error(
            f"hx.copy completes on an mbarrier, got {describe(value)}",
            fix="write hx.copy(ga, sa, mbarrier=bars[s]) with bars = hx.mbarrier(...)",
        )
    return value.barrier.name, value.index


def mbarrier(count: int, size: int = 1) -> Mbarriers:
    """`size` mbarriers in shared memory, initialised at the kernel's start: `count` arrivals
    complete a phase of each."""
    builder = current("hx.mbarrier")
    _at_top(builder, "hx.mbarrier")
    arrivals, many = static_int(count), static_int(size)
    if arrivals is None or not 1 <= arrivals <= MAX_ARRIVALS:
        raise builder.error(
            f"an mbarrier takes 1 to {MAX_ARRIVALS} arrivals, known at compile time; got {count}",
            fix="write hx.mbarrier(1) where one thread arrives",
        )
    if many is None or not 1 <= many <= MAX_MBARRIERS:
        raise builder.error(
            f"1 to {MAX_MBARRIERS} mbarriers, known at compile time; got {size}",
            fix="write hx.mbarrier(1, STAGES)",
        )
    made = Mbarrier(builder.take_hint("mbarrier"), arrivals, many, builder.span)
    builder.mbarriers.append(made)
    return Mbarriers(made)


@dataclass(frozen=True)
class Meeting:
    """What `hx.named_barrier` makes."""

    barrier: NamedBarrier

    def sync(self) -> None:
        """The warps that run this arrive, and wait until all threads have."""
        builder = current("barrier.sync")
        builder.emit(NamedBarrierOp("sync", self.barrier.name, builder.span))

    def arrive(self) -> None:
        """The warps that run this arrive and go on."""
        builder = current("barrier.arrive")
        builder.emit(NamedBarrierOp("arrive", self.barrier.name, builder.span))


def named_barrier(threads: int) -> Meeting:
    """A hardware barrier where `threads` threads meet, whole warps, those that only arrive
    included. A block has 15, one of which each role takes."""
    builder = current("hx.named_barrier")
    _at_top(builder, "hx.named_barrier")
    count = static_int(threads)
    if count is None or count < WARP or count % WARP:
        raise builder.error(
            f"a named barrier takes a multiple of {WARP} threads, known at compile time; got "
            f"{threads}",
            fix="write hx.named_barrier(256)",
        )
    made = NamedBarrier(builder.take_hint("barrier"), count, builder.span)
    builder.named_barriers.append(made)
    return Meeting(made)


def _at_top(builder: Builder, what: str) -> None:
    if builder.region.at_run_time:
        raise builder.error(
            f"{what} inside {builder.region.describe()}", fix="make it at the kernel's top"
        )


def elect() -> Scalar:
    """Whether this is the one thread of its warp that the hardware elects; all lanes of the warp
    must ask together."""
    current("hx.elect")
    return Call("elect", (), dtypes.boolean)


def cluster_rank() -> Scalar:
    """This block's number within its cluster, x fastest."""
    rank: Scalar = as_scalar(0)
    below = 1
    for axis, extent in zip("xyz", told(current("hx.cluster_rank"), "cluster_dim")):
        if extent > 1:
            place = mod(Var(f"blockIdx.{axis}", dtypes.i32), extent)
            rank = add(rank, mul(place, below))
        below *= extent
    return rank


def cluster_arrive() -> None:
    """First half of `cluster_sync`: what this thread wrote before becomes visible."""
    builder = current("hx.cluster_arrive")
    builder.emit(ClusterOp("arrive", builder.span))


def cluster_wait() -> None:
    """Second half of `cluster_sync`: until all threads of the cluster have arrived."""
    builder = current("hx.cluster_wait")
    builder.emit(ClusterOp("wait", builder.span))


def cluster_sync() -> None:
    """All threads of all blocks of the cluster meet."""
    cluster_arrive()
    cluster_wait()
