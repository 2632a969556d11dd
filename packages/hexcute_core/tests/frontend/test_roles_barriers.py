"""Every misuse of raw barriers and turns is refused at its line, with the fix."""

# ruff: noqa: B007, C416, F841, SIM117
import pytest
from refusals import Refusals, check_refused, k, m, ring

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.promise import Promise

refused = Refusals()


@refused.case("1 to 1048575 arrivals", "got 0")
def mbarrier_of_no_arrivals(a, n):
    bar = hx.mbarrier(0)  # here


@refused.case("hx.mbarrier inside the role")
def mbarrier_in_a_role(a, n):
    with hx.warp_groups_consumer():
        bar = hx.mbarrier(1)  # here


@refused.case("mbarrier.wait on 2 mbarriers at once", "bars[s]")
def several_mbarriers_at_once(a, n):
    bars = hx.mbarrier(1, 2)
    bars.wait(0)  # here


@refused.case("mbarrier 2 of `bars`, which has 2")
def mbarrier_out_of_range(a, n):
    bars = hx.mbarrier(1, 2)
    bars[2].wait(0)  # here


@refused.case("mbarrier.expect takes an integer", "sa.nbytes")
def bytes_that_are_no_number(a, n):
    bar = hx.mbarrier(1)
    bar.expect(0.5)  # here


@refused.case("completes on no mbarrier", "only copies from global to shared memory do")
def completing_a_store(a, n):
    ga = hx.global_view(a[:, :], ((64, 64), (k, 1)))
    sa = hx.shared_tensor(f16, (64, 64))
    bar = hx.mbarrier(1)
    hx.copy(sa, ga, mbarrier=bar)  # here


@refused.case("completes on an mbarrier, got int 3")
def completing_on_a_number(a, n):
    ga = hx.global_view(a[:, :], ((64, 64), (k, 1)))
    sa = hx.shared_tensor(f16, (64, 64))
    hx.copy(ga, sa, mbarrier=3)  # here


@refused.case("the pipeline's own barrier", "leave mbarrier= out")
def completing_in_a_slot(a, n):
    ga, sa, pipe = ring(a)
    bar = hx.mbarrier(1)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s], mbarrier=bar)  # here


@refused.case("a multiple of 32 threads", "got 100")
def named_barrier_of_part_of_a_warp(a, n):
    bar = hx.named_barrier(100)  # here


@refused.case("hx.named_barrier inside the run-time loop")
def named_barrier_in_a_loop(a, n):
    for i in range(n):
        bar = hx.named_barrier(64)  # here


@refused.case("a named barrier of 256 threads in a block of 128")
def named_barrier_of_more_than_the_block(a, n):
    bar = hx.named_barrier(256)  # here
    bar.sync()


@refused.case("turns are taken by 1 to 8 roles", "got 0")
def turns_of_nobody(a, n):
    order = hx.turns(0)  # here


@refused.case("turn 2 of `order`, which has 2")
def a_turn_too_many(a, n):
    order = hx.turns(2)
    with hx.warp_groups_consumer():
        with order.turn(2):  # here
            pass


@refused.case("a turn outside a role")
def turn_outside_a_role(a, n):
    order = hx.turns(2)
    with order.turn(0):  # here
        pass


@refused.case("nobody takes turn 1 of `order`", "order.turn(1)")
def turn_of_nobody(a, n):
    order = hx.turns(2)  # here
    with hx.warp_groups_consumer():
        with order.turn(0):
            pass


@refused.case("turn 0 of `order` taken by the role at line", "a number of its own")
def one_turn_for_two_roles(a, n):
    order = hx.turns(2)
    with hx.warp_groups_consumer():
        with order.turn(0):
            pass
    with hx.warp_groups_consumer():
        with order.turn(0):  # here
            pass


@refused.case("turn 1 of `order` taken by the role at line", "turn 0 by the one at line")
def two_turns_for_one_role(a, n):
    order = hx.turns(2)
    with hx.warp_groups_consumer():
        with order.turn(0):
            pass
        with order.turn(1):  # here
            pass


@refused.case("opened by `with`")
def turn_without_with(a, n):
    order = hx.turns(2)
    with hx.warp_groups_consumer():
        order.turn(0)  # here


@refused.case("a turn gives no value")
def turn_as(a, n):
    order = hx.turns(2)
    with hx.warp_groups_consumer():
        with order.turn(0) as x:  # here
            pass


@refused.case("depends on the thread", "all threads of the block")
def tile_operation_of_the_elected(a, n):
    rc = hx.register_tensor(f32, (64, 64))
    if hx.elect():
        hx.fill(rc, 0.0)  # here


@refused.case("drives a loop of the program")
def persistent_as_a_list(a, n):
    tiles = [t for t in hx.persistent(n)]  # here


def test_the_number_of_persistent_tiles_is_known_at_launch():
    def kernel(a: f16[m, k], n: i32):
        x = n * 3
        for _ in range(2):
            x = x + 1
        with hx.warp_groups_consumer():
            for _ in hx.persistent(x):
                pass

    with pytest.raises(FrontendError) as caught:
        trace(define(kernel), {}, Promise())
    assert "unknown before the launch" in str(caught.value)
    assert "grid_dim yourself" in str(caught.value)


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_misuse_is_refused_at_its_line(body, expected, threads):
    check_refused(body, expected, threads)
