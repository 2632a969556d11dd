"""What the simulator says to kernels that reach into other blocks wrongly, and where."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Const, add
from hexcute_core.simulator import interpret, simulate
from hexcute_core.thread import Prim, RemotePtr

m = hx.dim("m")


@hx.device
def opened(x):
    """Two blocks of two warps: a row of 64 in registers and shared memory of its own, the rank."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = 2
    hx.attrs.cuda.block_dim = 64
    s, r = hx.shared_tensor(f32, (1, 64)), hx.register_tensor(f32, (1, 64))
    hx.copy(hx.global_view(x[hx.cluster_rank() :, :], ((1, 64), (64, 1))), r)
    return s, r, hx.cluster_rank()


@hx.device
def closed(y, r, rank):
    """What is left in registers goes out."""
    hx.copy(r, hx.global_view(y[rank:, :], ((1, 64), (64, 1))))


def not_started(x: f32[2, 64], y: f32[2, 64]):
    s, r, rank = opened(x)
    hx.copy(r, hx.remote(s, 1 - rank))  # here
    hx.cluster_sync()
    hx.copy(s, r)
    closed(y, r, rank)


def not_told(x: f32[2, 64], y: f32[2, 64]):
    s, r, rank = opened(x)
    hx.cluster_sync()
    hx.copy(r, s)  # other
    hx.syncthreads()
    hx.copy(hx.remote(s, 1 - rank), r)  # here
    hx.cluster_sync()
    closed(y, r, rank)


def overwritten(x: f32[2, 64], y: f32[2, 64]):
    s, r, rank = opened(x)
    hx.copy(r, s)
    hx.cluster_sync()
    hx.copy(hx.remote(s, 1 - rank), r)  # other
    hx.copy(r, s)  # here
    hx.cluster_sync()
    closed(y, r, rank)


def read_here_as_well(x: f32[2, 64], y: f32[2, 64]):
    """The block's own warps read after the other block's, and meet; only those may overwrite."""
    s, r, rank = opened(x)
    hx.copy(r, s)
    hx.cluster_sync()
    if rank == 1:
        hx.copy(hx.remote(s, 0), r)  # other
    if rank == 0:
        hx.copy(s, r)
        hx.syncthreads()
        hx.copy(r * 2.0, s)  # here
    hx.cluster_sync()
    closed(y, r, rank)


def pushed_onto(x: f32[2, 64], y: f32[2, 64]):
    """Both blocks write one block's memory."""
    s, r, rank = opened(x)
    hx.cluster_sync()
    hx.copy(r, hx.remote(s, 0))  # here and other
    hx.cluster_sync()
    hx.copy(hx.remote(s, 0), r)
    hx.cluster_sync()
    closed(y, r, rank)


def never_written(x: f32[2, 64], y: f32[2, 64]):
    s, r, rank = opened(x)
    hx.cluster_sync()
    if rank == 0:
        hx.copy(r, s)
    hx.cluster_sync()
    hx.copy(hx.remote(s, 1 - rank), r)  # here
    hx.cluster_sync()
    closed(y, r, rank)


def ended(x: f32[2, 64], y: f32[2, 64]):
    s, r, rank = opened(x)
    hx.copy(r, s)
    hx.cluster_sync()
    hx.copy(hx.remote(s, 1 - rank), r)  # here
    closed(y, r, rank)


def no_such_block(x: f32[2, 64], y: f32[2, 64], q: i32):
    s, r, rank = opened(x)
    hx.copy(r, s)
    hx.cluster_sync()
    hx.copy(hx.remote(s, q), r)  # here
    hx.cluster_sync()
    closed(y, r, rank)


CASES = {
    not_started: ("use before wait", "of which nothing tells that it has started"),
    not_told: ("race", "with nothing that orders the two blocks"),
    overwritten: ("race", "with nothing that orders the two blocks"),
    read_here_as_well: ("race", "with nothing that orders the two blocks"),
    pushed_onto: ("race", "with nothing that orders the two blocks"),
    never_written: ("uninitialised read", "in block (1, 0, 0) reads shared byte "),
    no_such_block: ("out of bounds", "ld.cluster.4 to block 5 of a cluster of 2"),
}


def marked(body, mark):
    """The line of `body` whose comment ends in `mark`."""
    lines, first = inspect.getsourcelines(body)
    at = [first + i for i, line in enumerate(lines) if "  # " in line and mark in line]
    return at[0]


def arguments(body):
    x = np.arange(128, dtype=np.float32).reshape(2, 64)
    more = (5,) if "q" in inspect.signature(body).parameters else ()
    return x, np.zeros_like(x), *more


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("body", CASES, ids=lambda b: b.__name__)
def test_mistakes_between_blocks(body, seed):
    kind, text = CASES[body]
    compiled = hx.kernel(body, cache=False).compile("sm_90", verify=True)
    report = compiled.simulate(*arguments(body), check=False, seed=seed)
    finding = next(f for f in report.findings if f.kind == kind and text in f.message)
    if kind != "race":
        assert finding.span.line == marked(body, "here")
    else:
        pair = {marked(body, "here"), marked(body, "other")}
        assert {finding.span.line, finding.other.line} == pair
        assert "let the blocks of a cluster meet between the two: hx.cluster_sync()" in finding.fix
        assert "of block (" in finding.message


