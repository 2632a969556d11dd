"""Every misuse of roles, pipelines and asynchronous gemms is refused at its line, with the fix."""

# ruff: noqa: B007, F841, RUF059, SIM117
import inspect

import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.ir import Promise

m, k = hx.dims("m k")


def failure(body, threads=None):
    """The error of a kernel whose statements are those of `body(a, n)`; the line that ends in the
    comment `# here` must be the one it names."""
    function = hx.device(body)
    roles = "warp_groups" in inspect.getsource(body)

    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 1
        if threads is not None:
            hx.attrs.cuda.block_dim = threads
        elif not roles:
            hx.attrs.cuda.block_dim = 128
        function(a, n)

    with pytest.raises(FrontendError) as caught:
        trace(define(kernel), {}, Promise())
    error = caught.value
    lines, first = inspect.getsourcelines(body)
    marked = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert error.span is not None
    assert error.span.file == __file__
    assert [error.span.line] == marked, f"{error} is placed at {error.span.line}, not {marked}"
    assert error.fix, str(error)
    return str(error)


CASES = []


def case(*expected, threads=None):
    """Marks a body whose error must contain each of `expected`."""

    def mark(body):
        CASES.append(pytest.param(body, expected, threads, id=body.__name__))
        return body

    return mark


# --- roles


@case("512 threads", "(128 + 384)", "block 384", "block_dim = 512", threads=384)
def threads_do_not_add_up(a, n):
    with hx.warp_groups_producer():
        pass
    with hx.warp_groups_consumer(3):  # here
        pass


@case("the roles need 94208 registers (128 x 40 + 384 x 232)", "has 65536: 128", "registers=152")
def oversubscribed_registers(a, n):
    with hx.warp_groups_producer(registers=40):
        pass
    with hx.warp_groups_consumer(3, registers=232):  # here
        pass


@case("the roles need 65536 registers", "a block of 384 threads has 64512: 168")
def registers_of_what_the_launch_rounds_off(a, n):
    with hx.warp_groups_producer(registers=32):
        pass
    with hx.warp_groups_consumer(2, registers=240):  # here
        pass


@case("24 to 256 in steps of 8", "got 100")
def registers_in_steps_of_eight(a, n):
    with hx.warp_groups_producer(registers=100):  # here
        pass


@case("24 to 256 in steps of 8", "got 16")
def too_few_registers(a, n):
    with hx.warp_groups_consumer(registers=16):  # here
        pass


@case("1 to 8 warp groups", "got 0")
def no_warp_groups(a, n):
    with hx.warp_groups_consumer(0):  # here
        pass


@case("blocks a multiprocessor", "min_blocks")
def registers_with_several_blocks(a, n):
    hx.attrs.cuda.min_blocks = 2
    with hx.warp_groups_consumer(registers=240):  # here
        pass


@case("hx.syncthreads inside a role", "hx.sync_role()")
def block_barrier_in_a_role(a, n):
    with hx.warp_groups_consumer():
        hx.syncthreads()  # here


@case("hx.sync_role outside a role", "hx.syncthreads()")
def role_barrier_outside(a, n):
    hx.sync_role()  # here


@case("a role inside the role", "kernel's top")
def nested_roles(a, n):
    with hx.warp_groups_producer():
        with hx.warp_groups_consumer():  # here
            pass


@case("a role inside the run-time loop", "kernel's top")
def role_in_a_loop(a, n):
    for i in range(n):
        with hx.warp_groups_producer():  # here
            pass


@case("between two roles")
def statement_between_roles(a, n):
    s = hx.shared_tensor(f16, (64, 64))
    with hx.warp_groups_producer():
        pass
    hx.fill(s, 0.0)  # here
    with hx.warp_groups_consumer():
        pass


@case("after roles that gave registers away", "registers= out")
def statement_after_claims(a, n):
    s = hx.shared_tensor(f16, (64, 64))
    with hx.warp_groups_producer(registers=40):
        pass
    with hx.warp_groups_consumer(registers=240):
        pass
    hx.fill(s, 0.0)  # here


@case("a role gives no value")
def role_as(a, n):
    with hx.warp_groups_producer() as p:  # here
        pass


@case("opened by `with`")
def role_without_with(a, n):
    hx.warp_groups_producer()  # here


@case("`x` was assigned in the role at line", "whose threads alone know it")
def scalar_assigned_in_a_role_and_read_after(a, n):
    x = 0
    with hx.warp_groups_producer():
        x = n + 1
    with hx.warp_groups_consumer():
        y = x + 1  # here


@case("`rc`", "the consumer at line", "the producer at line", "tile of its own")
def tile_shared_by_two_roles(a, n):
    rc = hx.register_tensor(f32, (64, 64))
    with hx.warp_groups_producer():
        hx.fill(rc, 0.0)
    with hx.warp_groups_consumer():
        rc *= 2.0  # here


@case("`rc`", "used by the consumer at line", "threads of the whole block")
def tile_of_the_block_used_in_a_role(a, n):
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    with hx.warp_groups_producer():
        pass
    with hx.warp_groups_consumer():
        rc += 1.0  # here


