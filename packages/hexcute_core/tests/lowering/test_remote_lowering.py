"""Other blocks' shared memory in thread programs: addresses, bytes of its own, waits and fences
around the author's barriers, the laws of the primitives, and the machine code."""

import re

import pytest
import remote_kernels as rk
from hopper_probe import i32, program, shared, words
from sm90_reading import locals_of, prims, value, walk

import hexcute_core as hx
from hexcute_core import dtypes as dt
from hexcute_core import f16, f32
from hexcute_core.arch import arch
from hexcute_core.errors import MissingDependency, VerifyError
from hexcute_core.lowering.arena import build_arena
from hexcute_core.scalar import Const, Var
from hexcute_core.thread import DeclareArray, Prim, RemotePtr, show_program, verify

m, k = hx.dims("m k")


def names(compiled, *starts):
    """Primitives that begin with one of `starts`, in order."""
    return [s.name for s in walk(compiled.thread.body) if isinstance(s, Prim)
            and s.name.startswith(starts)]  # fmt: skip


def test_the_address_is_that_of_the_block_s_own_tile():
    """A store to the other block and a load of this one's meet at the same bytes of the arena."""
    thread = rk.exchanged(f32).compile("sm_90").thread
    pushed = {
        (value(p.operands[0].offset, at), thread_index)
        for thread_index in (0, 1, 17, 63)
        for at in places(thread, thread_index)
        for p in prims(thread, "st.cluster.16")
    }
    fetched = {
        (value(p.operands[1].offset, at), thread_index)
        for thread_index in (0, 1, 17, 63)
        for at in places(thread, thread_index)
        for p in prims(thread, "ld.shared.16")
    }
    assert pushed == fetched
    assert [str(p.operands[0].rank) for p in prims(thread, "st.cluster.16")] == [
        "1 - (blockIdx.x & 1)"
    ]


def places(thread, index):
    """The variables of a thread at every repetition of a copy."""
    known = locals_of(thread, **{"threadIdx.x": index, "blockIdx.x": 0, "blockIdx.y": 0})
    loops = [s.var.name for s in walk(thread.body) if hasattr(s, "unroll") and s.unroll]
    return [{**known, **dict.fromkeys(loops, i)} for i in range(8)]


def test_the_text_names_the_block():
    text = show_program(rk.summed(f32, f32).compile("sm_90").thread)
    assert re.search(r"ld\.cluster\.4 theirs\[0:1\], shared \+ base_\d+ of block block", text)


@hx.kernel(cache=False)
def in_turn(x: f16[m, 64], y: f16[m, 64], *, FAR: bool = False):
    """Two buffers whose lives do not meet, the first of which another block may read."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = 2
    hx.attrs.cuda.block_dim = 128
    first, then = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    r = hx.register_tensor(f16, (64, 64))
    hx.copy(hx.global_view(x, ((64, 64), (64, 1))), r)
    hx.copy(r, first)
    hx.cluster_sync()
    hx.copy(hx.remote(first, 1 - hx.cluster_rank()) if FAR else first, r)
    hx.copy(r + 1.0, then)
    hx.cluster_sync()
    hx.copy(then, r)
    hx.copy(r, hx.global_view(y, ((64, 64), (64, 1))))


def test_what_others_reach_into_has_bytes_of_its_own():
    alone, far = (in_turn.compile("sm_90", FAR=far) for far in (False, True))
    assert alone.thread.shared_bytes == 64 * 64 * 2
    assert far.thread.shared_bytes == 2 * 64 * 64 * 2
    arena = build_arena(far.solution.program, arch("sm_90"))
    assert arena.offsets["first"] != arena.offsets["then"] and not arena.fences
    assert names(alone, "bar.") == ["bar.sync"] and names(far, "bar.") == []


def test_copies_that_were_only_started_land_before_the_cluster_is_told():
    order = names(rk.started.compile("sm_90"), "cp.async", "cluster.", "ld.cluster")
    assert order[:5] == [
        "cp.async.16", "cp.async.commit", "cp.async.wait", "cluster.arrive", "cluster.wait",
    ]  # fmt: skip


def test_groups_of_the_author_s_stay_the_author_s():
    @hx.kernel(cache=False)
    def grouped(x: f16[m, 64], y: f16[m, 64]):
        hx.attrs.cuda.cluster_dim = 2
        hx.attrs.cuda.grid_dim = 2
        hx.attrs.cuda.block_dim = 128
        s, r = hx.shared_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
        hx.copy(hx.global_view(x, ((64, 64), (64, 1))), s)
        hx.cp_async_commit()
        hx.cp_async_wait(0)
        hx.cluster_sync()
        hx.copy(hx.remote(s, 0), r)
        hx.cluster_sync()
        hx.copy(r, hx.global_view(y, ((64, 64), (64, 1))))

    compiled = grouped.compile("sm_90")
    assert names(compiled, "cp.async.commit", "cp.async.wait") == [
        "cp.async.commit", "cp.async.wait",
    ]  # fmt: skip


def test_stores_by_tma_have_read_before_others_may_write():
    order = names(rk.sent_by_tma.compile("sm_90"), "cluster.", "tma.", "st.cluster", "fence.proxy")
    loop = order[order.index("st.cluster.16") :]
    assert loop == [
        "st.cluster.16", "cluster.arrive", "cluster.wait", "fence.proxy", "tma.store",
        "tma.commit", "tma.wait.read", "cluster.arrive", "cluster.wait", "fence.proxy",
    ]  # fmt: skip


def test_the_reader_fences_what_others_wrote():
    """Not the writer, whose fence is of its own block's memory."""
    order = names(rk.handed_out.compile("sm_90"), "cluster.", "st.cluster", "fence.proxy", "wgmma.")
    at = order.index("st.cluster.16")
    assert order[at + 1 : at + 5][-3:] == ["cluster.arrive", "cluster.wait", "fence.proxy"]
    assert "fence.proxy" not in names(rk.exchanged(f32).compile("sm_90"), "fence.proxy")


