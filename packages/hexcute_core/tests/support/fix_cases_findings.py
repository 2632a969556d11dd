"""Runs that the simulator finds a fault in, each with the words of its fix and with the run that
does what it says: `(fix, refused, taken)`, as in `fix_cases_stages`."""

from __future__ import annotations

import dataclasses

import hopper_programs as hopper
import numpy as np
import test_proxies as proxies
import test_remote_findings as remote
from hopper_programs import BARRIER, WAIT, T, at, first, i32, opened
from test_simulator_agents import arrive, program, sync
from test_simulator_hopper import box_program, octets, run, tensor

import hexcute_core as hx
from hexcute_core import dtypes as dt
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import compare
from hexcute_core.simulator import simulate
from hexcute_core.thread import If, Prim

LINE = SourceSpan("kernel.py", 9)


def without(case, *names):
    """A program and its signature, without the primitives of these names."""
    made, signature = case

    def kept(stmts):
        for stmt in stmts:
            if isinstance(stmt, Prim) and stmt.name in names:
                continue
            parts = {p: tuple(kept(getattr(stmt, p))) for p in ("body", "then", "otherwise")
                     if hasattr(stmt, p)}  # fmt: skip
            yield dataclasses.replace(stmt, **parts)

    return dataclasses.replace(made, body=tuple(kept(made.body))), signature


def ran(case, *arrays, grid=(1, 1, 1)):
    return lambda: run(case, grid, *(make() for make in arrays))


def boxed(case):
    return ran(case, lambda: tensor(dt.f16, 16, 64))


def alone(*body, threads=64, **options):
    """A run of these statements, which need no arguments."""
    made = dataclasses.replace(program(body, [], threads), **options)
    return lambda: simulate(made, {}, {})


def stored(*gone):
    return ran(without(hopper.generic_to_async(), *gone), *[lambda: octets(16, 128)] * 2)


def multiplied(*gone, change=lambda case: case):
    case = change(without(hopper.product("wgmma.64x64x16.f32.f16.f16.rk", 128), *gone))
    return ran(case, *[lambda: tensor(dt.f16, 64, 64)] * 2, lambda: np.zeros((64, 64), np.float32))


def torn(case):
    """The second pair of warps issues the products of a line of its own."""
    made, signature = case

    def split(stmt):
        if not isinstance(stmt, Prim) or not stmt.name.startswith("wgmma.64x"):
            return stmt
        return If(compare("lt", T, 64), (stmt,), (dataclasses.replace(stmt, span=LINE),))

    return dataclasses.replace(made, body=tuple(split(s) for s in made.body)), signature


def read_back(*gone):
    kernel = proxies.KERNELS["read_back"]

    def call():
        made, _ = without((kernel.compile("sm_90").thread, None), *gone)
        arrays = proxies.arguments(kernel)[1]
        return simulate(made, {p.name: a for p, a in zip(made.params, arrays)}, {})

    return call


def between(body):
    kernel = hx.kernel(body, cache=False)
    return lambda: kernel.compile("sm_90").simulate(*remote.arguments(body), schedules=4)


def met(x: hx.f32[2, 64], y: hx.f32[2, 64]):
    s, r, rank = remote.opened(x)
    hx.copy(r, s)
    hx.cluster_sync()
    hx.copy(hx.remote(s, 1 - rank), r)
    hx.cluster_sync()
    remote.closed(y, r, rank)


def loaded(*body, arrivals=1):
    """A run that opens a barrier for so many arrivals, and brings a box as these statements say."""
    case, signature = box_program(2048)
    return boxed((dataclasses.replace(case, body=(*opened(arrivals), *body)), signature))


EXPECT, ARRIVE = (Prim("mbarrier.expect", (at(BARRIER), i32(2048))),
                  Prim("mbarrier.arrive", (at(BARRIER),)))  # fmt: skip
CLUSTER = {"cluster_dim": (2, 1, 1), "grid_dim": (i32(2), i32(1), i32(1))}
BOX = box_program(2048)[0].body[2].then[1]
AGAIN = Prim("mbarrier.wait", (at(BARRIER), i32(1)))
COME, GONE = Prim("cluster.arrive", ()), Prim("cluster.wait", ())
HALF = compare("lt", T, 32)


def claimed(count):
    return alone(Prim("setmaxnreg.dec", (i32(count),)), threads=128, min_blocks=1)


CALLS = [
    ("give all threads that meet at a barrier one count",
     alone(If(HALF, (sync(5, 1),), (sync(6, 1, 96),))),
     alone(If(HALF, (sync(5, 1),), (sync(6, 1),)))),
    ("let the warp wait for the phase before it comes again",
     alone(arrive(5, 1, 96), arrive(6, 1, 96)), alone(sync(5, 1), sync(6, 1))),
    ("or take another barrier", alone(arrive(5, 1, 96), arrive(6, 1, 96)),
     alone(sync(5, 1), sync(6, 2))),
    ("let every writing thread execute fence.proxy before the barrier", stored("fence.proxy"),
     stored()),
    ("let every writing thread execute fence.proxy.global before the barrier",
     read_back("fence.proxy.global"), read_back()),
    ("expect the bytes of all copies of a phase",
     loaded(first(BOX, ARRIVE), WAIT, first(EXPECT), AGAIN), loaded(first(BOX, EXPECT), WAIT)),
    ("let the blocks of a cluster meet before they reach into one another: hx.cluster_sync()",
     between(remote.not_started), between(met)),
    ("let the blocks of a cluster meet before they end: hx.cluster_sync()",
     between(remote.ended), between(met)),
    ("let it wait between its arrivals", alone(COME, COME, GONE, GONE, **CLUSTER),
     alone(COME, GONE, COME, GONE, **CLUSTER)),
    ("move it out of the `if` or loop whose condition differs within a warp",
     alone(If(compare("lt", T, 3), (Prim("wgmma.fence", ()),)), threads=128),
     alone(Prim("wgmma.fence", ()), threads=128)),
    ("let one thread execute mbarrier.init, then fence.mbarrier, then synchronise the block",
     alone(first(ARRIVE), WAIT, shared_bytes=hopper.SHARED),
     alone(*opened(), first(ARRIVE), WAIT, shared_bytes=hopper.SHARED)),
    ("let the initialising thread execute fence.mbarrier before the block synchronises",
     boxed(without(box_program(2048), "fence.mbarrier")), boxed(box_program(2048))),
    ("initialise it for as many arrivals as come in one phase",
     loaded(first(EXPECT, BOX, ARRIVE), WAIT),
     loaded(first(EXPECT, BOX, ARRIVE), WAIT, arrivals=2)),
    ("name a multiple of 8 from 24 to 256, for inc no less than now", claimed(20), claimed(24)),
    ("wait for the instruction's group before this use", multiplied("wgmma.wait"), multiplied()),
    ("let the four warps of a group issue the same products", multiplied(change=torn),
     multiplied()),
    ("execute wgmma.fence between that access and the product", multiplied("wgmma.fence"),
     multiplied()),
]  # fmt: skip
