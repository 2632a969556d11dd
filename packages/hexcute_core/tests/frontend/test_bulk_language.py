"""Reductions, cache hints and prefetches of the language: refused where they cannot be, planned,
run lane by lane as they are meant, and in the machine code."""

# ruff: noqa: B018
import inspect
from dataclasses import replace

import bulk_kernels as bk
import numpy as np
import pytest
from refusals import Refusals, check_refused
from sm90_reading import prims

import hexcute_core as hx
from hexcute_core import bf16, dtypes, f16, f32, i32, i64, u32, u64
from hexcute_core.driver.simulation import compare_with_tile_program
from hexcute_core.errors import MissingDependency, NoLayout, VerifyError
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.synthesis.proof.check import check
from hexcute_core.thread.printer import show_program as show_thread
from hexcute_core.tile import Copy
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.verify import verify as verify_tile

m, k = hx.dims("m k")
COMBINE = {"add": np.add, "min": np.minimum, "max": np.maximum}
REDUCTIONS = [
    (f16, "add"), (bf16, "add"), (f32, "add"), (i32, "add"), (u32, "add"), (u64, "add"),
    (f16, "min"), (bf16, "max"), (i32, "min"), (u32, "max"), (i64, "min"), (u64, "max"),
]  # fmt: skip
refused = Refusals()


@refused.case('combines by "add", "min", "max"', "reduce='mul'", "combine in registers")
def unknown_reduction(a, n):
    s = hx.shared_tensor(f16, (16, 64))
    hx.copy(s, hx.global_view(a, ((16, 64), (k, 1))), reduce="mul")  # here


@refused.case("shared memory with global", "register tile `r`", "hx.syncthreads()", "hx.copy(sha")
def reduction_of_registers(a, n):
    r = hx.register_tensor(f16, (16, 64))
    hx.copy(r, hx.global_view(a, ((16, 64), (k, 1))), reduce="add")  # here


@refused.case("register tile `r`", "hx.sync_role()")
def reduction_of_registers_in_a_role(a, n):
    with hx.warp_groups_consumer():
        r = hx.register_tensor(f16, (16, 64))
        hx.copy(r, hx.global_view(a, ((16, 64), (k, 1))), reduce="add")  # here


@refused.case("shared memory with global", "to f16 shared tile `s`", "leave reduce= out")
def reduction_into_shared(a, n):
    s = hx.shared_tensor(f16, (16, 64))
    hx.copy(hx.global_view(a, ((16, 64), (k, 1))), s, reduce="max")  # here


@refused.case("completes on no mbarrier")
def reduction_that_completes(a, n):
    s, bar = hx.shared_tensor(f16, (16, 64)), hx.mbarrier(1)
    hx.copy(s, hx.global_view(a, ((16, 64), (k, 1))), reduce="add", mbarrier=bar)  # here


@refused.case("no hint='evict_never'", '"evict_first", "evict_last"')
def unknown_hint(a, n):
    r = hx.register_tensor(f16, (16, 64))
    hx.copy(hx.global_view(a, ((16, 64), (k, 1))), r, hint="evict_never")  # here


@refused.case("speaks of L2", "shared tile `s`", "leave hint= out")
def hint_for_shared_memory(a, n):
    r, s = hx.register_tensor(f16, (16, 64)), hx.shared_tensor(f16, (16, 64))
    hx.copy(r, s, hint="evict_first")  # here


@refused.case("brings global memory into L2", "shared tile `s`", "pass a global view")
def prefetch_of_shared_memory(a, n):
    s = hx.shared_tensor(f16, (16, 64))
    hx.prefetch(s)  # here


@refused.case("expects a tile, got the tensor parameter `a`")
def prefetch_of_a_parameter(a, n):
    hx.prefetch(a)  # here


@refused.case("condition depends on the thread")
def prefetch_by_some(a, n):
    view = hx.global_view(a, ((16, 64), (k, 1)))
    if hx.threadIdx.x == 0:
        hx.prefetch(view)  # here


@pytest.mark.parametrize(("body", "expected", "threads"), refused.params)
def test_what_the_language_refuses(body, expected, threads):
    check_refused(body, expected, threads)


@pytest.mark.parametrize(("dtype", "op"), [(f32, "max"), (i64, "add"), (dtypes.f8e4m3, "add")])
def test_types_that_tma_does_not_combine(dtype, op):
    with pytest.raises(hx.errors.FrontendError) as caught:
        bk.folded(dtype, op).compile("sm_90").tile
    text = str(caught.value)
    assert f"TMA does not combine {dtype} by {op}: {dtype} global tile `view`" in text
    assert "use one of f16, bf16, " in text
    assert caught.value.span.line == line_of("# combined")


def line_of(mark):
    lines = inspect.getsource(bk).splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(mark))


