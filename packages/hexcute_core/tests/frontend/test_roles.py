"""Roles, pipelines, barriers and turns as the tile programs they are traced to."""

import re

import pytest
import role_kernels as rk

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.scalar import MULTIPROCESSORS, substitute
from hexcute_core.scalar.expr import as_scalar
from hexcute_core.tile import Assign, NamedBarrier, PipelineWait, Produce, Role
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify
from hexcute_core.tile.visit import statements

m, n, k = hx.dims("m n k")


def program_of(kernel, **constants):
    program = trace(kernel.definition, constants, Promise())
    verify(program)
    return program


def traced(body, **constants):
    """The tile program of a kernel whose statements are those of `body(a, n)`."""
    function = hx.device(body)

    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 1
        function(a, n)

    program = trace(define(kernel), constants, Promise())
    verify(program)
    return program


def body_text(program):
    """The statements, as printed, without what comes before them."""
    lines = show_program(program).splitlines()
    first = next(i for i, line in enumerate(lines) if re.match(r"  (producer|consumer) ", line))
    return [line[2:] for line in lines[first:]]


def test_a_pipeline_between_two_roles():
    assert body_text(program_of(rk.two_pipelines))[:18] == [
        "producer threads [0, 128) registers 40:",
        "  var columns_produce_slot: i32 = 0",
        "  var columns_produce_round: i32 = 0",
        "  var rows_produce_slot: i32 = 0",
        "  var rows_produce_round: i32 = 0",
        "  var i: i32 = 0",
        "  while i < cdiv(k, 64):",
        "    produce rows[rows_produce_slot] phase rows_produce_round:",
        "      var s: i32 = rows_produce_slot",
        "      %0 copy view_a[:, :, i] -> sa[:, :, s]",
        "    rows_produce_round = select(rows_produce_slot == 1, rows_produce_round ^ 1, "
        "rows_produce_round)",
        "    rows_produce_slot = select(rows_produce_slot == 1, 0, rows_produce_slot + 1)",
        "    produce columns[columns_produce_slot] phase columns_produce_round:",
        "      var t: i32 = columns_produce_slot",
        "      %1 copy view_b[:, :, i] -> sb[:, :, t]",
        "    columns_produce_round = select(columns_produce_slot == 2, columns_produce_round ^ 1, "
        "columns_produce_round)",
        "    columns_produce_slot = select(columns_produce_slot == 2, 0, columns_produce_slot + 1)",
        "    i = i + 1",
    ]


def test_the_launch_follows_the_roles():
    program = program_of(rk.two_pipelines)
    assert program.block_dim == 256, "the sum of the roles, not written in the kernel"
    assert program.min_blocks == 1, "claims of registers need the launch's share to be fixed"
    assert program_of(rk.consuming).min_blocks is None
    assert [(r.kind, r.first, r.threads) for r in program.body if isinstance(r, Role)] == [
        ("producer", 0, 128),
        ("consumer", 128, 128),
    ]


def test_each_role_counts_its_own_slots():
    """Two readers of one ring: cursors of each, declared in it, and no name shared."""
    program = program_of(rk.two_readers)
    roles = [stmt for stmt in program.body if isinstance(stmt, Role)]
    declared = [
        {s.var.name for s in role.body if isinstance(s, Assign) and s.declares} for role in roles
    ]
    assert all(len(names) >= 2 for names in declared)
    assert len(set.union(*declared)) == sum(map(len, declared))


def test_consuming_a_slot_is_no_block_of_its_own():
    def body(a, n):
        ga = hx.global_view(a[:, :], ((64, 64, 4), (k, 1, 64)))
        sa = hx.shared_tensor(f16, (64, 64, 2))
        pipe = hx.pipeline(2)
        with hx.warp_groups_producer():
            for i in range(4):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
        with hx.warp_groups_consumer():
            with pipe.consume() as s:
                seen = n + s
            for _ in range(3):
                with pipe.consume() as s:
                    seen += s
            hx.primitive("report", seen)

    program = traced(body)
    report = program.body[-1].body[-1]
    assert report.name == "report" and report.args[0].name.startswith("seen")


def test_scalars_between_roles_are_computed_before_them():
    def body(a, n):
        with hx.warp_groups_producer():
            pass
        x = n * 2
        for_all: hx.i64 = x + 1
        with hx.warp_groups_consumer():
            hx.primitive("report", for_all)

    kinds = [type(stmt) for stmt in traced(body).body]
    assert kinds[-2:] == [Role, Role] and all(kind is Assign for kind in kinds[:-2])