def test_arrivals_that_tell_of_memory_release_it():
    compiled = rk.pushed.compile("sm_90")
    assert names(compiled, "mbarrier.arrive", "mbarrier.wait") == [
        "mbarrier.arrive.cluster.release", "mbarrier.wait.cluster",
    ]  # fmt: skip


FAR = RemotePtr(i32(64), i32(1))
BAD = {
    "ld.cluster.4 reaches block 2 of a cluster of 2": (
        "ld.cluster.4", (words("a", dt.f32, 1), RemotePtr(i32(0), i32(2))), (2, 1, 1)
    ),
    "st.cluster.4 reaches block 1 of a cluster of 1": (
        "st.cluster.4", (FAR, words("a", dt.f32, 1)), (1, 1, 1)
    ),
    "at shared byte 8 is misaligned, it needs a multiple of 16": (
        "ld.cluster.16", (words("a", dt.f32, 4), RemotePtr(i32(8), i32(0))), (2, 1, 1)
    ),
    "at shared byte 65536, 4 bytes, is outside the arena": (
        "ld.cluster.4", (words("a", dt.f32, 1), RemotePtr(i32(65536), i32(0))), (2, 1, 1)
    ),
    "`0.5`, a block of the cluster, is a f32": (
        "ld.cluster.4", (words("a", dt.f32, 1), RemotePtr(i32(0), Const(0.5, dt.f32))), (2, 1, 1)
    ),
    "variable q is not declared": (
        "ld.cluster.4", (words("a", dt.f32, 1), RemotePtr(i32(0), Var("q"))), (2, 1, 1)
    ),
    "moves 16 bytes, 1 registers of f32 hold 4": (
        "st.cluster.16", (FAR, words("a", dt.f32, 1)), (2, 1, 1)
    ),
    "takes (regs, remote), got (regs, shared)": (
        "ld.cluster.4", (words("a", dt.f32, 1), shared()), (2, 1, 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_laws_of_accesses_to_another_block(text):
    name, operands, cluster = BAD[text]
    body = (DeclareArray("a", dt.f32, 4), Prim(name, operands))
    with pytest.raises(VerifyError, match=re.escape(text)):
        verify(program(*body, cluster_dim=cluster))


def test_one_address_for_a_whole_tile():
    """`mapa` and the thread's offset once, the repetitions in the instructions."""
    try:
        code = rk.exchanged(f32).compile("sm_90").sass()
    except MissingDependency as error:
        pytest.skip(str(error))
    stores = re.findall(r"ST\.E\.128 \[(R\d+)(?:\+(0x[0-9a-f]+))?\]", code)
    assert len(stores) == 8 and len({base for base, _ in stores}) == 1
    assert not re.search(r"\b(LDL|STL)\b", code)
