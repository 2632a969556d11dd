"""TMA stores run on while their team goes on, until it must not: which statements wait for them."""

from dataclasses import replace

import numpy as np
import pytest
import role_kernels as rk
from sm90_reading import prims, walk

import hexcute_core as hx
from hexcute_core import f16, i32
from hexcute_core.simulator import simulate
from hexcute_core.thread import For, If, Prim

m, k = hx.dims("m k")


@hx.kernel(cache=False)
def passed_on(a: f16[m, k], c: f16[m, k]):
    """c = a: a role stores each slot by TMA straight from where TMA loaded it."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    bm, tiles = hx.blockIdx.x * 64, hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    gc = hx.global_view(c[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    sa, pipe = hx.shared_tensor(f16, (64, 64, 2)), hx.pipeline(2)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        for i in range(tiles):
            s = pipe.wait()
            hx.copy(sa[:, :, s], gc[:, :, i])
            hx.sync_role()
            pipe.release()


@hx.kernel(cache=False)
def scattered(a: f16[m, k], c: f16[m, k]):
    """c = a with its rows in the other order: threads carry each slot to rows that they name."""
    hx.attrs.cuda.grid_dim = 1
    tiles = hx.cdiv(k, 64)
    rows = hx.shared_tensor(i32, (64,))
    ga = hx.global_view(a, ((64, 64, tiles), (k, 1, 64)))
    gc = hx.global_view(c, ((64, 64, tiles), (rows, 1, 64)))
    sa, pipe = hx.shared_tensor(f16, (64, 64, 1)), hx.pipeline(1)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        hx.copy(m - 1 - hx.iota((64,), 0), rows)
        hx.sync_role()
        for i in range(tiles):
            with pipe.consume() as s:
                hx.copy(sa[:, :, s], gc[:, :, i])


@hx.kernel(cache=False)
def doubled(a: f16[m, k], c: f16[m, k]):
    """c = 2 a by one block of one role, which writes the buffer again and again."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    hx.attrs.cuda.block_dim = 128
    bm, tiles = hx.blockIdx.x * 64, hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    gc = hx.global_view(c[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    sa, ra = hx.shared_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
    for i in range(tiles):
        hx.copy(ga[:, :, i], ra)
        hx.syncthreads()
        hx.copy(ra * 2.0, sa)
        hx.syncthreads()
        hx.copy(sa, gc[:, :, i])


def run(kernel, factor, **constants):
    a = np.arange(72 * 200, dtype=np.float16).reshape(72, 200) % 31
    c = np.full_like(a, np.nan)
    compiled = kernel.compile("sm_90", verify=True, **constants)
    assert not compiled.simulate(a, c, schedules=3).findings
    assert np.array_equal(c, a * np.float16(factor))
    return compiled


def test_a_slot_that_threads_store_is_free_when_all_have_read_it():
    """Not when the first of them has: TMA would load over what the others still carry away."""
    a = np.arange(40 * 320, dtype=np.float16).reshape(40, 320) % 31
    c = np.full_like(a, np.nan)
    compiled = scattered.compile("sm_90", verify=True)
    assert "tma.load" in compiled.explain() and "tma.store" not in compiled.explain(rejected=0)
    assert not compiled.simulate(a, c, schedules=3).findings
    assert np.array_equal(c, a[::-1])


def waits(body):
    """Where waits for stores stand: the primitive before which each comes, "end" for none."""
    found = []
    for i, stmt in enumerate(body):
        is_wait = isinstance(stmt, If) and any(
            isinstance(s, Prim) and s.name == "tma.wait.read" for s in stmt.then
        )
        if is_wait:
            after = body[i + 1] if i + 1 < len(body) else None
            inner = getattr(after, "then", None)
            after = inner[0] if inner else after
            found.append(after.name if isinstance(after, Prim) else "end")
        for name in ("body", "then", "otherwise"):
            found += waits(getattr(stmt, name, ()))
    return found


def test_the_next_barrier_and_the_end_wait():
    assert waits(run(doubled, 2).thread.body) == ["bar.sync", "end"]


@hx.kernel(cache=False)
def doubled_in_two_turns(a: f16[m, k], c: f16[m, k]):
    """c = 2 a; the team meets more often than it writes the buffer."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    hx.attrs.cuda.block_dim = 128
    bm, tiles = hx.blockIdx.x * 64, hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    gc = hx.global_view(c[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    sa, ra = hx.shared_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
    for i in range(tiles):
        for _ in range(3):
            hx.syncthreads()
        hx.copy(ga[:, :, i], ra)
        hx.syncthreads()
        if i >= 0:
            hx.copy(ra * 2.0, sa)
        hx.syncthreads()
        hx.copy(sa, gc[:, :, i])


def test_only_the_last_meeting_before_a_write_waits():
    """The others, in loops perhaps, would wait for what nobody needs yet."""
    thread = run(doubled_in_two_turns, 2).thread
    loops = [s for s in walk(thread.body) if isinstance(s, For)]
    inner = [s for s in loops if not any(isinstance(x, For) for x in walk(s.body))]
    assert waits(thread.body) == ["bar.sync", "end"]
    assert not any(waits(s.body) for s in inner)


def test_a_slot_is_freed_when_it_has_been_stored():
    thread = run(passed_on, 1).thread
    assert waits(thread.body) == ["bar.named.sync"]


def test_main_loops_that_free_slots_do_not_wait():
    """What the team alone writes, it writes after a barrier of its own."""
    thread = rk.taking_turns.compile("sm_90", verify=True).thread
    loops = [s for s in walk(thread.body) if isinstance(s, For) and s.var.name.startswith("i")]
    inner = [s for s in loops if not any(isinstance(x, For) for x in walk(s.body))]
    assert inner and not any(waits(s.body) for s in inner)
    assert len(prims(thread, "tma.store")) == 2


def without_waits(body):
    """`body` without every wait for stores."""
    out = []
    for stmt in body:
        if isinstance(stmt, Prim) and stmt.name == "tma.wait.read":
            continue
        parts = {n: without_waits(getattr(stmt, n)) for n in ("body", "then", "otherwise")
                 if getattr(stmt, n, ())}  # fmt: skip
        out.append(replace(stmt, **parts) if parts else stmt)
    return tuple(out)


@pytest.mark.parametrize("kernel", [doubled, doubled_in_two_turns, passed_on])
def test_the_simulator_reports_a_missing_wait(kernel):
    thread = kernel.compile("sm_90").thread
    a, c = (np.zeros((64, 256), np.float16) for _ in range(2))
    mutant = replace(thread, body=without_waits(thread.body))
    report = simulate(mutant, {"a": a, "c": c}, {"m": 64, "k": 256}, check=False)
    assert {"race", "use before wait"} >= {f.kind for f in report.findings} > set()
