"""Every misuse of roles, clusters and launch attributes is refused at its line, with the fix."""

# ruff: noqa: B007, F841, SIM117
import pytest
from refusals import Refusals, check_refused

import hexcute_core as hx
from hexcute_core import f16, f32

refused = Refusals()


@refused.case("512 threads", "(128 + 384)", "block 384", "block_dim = 512", threads=384)
def threads_do_not_add_up(a, n):
    with hx.warp_groups_producer():
        pass
    with hx.warp_groups_consumer(3):  # here
        pass


@refused.case(
    "the roles need 94208 registers (128 x 40 + 384 x 232)", "has 65536: 128", "registers=152"
)
def oversubscribed_registers(a, n):
    with hx.warp_groups_producer(registers=40):
        pass
    with hx.warp_groups_consumer(3, registers=232):  # here
        pass


@refused.case("the roles need 65536 registers", "a block of 384 threads has 64512: 168")
def registers_of_what_the_launch_rounds_off(a, n):
    with hx.warp_groups_producer(registers=32):
        pass
    with hx.warp_groups_consumer(2, registers=240):  # here
        pass


@refused.case("24 to 256 in steps of 8", "got 100")
def registers_in_steps_of_eight(a, n):
    with hx.warp_groups_producer(registers=100):  # here
        pass


@refused.case("24 to 256 in steps of 8", "got 16")
def too_few_registers(a, n):
    with hx.warp_groups_consumer(registers=16):  # here
        pass


@refused.case("1 to 8 warp groups", "got 0")
def no_warp_groups(a, n):
    with hx.warp_groups_consumer(0):  # here
        pass


@refused.case(
    "the roles need 33792 registers (128 x 24 + 128 x 240)",
    "a block of 256 threads, 2 to a multiprocessor, has 32768: 128",
    "registers=232",
)
def registers_of_which_other_blocks_have_half(a, n):
    hx.attrs.cuda.min_blocks = 2
    with hx.warp_groups_producer(registers=24):
        pass
    with hx.warp_groups_consumer(registers=240):  # here
        pass


@refused.case("hx.syncthreads inside a role", "hx.sync_role()")
def block_barrier_in_a_role(a, n):
    with hx.warp_groups_consumer():
        hx.syncthreads()  # here


@refused.case("hx.sync_role outside a role", "hx.syncthreads()")
def role_barrier_outside(a, n):
    hx.sync_role()  # here


@refused.case("a role inside the role", "kernel's top")
def nested_roles(a, n):
    with hx.warp_groups_producer():
        with hx.warp_groups_consumer():  # here
            pass


@refused.case("a role inside the run-time loop", "kernel's top")
def role_in_a_loop(a, n):
    for i in range(n):
        with hx.warp_groups_producer():  # here
            pass


@refused.case("between two roles")
def statement_between_roles(a, n):
    s = hx.shared_tensor(f16, (64, 64))
    with hx.warp_groups_producer():
        pass
    hx.fill(s, 0.0)  # here
    with hx.warp_groups_consumer():
        pass


@refused.case("after roles that gave registers away", "registers= out")
def statement_after_claims(a, n):
    s = hx.shared_tensor(f16, (64, 64))
    with hx.warp_groups_producer(registers=40):
        pass
    with hx.warp_groups_consumer(registers=240):
        pass
    hx.fill(s, 0.0)  # here


@refused.case("a role gives no value")
def role_as(a, n):
    with hx.warp_groups_producer() as p:  # here
        pass


@refused.case("opened by `with`")
def role_without_with(a, n):
    hx.warp_groups_producer()  # here


@refused.case("`x` was assigned in the role at line", "whose threads alone know it")
def scalar_assigned_in_a_role_and_read_after(a, n):
    x = 0
    with hx.warp_groups_producer():
        x = n + 1
    with hx.warp_groups_consumer():
        y = x + 1  # here


@refused.case("`rc`", "the consumer at line", "the producer at line", "tile of its own")
def tile_shared_by_two_roles(a, n):
    rc = hx.register_tensor(f32, (64, 64))
    with hx.warp_groups_producer():
        hx.fill(rc, 0.0)
    with hx.warp_groups_consumer():
        rc *= 2.0  # here


@refused.case("`rc`", "used by the consumer at line", "threads of the whole block")
def tile_of_the_block_used_in_a_role(a, n):
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    with hx.warp_groups_producer():
        pass
    with hx.warp_groups_consumer():
        rc += 1.0  # here


@refused.case("depends on the thread", "all threads of the role")
def tile_operation_of_some_threads(a, n):
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        if hx.threadIdx.x < 200:
            hx.fill(rc, 0.0)  # here


@refused.case("`return` inside the role")
def return_in_a_role(a, n):
    with hx.warp_groups_producer():
        return  # here


@refused.case("cluster_dim", "product 8 at most", "got (4, 4)")
def too_large_a_cluster(a, n):
    hx.attrs.cuda.cluster_dim = 4, 4  # here


@refused.case("cluster_dim", "positive ints", "got 0")
def empty_cluster(a, n):
    hx.attrs.cuda.cluster_dim = 0  # here


@refused.case("cluster_dim", "known at compile time")
def run_time_cluster(a, n):
    hx.attrs.cuda.cluster_dim = n  # here


@refused.case("hx.attrs.cuda.cluster_dim is set inside the role")
def cluster_set_in_a_role(a, n):
    with hx.warp_groups_consumer():
        hx.attrs.cuda.cluster_dim = 2  # here


@refused.case("cluster_dim is set after it was read at line", "top of the kernel")
def cluster_behind_its_rank(a, n):
    rank = hx.cluster_rank()
    hx.attrs.cuda.cluster_dim = 2  # here
    rank += 1


@refused.case("cluster_dim is set after it was read")
def cluster_behind_its_tiles(a, n):
    for _ in hx.persistent(n):
        pass
    hx.attrs.cuda.cluster_dim = 2  # here


@refused.case("grid_dim is set after it was read", "top of the kernel")
def grid_behind_its_extent(a, n):
    extent = hx.gridDim.x
    hx.attrs.cuda.grid_dim = 7  # here


@refused.case("block_dim is set after it was read", "top of the kernel")
def block_behind_its_threads(a, n):
    threads = hx.attrs.cuda.block_dim
    hx.attrs.cuda.block_dim = 256  # here


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_misuse_is_refused_at_its_line(body, expected, threads):
    check_refused(body, expected, threads)
