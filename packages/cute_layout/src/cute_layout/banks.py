"""Shared-memory bank conflicts: wavefronts = sum over phases of the most words any bank must give.

32 banks of 4 bytes answer one row of 128 bytes a wavefront. A warp's instruction is served in
phases of 128 bytes: 32 lanes for accesses of up to 4 bytes, 16 for 8 bytes, 8 for 16 bytes;
`ldmatrix` and `stmatrix` are 16-byte rows, 8 to a phase. Lanes of one phase that want the same word
share it.
Source: CUDA C++ programming guide, "Shared Memory" (compute capability 5.x and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cute_layout.answers import ANY, answers
from cute_layout.composed import ComposedLayout
from cute_layout.composition import composition
from cute_layout.errors import DomainError, LayoutError
from cute_layout.layout import Layout, make
from cute_layout.limits import need_offsets, need_plain
from cute_layout.swizzle import Swizzle
from cute_layout.table import offsets
from cute_layout.thread_value import TVLayout

__all__ = ["BankConflicts", "bank_conflicts", "choose_swizzle"]

_WARP = 32
_BANKS = 32
_WORD_BITS = 32
_WIDEST_BITS = 128


class BankConflicts(NamedTuple):
    """What an access costs in shared memory, summed over all its warps and instructions."""

    wavefronts: int
    """Wavefronts, as the profiler counts them."""
    ideal: int
    """Wavefronts of the same instructions without conflicts: one per phase."""
    instructions: int
    """Warp instructions of the vector width found."""
    vector_bits: int
    """The width of one thread's access."""

    @property
    def extra(self) -> int:
        """Wavefronts lost to conflicts."""
        return self.wavefronts - self.ideal

    @property
    def is_free(self) -> bool:
        """Whether there is no conflict."""
        return self.wavefronts == self.ideal

    @property
    def ways(self) -> float:
        """The mean number of wavefronts a phase takes; 1.0 without conflicts."""
        return self.wavefronts / self.ideal


