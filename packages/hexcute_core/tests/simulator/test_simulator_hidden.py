"""What a GPU would silently do to memory is found on every schedule on which a rule is broken, and
the same program that keeps the rule is clean."""

import numpy as np
import pytest
from little_programs import (
    BAR,
    TRUE,
    TX,
    ZERO,
    ZEROS,
    all_find,
    at,
    findings,
    first,
    none_finds,
    number,
    opened,
    prim,
    program,
    regs,
    shared,
)

import hexcute_core as hx
from hexcute_core import dtypes as dt
from hexcute_core import f32
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Const, compare
from hexcute_core.thread import (
    DeclareArray,
    If,
    MapRef,
    MatrixDesc,
    Regs,
    SetElement,
    TensorMap,
)

# Several readers of one granule of global memory.
m, n = hx.dims("m n")


@hx.kernel(cache=False)
def smoothed(x: f32[8, 32], *, APART: bool = False):
    """Each block reads two rows and writes one of them: the second reader is the writer."""
    hx.attrs.cuda.grid_dim = 4
    hx.attrs.cuda.block_dim = 32
    a, b = hx.register_tensor(f32, (1, 32)), hx.register_tensor(f32, (1, 32))
    top = hx.blockIdx.x * 2 if APART else hx.blockIdx.x
    hx.copy(hx.global_view(x[top:, :], ((1, 32), (32, 1))), a)
    hx.copy(hx.global_view(x[top + 1 :, :], ((1, 32), (32, 1))), b)
    hx.copy(a + b, hx.global_view(x[top + 1 :, :], ((1, 32), (32, 1))))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_reader_before_the_last_one_counts(seed, apart):
    report = smoothed.simulate(
        np.ones((8, 32), np.float32), target="sm_80", seed=seed, check=False, APART=apart
    )
    assert ({f.kind for f in report.findings} == {"race"}) is not apart


def readers(count, waits):
    """So many warps read an element, in turn; warp 0 writes it when `waits` of them have told."""
    body = [DeclareArray("r", dt.f32, 1), SetElement("r", ZERO, Const(5.0, dt.f32))]
    everyone = prim("ld.global.4", regs(), at("x", 0), TRUE, line=1)
    counted = number(32 * (waits + 1))
    tell = prim("bar.named.arrive", number(1), counted)
    told = If(compare("le", TX, 32 * (waits + 1) - 1), (tell,))
    write = (prim("bar.named.sync", number(1), counted),
             prim("st.global.4", at("x", 0), regs(), compare("eq", TX, 0), line=2))
    body.append(If(compare("lt", TX, 32), write, (everyone, told)))
    return program(body, [("x", dt.f32, (4,))], 32 * (count + 1))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_writer_must_know_of_every_reader(count):
    x = {"x": np.zeros(4, np.float32)}
    none_finds(readers(count, count), x)
    for fewer in range(1, count):
        all_find(readers(count, fewer), x, "race on byte 0 of x")


# Arguments that overlap.
@hx.kernel(cache=False)
def shifted(x: f32[64], y: f32[64]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (64,))
    hx.copy(hx.global_view(x, ((64,), (1,))), r)
    hx.copy(r, hx.global_view(y, ((64,), (1,))))


def test_arguments_that_overlap_are_refused():
    z = np.zeros(65, np.float32)
    for x, y in ((z[:64], z[:64]), (z[:64], z[1:])):
        with pytest.raises(SimulationError, match="x and y overlap in memory, and shifted wr") as e:
            shifted.simulate(x, y, target="sm_80")
        assert e.value.fix == "pass y.copy()"
        shifted.simulate(x, y.copy(), target="sm_80")


# cp.async reads its source as late as its wait.
def overwritten(barrier, waits_first):
    """A copy's source is overwritten by its thread, or after a barrier by another one."""
    place = TX * -1 + 63 if barrier else TX
    store = [*([prim("bar.sync")] if barrier else []),
             prim("st.global.4", at("x", place), regs("v"), TRUE, line=2)]
    wait = [prim("cp.async.wait", ZERO, line=3)]
    body = [
        DeclareArray("r", dt.f32, 1), DeclareArray("v", dt.f32, 1),
        SetElement("v", ZERO, Const(5.0, dt.f32)),
        prim("cp.async.4", shared(TX * 4), at("x", TX), TRUE, line=1), prim("cp.async.commit"),
        *(wait + store if waits_first else store + wait), prim("bar.sync"),
        prim("ld.shared.4", regs(), shared(TX * 4)), prim("st.global.4", at("y", TX), regs(), TRUE),
    ]  # fmt: skip
    return program(body, [("x", dt.f32, (64,)), ("y", dt.f32, (64,))], 64)


@pytest.mark.parametrize("barrier", [False, True])
def test_the_source_of_a_copy_stays_until_the_wait(barrier):
    arrays = {"x": np.ones(64, np.float32), **ZEROS}
    none_finds(overwritten(barrier, waits_first=True), arrays)
    all_find(overwritten(barrier, waits_first=False), arrays, "before the wait for the asynchron")


def test_a_barrier_before_the_wait_does_not_free_the_source():
    """Some schedules let the issuer wait in time: the writer does not know it."""
    body = [
        DeclareArray("v", dt.f32, 1), SetElement("v", ZERO, Const(5.0, dt.f32)),
        If(compare("lt", TX, 32), (
            prim("cp.async.4", shared(TX * 4), at("x", TX), TRUE, line=1),
            prim("cp.async.commit"), prim("bar.sync"), prim("cp.async.wait", ZERO)),
            (prim("bar.sync"), prim("st.global.4", at("x", TX - 32), regs("v"), TRUE, line=2)),
        ),
    ]  # fmt: skip
    whole = program(body, [("x", dt.f32, (64,))], 64)
    found = findings(whole, {"x": np.ones(64, np.float32)}, range(12))
    assert {one.partition(":")[0].split(" on ")[0] for one in found} == {"use before wait", "race"}