@case("depends on the thread", "all threads of the role")
def tile_operation_of_some_threads(a, n):
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        if hx.threadIdx.x < 200:
            hx.fill(rc, 0.0)  # here


@case("`return` inside the role")
def return_in_a_role(a, n):
    with hx.warp_groups_producer():
        return  # here


# --- pipelines


@case("1 to 32 stages", "got 0")
def pipeline_without_stages(a, n):
    pipe = hx.pipeline(0)  # here


@case("hx.pipeline inside the run-time loop")
def pipeline_in_a_loop(a, n):
    for i in range(n):
        pipe = hx.pipeline(2)  # here


@case("'some'", '"all" or "one"')
def pipeline_of_unknown_readers(a, n):
    pipe = hx.pipeline(2, readers="some")  # here


@case("pipe.produce() outside a role", "hx.warp_groups_producer()")
def produce_outside_a_role(a, n):
    pipe = hx.pipeline(2)
    with pipe.produce() as s:  # here
        pass


@case("pipe.wait() outside a role")
def wait_outside_a_role(a, n):
    pipe = hx.pipeline(2)
    pipe.wait()  # here


@case("opened by `with`", "with pipe.produce() as s:")
def produce_without_with(a, n):
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        pipe.produce()  # here


def setup(a):
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    return ga, hx.shared_tensor(f16, (64, 64, 2)), hx.pipeline(2)


@case("`pipe` is never used")
def pipeline_never_used(a, n):
    pipe = hx.pipeline(2)  # here
    with hx.warp_groups_producer():
        pass


@case("`pipe` is never filled", "pipe.produce()")
def pipeline_never_filled(a, n):
    pipe = hx.pipeline(2)  # here
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@case("`pipe` is never read", "pipe.consume()")
def pipeline_never_read(a, n):
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa = hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2)  # here
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s])


@case("never freed", "pipe.release()")
def pipeline_never_released(a, n):
    ga, sa, pipe = setup(a)
    with hx.warp_groups_producer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        for i in range(n):
            pipe.wait()  # here


@case("never waits for one", "pipe.wait() before pipe.release()")
def release_in_a_role_that_never_waits(a, n):
    ga, sa, pipe = setup(a)
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


@case("no slot of `pipe` is held here", "pipe.wait() before each")
def release_before_the_first_wait(a, n):
    ga, sa, pipe = setup(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s])
    with hx.warp_groups_consumer():
        pipe.release()  # here
        pipe.wait()


@case("all slots of `pipe` are held here", "more stages")
def more_waits_than_slots(a, n):
    ga, sa, pipe = setup(a)
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


@case("filled and read by the same role", "consumer of its own")
def producing_and_waiting_in_one_role(a, n):
    ga, sa, pipe = setup(a)
    with hx.warp_groups_consumer():
        for i in range(n):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
            with pipe.consume() as s:  # here
                pass


