"""rearrange(a): the cheapest way from layout f to layout g: `g(t, v) = f(t', v')` digit by digit.

Where every digit of the tile stays with its thread, values change registers and nothing moves;
where it stays within its warp, lanes shuffle; anything else goes through shared memory.
"""

from __future__ import annotations

from hexcute_core.arch import Fragment, Mode
from hexcute_core.arch.groups import WARP
from hexcute_core.synthesis.solution import Exchange, Move, Place

# Clocks of a warp: a shuffle and the select after it; a barrier, from its issue to its release.
SHUFFLE = 2.0
BARRIER = 30.0


def plan_exchange(f: Fragment, g: Fragment, threads: int) -> Exchange | None:
    """How the lanes of the warps of `threads` threads get layout `g` from layout `f` among
    themselves, or None."""
    if f.shape != g.shape or f.threads != g.threads or not (f.exact and g.exact):
        return None
    if threads % f.threads and f.threads % WARP:
        # Threads past the layouts' end repeat others, but not those of their own warp.
        return None
    source, own = _digits(f)
    target, _ = _digits(g)
    moves: list[Move] = []
    for mode, place in target:
        step, size = mode.step, mode.size
        while size > 1:
            found = _cut(source, mode.dim, step)
            if found is None:
                return None
            room, at = found
            take = min(size, room)
            if size % take or room % take:
                return None
            moves.append(Move(take, place, at))
            place = Place(place.lane, place.stride * take)
            size //= take
            step *= take
    plan = Exchange(tuple(moves), tuple(own))
    return plan if _within_warps(plan, threads) else None


def exchange_clocks(plan: Exchange, bits: int, warps: float) -> float:
    """Clocks of one block for elements of `bits` bits; a shuffle moves 32."""
    return warps * plan.shuffles * SHUFFLE * (2 if bits > 32 else 1)


def _digits(f: Fragment) -> tuple[list[tuple[Mode, Place]], list[tuple[int, int]]]:
    """Digits that move, with their places, cut at the warp's end; and (size, place) of those
    digits of the thread that hold copies."""
    moving: list[tuple[Mode, Place]] = []
    copies: list[tuple[int, int]] = []
    for lane, modes in ((True, f.thread), (False, f.value)):
        stride = 1
        for m in modes:
            parts = [m]
            room = WARP // stride if lane and stride < WARP else 0
            if 1 < room < m.size and m.size % room == 0:
                parts = [Mode(room, m.step, m.dim), Mode(m.size // room, m.step * room, m.dim)]
            for part in parts:
                if part.step:
                    moving.append((part, Place(lane, stride)))
                elif lane and part.size > 1:
                    copies.append((part.size, stride))
                stride *= part.size
    return moving, copies


def _cut(source: list[tuple[Mode, Place]], dim: int, step: int) -> tuple[int, Place] | None:
    """The digit of `source` that begins at `step` along `dim`: its size from there and place."""
    for m, place in source:
        if m.dim == dim and step % m.step == 0:
            ratio = step // m.step
            if ratio < m.size and m.size % ratio == 0:
                return m.size // ratio, Place(place.lane, place.stride * ratio)
    return None


def _within_warps(plan: Exchange, threads: int) -> bool:
    """Whether every lane that a thread asks is one of its own warp."""
    moving = sum((m.size - 1) * m.src.stride for m in plan.moves if m.src.lane and not m.dst.lane)
    fixed = [(n, place, place) for n, place in plan.own]
    fixed += [(m.size, m.dst.stride, m.src.stride) for m in plan.moves if m.src.lane and m.dst.lane]
    for t in range(threads):
        lane = sum(t // place % n * stride for n, place, stride in fixed)
        if lane // WARP != t // WARP or (lane + moving) // WARP != t // WARP:
            # Where nothing moves, the number of the lane asked does not matter.
            return plan.shuffles == 0
    return True
