"""Kernels of roles run lane by lane under several schedules: right, and free of findings."""

import numpy as np
import pytest
import role_kernels as rk
from sm90_reading import walk

import hexcute_core as hx
from hexcute_core.simulator import interpret
from hexcute_core.thread import Assign


def whole(rng, *shape, dtype=np.float16):
    """Small whole numbers: sums of their products are exact."""
    return rng.integers(-3, 4, shape).astype(dtype)


def run(kernel, *args, aligned=True, schedules=3, **constants):
    """Simulates `kernel` with every stage verified; the layouts by brute force as well."""
    compiled = kernel.compile("sm_90", aligned=aligned, verify=True, **constants)
    report = compiled.simulate(*args, schedules=schedules)
    assert not report.findings
    return report, compiled


def product(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)


@pytest.mark.parametrize("k", [0, 8, 64, 72, 128, 320])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_loops_of_any_length(k, stages):
    """K of nothing, a part of a slot, one slot, a part more, and several rounds of the ring."""
    rng = np.random.default_rng(k)
    a, b, c = whole(rng, 64, k), whole(rng, 64, k), np.full((64, 64), 7, np.float16)
    report, _ = run(rk.consuming, a, b, c, STAGES=stages)
    assert np.array_equal(c, product(a, b))
    assert ("tma.load" in report.counters.instructions) == (k > 0)


@pytest.mark.parametrize("k", [1, 65, 130])
def test_without_alignment_threads_copy(k):
    """Rows that TMA cannot address: the producer's threads move them, element by element."""
    rng = np.random.default_rng(k)
    a, b, c = whole(rng, 64, k), whole(rng, 64, k), np.full((64, 64), 7, np.float16)
    report, _ = run(rk.consuming, a, b, c, aligned=False, schedules=1)
    assert np.array_equal(c, product(a, b))
    assert "tma.load" not in report.counters.instructions


def test_ragged_tiles_and_two_groups():
    rng = np.random.default_rng(1)
    a, b, c = whole(rng, 200, 72), whole(rng, 88, 72), np.full((200, 88), 7, np.float16)
    run(rk.consuming, a, b, c, GROUPS=2, schedules=1)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("k", [0, 64, 256, 448])
def test_two_pipelines_counted_by_a_while(k):
    rng = np.random.default_rng(k)
    a, b, c = whole(rng, 64, k), whole(rng, 64, k), np.full((64, 64), 7, np.float16)
    run(rk.two_pipelines, a, b, c)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("k", [64, 320])
def test_two_roles_read_every_slot(k):
    rng = np.random.default_rng(k)
    a = whole(rng, 64, k)
    total, most = np.zeros((64, 1), np.float32), np.zeros((64, 1), np.float16)
    run(rk.two_readers, a, total, most)
    assert np.array_equal(total, a.astype(np.float32).sum(1, keepdims=True))
    assert np.array_equal(most, a.max(1, keepdims=True))


@pytest.mark.parametrize("k", [64, 192])
def test_the_producer_computes_in_the_order_written(k):
    rng = np.random.default_rng(k)
    a, b = whole(rng, 64, k, dtype=np.float32), whole(rng, 64, k)
    c = np.full((64, 64), 7, np.float16)
    report, _ = run(rk.converting, a, b, c)
    assert np.array_equal(c, product(2 * a, b))
    assert report.counters.instructions["tma.load"] == k // 64


@pytest.mark.parametrize("n", [64, 192])
def test_a_result_is_the_next_operand_in_registers(n):
    rng = np.random.default_rng(n)
    q, p, v = (rng.integers(-1, 2, (x, 64)).astype(np.float16) for x in (64, n, n))
    o = np.full((64, 64), 7, np.float16)
    report, compiled = run(rk.chained, q, p, v, o)
    first = np.maximum(q.astype(np.float32) @ p.astype(np.float32).T, 0)
    assert np.array_equal(o, (first @ v.astype(np.float32)).astype(np.float16))
    names = [w.row.name("rk") for w in compiled.solution.wgmmas.values() if w.a_in_registers]
    assert len(names) == 1, "the second gemm takes A from registers"
    assert any(".rm" in name for name in report.counters.instructions)


@pytest.mark.parametrize("shape", [(64, 64, 64), (128, 192, 192), (320, 64, 72), (64, 64, 0)])
@pytest.mark.parametrize("stages", [2, 3])
def test_two_math_roles_take_turns_in_blocks_that_stay(shape, stages):
    """One tile, several a block, an odd number of them, and none of K."""
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b, c = whole(rng, m, k), whole(rng, n, k), np.full((m, n), 7, np.float16)
    run(rk.taking_turns, a, b, c, STAGES=stages, schedules=2)
    assert np.array_equal(c, product(a, b))


@pytest.mark.parametrize("k", [64, 128, 320])
def test_raw_mbarriers(k):
    rng = np.random.default_rng(k)
    a, c = whole(rng, 64, k), np.full((64, k), 7, np.float16)
    report, _ = run(rk.by_hand, a, c)
    assert np.array_equal(c, 2 * a)
    assert report.counters.instructions["tma.load"] == k // 64


@pytest.mark.parametrize("k", [64, 192])
def test_named_barriers_hand_a_tile_over(k):
    rng = np.random.default_rng(k)
    a, c = whole(rng, 64, k), np.full((64, k), 7, np.float16)
    run(rk.handing_over, a, c)
    assert np.array_equal(c, a + 1)