@pytest.mark.parametrize(
    ("target", "aligned", "reason", "fix"),
    [("sm_90", False, "tma.reduce.add: `y` is not known to be aligned", "multiple_of"),
     ("sm_80", True, "tma.reduce.add: sm_80 has no TMA", 'compile with target="sm_90"')],
)  # fmt: skip
def test_only_tma_combines(target, aligned, reason, fix):
    with pytest.raises(NoLayout) as caught:
        bk.folded(f32, "add").compile(target, aligned=aligned).thread
    assert reason in str(caught.value) and fix in str(caught.value)
    assert caught.value.span.line == line_of("# combined")


def whole(rng, dtype, *shape):
    low = 0 if dtype.kind == "uint" else -4
    return rng.integers(low, 5, shape).astype(storage(dtype))


def run(kernel, *args, **constants):
    """Every stage verified, the lanes' bits those that the tile program means."""
    compiled = kernel.compile("sm_90", verify=True, **constants)
    report, wrong = compare_with_tile_program(compiled, args, schedules=3)
    assert not report.findings and not wrong
    return report, compiled


@pytest.mark.parametrize(("dtype", "op"), REDUCTIONS)
def test_reductions(dtype, op):
    """Every block combines its rows with those of all others; the last columns stick out."""
    rng = np.random.default_rng(0)
    x, y = whole(rng, dtype, 192, 72), whole(rng, dtype, 64, 72)
    meant = COMBINE[op].reduce([*x.reshape(3, 64, 72), y])
    report, compiled = run(bk.folded(dtype, op), x, y)
    assert np.array_equal(y, meant)
    boxes = len(prims(compiled.thread, f"tma.reduce.{op}"))
    assert report.counters.instructions[f"tma.reduce.{op}"] >= 6 * boxes > 0
    assert report.counters.instructions["tma.wait.read"] == 6


@pytest.mark.parametrize("op", ["min", "max"])
def test_nan_is_left_out_of_minima(op):
    x, y = np.full((64, 64), np.nan, np.float16), np.full((64, 64), 3, np.float16)
    run(bk.folded(f16, op), x, y)
    assert (y == 3).all()


@pytest.mark.parametrize("columns", [0, 32, 100, 320])
def test_slots_are_added_to_memory_where_they_are(columns):
    rng = np.random.default_rng(columns)
    x, y = whole(rng, i32, 72, columns), whole(rng, i32, 72, 32)
    padded = np.pad(x, ((0, 0), (0, -columns % 32)))
    meant = y + padded.reshape(72, -1, 32).sum(1)
    report, compiled = run(bk.accumulated, x, y)
    assert np.array_equal(y, meant)
    assert ("tma.load.evict_first" in report.counters.instructions) == (columns > 0)
    # The slot is freed when TMA has read it.
    assert prims(compiled.thread, "tma.wait.read")


@pytest.mark.parametrize("cluster", [1, 2])
def test_hints_and_prefetches_in_roles(cluster):
    rng = np.random.default_rng(1)
    a, b, c = whole(rng, f16, 130, 328), whole(rng, f16, 72, 328), np.zeros((130, 72), np.float16)
    report, compiled = run(bk.hinted, a, b, c, CLUSTER=cluster)
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
    used = report.counters.instructions
    of_b = "tma.load.evict_last" if cluster == 1 else "tma.load.multicast.evict_last"
    assert used["tma.load.evict_first"] == used[of_b] == used["tma.prefetch"] > 0
    assert used["tma.store.evict_first"] > 0 and "tma.store" not in used and "tma.load" not in used
    assert len(compiled.thread.maps) == 3, "a prefetch takes the tensor map of the load"
    text = compiled.explain()
    assert "copy ga -> sa: tma.load x1, 8192 bytes, box 64x64, swizzle 128, evict_first" in text
    assert "prefetch ga: tma.prefetch x1, 8192 bytes, box 64x64" in text


def test_a_prefetch_is_one_thread_s():
    """A role of loads and prefetches alone is still a single thread's, which asks no further."""
    lines = [line.strip() for line in show_thread(bk.hinted.compile("sm_90").thread).splitlines()]
    (at,) = (i for i, line in enumerate(lines) if line.startswith("tma.prefetch"))
    assert lines[at - 2].startswith("mbarrier.wait") and lines[at - 1].startswith("s: i32 =")
    assert lines[at + 1].startswith("mbarrier.expect")
    x = whole(np.random.default_rng(2), f16, 200, 512)
    y = np.zeros_like(x)
    report, compiled = run(bk.ahead, x, y)
    assert np.array_equal(y, x + x)
    assert report.counters.instructions["tma.prefetch"] == 4 * 2, "two boxes of 256 columns"
    assert "evict_first ignored: only TMA takes a hint" in compiled.explain()