@case("filled by two roles", "a pipeline for each")
def two_producers(a, n):
    ga, sa, pipe = setup(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s])
    with hx.warp_groups_producer():
        with pipe.produce() as s:  # here
            hx.copy(ga[:, :, 1], sa[:, :, s])
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@case("nothing is copied into the slot", "sa[:, :, s]")
def empty_slot(a, n):
    ga, sa, pipe = setup(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:  # here
            pass
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@case("inside run-time control flow", "static_range")
def copy_under_a_condition_in_a_slot(a, n):
    ga, sa, pipe = setup(a)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            if n > 3:
                hx.copy(ga[:, :, 0], sa[:, :, s])  # here
            hx.copy(ga[:, :, 1], sa[:, :, s])
    with hx.warp_groups_consumer():
        with pipe.consume() as s:
            pass


@case("a slot is filled inside the slot being filled")
def slots_filled_inside_one_another(a, n):
    ga, sa, pipe = setup(a)
    other = hx.pipeline(2)
    with hx.warp_groups_producer():
        with pipe.produce() as s:
            with other.produce() as t:  # here
                hx.copy(ga[:, :, 0], sa[:, :, s])


@case("of which every reader reads every slot", 'readers="one"')
def skipping_slots_that_all_read(a, n):
    ga, sa, pipe = setup(a)
    with hx.warp_groups_consumer():
        pipe.skip(3)  # here


@case("pipe.skip takes a number of slots")
def skipping_backwards(a, n):
    pipe = hx.pipeline(2, readers="one")
    with hx.warp_groups_consumer():
        pipe.skip(-1)  # here


@case("different numbers of threads")
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


# --- asynchronous gemms


@hx.device
def tiles():
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    sa, sb = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    return rc, sa, sb


@case("`rc`, the result of the asynchronous gemm at line", "is read here", "hx.wait_gemm(0)")
def reading_a_result_early(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    x = rc * 2.0  # here
    hx.wait_gemm(0)


@case("`rc`, the result of the asynchronous gemm at line", "is written here")
def writing_a_result_early(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.fill(rc, 0.0)  # here
    hx.wait_gemm(0)


@case("`rc`", "is read here")
def casting_a_result_early(a, n):
    rc, sa, sb = tiles()
    for i in range(n):
        hx.gemm(rc, sa, sb, asynchronous=True)
        hx.wait_gemm(1)
    hx.copy(hx.cast(rc, f16), sa)  # here
    hx.wait_gemm(0)


@case("`rc`", "is written here")
def elements_of_a_result_early(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    for i, j in hx.elements(rc):  # here
        rc[i, j] = 0.0
    hx.wait_gemm(0)


@case("`rc`", "is read here")
def reading_a_result_in_the_next_iteration(a, n):
    rc, sa, sb = tiles()
    x = hx.register_tensor(f32, (64, 64))
    hx.fill(x, 0.0)
    for i in range(n):
        x += rc  # here
        hx.gemm(rc, sa, sb, asynchronous=True)
    hx.wait_gemm(0)


@case("`rc`", "is read here")
def waiting_on_one_path_only(a, n):
    rc, sa, sb = tiles()
    hx.gemm(rc, sa, sb, asynchronous=True)
    if n > 3:
        hx.wait_gemm(0)
    x = rc * 2.0  # here
    hx.wait_gemm(0)


@case("`rc`", "is read here")
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


@case("`sa`, an operand of the asynchronous gemm at line", "is written here")
def overwriting_an_operand(a, n):
    rc, sa, sb = tiles()
    ga = hx.global_view(a[:, :], ((64, 64), (k, 1)))
    hx.gemm(rc, sa, sb, asynchronous=True)
    hx.copy(ga, sa)  # here
    hx.wait_gemm(0)


@case("`ra`, an operand of the asynchronous gemm at line", "is written here")
def overwriting_an_operand_in_registers(a, n):
    rc, sa, sb = tiles()
    ra = hx.register_tensor(f16, (64, 64))
    hx.copy(sa, ra)
    hx.gemm(rc, ra, sb, asynchronous=True)
    hx.copy(sa, ra)  # here
    hx.wait_gemm(0)


@case("`rc`", "is read here")
def result_as_operand_of_the_next_gemm(a, n):
    rc, sa, sb = tiles()
    rd = hx.register_tensor(f32, (64, 64))
    hx.fill(rd, 0.0)
    hx.gemm(rc, sa, sb, asynchronous=True)
    p = hx.cast(rc, f16)  # here
    hx.gemm(rd, p, sb, asynchronous=True)
    hx.wait_gemm(0)


@case("`sr`, an operand of the asynchronous gemm at line", "is written here")
def overwriting_the_slot_of_the_gemm_before(a, n):
    rc, sa, sb = tiles()
    ga = hx.global_view(a[:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sr = hx.shared_tensor(f16, (64, 64, 2))
    for i in range(n):
        hx.gemm(rc, sr[:, :, i % 2], sb, asynchronous=True)
        hx.copy(ga[:, :, i], sr[:, :, (i + 1) % 2])  # here
        hx.wait_gemm(1)
    hx.wait_gemm(0)


@case("the slot of `pipe` freed here may still be read", "hx.wait_gemm(1)")
def freeing_a_slot_early(a, n):
    ga, sa, pipe = setup(a)
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


@case("the slot of `pipe` freed here may still be read")
def freeing_a_slot_early_by_consume(a, n):
    ga, sa, pipe = setup(a)
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


@case("unfinished at the end", "hx.wait_gemm(0)")
def never_waited_for(a, n):
    ga, sa, pipe = setup(a)
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


@case("b in registers and asynchronous", "b in shared memory")
def asynchronous_with_registers(a, n):
    rc, sa, sb = tiles()
    ra, rb = hx.register_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
    hx.gemm(rc, ra, rb, asynchronous=True)  # here


@case("b in registers and a in shared memory")
def shared_a_and_register_b(a, n):
    rc, sa, sb = tiles()
    rb = hx.register_tensor(f16, (64, 64))
    hx.gemm(rc, sa, rb)  # here


@case("hx.gemm cannot read f16 global tile", "copy it to a shared or register tensor")
def global_operand(a, n):
    rc, sa, sb = tiles()
    ga = hx.global_view(a[:, :], ((64, 64), (k, 1)))
    hx.gemm(rc, ga, sb)  # here


@case("hx.wait_gemm takes a number known at compile time")
def waiting_for_a_run_time_number(a, n):
    hx.wait_gemm(n)  # here


# --- clusters


@case("cluster_dim", "product 8 at most", "got (4, 4)")
def too_large_a_cluster(a, n):
    hx.attrs.cuda.cluster_dim = 4, 4  # here


@case("cluster_dim", "positive ints", "got 0")
def empty_cluster(a, n):
    hx.attrs.cuda.cluster_dim = 0  # here


@case("cluster_dim", "known at compile time")
def run_time_cluster(a, n):
    hx.attrs.cuda.cluster_dim = n  # here


@case("hx.attrs.cuda.cluster_dim is set inside the role")
def cluster_set_in_a_role(a, n):
    with hx.warp_groups_consumer():
        hx.attrs.cuda.cluster_dim = 2  # here


@pytest.mark.parametrize("body, expected, threads", CASES)
def test_misuse_is_refused_at_its_line(body, expected, threads):
    message = failure(body, threads)
    for text in expected:
        assert text in message, message
