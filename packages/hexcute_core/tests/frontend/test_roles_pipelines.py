"""Every misuse of a pipeline is refused at its line, with the fix."""

# ruff: noqa: B007, F841, RUF059, SIM117
import pytest
from refusals import Refusals, check_refused, k, ring

import hexcute_core as hx
from hexcute_core import f16

refused = Refusals()


@refused.case("1 to 32 stages", "got 0")
def pipeline_without_stages(a, n):
    pipe = hx.pipeline(0)  # here


@refused.case("hx.pipeline inside the run-time loop")
def pipeline_in_a_loop(a, n):
    for i in range(n):
        pipe = hx.pipeline(2)  # here


@refused.case("'some'", '"all" or "one"')
def pipeline_of_unknown_readers(a, n):
    pipe = hx.pipeline(2, readers="some")  # here


@refused.case("pipe.produce() outside a role", "hx.warp_groups_producer()")
def produce_outside_a_role(a, n):
    pipe = hx.pipeline(2)
    with pipe.produce() as s:  # here
        pass


@refused.case("pipe.wait() outside a role")
def wait_outside_a_role(a, n):
    pipe = hx.pipeline(2)
    pipe.wait()  # here


@refused.case("opened by `with`", "with pipe.produce() as s:")
def produce_without_with(a, n):
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        pipe.produce()  # here


@refused.case("`pipe` is never used")
def pipeline_never_used(a, n):
    pipe = hx.pipeline(2)  # here
    with hx.warp_groups_producer():
        pass


@refused.case("`pipe` is never filled", "pipe.produce()")
def pipeline_never_filled(a, n):
    pipe = hx.pipeline(2)  # here
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@refused.case("`pipe` is never read", "pipe.consume()")
def pipeline_never_read(a, n):
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa = hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2)  # here
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s])


@refused.case("never freed", "pipe.release()")
def pipeline_never_released(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        for i in range(n):
            pipe.wait()  # here


@refused.case("never waits for one", "pipe.wait() before pipe.release()")
def release_in_a_role_that_never_waits(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        for i in range(n):
            with pipe.consume() as s:
                pass
    with hx.warp_groups_consumer():
        for i in range(n):
            pipe.release()  # here


@refused.case("no slot of `pipe` is held here", "pipe.wait() before each")
def release_before_the_first_wait(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s])
    with hx.warp_groups_consumer():
        pipe.release()  # here
        pipe.wait()


@refused.case("all slots of `pipe` are held here", "more stages")
def more_waits_than_slots(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        for i in range(4):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        pipe.wait()
        pipe.wait()
        pipe.wait()  # here
        for i in range(3):
            pipe.release()


@refused.case("filled and read by the same role", "consumer of its own")
def producing_and_waiting_in_one_role(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_consumer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
            with pipe.consume() as s:  # here
                pass


@refused.case("filled by two roles", "a pipeline for each")
def two_producers(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s])
    with hx.warp_groups_producer():
        with pipe.produce() as s:  # here
            hx.copy(ga[:, :, 1], sa[:, :, s])
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@refused.case("nothing is copied into the slot", "sa[:, :, s]")
def empty_slot(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:  # here
            pass
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@refused.case("inside run-time control flow", "static_range")
def copy_under_a_condition_in_a_slot(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            if n > 3:
                hx.copy(ga[:, :, 0], sa[:, :, s])  # here
            hx.copy(ga[:, :, 1], sa[:, :, s])
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@refused.case("a slot is filled inside the slot being filled")
def slots_filled_inside_one_another(a, n):
    ga, sa, pipe = ring(a)
    other = hx.pipeline(2)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            with other.produce() as t:  # here
                hx.copy(ga[:, :, 0], sa[:, :, s])


@refused.case("of which every reader reads every slot", 'readers="one"')
def skipping_slots_that_all_read(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_consumer():
        pipe.skip(3)  # here


@refused.case("pipe.skip takes a number of slots")
def skipping_backwards(a, n):
    pipe = hx.pipeline(2, readers="one")
    with hx.warp_groups_consumer():
        pipe.skip(-1)  # here


@refused.case("pass over one another's slots", "in no turn of theirs", "order.turn(i)")
def skipping_without_turns(a, n):
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa, pipe = hx.shared_tensor(f16, (64, 64, 3)), hx.pipeline(3, readers="one")
    with hx.warp_groups_producer():
        for i in range(8):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        for _ in range(4):
            with pipe.consume() as s:  # here
                pass
            pipe.skip(1)
    with hx.warp_groups_consumer():
        for _ in range(4):
            pipe.skip(1)
            with pipe.consume() as s:
                pass


@refused.case("nobody reads the slots of `pipe`")
def skipping_what_nobody_reads(a, n):
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa, pipe = hx.shared_tensor(f16, (64, 64, 3)), hx.pipeline(3, readers="one")
    with hx.warp_groups_producer():
        for i in range(8):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        pipe.skip(4)  # here
        for _ in range(4):
            with pipe.consume() as s:
                pass


@refused.case("a turn inside a turn")
def turns_inside_one_another(a, n):
    order, other = hx.turns(2), hx.turns(2)
    with hx.warp_groups_consumer():
        with order.turn(0):
            with other.turn(0):  # here
                pass


@refused.case("different numbers of threads", "give them equally many warp groups")
def unequal_roles_in_turns(a, n):
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa = hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2, readers="one")  # here
    with hx.warp_groups_producer():
        for i in range(2):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass
    with hx.warp_groups_consumer(2):
        pipe.skip(1)
        with pipe.consume() as s:
            pass


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_misuse_is_refused_at_its_line(body, expected, threads):
    check_refused(body, expected, threads)
