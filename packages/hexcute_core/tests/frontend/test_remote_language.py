"""Tiles of other blocks of a cluster in the language: what is refused, where and with which fix,
and what the tile program says."""

# ruff: noqa: B018
import inspect

import pytest
import remote_kernels as rk
from refusals import Refusals, check_refused

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import NoLayout
from hexcute_core.tile import reached
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.verify import verify

m, k = hx.dims("m k")
refused = Refusals()


@refused.case("hx.remote in a kernel without a cluster", "set hx.attrs.cuda.cluster_dim = 2")
def no_cluster(a, n):
    s = hx.shared_tensor(f16, (16, 64))
    hx.remote(s, 0)  # here


@refused.case("block 2 of a cluster of 2", "a rank from 0 to 1")
def rank_too_large(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s = hx.shared_tensor(f16, (16, 64))
    hx.remote(s, 2)  # here


@refused.case("block -1 of a cluster of 8", "a rank from 0 to 7")
def rank_below_zero(a, n):
    hx.attrs.cuda.cluster_dim = 2, 2, 2
    s = hx.shared_tensor(f16, (16, 64))
    hx.remote(s, -1)  # here


@refused.case("takes the number of a block, got float 0.5", "hx.remote(tile, 0)")
def rank_of_a_fraction(a, n):
    hx.attrs.cuda.cluster_dim = 2
    hx.remote(hx.shared_tensor(f16, (16, 64)), 0.5)  # here


@refused.case("takes the number of a block, got bool True")
def rank_of_a_truth_value(a, n):
    hx.attrs.cuda.cluster_dim = 2
    hx.remote(hx.shared_tensor(f16, (16, 64)), True)  # here


@refused.case("the rank threadIdx.x & 1 depends on the thread", "on the block or the role alone")
def rank_by_thread(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s = hx.shared_tensor(f16, (16, 64))
    hx.remote(s, hx.threadIdx.x % 2)  # here


@refused.case("reaches into shared memory, got f16 register tile `r`", "copy it to a shared tensor")
def remote_registers(a, n):
    hx.attrs.cuda.cluster_dim = 2
    r = hx.register_tensor(f16, (16, 64))
    hx.remote(r, 0)  # here


@refused.case("reaches into shared memory, got f16 global tile `view_a`")
def remote_view(a, n):
    hx.attrs.cuda.cluster_dim = 2
    hx.remote(hx.global_view(a, ((16, 64), (k, 1))), 0)  # here


@refused.case("hx.remote expects a tile, got int 3")
def remote_number(a, n):
    hx.attrs.cuda.cluster_dim = 2
    hx.remote(3, 0)  # here


@refused.case(
    "of f16 shared tile `s` (16, 64) of block 0, which is another block's already",
    "hx.remote(s, rank)",
)
def remote_of_a_remote(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s = hx.shared_tensor(f16, (16, 64))
    hx.remote(hx.remote(s, 0), 1)  # here


@refused.case("reads this block's own memory", "`sb` (64, 64) of block 1", "to a register tensor")
def remote_operand(a, n):
    hx.attrs.cuda.cluster_dim = 2
    rc, sa = hx.register_tensor(f32, (64, 64)), hx.shared_tensor(f16, (64, 64))
    sb = hx.shared_tensor(f16, (64, 64))
    hx.gemm(rc, sa, hx.remote(sb, 1))  # here


@refused.case(
    "cannot move f16 global tile `view_a` (16, 64) to f16 shared tile `s` (16, 64) of block 1",
    "only threads reach into another block",
    "two copies through a register tensor",
)
def loaded_into_another_block(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s = hx.shared_tensor(f16, (16, 64))
    hx.copy(hx.global_view(a, ((16, 64), (k, 1))), hx.remote(s, 1))  # here


@refused.case("only threads reach into another block", "two copies through a register tensor")
def loaded_by_tma_into_another_block(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s, bar = hx.shared_tensor(f16, (16, 64)), hx.mbarrier(1)
    hx.copy(hx.global_view(a, ((16, 64), (k, 1))), hx.remote(s, 1), mbarrier=bar)  # here


@refused.case("of block 1 to f16 global tile", "two copies through a register tensor")
def combined_from_another_block(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s = hx.shared_tensor(f16, (16, 64))
    hx.copy(hx.remote(s, 1), hx.global_view(a, ((16, 64), (k, 1))), reduce="add")  # here


@refused.case("of block 1 to f16 shared tile `t`", "two copies through a register tensor")
def from_block_to_block(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s, t = hx.shared_tensor(f16, (16, 64)), hx.shared_tensor(f16, (16, 64))
    hx.copy(hx.remote(s, 1), t)  # here


@refused.case("f16 shared tile `s` (16, 64) of block 1, which is not in registers")
def remote_in_arithmetic(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s = hx.shared_tensor(f16, (16, 64))
    hx.exp(hx.remote(s, 1))  # here


@refused.case("different shapes", "`s` (8, 64) of block 1 to f16 register tile `r`")
def remote_of_another_shape(a, n):
    hx.attrs.cuda.cluster_dim = 2
    s, r = hx.shared_tensor(f16, (16, 64)), hx.register_tensor(f16, (16, 64))
    hx.copy(hx.remote(s, 1)[:8, :], r)  # here


@hx.device
def slots(a):
    """A view of tiles, slots for them, and their pipeline, in a cluster of two."""
    hx.attrs.cuda.cluster_dim = 2
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    return ga, hx.shared_tensor(f16, (64, 64, 2)), hx.pipeline(2)


@refused.case(
    "`s` of another block is a slot of the pipeline `pipe`",
    "within its own block alone",
    "a shared tensor of its own",
)
def slot_of_another_block(a, n):
    ga, sa, pipe = slots(a)
    with hx.warp_groups_producer():
        for i in range(hx.cdiv(k, 64)):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        r = hx.register_tensor(f16, (64, 64))
        for _ in range(hx.cdiv(k, 64)):
            with pipe.consume() as s:
                hx.copy(hx.remote(sa[:, :, s], 1 - hx.cluster_rank()), r)  # here


@refused.case("`s` of another block is a slot of the pipeline `pipe`")
def slot_filled_in_another_block(a, n):
    _, sa, pipe = slots(a)
    with hx.warp_groups_producer():
        r = hx.register_tensor(f16, (64, 64))
        hx.fill(r, 0.0)
        for _ in range(hx.cdiv(k, 64)):
            with pipe.produce() as s:
                hx.copy(r, hx.remote(sa[:, :, s], 1))  # here
    with hx.warp_groups_consumer():
        for _ in range(hx.cdiv(k, 64)):
            with pipe.consume():
                pass


@refused.case(
    "`sb`, which other blocks of the cluster write, may still be read by the asynchronous gemm",
    "when this block arrives here",
    "hx.wait_gemm(0)",
)
def operand_lent_too_early(a, n):
    hx.attrs.cuda.cluster_dim = 2
    rc, ra = hx.register_tensor(f32, (64, 64)), hx.register_tensor(f16, (64, 64))
    hx.fill(rc, 0.0)
    hx.fill(ra, 0.0)
    sa, sb = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    hx.copy(ra, sa)
    hx.copy(ra, hx.remote(sb, 1 - hx.cluster_rank()))
    hx.cluster_sync()
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.cluster_arrive()  # here
    hx.wait_gemm(0)
    hx.cluster_wait()


@refused.case("may still be read by the asynchronous gemm", "hx.wait_gemm(0)")
def operand_lent_by_an_mbarrier(a, n):
    hx.attrs.cuda.cluster_dim = 2
    rc, ra = hx.register_tensor(f32, (64, 64)), hx.register_tensor(f16, (64, 64))
    hx.fill(rc, 0.0)
    hx.fill(ra, 0.0)
    sa, sb = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    free = hx.mbarrier(128)
    hx.copy(ra, sa)
    hx.copy(ra, hx.remote(sb, 1 - hx.cluster_rank()))
    hx.cluster_sync()
    hx.gemm(rc, sa, sb, asynchronous=True)
    free.arrive(rank=1 - hx.cluster_rank())  # here
    hx.wait_gemm(0)


@pytest.mark.parametrize(("body", "expected", "threads"), refused.params)
def test_what_the_language_refuses(body, expected, threads):
    check_refused(body, expected, threads)


def test_a_gpu_without_clusters():
    with pytest.raises(NoLayout) as caught:
        rk.ring.compile("sm_80").thread
    text = str(caught.value)
    assert "sm_80 has no clusters, whose blocks could copy passed -> remote slots" in text
    assert 'fix: compile with target="sm_90"' in text
    lines = inspect.getsource(rk).splitlines()
    at = next(i for i, line in enumerate(lines, 1) if "hx.remote(slots, following)" in line)
    assert caught.value.span.line == at


def test_the_tile_program_names_the_block():
    program = rk.ring.compile("sm_90").tile
    text = show_program(program)
    copies = [line.strip() for line in text.splitlines() if " of block " in line]
    assert copies == ["%2 copy passed -> slots[:, :, step % 2] of block ((blockIdx.x & 3) + 1) & 3"]
    assert reached(program).written == {"slots"} and not reached(program).read
    verify(program)


def test_a_rank_keeps_its_value():
    """What changes under a view is held when the view is made."""

    @hx.kernel(cache=False)
    def rotated(x: i32[m, 1]):
        hx.attrs.cuda.cluster_dim = 4
        hx.attrs.cuda.grid_dim = 4
        hx.attrs.cuda.block_dim = 32
        s, r = hx.shared_tensor(i32, (32, 1)), hx.register_tensor(i32, (32, 1))
        hx.copy(hx.global_view(x, ((32, 1), (1, 1))), r)
        rank = hx.cluster_rank()
        for _ in range(3):
            there = hx.remote(s, rank)
            rank = (rank + 1) % 4
            hx.copy(r, there)

    text = show_program(rotated.compile("sm_90").tile)
    assert "var there_rank: i32 = rank" in text or "var rank_1: i32 = rank" in text
    assert "-> s of block rank\n" not in text
