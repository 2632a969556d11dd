"""Little thread programs, written out by hand, and what the simulator finds in them."""

from __future__ import annotations

import numpy as np

from hexcute_core import dtypes as dt
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Var, compare
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
    verify,
)

TX, BX = Var("threadIdx.x"), Var("blockIdx.x")
BAR = 65536
"""Where a program's first barrier lies: behind its data."""


def number(value):
    return Const(value, dt.i32)


ZEROS = {"y": np.zeros(64, np.float32)}
ZERO, TRUE = number(0), Const(True, dt.boolean)


def prim(name, *operands, line=0):
    return Prim(name, operands, SourceSpan("p.py", line))


def regs(array="r", dtype=dt.f32, width=1):
    return Regs(array, ZERO, (0,), width, dtype)


ONE = [DeclareArray("r", dt.f32, 1), SetElement("r", ZERO, TX * 1.0)]
"""A register that holds the thread's number."""


def shared(byte):
    return SharedPtr(number(byte) if isinstance(byte, int) else byte)


def at(param, element, dtype=dt.f32):
    return GlobalPtr(param, number(element) if isinstance(element, int) else element, dtype)


def first(*body):
    """Thread 0 alone."""
    return If(compare("eq", TX, 0), tuple(body))


def program(body, params, threads, grid=1, maps=(), cluster=(1, 1, 1)):
    made = [
        ThreadParam(name, dtype, tuple(map(number, shape)), pointer=True, aligned=True)
        for name, dtype, shape in params
    ]
    extents = (number(grid), number(1), number(1))
    whole = ThreadProgram(
        "p", tuple(made), extents, threads, 66000, tuple(body), 1, tuple(maps), cluster
    )
    verify(whole)
    return whole


def opened(count=1):
    """A barrier of `count` arrivals, which the block knows of."""
    made = prim("mbarrier.init", shared(BAR), number(count)), prim("fence.mbarrier")
    return [first(*made), prim("bar.sync")]


def findings(whole, arrays, seeds=range(6)):
    """The first finding of each schedule, as its kind and text, or None."""
    found = []
    for seed in seeds:
        copies = {name: array.copy() for name, array in arrays.items()}
        report = simulate(whole, copies, {}, check=False, seed=seed)
        found.append(report.findings[0].headline if report.findings else None)
    return found


def all_find(whole, arrays, text):
    """Every schedule finds what has this text."""
    found = findings(whole, arrays)
    assert all(one is not None and text in one for one in found), found


def none_finds(whole, arrays):
    """No schedule finds anything."""
    assert findings(whole, arrays) == [None] * 6