@pytest.mark.parametrize("seed", range(4))
def test_a_block_that_ends_while_another_reads_it(seed):
    compiled = hx.kernel(ended, cache=False).compile("sm_90", verify=True)
    report = compiled.simulate(*arguments(ended), check=False, seed=seed)
    assert {f.kind for f in report.findings} == {"use before wait"}
    said = [f.message for f in report.findings]
    late = any("which has ended" in text for text in said)
    unaware = any("may still be on its way to it" in text for text in said)
    assert late or unaware
    assert {f.span.line for f in report.findings} == {marked(ended, "here")}
    assert all("hx.cluster_sync()" in f.fix for f in report.findings)


def pushed_and_told(x: f32[2, 64], y: f32[2, 64], *, EACH: int, EARLY: bool, MET: bool):
    """Block 1 pushes two rows, of which block 0 reads the first, and ends when it was told: by a
    thread of EACH, EARLY or last, after they MET or not."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = 2
    hx.attrs.cuda.block_dim = 64
    s, r = hx.shared_tensor(f32, (2, 64)), hx.register_tensor(f32, (1, 64))
    told = hx.mbarrier(64 // EACH)
    if hx.cluster_rank() == 1:
        hx.copy(hx.global_view(x[1:, :], ((1, 64), (64, 1))), r)
        hx.copy(r, hx.remote(s[:1, :], 0))
        hx.syncthreads()
        if EARLY:
            told.arrive(rank=0)
        hx.copy(r, hx.remote(s[1:, :], 0))  # here
        if MET:
            hx.syncthreads()
        if not EARLY and hx.threadIdx.x % EACH == 0:
            told.arrive(rank=0)
    else:
        told.wait(0)
        hx.copy(s[:1, :], r)
        hx.copy(r, hx.global_view(y[0:, :], ((1, 64), (64, 1))))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("each", "early", "met", "right"),
    [(1, False, False, True), (64, False, True, True), (2, False, True, True),
     (1, True, False, False), (64, False, False, False), (32, False, False, False)],
)  # fmt: skip
def test_a_block_that_was_told_may_end_if_all_pushes_are_over(each, early, met, right, seed):
    constants = {"EACH": each, "EARLY": early, "MET": met}
    kernel = hx.kernel(pushed_and_told, cache=False).compile("sm_90", constants=constants)
    report = kernel.simulate(*arguments(ended), check=False, seed=seed)
    assert report.findings == () or not right
    for finding in report.findings:
        assert finding.kind == "use before wait"
        assert "st.cluster.4" in finding.message
        assert finding.span.line == marked(pushed_and_told, "here")
    assert right or report.findings


def test_the_first_finding_is_raised_at_its_line():
    with pytest.raises(SimulationError, match="race on shared byte") as caught:
        hx.kernel(not_told, cache=False).compile("sm_90").simulate(*arguments(not_told))
    assert caught.value.span.line == marked(not_told, "here")


def test_an_address_beyond_the_arena():
    """Addresses of another block are held to the arena's size, which all blocks share."""
    thread = hx.kernel(not_told, cache=False).compile("sm_90").thread
    size = thread.shared_bytes

    def moved(stmts):
        for stmt in stmts:
            if isinstance(stmt, Prim) and stmt.name.startswith("ld.cluster"):
                dst, src = stmt.operands
                far = RemotePtr(add(src.offset, Const(size, i32)), src.rank)
                stmt = Prim(stmt.name, (dst, far), stmt.span)
            yield stmt

    x, y = arguments(not_told)
    broken = replace(thread, body=tuple(moved(thread.body)))
    report = simulate(broken, {"x": x, "y": y}, {}, check=False)
    finding = next(f for f in report.findings if f.kind == "out of bounds")
    assert f"is outside the shared arena of {size} bytes" in finding.message
    assert finding.span.line == marked(not_told, "here")


def test_the_interpreter_knows_the_cluster_s_blocks():
    """A rank that no block has, and memory that nobody wrote, have no meaning there either."""
    for body, text in (
        (no_such_block, "s of block 5 of a cluster of 2"),
        (never_written, "s is read before all of it was written"),
    ):
        tile = hx.kernel(body, cache=False).compile("sm_90").tile
        x, y, *q = arguments(body)
        with pytest.raises(SimulationError, match=text) as caught:
            interpret(tile, {"x": x, "y": y}, dict(zip(["q"], q, strict=False)))
        assert caught.value.span.line == marked(body, "here")