@pytest.mark.parametrize(
    ("target", "aligned", "reason"),
    [("sm_90", False, "`x` is not known to be aligned to 16 bytes"),
     ("sm_80", True, "sm_80 has no TMA")],
)  # fmt: skip
def test_a_prefetch_that_cannot_be_does_nothing(target, aligned, reason):
    compiled = bk.ahead.compile(target, aligned=aligned, verify=True)
    assert f"prefetch gx: nothing, {reason}" in compiled.explain(rejected=0)
    assert f"prefetch gx: tma.prefetch: {reason}" in compiled.explain(rejected=None)
    assert not compiled.thread.maps
    x, y = np.ones((130, 512), np.float16), np.zeros((130, 512), np.float16)
    compiled.simulate(x, y)
    assert (y == 2).all()


def test_programs_in_print():
    text = show_program(bk.hinted.compile("sm_90").tile)
    assert "copy ga[:, :, i] -> sa[:, :, s] evict_first\n" in text
    assert "prefetch ga[:, :, i + 3]\n" in text
    assert "copy s -> view by min evict_last\n" in show_program(
        bk.folded(i32, "min", "evict_last").compile("sm_90").tile
    )


def test_the_verifier_knows_reductions_and_hints():
    tile = bk.folded(i32, "min").compile("sm_90").tile
    verify_tile(tile)
    last = tile.body[-1]
    assert isinstance(last, Copy)
    load = next(s for s in tile.body if isinstance(s, Copy))
    broken = {
        "`view` combined with `s`": replace(last, src=last.dst, dst=last.src),
        "i32 combined by xor": replace(last, reduce="xor"),
        "a copy with the hint evict_never": replace(last, hint="evict_never"),
        "`view_x` combined with `r`": replace(load, reduce="add", id=last.id),
    }
    for message, stmt in broken.items():
        with pytest.raises(VerifyError, match=message):
            verify_tile(replace(tile, body=(*tile.body[:-1], stmt)))


def test_the_checker_wants_what_the_copy_says():
    solution = bk.folded(i32, "min").compile("sm_90").solution
    check(solution)
    (number, plan), = solution.bulk.items()  # fmt: skip
    for name in ("tma.store", "tma.load", "tma.reduce.max"):
        with pytest.raises(VerifyError, match=f"{name} is not what the copy says"):
            check(replace(solution, bulk={number: replace(plan, name=name)}))
    with pytest.raises(VerifyError, match="nothing combines `s` by min"):
        check(replace(solution, bulk={}))
    ahead = bk.ahead.compile("sm_90").solution
    (number, plan), = ahead.bulk.items()  # fmt: skip
    with pytest.raises(VerifyError, match="tma.prefetch does not cover the tile"):
        check(replace(ahead, bulk={number: replace(plan, reps=())}))


@hx.kernel(cache=False)
def beside(a: f16[m, k], c: f16[m, 64], t: f16[m, k]):
    """t = a through a ring; for each of its slots the producer adds ones to c."""
    hx.attrs.cuda.grid_dim = 1
    tiles = hx.cdiv(k, 64)
    ga, gt = (hx.global_view(x, ((64, 64, tiles), (k, 1, 64))) for x in (a, t))
    sa, ones = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        hx.fill(ones, 1.0)
        hx.sync_role()
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(ones, hx.global_view(c, ((64, 64), (64, 1))), reduce="add")
    with hx.warp_groups_consumer():
        r = hx.register_tensor(f16, (64, 64))
        for i in range(tiles):
            with pipe.consume() as s:
                hx.copy(sa[:, :, s], r)
            hx.copy(r, gt[:, :, i])


def test_what_a_slot_s_body_stores_is_no_load_of_the_slot():
    rng = np.random.default_rng(0)
    a, c = whole(rng, f16, 64, 328), np.zeros((64, 64), np.float16)
    t = np.zeros_like(a)
    run(beside, a, c, t)
    assert np.array_equal(t, a) and (c == 6).all()


PTX = {
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group.L2::cache_hint [":
        lambda: bk.folded(f16, "max", "evict_last"),
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [":
        lambda: bk.accumulated,
    "createpolicy.fractional.L2::evict_last.b64": lambda: bk.hinted,
    "complete_tx::bytes.L2::cache_hint [": lambda: bk.hinted,
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [": lambda: bk.ahead,
}  # fmt: skip


@pytest.mark.parametrize("text", PTX)
def test_generated_ptx(text):
    compiled = PTX[text]().compile("sm_90")
    try:
        ptx = compiled.ptx()
    except MissingDependency as error:
        pytest.skip(str(error))
    assert text in ptx


def test_machine_code():
    try:
        adds, fetches = (x.compile("sm_90").sass() for x in (bk.folded(f32, "add"), bk.ahead))
    except MissingDependency as error:
        pytest.skip(str(error))
    assert "UTMAREDG.2D.ADD" in adds and "UTMAPF.L2.2D" in fetches
