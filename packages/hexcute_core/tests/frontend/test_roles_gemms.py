"""What touches an asynchronous gemm's tiles too early is refused at its line, with the fix."""

# ruff: noqa: B007, F841, RUF059
import pytest
from refusals import Refusals, check_refused, k, ring, tiles, traced

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.tile.verify import verify

refused = Refusals()


@refused.case("`rc`, the result of the asynchronous gemm at", "is read here", "hx.wait_gemm(0)")
def reading_a_result_early(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    x = rc * 2.0  # here
    hx.wait_gemm(0)


@refused.case("`rc`, the result of the asynchronous gemm at line", "is written here")
def writing_a_result_early(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.fill(rc, 0.0)  # here
    hx.wait_gemm(0)


@refused.case("`rc`", "is read here")
def casting_a_result_early(a, n):
    rc, sa, sb = tiles()
    for i in range(n):
        hx.gemm(rc, sa, sb, asynchronous=True)
        hx.wait_gemm(1)
    hx.copy(hx.cast(rc, f16), sa)  # here
    hx.wait_gemm(0)


@refused.case("`rc`", "is written here")
def elements_of_a_result_early(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    for i, j in hx.elements(rc):  # here
        rc[i, j] = 0.0
    hx.wait_gemm(0)


@refused.case("`sa`, an operand of the asynchronous gemm at", "is written here")
def overwriting_an_operand_of_many_iterations_ago(a, n):
    """The gemm in flight may be that of 15 iterations ago, which reads the same slot."""
    rc, sb = hx.register_tensor(f32, (64, 64)), hx.shared_tensor(f16, (64, 64))
    sa = hx.shared_tensor(f16, (64, 64, 16))
    for i in range(n):
        hx.fill(sa[:, :, (i + 1) % 16], 0.0)  # here
        if i % 16 == 0:
            hx.gemm(rc, sa[:, :, i % 16], sb, asynchronous=True)
    hx.wait_gemm(0)


@refused.case("`rc`", "is read here")
def reading_a_result_in_the_next_iteration(a, n):
    rc, sa, sb = tiles()
    x = hx.register_tensor(f32, (64, 64))
    hx.fill(x, 0.0)
    for i in range(n):
        x += rc  # here
        hx.gemm(rc, sa, sb, asynchronous=True)
    hx.wait_gemm(0)


@refused.case("`rc`", "is read here")
def waiting_on_one_path_only(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    if n > 3:
        hx.wait_gemm(0)
    x = rc * 2.0  # here
    hx.wait_gemm(0)


@refused.case("`rc`", "is read here")
def waiting_for_too_few(a, n):
    rc, sa, sb = tiles()
    rd = hx.register_tensor(f32, (64, 64))
    hx.fill(rd, 0.0)
    hx.gemm(rd, sa, sb, asynchronous=True)
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.wait_gemm(1)
    x = rd * 2.0
    y = rc * 2.0  # here
    hx.wait_gemm(0)


@refused.case("`sa`, an operand of the asynchronous gemm at line", "is written here")
def overwriting_an_operand(a, n):
    rc, sa, sb = tiles()
    ga = hx.global_view(a[:, :], ((64, 64), (k, 1)))
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.copy(ga, sa)  # here
    hx.wait_gemm(0)


@refused.case("`ra`, an operand of the asynchronous gemm at line", "is written here")
def overwriting_an_operand_in_registers(a, n):
    rc, sa, sb = tiles()
    ra = hx.register_tensor(f16, (64, 64))
    hx.copy(sa, ra)
    hx.gemm(rc, ra, sb, asynchronous=True)
    hx.copy(sa, ra)  # here
    hx.wait_gemm(0)


@refused.case("`rc`", "is read here")
def result_as_operand_of_the_next_gemm(a, n):
    rc, sa, sb = tiles()
    rd = hx.register_tensor(f32, (64, 64))
    hx.fill(rd, 0.0)
    hx.gemm(rc, sa, sb, asynchronous=True)
    p = hx.cast(rc, f16)  # here
    hx.gemm(rd, p, sb, asynchronous=True)
    hx.wait_gemm(0)


@refused.case("`sr`, an operand of the asynchronous gemm at line", "is written here")
def overwriting_the_slot_of_the_gemm_before(a, n):
    rc, sa, sb = tiles()
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sr = hx.shared_tensor(f16, (64, 64, 2))
    for i in range(n):
        hx.gemm(rc, sr[:, :, i % 2], sb, asynchronous=True)
        hx.copy(ga[:, :, i], sr[:, :, (i + 1) % 2])  # here
        hx.wait_gemm(1)
    hx.wait_gemm(0)


@refused.case("the slot of `pipe` freed here may still be read", "hx.wait_gemm(1)")
def freeing_a_slot_early(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for i in range(n):
            s = pipe.wait()
            hx.gemm(rc, sa[:, :, s], sa[:, :, s], asynchronous=True)
            hx.wait_gemm(1)
            pipe.release()  # here
        hx.wait_gemm(0)


@refused.case("the slot of `pipe` freed here may still be read")
def freeing_a_slot_early_by_consume(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for i in range(n):
            with pipe.consume() as s:  # here
                hx.gemm(rc, sa[:, :, s], sa[:, :, s], asynchronous=True)
        hx.wait_gemm(0)


@refused.case("unfinished at the end", "hx.wait_gemm(0)")
def never_waited_for(a, n):
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for i in range(n):
            s = pipe.wait()
            hx.gemm(rc, sa[:, :, s], sa[:, :, s], asynchronous=True)  # here
            if i > 0:
                hx.wait_gemm(1)
                pipe.release()


@refused.case("b in registers and asynchronous", "b in shared memory")
def asynchronous_with_registers(a, n):
    rc, sa, sb = tiles()
    ra, rb = hx.register_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
    hx.gemm(rc, ra, rb, asynchronous=True)  # here


@refused.case("b in registers and a in shared memory")
def shared_a_and_register_b(a, n):
    rc, sa, sb = tiles()
    rb = hx.register_tensor(f16, (64, 64))
    hx.gemm(rc, sa, rb)  # here


@refused.case("hx.gemm cannot read f16 global tile", "copy it to a shared or register tensor")
def global_operand(a, n):
    rc, sa, sb = tiles()
    ga = hx.global_view(a[:, :], ((64, 64), (k, 1)))
    hx.gemm(rc, ga, sb)  # here


@refused.case("accumulate is true or false", "accumulate=i > 0")
def accumulating_by_a_number(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, accumulate=n)  # here


@refused.case("depends on the thread")
def accumulating_in_some_threads(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, accumulate=hx.threadIdx.x > 3)  # here


@refused.case("hx.wait_gemm takes a number known at compile time")
def waiting_for_a_run_time_number(a, n):
    hx.wait_gemm(n)  # here


@pytest.mark.parametrize("body, expected, threads", refused.params)
def test_misuse_is_refused_at_its_line(body, expected, threads):
    check_refused(body, expected, threads)


ACCEPTED = []


def accepted(body):
    """Marks statements in which no gemm loses what it works on."""
    ACCEPTED.append(pytest.param(body, id=body.__name__))
    return body


@accepted
def one_in_flight(a, n):
    rc, sa, sb = tiles()
    for i in range(n):
        hx.gemm(rc, sa, sb, asynchronous=True)
        hx.wait_gemm(1)
    hx.wait_gemm(0)
    x = rc * 2.0


@accepted
def slots_of_a_ring_without_a_pipeline(a, n):
    """The slot that is written is not the one of the gemm in flight, this one's or the last."""
    rc, sa, sb = tiles()
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sr = hx.shared_tensor(f16, (64, 64, 3))
    for i in range(n):
        hx.gemm(rc, sr[:, :, i % 3], sb, asynchronous=True)
        hx.copy(ga[:, :, i], sr[:, :, (i + 1) % 3])
        hx.wait_gemm(1)
    hx.wait_gemm(0)


@accepted
def a_slot_in_some_iterations_only(a, n):
    """Where the slot lies is a number of the loop, any number of iterations ago."""
    rc, sb = hx.register_tensor(f32, (64, 64)), hx.shared_tensor(f16, (64, 64))
    sa = hx.shared_tensor(f16, (64, 64, 8))
    hx.fill(rc, 0.0)
    for i in range(n):
        if i % 2 == 0:
            hx.gemm(rc, sa[:, :, i % 8], sb, asynchronous=True)
    hx.wait_gemm(0)


@accepted
def a_row_in_an_inner_loop_that_may_not_run(a, n):
    rc, sb = hx.register_tensor(f32, (64, 64)), hx.shared_tensor(f16, (64, 64))
    sa = hx.shared_tensor(f16, (128, 64))
    hx.fill(rc, 0.0)
    for i in range(2):
        for _ in range(n):
            hx.gemm(rc, sa[i * 64 : (i + 1) * 64, :], sb, asynchronous=True)
    hx.wait_gemm(0)


@accepted
def two_results_in_turns(a, n):
    """The result that is read is of the gemm before the one in flight."""
    rc, sa, sb = tiles()
    rd = hx.register_tensor(f32, (64, 64))
    hx.fill(rd, 0.0)
    for i in range(n):
        hx.gemm(rc, sa, sb, asynchronous=True)
        hx.gemm(rd, sa, sb, asynchronous=True)
        hx.wait_gemm(1)
        rc *= 0.5
        hx.wait_gemm(0)
        rd *= 0.5


@accepted
def parts_of_a_result(a, n):
    rc, sa, sb = tiles()
    re = hx.register_tensor(f32, (64, 64, 2))
    hx.fill(re, 0.0)
    hx.gemm(re[:, :, 0], sa, sb, asynchronous=True)
    hx.gemm(re[:, :, 1], sa, sb, asynchronous=True)
    hx.wait_gemm(1)
    hx.fill(re[:, :, 0], 1.0)
    hx.wait_gemm(0)


@accepted
def reading_operands(a, n):
    rc, sa, sb = tiles()
    ra = hx.register_tensor(f16, (64, 64))
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.copy(sa, ra)
    hx.wait_gemm(0)


@accepted
def a_gemm_that_waits_for_itself_ends_all(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.gemm(rc, sa, sb)
    x = rc * 2.0


@accepted
def late_release_counted_by_hand(a, n):
    """The slot before the last is freed from the second round on, over several tiles."""
    ga, sa, pipe = ring(a)
    with hx.warp_groups_producer():
        for t in range(n):
            for i in range(8):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        seen = 0
        for t in range(n):
            for i in range(8):
                s = pipe.wait()
                hx.gemm(rc, sa[:, :, s], sa[:, :, s], asynchronous=True)
                if seen >= 1:
                    hx.wait_gemm(1)
                    pipe.release()
                seen += 1
        hx.wait_gemm(0)
        rc *= 2.0


@accepted
def both_branches_wait(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    if n > 3:
        hx.wait_gemm(0)
    else:
        hx.wait_gemm(0)
    x = rc * 2.0


@pytest.mark.parametrize("body", ACCEPTED)
def test_what_waits_enough_is_accepted(body):
    verify(traced(body))