def test_names_of_a_role_do_not_leak_into_the_next():
    def body(a, n):
        x = 5
        with hx.warp_groups_producer():
            x = n
            for _ in range(n):
                x += 1
            hx.primitive("report", x)
        with hx.warp_groups_consumer():
            x = 7
            hx.primitive("report", x)
        rows = []
        with hx.warp_groups_consumer():
            rows = [1, 2]
            hx.primitive("report", rows[0] + rows[1])

    producer, first, second = traced(body).body
    assert str(first.body[0].args[0]) == "7" and str(second.body[0].args[0]) == "3"
    assert [type(s).__name__ for s in producer.body] == ["Assign", "For", "CallStmt"]


def test_tiles_made_outside_belong_to_the_role_that_uses_them():
    def body(a, n):
        rc = hx.register_tensor(f32, (64, 64))
        with hx.warp_groups_producer():
            pass
        with hx.warp_groups_consumer():
            hx.fill(rc, 0.0)
            for _ in range(n):
                rc = rc + 1.0
            rc *= 2.0

    text = body_text(traced(body))
    assert [line.strip() for line in text[2:]] == [
        "%0 fill rc = 0.0",
        "for _ in range(0, n, 1):",
        "%1 rc = $0 + 1.0 where $0 = rc",
        "%2 rc = $0 * 2.0 where $0 = rc",
    ]


def test_statements_may_follow_roles_that_claim_nothing():
    def body(a, n):
        sa = hx.shared_tensor(f16, (64, 64))
        with hx.warp_groups_producer():
            hx.fill(sa, 1.0)
        with hx.warp_groups_consumer():
            pass
        hx.syncthreads()
        ra = hx.register_tensor(f16, (64, 64))
        hx.copy(sa, ra)

    assert [type(s).__name__ for s in traced(body).body] == ["Role", "Role", "Sync", "Copy"]


def test_device_functions_carry_pipelines_and_slots():
    program = program_of(rk.taking_turns)
    waits = [s for s in statements(program.body[1:]) if isinstance(s, PipelineWait)]
    fills = [s for s in statements(program.body[:1]) if isinstance(s, Produce)]
    assert len(waits) == 2 and len(fills) == 1


def test_turns_are_named_barriers_of_both_roles():
    program = program_of(rk.taking_turns)
    assert [(b.name, b.threads) for b in program.named_barriers] == [
        ("order_0", 256),
        ("order_1", 256),
    ]
    assert all(isinstance(b, NamedBarrier) for b in program.named_barriers)
    text = show_program(program).splitlines()
    uses = [line.strip() for line in text if re.match(r"\s+(sync|arrive) order", line)]
    assert uses == [
        "sync order_0", "arrive order_1",
        "arrive order_0", "sync order_1", "arrive order_0",
    ], "the last role gives the first turn"  # fmt: skip


def test_turns_of_three_roles_of_other_sizes():
    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 1
        order = hx.turns(3)
        for which in hx.static_range(3):
            with hx.warp_groups_consumer(2 if which == 2 else 1):
                for _ in range(n):
                    with order.turn(which):
                        hx.primitive("report", which)

    program = trace(define(kernel), {}, Promise())
    verify(program)
    assert [b.threads for b in program.named_barriers] == [128 + 256, 256, 256 + 128]


def test_skipping_slots_turns_the_parity():
    """slot and parity after skipping t slots from (s, p), against counting one by one."""
    program = program_of(rk.taking_turns)
    inside = list(statements(program.body[1].body))
    moves = [s for s in inside if isinstance(s, Assign) and "//" in str(s.value)]
    turned = next(s for s in moves if s.var.name.startswith("pipe_wait_round"))
    steps = next(
        s
        for s in inside
        if isinstance(s, Assign) and s.var.name == "pipe_wait_slot" and "%" in str(s.value)
    )
    for stages_from in range(3):
        for parity in (0, 1):
            for count in range(8):
                known = {
                    "pipe_wait_slot": as_scalar(stages_from),
                    "pipe_wait_round": as_scalar(parity),
                    "k": as_scalar(64 * count),
                }
                slot, turn = stages_from, parity
                for _ in range(count):
                    slot, turn = (0, turn ^ 1) if slot == 2 else (slot + 1, turn)
                assert substitute(steps.value, known).value == slot
                assert substitute(turned.value, known).value == turn


def test_persistent_blocks_share_the_tiles_out():
    program = program_of(rk.taking_turns)
    x, y, z = program.grid_dim
    known = {"m": as_scalar(640), "n": as_scalar(64), "k": as_scalar(64)}
    for gpu, blocks in ((132, 10), (4, 4), (1, 1)):
        known[MULTIPROCESSORS.name] = as_scalar(gpu)
        assert substitute(x, known).value == blocks
    assert str(y) == str(z) == "1"
    assert "range(blockIdx.x, cdiv(m, 64) * cdiv(n, 64), gridDim.x)" in show_program(
        program
    )