@answers((Layout, ComposedLayout), ANY, (int,), (int, type(None)))
def bank_conflicts(
    layout: Layout | ComposedLayout, access: Any, element_bits: int, vector_bits: int | None = None
) -> BankConflicts:
    """Count the wavefronts of `access` to a buffer that lies in shared memory as `layout`.

    Args:
        layout: from buffer coordinates to element offsets.
        access: (thread, value) to the buffer's index or coordinate, a `Layout` or `TVLayout`; a
            layout of rank 1, or a list of indices or coordinates, is one value per thread. Threads
            are taken 32 to a warp.
        element_bits: bits of an element.
        vector_bits: the width of one access (8 to 128). With one value per thread, that value is
            where the vector starts (an `ldmatrix` row: 128). By default the widest for which every
            thread's values are contiguous and aligned.

    Returns:
        `BankConflicts`, with ``wavefronts`` and ``ideal``.

    >>> rows = Layout((32, 8), (64, 1))  # a thread reads 8 halves of its own row of 64
    >>> bank_conflicts(Layout((2048)), rows, 16).wavefronts
    32

    Raises:
        DomainError: values that are not contiguous and aligned for `vector_bits`.
    """
    starts, count, width = _vectors(layout, access, element_bits, vector_bits)
    phases = _phases(starts, count, width)
    swizzle = layout.swizzle if isinstance(layout, ComposedLayout) else None
    moved = [[swizzle(x) for x in p] for p in phases] if isinstance(swizzle, Swizzle) else phases
    return BankConflicts(
        sum(_wavefronts(p, element_bits, width) for p in moved),
        len(phases),
        -(-count // _WARP) * (len(starts) // count if count else 0),
        width,
    )


def _table(layout: Layout | ComposedLayout, access: Any) -> tuple[list[int], int]:
    """Unswizzled element offsets of (thread, value), threads fastest, and the number of threads."""
    plain: Any = layout
    move = 0
    if isinstance(layout, ComposedLayout) and isinstance(layout.swizzle, Swizzle):
        plain, move = layout.layout, layout.offset
    if isinstance(access, (list, range)):
        return [plain(c) + move for c in access], len(access)
    lanes = access.index if isinstance(access, TVLayout) else access
    need_plain(lanes, "the threads")
    if type(lanes.shape) is not tuple:
        lanes = make((lanes.shape, 1), (lanes.stride, 0))
    if len(lanes) != 2:
        raise DomainError(
            f"an access has a thread mode and a value mode; {access} has {len(lanes)} modes"
        )
    try:
        table = offsets(composition(plain, lanes))
    except LayoutError:
        table = [plain(c) for c in offsets(lanes)]
    return [v + move for v in table] if move else table, lanes[0].size


def _vectors(
    layout: Layout | ComposedLayout, access: Any, element_bits: int, vector_bits: int | None
) -> tuple[list[int], int, int]:
    """The element offset at which each (thread, instruction) starts, the threads, the width in
    bits."""
    for bits in (element_bits, *(() if vector_bits is None else (vector_bits,))):
        if not 0 < bits <= _WIDEST_BITS:
            raise DomainError(f"an access of {bits} bits: a thread moves 1 to {_WIDEST_BITS}")
    need_offsets(layout.layout if isinstance(layout, ComposedLayout) else layout, "the banks")
    table, count = _table(layout, access)
    held = len(table) // count if count else 0
    keep = _kept_together(layout)
    if vector_bits is not None and held == 1 and vector_bits > element_bits:
        n = vector_bits // element_bits
        if any(x % n for x in table) or (keep and n > keep):
            raise DomainError(
                f"{access} starts {vector_bits}-bit accesses of {layout} off alignment"
            )
        return table, count, vector_bits
    if vector_bits is not None:
        options: Iterable[int] = (vector_bits,)
    else:
        options = (128, 64, 32, 16, 8, 4, 2, 1)
    for width in options:
        n, rest = divmod(width, element_bits)
        if rest or n == 0 or held % n or (keep and n > keep):
            continue
        starts = [table[v * count + t] for v in range(0, held, n) for t in range(count)]
        if n == 1 or _contiguous(table, starts, count, n):
            return starts, count, width
    if vector_bits is None:
        return table, count, element_bits
    raise DomainError(
        f"{access} does not read {vector_bits} contiguous, aligned bits a thread of {layout} "
        f"({element_bits} bits an element)"
    )


def _kept_together(layout: Layout | ComposedLayout) -> int:
    """How many consecutive elements the swizzle keeps in place; 0 for any number."""
    if (
        isinstance(layout, ComposedLayout)
        and isinstance(layout.swizzle, Swizzle)
        and layout.swizzle.bits
    ):
        return 1 << layout.swizzle.base
    return 0


def _contiguous(table: list[int], starts: list[int], count: int, n: int) -> bool:
    at = 0
    for k in range(len(starts) // count):
        for t in range(count):
            start = starts[at]
            at += 1
            if start % n:
                return False
            for j in range(1, n):
                if table[(k * n + j) * count + t] != start + j:
                    return False
    return True


def _phases(starts: list[int], count: int, width: int) -> list[list[int]]:
    """The element offsets served together."""
    lanes = min(_WARP, 1024 // max(width, _WORD_BITS))
    phases: list[list[int]] = []
    for first in range(0, len(starts), count or 1):
        row = starts[first : first + count]
        phases.extend(row[k : k + lanes] for k in range(0, count, lanes))
    return phases


def _wavefronts(phase: Sequence[int], element_bits: int, width: int) -> int:
    words: set[int] = set()
    if width <= _WORD_BITS:
        words.update([x * element_bits // _WORD_BITS for x in phase])
    else:
        for start in {x * element_bits // _WORD_BITS for x in phase}:
            words.update(range(start, start + width // _WORD_BITS))
    load = [0] * _BANKS
    for w in words:
        load[w % _BANKS] += 1
    return max(load)


@answers((Layout,), ANY, (int,), ANY, (int,))
def choose_swizzle(
    layout: Layout,
    accesses: Any,
    element_bits: int,
    candidates: Iterable[Swizzle] | None = None,
    keep_bits: int = 0,
) -> Swizzle:
    """The swizzle with the fewest wavefronts over all accesses together.

    Args:
        layout: the buffer's layout before swizzling.
        accesses: one access (see `bank_conflicts`) or a sequence of them; ``(access, weight)``
            counts an access `weight` times.
        element_bits: bits of an element.
        candidates: the swizzles allowed, e.g. those a TMA or wgmma descriptor knows; by default
            every one that permutes the buffer onto itself and keeps each access contiguous.
        keep_bits: the width that must stay contiguous, if more than the widest access.

    Returns:
        The best; of equals the one with the fewest bits, then the largest base, then the least
        shift: ``Swizzle(0, base, 0)``, the identity, unless another is strictly better.

    Raises:
        DomainError: every candidate would tear an access apart.

    >>> tile = Layout((64, 64), (64, 1))
    >>> ldmatrix = Layout((8, 8), (1, 64))  # 8 rows of 8 halves, one row a thread
    >>> choose_swizzle(tile, ldmatrix, 16)
    Swizzle(3, 3, 3)
    """
    phases: dict[tuple[int, tuple[int, ...]], int] = {}
    widest = max(keep_bits, element_bits)
    for access, weight in _weighted(accesses):
        starts, count, width = _vectors(layout, access, element_bits, None)
        widest = max(widest, width)
        for phase in _phases(starts, count, width):
            key = (width, tuple(phase))
            phases[key] = phases.get(key, 0) + weight
    base = max((widest // element_bits).bit_length() - 1, 0)
    if candidates is None:
        options = [Swizzle(0, base, 0), *_candidates(base, layout.cosize, element_bits)]
    else:
        options = [s for s in candidates if s.bits == 0 or s.base >= base]
    if not options:
        raise DomainError(f"no candidate swizzle keeps the {widest} bits of one access together")
    options.sort(key=_plainness)
    chosen = options[0]
    least: int | None = None
    for swizzle in options:
        cost = 0
        for (width, served), n in phases.items():
            cost += n * _wavefronts([swizzle(x) for x in served], element_bits, width)
            if least is not None and cost >= least:
                break
        else:
            chosen, least = swizzle, cost
    return chosen


def _plainness(swizzle: Swizzle) -> tuple[int, int, int]:
    return swizzle.bits, -swizzle.base, abs(swizzle.shift)


def _candidates(base: int, extent: int, element_bits: int) -> list[Swizzle]:
    """Swizzles whose target bits choose a bank and whose period divides the buffer."""
    top = (_BANKS * _WORD_BITS // element_bits).bit_length() - 1
    out: list[Swizzle] = []
    for low in range(base, top):
        for bits in range(1, top - low + 1):
            shift = bits
            while extent % (1 << (low + bits + shift)) == 0 and shift < 64:
                out.append(Swizzle(bits, low, shift))
                shift += 1
    return out


def _weighted(accesses: Any) -> list[tuple[Any, int]]:
    if isinstance(accesses, (Layout, TVLayout)):
        return [(accesses, 1)]
    out: list[tuple[Any, int]] = []
    for item in accesses:
        out.append((item[0], item[1]) if type(item) is tuple else (item, 1))
    return out
