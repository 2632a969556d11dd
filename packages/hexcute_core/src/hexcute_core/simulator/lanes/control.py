"""if, for and while over lanes: what differs between executing lanes narrows the mask.

Each construct is an iterator that sets the mask (and loop variable) and stops once for every pass
over a body, so that bodies may be plain functions or routines that wait. A condition that differs
gives both sides, each under its mask; a loop whose bounds differ goes on until its last lane is
done. What all executing lanes agree on is plain Python control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from hexcute_core.scalar import Var
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import Array, Value, storage, wrap_int

State = TypeVar("State", bound=LaneState)
MAX_ITERATIONS = 10_000_000


def sides(m: LaneState, picked: Value) -> Iterator[bool]:
    """True where `picked` holds, False elsewhere: the sides that some lane takes."""
    if not isinstance(picked, np.ndarray):
        yield bool(picked)
        return
    outer = m.mask
    yes = picked if outer is None else picked & outer
    no = ~picked if outer is None else ~picked & outer
    if not no.any():
        yield True
    elif not yes.any():
        yield False
    else:
        m.mask = yes
        yield True
        m.mask = no
        yield False
        m.mask = outer


def passes(m: LaneState, var: Var, bounds: tuple[Value, Value, Value]) -> Iterator[None]:
    """One pass for each value of `var` in range(start, stop, step) of each lane."""
    first, last, pace = uniform(m, bounds[0]), uniform(m, bounds[1]), uniform(m, bounds[2])
    if pace <= 0 if isinstance(pace, int) else (pace[... if m.mask is None else m.mask] <= 0).any():
        m.fail("a loop's step must be positive")
    if isinstance(first, int) and isinstance(last, int) and isinstance(pace, int):
        for i in range(first, last, pace):
            m.vars[var.name] = wrap_int(i, var.dtype)
            yield
        return
    outer = m.mask
    cell = storage(var.dtype)
    at = np.broadcast_to(np.asarray(first, dtype=cell), m.lanes)
    for _ in range(MAX_ITERATIONS):
        going = at < last if outer is None else (at < last) & outer
        if not going.any():
            break
        m.mask = None if going.all() else going
        m.vars[var.name] = at
        yield
        at = (at + pace).astype(cell)
    m.mask = outer


def rounds(m: State, condition: Callable[[State], Value]) -> Iterator[None]:
    """One pass as long as `condition` holds on some lane, under the mask of those lanes."""
    outer = m.mask
    for _ in range(MAX_ITERATIONS):
        going = condition(m)
        if isinstance(going, np.ndarray):
            going = going if m.mask is None else going & m.mask
            if not going.any():
                break
            m.mask = None if going.all() else going
        elif not going:
            break
        yield
    else:
        m.fail(f"the loop did not end after {MAX_ITERATIONS} iterations")
    m.mask = outer


def assign(m: LaneState, var: Var, new: Value, declares: bool) -> None:
    """var = new on the executing lanes."""
    if m.mask is not None and not declares:
        if var.name not in m.vars:
            m.fail(f"variable {var.name} is assigned before it is declared")
        new = np.where(m.mask, new, m.vars[var.name]).astype(storage(var.dtype), copy=False)
    m.vars[var.name] = new


def keeps_promise(m: LaneState, value: Value, multiple: int) -> None:
    """Ends the run where an executing lane has a `value` that is no multiple of what its author
    promised."""
    if multiple == 1:
        return
    found = np.broadcast_to(value, (m.lanes,))
    broken = (found % multiple != 0) & (True if m.mask is None else m.mask)
    if broken.any():
        lane = int(np.flatnonzero(broken)[0])
        m.fail(
            f"{int(found[lane])} is no multiple of {multiple}, as hx.multiple_of promises",
            lane,
            fix="promise a number that divides it, or none",
        )


def uniform(m: LaneState, value: Value) -> int | Array:
    """An integer value as a Python int where all executing lanes agree."""
    if not isinstance(value, np.ndarray):
        return int(value)
    lanes = value if m.mask is None else value[m.mask]
    first = lanes[0]
    return int(first) if (lanes == first).all() else value