def test_persistent_grids_are_whole_clusters():
    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.cluster_dim = 4
        with hx.warp_groups_consumer():
            for tile in hx.persistent(n):
                hx.primitive("report", tile, hx.cluster_rank())

    x = trace(define(kernel), {}, Promise()).grid_dim[0]
    for tiles, gpu, blocks in ((3, 132, 12), (100, 132, 132), (1000, 114, 112), (1000, 2, 4)):
        known = {"n": as_scalar(tiles), MULTIPROCESSORS.name: as_scalar(gpu)}
        assert substitute(x, known).value == blocks


@pytest.mark.parametrize("cluster", [1, 2])
def test_even_grids_have_no_more_blocks_than_their_rounds_need(cluster):
    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.cluster_dim = cluster
        with hx.warp_groups_consumer():
            for tile in hx.persistent(n, even=True):
                hx.primitive("report", tile, hx.cluster_rank())

    x = trace(define(kernel), {}, Promise()).grid_dim[0]
    for tiles, gpu in ((512, 132), (384, 132), (264, 132), (265, 132), (7, 132), (1, 1), (0, 132)):
        known = {"n": as_scalar(tiles), MULTIPROCESSORS.name: as_scalar(gpu)}
        most = max(gpu // cluster, 1)
        rounds = -(-tiles // most)
        least = next(c for c in range(1, most + 1) if c * rounds >= tiles)
        assert substitute(x, known).value == least * cluster
    assert substitute(x, {"n": as_scalar(512), MULTIPROCESSORS.name: as_scalar(132)}).value == 128


def test_an_evenness_that_is_no_bool_is_refused():
    def kernel(a: f16[m, k], n: i32):
        with hx.warp_groups_consumer():
            for tile in hx.persistent(n, even=n):
                hx.primitive("report", tile)

    with pytest.raises(FrontendError, match="hx.persistent with even=") as caught:
        trace(define(kernel), {}, Promise())
    assert caught.value.fix == "write even=True or even=False"


def test_a_grid_that_is_set_stays():
    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 7
        with hx.warp_groups_consumer():
            for tile in hx.persistent(n):
                hx.primitive("report", tile)

    assert str(trace(define(kernel), {}, Promise()).grid_dim[0]) == "7"


def test_raw_barriers_print_as_what_they_do():
    lines = [line.strip() for line in show_program(program_of(rk.by_hand)).splitlines()]
    for line in (
        "full = 2 mbarriers of 1 arrivals",
        "empty = 2 mbarriers of 128 arrivals",
        "wait empty[i % 2] parity ((i // 2) + 1) % 2",
        "expect full[i % 2] bytes 8192",
        "%0 copy view_a[:, :, i] -> sa[:, :, i % 2] completes full[i % 2]",
        "arrive empty[(i + -1) % 2]",
    ):
        assert line in lines


def test_a_cluster_and_its_ranks():
    program = program_of(rk.clustered)
    text = show_program(program)
    assert "clusters (2, 1, 1)" in text and "remote met[0] block 1 - (blockIdx.x & 1)" in text
    assert [line.strip() for line in text.splitlines()[-2:]] == ["cluster arrive", "cluster wait"]


def test_ranks_count_x_fastest():
    def kernel(a: f16[m, k], n: i32):
        hx.attrs.cuda.grid_dim = 4, 4, 4
        hx.attrs.cuda.block_dim = 32
        hx.attrs.cuda.cluster_dim = 2, 1, 4
        hx.primitive("report", hx.cluster_rank())

    rank = trace(define(kernel), {}, Promise()).body[0].args[0]
    found = {
        (x, z): substitute(rank, {"blockIdx.x": as_scalar(x), "blockIdx.z": as_scalar(z)}).value
        for x in range(2)
        for z in range(4)
    }
    assert found == {(x, z): x + 2 * z for x in range(2) for z in range(4)}


def test_several_contexts_in_one_with():
    """`with a, b:` is `with a:` around `with b:`."""

    def nested_ones(a, n):
        ga = hx.global_view(a[:, :], ((64, 64, 4), (k, 1, 64)))
        sa = hx.shared_tensor(f16, (64, 64, 2))
        pipe = hx.pipeline(2)
        with hx.warp_groups_producer():  # noqa: SIM117
            with pipe.produce() as s:
                hx.copy(ga[:, :, 0], sa[:, :, s])
        with hx.warp_groups_consumer():  # noqa: SIM117
            with pipe.consume() as s:
                hx.primitive("report", s)

    def one_line(a, n):
        ga = hx.global_view(a[:, :], ((64, 64, 4), (k, 1, 64)))
        sa = hx.shared_tensor(f16, (64, 64, 2))
        pipe = hx.pipeline(2)
        with hx.warp_groups_producer(), pipe.produce() as s:
            hx.copy(ga[:, :, 0], sa[:, :, s])
        with hx.warp_groups_consumer(), pipe.consume() as s:
            hx.primitive("report", s)

    assert show_program(traced(one_line)) == show_program(traced(nested_ones))
