"""Atomics, votes and sub-byte types against Python's own integers, in lockstep and as agents."""

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Call, Cast, Const, Element, Var, compare
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
)

TX, BX = Var("threadIdx.x"), Var("blockIdx.x")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
THREADS, BLOCKS = 64, 3
SEEDS = [0, 1, 2]


def number(value, dtype=dt.i32):
    return Const(value, dtype)


def regs(array, dtype, width=1):
    return Regs(array, ZERO, (0,), width, dtype)


def run(body, arrays, seed=0, shared=0, grid=1, threads=THREADS, **options):
    types = {"float32": dt.f32, "int32": dt.i32, "uint32": dt.u32, "int64": dt.i64, "uint8": dt.u8,
             "float16": dt.f16}  # fmt: skip
    params = tuple(
        ThreadParam(n, types[str(a.dtype)], (number(a.size),), pointer=True, aligned=True)
        for n, a in arrays.items()
    )
    made = ThreadProgram("k", params, (number(grid), ONE, ONE), threads, shared, tuple(body))
    return simulate(made, arrays, {}, seed=seed, **options)


def updated(op, old, value, bits=32, signed=True):
    """One atomic update of Python integers."""
    match op:
        case "inc":
            return 0 if old >= value else old + 1
        case "dec":
            return value if old == 0 or old > value else old - 1
        case "exch":
            return value
    functions = {"add": int.__add__, "min": min, "max": max, "and": int.__and__,
                 "or": int.__or__, "xor": int.__xor__}  # fmt: skip
    result = functions[op](old, value) % 2**bits
    return result - 2**bits if signed and result >= 2 ** (bits - 1) else result


CASES = [(op, "i32") for op in ("add", "min", "max", "and", "or", "xor")]
CASES += [("inc", "u32"), ("dec", "u32"), ("add", "u32")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("op", "kind"), CASES)
def test_reductions_into_few_places(op, kind, seed):
    """64 threads of 3 blocks meet in 5 places; every order leaves the same."""
    dtype, cell = (dt.i32, np.int32) if kind == "i32" else (dt.u32, np.uint32)
    value = Cast(TX * 7 % 23 + 3, dtype) if op not in ("inc", "dec") else number(9, dtype)
    place = GlobalPtr("x", TX % 5, dtype)
    body = [
        DeclareArray("v", dtype, 1),
        SetElement("v", ZERO, value),
        Prim(f"red.global.{op}.{kind}", (place, regs("v", dtype), TRUE)),
    ]
    x = np.array([0, 4, 9, 100, 2], dtype=cell)
    expected = [int(v) for v in x]
    for _ in range(BLOCKS):
        for t in range(THREADS):
            given = 9 if op in ("inc", "dec") else t * 7 % 23 + 3
            expected[t % 5] = updated(op, expected[t % 5], given, signed=kind == "i32")
    run(body, {"x": x}, seed, grid=BLOCKS)
    assert [int(v) for v in x] == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_tickets_are_handed_out_once(seed):
    body = [
        DeclareArray("one", dt.i32, 1),
        DeclareArray("t", dt.i32, 1),
        SetElement("one", ZERO, ONE),
        Prim("atom.global.add.i32", (regs("t", dt.i32), GlobalPtr("n", ZERO, dt.i32),
                                     regs("one", dt.i32), TRUE)),
        Prim("st.global.4", (GlobalPtr("y", BX * THREADS + TX, dt.i32), regs("t", dt.i32), TRUE)),
    ]  # fmt: skip
    n, y = np.zeros(1, dtype=np.int32), np.zeros(BLOCKS * THREADS, dtype=np.int32)
    run(body, {"n": n, "y": y}, seed, grid=BLOCKS)
    assert sorted(y) == list(range(BLOCKS * THREADS))
    assert n[0] == BLOCKS * THREADS


@pytest.mark.parametrize("seed", SEEDS)
def test_compare_and_swap_lets_one_thread_win(seed):
    """Threads put their number + 1 where 0 is; the winner reads 0, the others the winner's."""
    body = [
        DeclareArray("zero", dt.i32, 1),
        DeclareArray("mine", dt.i32, 1),
        DeclareArray("old", dt.i32, 1),
        SetElement("zero", ZERO, ZERO),
        SetElement("mine", ZERO, TX + 1),
        If(
            compare("eq", TX, 0),
            (Prim("st.shared.4", (SharedPtr(ZERO), regs("zero", dt.i32))),),
        ),
        Prim("bar.sync", ()),
        Prim("atom.shared.cas.i32", (regs("old", dt.i32), SharedPtr(ZERO), regs("zero", dt.i32),
                                     regs("mine", dt.i32))),
        Prim("st.global.4", (GlobalPtr("y", TX, dt.i32), regs("old", dt.i32), TRUE)),
    ]  # fmt: skip
    y = np.zeros(THREADS, dtype=np.int32)
    run(body, {"y": y}, seed, shared=16)
    (winner,) = np.flatnonzero(y == 0)
    assert set(y[np.arange(THREADS) != winner]) == {winner + 1}
    if seed:
        return
    assert winner == 0