# Engines: reads of one behind those of another, stores over stores, loads that nobody waits for.
BYTES = Regs("b", ZERO, (0,), 16, dt.u8)
PRODUCT = [
    prim("wgmma.fence"),
    prim("wgmma.64x8x16.f32.f16.f16.kk", Regs("c", ZERO, (0, 1, 2, 3), 1, dt.f32),
         MatrixDesc(ZERO, 16, 1024, 128), MatrixDesc(number(16384), 16, 1024, 128),
         Const(False, dt.boolean), line=23),
    prim("wgmma.commit"), prim("wgmma.wait", ZERO),
]  # fmt: skip


def stored_and_multiplied(waits):
    wait = first(prim("tma.wait.read", ZERO, line=30))
    body = [
        DeclareArray("b", dt.u8, 16), DeclareArray("c", dt.f32, 4),
        prim("ld.global.16", BYTES, at("x", TX * 16, dt.u8), TRUE),
        *[prim("st.shared.16", shared(TX * 16 + 2048 * i), BYTES) for i in range(12)],
        prim("fence.proxy"), prim("bar.sync"),
        first(prim("tma.store", MapRef("ym", (ZERO, ZERO)), shared(0), line=20),
              prim("tma.commit")),
        *PRODUCT, *([wait] if waits else []), prim("bar.sync"),
        If(compare("lt", TX, 2), (prim("st.shared.16", shared(TX * 16), BYTES, line=28),)),
        *([] if waits else [wait]),
    ]  # fmt: skip
    maps = (TensorMap("ym", "y", (64, 64), 128),)
    return program(body, [("x", dt.u8, (2048,)), ("y", dt.f16, (64, 64))], 128, maps=maps)


def test_a_product_does_not_hide_a_store_that_reads_the_same_bytes():
    x = np.arange(2048).astype(np.uint8)
    arrays = {"x": x, "y": np.zeros((64, 64), np.float16)}
    none_finds(stored_and_multiplied(waits=True), arrays)
    all_find(stored_and_multiplied(waits=False), arrays, "race on shared byte 0: st.shared.16")


@pytest.mark.parametrize("fence", [True, False])
def test_what_a_thread_has_read_takes_a_fence_before_a_product_uses_it(fence):
    """PTX ISA, wgmma.fence: between any access to a register and a product that accesses it."""
    body = [
        DeclareArray("b", dt.u8, 16), DeclareArray("c", dt.f32, 4),
        prim("ld.global.16", BYTES, at("x", TX * 16, dt.u8), TRUE),
        *[prim("st.shared.16", shared(TX * 16 + 2048 * i), BYTES) for i in range(12)],
        prim("fence.proxy"), prim("bar.sync"), *PRODUCT,
        prim("st.global.4", at("y", TX), regs("c"), TRUE), *PRODUCT[0 if fence else 1:],
    ]  # fmt: skip
    whole = program(body, [("x", dt.u8, (2048,)), ("y", dt.f32, (128,))], 128)
    arrays = {"x": np.zeros(2048, np.uint8), "y": np.zeros(128, np.float32)}
    if fence:
        none_finds(whole, arrays)
    else:
        all_find(whole, arrays, "uses registers c that were touched after the last wgmma.fence")


def stores(second, waits):
    """Two bulk stores of a thread, the second `second` bytes behind the first."""
    wait = [prim("tma.commit"), prim("tma.wait", ZERO)]
    one, other = (
        prim("bulk.store", at("y", start, dt.u8), shared(byte), number(64), line=line)
        for start, byte, line in ((0, 0, 1), (second, 512, 2))
    )
    body = [
        DeclareArray("b", dt.u8, 16), prim("ld.global.16", BYTES, at("x", TX * 16, dt.u8), TRUE),
        prim("st.shared.16", shared(TX * 16), BYTES), prim("st.shared.16", shared(TX * 16 + 512),
        BYTES), prim("fence.proxy"), prim("bar.sync"),
        first(one, *(wait if waits else []), other, *wait),
    ]  # fmt: skip
    return program(body, [("x", dt.u8, (512,)), ("y", dt.u8, (512,))], 32)


def test_bulk_stores_that_overlap_are_ordered_by_a_wait_alone():
    arrays = {"x": np.arange(512).astype(np.uint8), "y": np.full(512, 99, np.uint8)}
    none_finds(stores(64, waits=False), arrays)
    none_finds(stores(48, waits=True), arrays)
    all_find(stores(48, waits=False), arrays, "race on byte 48 of y")


def test_a_load_that_came_is_still_one_that_nobody_waited_for():
    load = first(
        prim("mbarrier.expect", shared(BAR), number(256)),
        prim("bulk.load", shared(0), at("x", 0), number(256), shared(BAR), line=1),
    )
    wait = prim("mbarrier.wait", shared(BAR), ZERO)
    params = [("x", dt.f32, (64,))]
    x = {"x": np.zeros(64, np.float32)}
    none_finds(program([*opened(), load, wait], params, 64), x)
    all_find(program([*opened(), load], params, 64), x, "nobody has waited for it")