def test_blocks_of_a_cluster_arrive_at_one_another():
    out = np.zeros(4, np.int32)
    run(rk.clustered, out)
    assert out.tolist() == [10, 11, 10, 11]


@pytest.mark.parametrize("k", [64, 192])
@pytest.mark.parametrize("name", ["starting_anew", "starting_anew_in_registers"])
def test_the_first_product_replaces_what_was_there(name, k):
    rng = np.random.default_rng(k)
    a, b, c = whole(rng, 64, k), whole(rng, 64, k), np.full((64, 64), 7, np.float16)
    _, compiled = run(getattr(rk, name), a, b, c)
    assert np.array_equal(c, product(a, b))
    meant = {"a": a, "b": b, "c": np.zeros_like(c)}
    interpret(compiled.tile, meant, {"m": 64, "n": 64, "k": k})
    assert np.array_equal(meant["c"], c)


def test_every_product_replaces_what_was_there():
    rng = np.random.default_rng(0)
    a, b, c = whole(rng, 64, 192), whole(rng, 64, 192), np.full((64, 64), 7, np.float16)
    _, compiled = run(rk.starting_anew, a, b, c, EACH=True)
    assert np.array_equal(c, product(a[:, 128:], b[:, 128:]))
    products = [
        s for s in walk(compiled.thread.body) if getattr(s, "name", "").startswith("wgmma.64x")
    ]
    flags = [p.operands[3].value for p in products]
    assert flags == [False, True, True, True], "the first step of K alone starts anew"


def test_a_role_does_not_claim_256_registers_that_the_launch_gives():
    """`setmaxnreg.dec 256` where a thread has 255 is an illegal instruction."""

    @hx.kernel(cache=False)
    def copied(a: hx.f16[64, 64], c: hx.f16[64, 64]):
        s = hx.shared_tensor(hx.f16, (64, 64, 1))
        pipe = hx.pipeline(1)
        hx.attrs.cuda.grid_dim = 1
        with hx.warp_groups_producer(registers=56), pipe.produce() as i:
            hx.copy(hx.global_view(a, ((64, 64), (64, 1))), s[:, :, i])
        with hx.warp_groups_consumer(registers=256):
            r = hx.register_tensor(hx.f16, (64, 64))
            with pipe.consume() as i:
                hx.copy(s[:, :, i], r)
            hx.copy(r, hx.global_view(c, ((64, 64), (64, 1))))

    compiled = copied.compile("sm_90")
    claims = [line.split() for line in compiled.ptx().splitlines() if "setmaxnreg" in line]
    assert [claim[1] for claim in claims] == ["56;"]
    a, c = np.arange(4096, dtype=np.float16).reshape(64, 64), np.zeros((64, 64), np.float16)
    assert not compiled.simulate(a, c).findings
    assert np.array_equal(a, c)


@pytest.mark.parametrize("registers", [None, 232])
def test_a_warp_learns_from_one_lane_which_role_it_has(registers):
    """Else the C++ compiler holds that a warp may part there, and keeps nothing of its descriptors
    and slots in uniform registers; claims of registers tell it already."""

    @hx.kernel(cache=False)
    def copied(a: hx.f16[64, 64], c: hx.f16[64, 64]):
        s = hx.shared_tensor(hx.f16, (64, 64, 1))
        pipe = hx.pipeline(1)
        hx.attrs.cuda.grid_dim = 1
        with hx.warp_groups_producer(registers=registers and 40), pipe.produce() as i:
            hx.copy(hx.global_view(a, ((64, 64), (64, 1))), s[:, :, i])
        with hx.warp_groups_consumer(registers=registers):
            r = hx.register_tensor(hx.f16, (64, 64))
            with pipe.consume() as i:
                hx.copy(s[:, :, i], r)
            hx.copy(r, hx.global_view(c, ((64, 64), (64, 1))))

    a, c = np.arange(4096, dtype=np.float16).reshape(64, 64), np.zeros((64, 64), np.float16)
    _, compiled = run(copied, a, c)
    assert np.array_equal(a, c)
    told = [str(s.value) for s in compiled.thread.body if isinstance(s, Assign)]
    assert ("shfl.idx(threadIdx.x, 0)" in told) == (registers is None)


def test_blocks_that_share_a_multiprocessor_share_its_registers():
    """Each of two has half of them: 128 for each of 256 threads, of which one role takes more."""

    @hx.kernel(cache=False)
    def copied(a: hx.f16[64, 64], c: hx.f16[64, 64]):
        s = hx.shared_tensor(hx.f16, (64, 64, 1))
        pipe = hx.pipeline(1)
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.min_blocks = 2
        with hx.warp_groups_producer(registers=24), pipe.produce() as i:
            hx.copy(hx.global_view(a, ((64, 64), (64, 1))), s[:, :, i])
        with hx.warp_groups_consumer(registers=232):
            r = hx.register_tensor(hx.f16, (64, 64))
            with pipe.consume() as i:
                hx.copy(s[:, :, i], r)
            hx.copy(r, hx.global_view(c, ((64, 64), (64, 1))))

    compiled = copied.compile("sm_90")
    claims = [line.split() for line in compiled.ptx().splitlines() if "setmaxnreg" in line]
    told = [(claim[0].split(".")[1], claim[1]) for claim in claims]
    assert told == [("dec", "24;"), ("inc", "232;")]
    assert compiled.built.registers == 128
    a, c = np.arange(4096, dtype=np.float16).reshape(64, 64), np.zeros((64, 64), np.float16)
    assert not compiled.simulate(a, c).findings
    assert np.array_equal(a, c)