def test_several_elements_a_lane_and_a_predicate():
    body = [
        DeclareArray("v", dt.f32, 4),
        *(SetElement("v", number(i), (TX + 1) * (i + 1.0)) for i in range(4)),
        Prim(
            "red.global.add.f32",
            (GlobalPtr("x", ZERO, dt.f32), regs("v", dt.f32, 4), compare("lt", TX, 10)),
        ),
    ]
    x = np.zeros(4, dtype=np.float32)
    run(body, {"x": x})
    np.testing.assert_array_equal(x, 55 * np.arange(1, 5))


@pytest.mark.parametrize(
    ("name", "width"),
    [("red.global.add.f32.v4", 4), ("red.global.add.f16.v2", 2), ("red.global.add.f16.v8", 8)],
)
def test_one_instruction_for_several_elements(name, width):
    dtype = dt.BY_NAME[name.split(".")[3]]
    place = GlobalPtr("x", TX % 2 * width, dtype)
    body = [
        DeclareArray("v", dtype, width),
        *(SetElement("v", number(i), Cast(TX % 4 + i, dtype)) for i in range(width)),
        Prim(name, (place, regs("v", dtype, width), TRUE)),
    ]
    x = np.zeros(2 * width, dtype=np.float16 if dtype == dt.f16 else np.float32)
    report = run(body, {"x": x})
    # Of 64 threads, those that are even bring 0 and 2 in turns, the others 1 and 3.
    meant = [32 * (half + 1) + 32 * i for half in (0, 1) for i in range(width)]
    np.testing.assert_array_equal(x, meant)
    assert report.counters.instructions[name] == THREADS // 32


def test_a_vector_lies_at_a_multiple_of_itself():
    body = [
        DeclareArray("v", dt.f32, 2),
        *(SetElement("v", number(i), number(1.0, dt.f32)) for i in range(2)),
        Prim("red.global.add.f32.v2", (GlobalPtr("x", TX + 1, dt.f32), regs("v", dt.f32, 2), TRUE)),
    ]
    with pytest.raises(SimulationError, match="of 8 bytes at byte 4 of x is misaligned"):
        run(body, {"x": np.zeros(80, dtype=np.float32)}, threads=32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("scopes", "wrong"), [(("", ""), 0), ((".cta", ".cta"), 1), (("", ".cta"), 1)]
)
def test_the_scope_of_the_block_is_too_narrow_for_two(scopes, wrong, seed):
    """Blocks that add to one place race, whatever they add, unless both say that they may meet."""
    adds = [
        Prim(f"red.global.add.i32{scope}", (GlobalPtr("x", ZERO, dt.i32), regs("v", dt.i32), TRUE))
        for scope in scopes
    ]
    body = [
        DeclareArray("v", dt.i32, 1),
        SetElement("v", ZERO, ZERO),
        If(compare("eq", BX, 0), (adds[0],), (adds[1],)),
    ]
    report = run(body, {"x": np.zeros(1, dtype=np.int32)}, seed, grid=2, check=False)
    assert len(report.findings) == wrong
    for finding in report.findings:
        assert finding.kind == "race"
        assert "atomic to the threads of one block alone" in finding.message
    one = run(body, {"x": np.zeros(1, dtype=np.int32)}, seed, grid=1, check=False)
    assert not one.findings


@pytest.mark.parametrize("space", ["global", "shared"])
def test_subnormals_are_zeros_in_global_sums(space):
    tiny = np.finfo(np.float32).smallest_subnormal
    least = np.finfo(np.float32).tiny
    place = SharedPtr(TX * 4) if space == "shared" else GlobalPtr("x", TX, dt.f32)
    pred = (TRUE,) if space == "global" else ()
    value = regs("v", dt.f32)
    lane = GlobalPtr("x", TX, dt.f32)
    body = [
        DeclareArray("v", dt.f32, 1),
        Prim("ld.global.4", (value, lane, TRUE)),
        Prim("st.shared.4", (SharedPtr(TX * 4), value)),
        Prim("ld.global.4", (value, GlobalPtr("y", TX, dt.f32), TRUE)),
        Prim(f"red.{space}.add.f32", (place, value, *pred)),
        *(
            [Prim("ld.shared.4", (value, SharedPtr(TX * 4))),
             Prim("st.global.4", (lane, value, TRUE))]
            if space == "shared" else []
        ),
    ]  # fmt: skip
    x = np.array([least, tiny, -tiny, 1] * 8, dtype=np.float32)
    y = np.array([tiny, tiny, -0.0, least] * 8, dtype=np.float32)
    left = [least, 0, -0.0, 1] if space == "global" else [least + tiny, 2 * tiny, -tiny, 1]
    run(body, {"x": x, "y": y}, shared=128, threads=32)
    expected = np.array(left * 8, dtype=np.float32)
    np.testing.assert_array_equal(x.view(np.uint32), expected.view(np.uint32))


def test_the_order_of_float_additions_is_drawn():
    body = [
        DeclareArray("v", dt.f32, 1),
        SetElement("v", ZERO, (TX % 7) * 33333.3 + (TX % 5) * 0.37),
        Prim("red.global.add.f32", (GlobalPtr("x", ZERO, dt.f32), regs("v", dt.f32), TRUE)),
    ]
    report = run(body, {"x": np.zeros(1, dtype=np.float32)}, schedules=6)
    assert not report.deterministic


def test_a_plain_access_races_with_an_atomic():
    update = Prim("red.shared.add.i32", (SharedPtr(ZERO), regs("v", dt.i32)))
    read = Prim("ld.shared.4", (regs("v", dt.i32), SharedPtr(ZERO)))
    zero = If(compare("eq", TX, 0), (Prim("st.shared.4", (SharedPtr(ZERO), regs("v", dt.i32))),))
    start = [DeclareArray("v", dt.i32, 1), SetElement("v", ZERO, ONE), zero, Prim("bar.sync", ())]
    run([*start, update, update, Prim("bar.sync", ()), read], {}, shared=16)
    with pytest.raises(SimulationError, match="race on shared byte 0"):
        run([*start, update, read], {}, shared=16)


@pytest.mark.parametrize(
    "name",
    [
        "atom.global.add",
        "red.global.cas.i32",
        "red.global.inc.i32",
        "atom.local.add.i32",
        "red.global.add.i32.acquire",
        "red.shared.add.i32.acq_rel",
    ],
)
def test_atomics_that_no_machine_has(name):
    body = [DeclareArray("v", dt.i32, 1), Prim(name, (GlobalPtr("x", ZERO, dt.i32), TRUE))]
    with pytest.raises(SimulationError, match="no meaning for the primitive"):
        run(body, {"x": np.zeros(1, dtype=np.int32)})


@pytest.mark.parametrize("seed", SEEDS)
def test_votes_are_a_warps(seed):
    asks = compare("ge", TX, 40)
    votes = [
        Cast(Call("vote.any", (asks,), dt.boolean), dt.u32),
        Cast(Call("vote.all", (asks,), dt.boolean), dt.u32),
        Call("vote.ballot", (asks,), dt.u32),
    ]
    body = [DeclareArray("v", dt.u32, 1)]
    for i, vote in enumerate(votes):
        body += [
            Assign(Var(f"vote{i}", dt.u32), vote, True),
            SetElement("v", ZERO, Var(f"vote{i}", dt.u32)),
            Prim("st.global.4", (GlobalPtr("y", TX + i * 96, dt.u32), regs("v", dt.u32), TRUE)),
        ]
    y = np.zeros(288, dtype=np.uint32)
    run(body, {"y": y}, seed, threads=96)
    any_, all_, ballot = y.reshape(3, 3, 32)
    assert [set(row) for row in any_] == [{0}, {1}, {1}]
    assert [set(row) for row in all_] == [{0}, {0}, {1}]
    bits = [0, sum(1 << lane for lane in range(8, 32)), 2**32 - 1]
    assert [set(row) for row in ballot] == [{b} for b in bits]


@pytest.mark.parametrize("dtype", [dt.i4, dt.u4, dt.i2, dt.u2, dt.i1, dt.u1])
def test_narrow_integers_through_shared_memory(dtype):
    """Each thread moves 4 bytes of packed elements through shared memory and widens them."""
    count = 32 // dtype.bits
    rng = np.random.default_rng(3)
    packed = rng.integers(0, 256, 4 * THREADS, dtype=np.uint8)
    wide = np.zeros(count * THREADS, dtype=np.int32)
    fields = np.unpackbits(packed, bitorder="little").reshape(-1, dtype.bits)
    expected = (fields * (1 << np.arange(dtype.bits))).sum(axis=1).astype(np.int32)
    if dtype.kind == "int":
        expected = np.where(expected >> (dtype.bits - 1), expected - (1 << dtype.bits), expected)
    part = regs("e", dtype, count)
    body = [
        DeclareArray("e", dtype, count),
        DeclareArray("w", dt.i32, 1),
        Prim("ld.global.4", (part, GlobalPtr("x", TX * count, dtype), TRUE)),
        Prim("st.shared.4", (SharedPtr(TX * 4), part)),
        Prim("bar.sync", ()),
        Prim("ld.shared.4", (part, SharedPtr((TX ^ 33) * 4))),
    ]
    for i in range(count):
        place = GlobalPtr("y", (TX ^ 33) * count + i, dt.i32)
        body += [
            SetElement("w", ZERO, Cast(Element("e", (number(i),), dtype), dt.i32)),
            Prim("st.global.4", (place, regs("w", dt.i32), TRUE)),
        ]
    params = (
        ThreadParam("x", dtype, (number(count * THREADS),), pointer=True, aligned=True),
        ThreadParam("y", dt.i32, (number(count * THREADS),), pointer=True, aligned=True),
    )
    made = ThreadProgram("k", params, (ONE, ONE, ONE), THREADS, 4 * THREADS, tuple(body))
    for seed in SEEDS:
        wide[:] = 99
        simulate(made, {"x": packed, "y": wide}, {}, seed=seed)
        np.testing.assert_array_equal(wide, expected)
