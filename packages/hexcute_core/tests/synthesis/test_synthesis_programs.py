"""Whole programs: bytes per instruction, chains of gemms, inserted rearranges, errors, time."""

import warnings
from time import perf_counter

import numpy as np
import pytest
import tile_builder
import tile_runs

from hexcute_core.arch import Mode, arch
from hexcute_core.dtypes import bf16, f8e4m3, f16, f32, i8, i32, u4
from hexcute_core.errors import LayoutConflict, NoLayout, RearrangeWarning
from hexcute_core.scalar import Const, Var, cast, maximum
from hexcute_core.synthesis import synthesize
from hexcute_core.synthesis.proof.check import check
from hexcute_core.tile import Copy
from hexcute_core.tile.visit import statements

SM80 = arch("sm_80")


def var(i, dtype=f16):
    return Var(f"${i}", dtype)


def copies(found):
    """The copies of the program that was solved."""
    return [s for s in statements(found.solution.program.body) if isinstance(s, Copy)]


def bytes_of(found, src, dst):
    """Bytes an instruction of the copy between two named tensors."""
    for stmt in copies(found):
        if (stmt.src.tensor, stmt.dst.tensor) == (src, dst):
            return found.solution.copies[stmt.id].row.bytes
    raise KeyError((src, dst))


def test_mixed_type_gemm_moves_as_many_bytes_as_published():
    """f16 activations times 4-bit weights with scales and zero points, one K step of an expert."""
    b = tile_builder.TileBuilder(threads=128)
    m, n, k = 64, 128, 64
    ga, gw, gc = b.tile("a", f16, m, k), b.tile("w", u4, n, k), b.tile("c", f16, m, n)
    gs, gz = (b.tile(x, f16, n, 1, major=(1, 0)) for x in ("scale", "zp"))
    sa, sw = b.shared("sa", f16, m, k), b.shared("sw", u4, n, k)
    ss, sz = b.shared("ss", f16, n, 1), b.shared("sz", f16, n, 1)
    ra, rw = b.register("ra", f16, m, k), b.register("rw", u4, n, k)
    rs, rz = b.register("rs", f16, n, 1), b.register("rz", f16, n, 1)
    wide, weights = b.register("wide", f16, n, k), b.register("weights", f16, n, k)
    rc, ro = b.register("rc", f32, m, n), b.register("ro", f16, m, n)
    b.fill(rc, 0.0, f32)
    with b.loop("i", 2):
        for source, target in ((ga, sa), (gw, sw), (gs, ss), (gz, sz)):
            b.copy(source, target)
        b.settle()
        for source, target in ((sa, ra), (sw, rw), (ss, rs), (sz, rz)):
            b.copy(source, target)
        b.cast(rw, wide)
        b.map(weights, (var(0) - var(1)) * var(2), wide, rz, rs)
        b.gemm(rc, ra, weights)
        b.sync()
    b.cast(rc, ro)
    b.copy(ro, gc)
    found = tile_runs.run(b.program())
    for source, target in (("g_a", "sa"), ("g_w", "sw"), ("g_scale", "ss"), ("g_zp", "sz")):
        assert bytes_of(found, source, target) == 16
    for source, target in (("sa", "ra"), ("sw", "rw"), ("ss", "rs"), ("sz", "rz")):
        assert bytes_of(found, source, target) >= 8
    assert bytes_of(found, "ro", "g_c") == 16
    assert not found.solution.exchanges, "weights are cast where they are"


def test_selective_scan_moves_as_many_bytes_as_published():
    """u, delta, z [d, l], B, C [n, l], A [d, n]: products over d x n x l, summed over n."""
    b = tile_builder.TileBuilder(threads=128)
    d, n, length = 16, 16, 64
    tiles = {
        "u": (f16, (d, 1, length), (1, 0, 2)), "delta": (f16, (d, 1, length), (1, 0, 2)),
        "z": (f16, (d, 1, length), (1, 0, 2)), "B": (f16, (1, n, length), (0, 1, 2)),
        "C": (f16, (1, n, length), (0, 1, 2)), "A": (f32, (d, n, 1), (2, 0, 1)),
    }  # fmt: skip
    held = {}
    for name, (dtype, shape, major) in tiles.items():
        source = b.tile(name, dtype, *shape, major=major)
        stage = b.shared(f"s_{name}", dtype, *shape)
        held[name] = b.register(f"r_{name}", dtype, *shape)
        b.copy(source, stage)
        b.settle()
        b.copy(stage, held[name])
    x, y = b.register("x", f32, d, n, length), b.register("y", f32, d, 1, length)
    out = b.register("out", f16, d, 1, length)
    delta, u, left, right = (cast(var(i), f32) for i in (1, 2, 3, 4))
    b.map(
        x,
        (var(0, f32) + delta) * u * left + right,
        *(held[t] for t in ("A", "delta", "u", "B", "C")),
    )
    b.reduce(x, y, 1)
    b.map(out, cast(var(0, f32) + cast(var(1), f32), f16), y, held["z"])
    b.copy(out, b.tile("o", f16, d, 1, length, major=(1, 0, 2)))
    found = tile_runs.run(b.program())
    for name in ("u", "delta", "z", "B", "C"):
        assert bytes_of(found, f"g_{name}", f"s_{name}") == 16
        assert bytes_of(found, f"s_{name}", f"r_{name}") == 16
    assert bytes_of(found, "g_A", "s_A") >= 4 and bytes_of(found, "s_A", "r_A") >= 8


def attention(threads=128, rows=64, keys=64, width=64, out=64, warps=(None, None), staged=True):
    """S = Q K^T, running maximum and sum, P = f(S), O = O * r + P V, over blocks of keys."""
    b = tile_builder.TileBuilder(threads=threads)

    def load(name, *shape, major=(0, 1)):
        source, held = b.tile(name, f16, *shape, major=major), b.register(f"r{name}", f16, *shape)
        if not staged:
            b.copy(source, held)
            return held
        stage = b.shared(f"s{name}", f16, *shape)
        b.copy(source, stage)
        b.settle()
        b.copy(stage, held)
        return held

    q = load("q", rows, width)
    top, new = b.register("top", f32, rows, 1), b.register("new", f32, rows, 1)
    total, part = b.register("total", f32, rows, 1), b.register("part", f32, rows, 1)
    o = b.register("o", f32, rows, out)
    b.fill(top, -100.0, f32)
    b.fill(total, 0.0, f32)
    b.fill(o, 0.0, f32)
    a, c, e = (var(i, f32) for i in range(3))
    with b.loop("j", 2):
        k = load("k", keys, width)
        s = b.register("s", f32, rows, keys)
        b.fill(s, 0.0, f32)
        b.gemm(s, q, k, warps[0])
        b.reduce(s, part, 1, "max")
        b.map(new, maximum(a, c), top, part)
        p, half = b.register("p", f32, rows, keys), b.register("half", f16, rows, keys)
        b.map(p, maximum(a - c, Const(-3.0, f32)), s, new)
        b.reduce(p, part, 1, "sum")
        b.map(total, a + (c - e) * 0.0 + part_sum(), total, top, new, part)
        b.map(o, a + (c - e) * 0.0, o, top, new)
        b.map(top, a, new)
        b.cast(p, half)
        v = load("v", out, keys, major=(1, 0))
        b.gemm(o, half, v, warps[1])
        b.sync()
    b.map(o, a + c, o, total)
    b.copy(o, b.tile("out", f32, rows, out))
    return b.program()


def part_sum():
    return var(3, f32)


@pytest.mark.parametrize("threads, rows", [(128, 64), (128, 128), (96, 48), (256, 128)])
def test_attention_agrees_on_warps_without_annotation(threads, rows):
    """P goes from the first product's accumulators into the second's operand where it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RearrangeWarning)
        found = tile_runs.run(attention(threads, rows))
    first, second = (plan for _, plan in sorted(found.solution.gemms.items()))
    assert first.groups == second.groups and first.groups[1] == 1
    assert not found.solution.exchanges and not found.solution.inserted


def test_attention_loads_v_transposed_and_reads_p_in_its_own_order():
    found = tile_runs.run(attention())
    names = {found.solution.copies[c.id].name for c in copies(found)
             if c.dst.tensor == "rv"}  # fmt: skip
    assert names == {"ldmatrix.x4.trans"}
    half = found.solution.fragments["half"]
    assert half.thread == found.solution.fragments["s"].thread


def test_where_nothing_agrees_a_rearrange_is_inserted_and_warned_about():
    program = attention(128, 64, warps=((1, 4), (4, 1)))
    with pytest.warns(RearrangeWarning) as caught:
        found = tile_runs.run(program)
    assert len(found.solution.inserted) >= 1
    first = found.solution.inserted[0]
    text = str(caught[0].message)
    assert f"{first.target}" in text and f"{first.source}" in text
    assert "clocks" in text and "bytes through shared memory" in text
    from hexcute_core.synthesis.explain.text import explain_text

    assert "warning: " in explain_text(found.solution, SM80)


def test_no_more_is_moved_than_must_be():
    program = attention(128, 64, warps=((1, 4), (4, 1)))
    with pytest.warns(RearrangeWarning):
        solution = synthesize(program, SM80)
    # P as halves, which is narrower than S, and the vectors that both arrangements use.
    assert {i.tensor for i in solution.inserted} == {"half", "top", "new", "total"}


def test_an_annotation_forces_an_arrangement():
    found = tile_runs.run(attention(warps=((4, 1), (4, 1))))
    assert {p.groups for p in found.solution.gemms.values()} == {(4, 1)}


@pytest.mark.parametrize("extents", [(96, 80, 48), (80, 96, 32), (176, 48, 16), (48, 24, 64)])
@pytest.mark.parametrize("threads", [96, 128, 160])
def test_gemms_of_any_size(extents, threads):
    m, n, k = extents
    b = tile_builder.TileBuilder(threads=threads)
    ga, gw, gc = b.tile("a", f16, m, k), b.tile("w", f16, n, k), b.tile("c", f16, m, n)
    sa, sw = b.shared("sa", f16, m, k), b.shared("sw", f16, n, k)
    ra, rw = b.register("ra", f16, m, k), b.register("rw", f16, n, k)
    rc, ro = b.register("rc", f32, m, n), b.register("ro", f16, m, n)
    sc, rd = b.shared("sc", f16, m, n), b.register("rd", f16, m, n)
    b.copy(ga, sa)
    b.copy(gw, sw)
    b.settle()
    b.copy(sa, ra)
    b.copy(sw, rw)
    b.fill(rc, 0.0, f32)
    b.gemm(rc, ra, rw)
    b.cast(rc, ro)
    b.copy(ro, sc)
    b.sync()
    b.copy(sc, rd)
    b.copy(rd, gc)
    tile_runs.run(b.program())


def simple_gemm(operand, result, m=32, n=16, k=32, threads=32, warps=None):
    b = tile_builder.TileBuilder(threads=threads)
    ga, gw, gc = b.tile("a", operand, m, k), b.tile("w", operand, n, k), b.tile("c", result, m, n)
    ra, rw = b.register("ra", operand, m, k), b.register("rw", operand, n, k)
    rc = b.register("rc", result, m, n)
    b.copy(ga, ra)
    b.copy(gw, rw)
    b.fill(rc, 0, result)
    line = b.line + 1
    b.gemm(rc, ra, rw, warps)
    b.copy(rc, gc)
    return b.program(), line


def test_a_gemm_without_an_instruction_names_those_there_are():
    program, line = simple_gemm(f8e4m3, f32)
    with pytest.raises(NoLayout, match="no instruction for gemm of f8e4m3") as caught:
        synthesize(program, SM80)
    assert caught.value.span.line == line and "bf16 x bf16 -> f32" in caught.value.fix


def test_a_gemm_that_no_instruction_divides_reaches_beyond_its_tile():
    program, _ = simple_gemm(f16, f32, m=20)
    solution = synthesize(program, SM80)
    check(solution)
    assert {plan.row.name for plan in solution.gemms.values()} == {"mma.16x8x16.f32.f16.f16"}


def test_an_annotation_that_does_not_fit_is_refused():
    program, line = simple_gemm(bf16, f32, threads=128, warps=(3, 1))
    with pytest.raises(NoLayout, match=r"arranged \(3, 1\)") as caught:
        synthesize(program, SM80)
    assert caught.value.span.line == line


def test_a_conflict_that_a_rearrange_cannot_mend_names_both_lines():
    """One accumulator under two arrangements: it cannot be taken elsewhere."""
    b = tile_builder.TileBuilder(threads=128)
    ga, gc = b.tile("a", f16, 64, 32), b.tile("c", f32, 64, 64)
    ra, rw, rc = (
        b.register("ra", f16, 64, 32),
        b.register("rw", f16, 64, 32),
        b.register("rc", f32, 64, 64),
    )
    rv, rx = b.register("rv", f16, 64, 32), b.register("rx", f16, 64, 32)
    for held in (ra, rw, rv, rx):
        b.copy(ga, held)
    b.fill(rc, 0.0, f32)
    first = b.line + 1
    b.gemm(rc, ra, rw, (4, 1))
    second = b.line + 1
    b.gemm(rc, rv, rx, (1, 4))
    b.copy(rc, gc)
    with pytest.raises(LayoutConflict) as caught:
        synthesize(b.program(), SM80)
    assert f"program.py:{first}" in str(caught.value)
    assert f"program.py:{second}" in str(caught.value)


def test_rows_of_a_register_tensor_are_held_by_the_threads_that_hold_the_others():
    b = tile_builder.TileBuilder(threads=32)
    a, c = b.tile("a", f16, 32, 32), b.tile("c", f16, 16, 32)
    r = b.register("r", f16, 32, 32)
    b.copy(a, r)
    b.copy(b.part(r, (16, 16), None), c)
    solution = tile_runs.run(b.program()).solution
    f = solution.fragments["r"]
    assert all(mode.dim == 1 or not mode.step for mode in f.thread)
    assert f.value[-1] == Mode(32, 1, 0)


def independent(count):
    b = tile_builder.TileBuilder(threads=128)
    for i in range(count):
        dtype = (f16, f32, i8, i32)[i % 4]
        shape = (32 + 8 * (i % 3), 32)
        a, c = b.tile(f"a{i}", dtype, *shape), b.tile(f"c{i}", dtype, *shape, major=(1, 0))
        s, r = b.shared(f"s{i}", dtype, *shape), b.register(f"r{i}", dtype, *shape)
        b.copy(a, s)
        b.settle()
        b.copy(s, r)
        b.copy(r, c)
    return b.program()


def test_independent_buffers_are_searched_apart():
    """The search of many is the searches of each: same choices, and not a product of them."""
    one, many = synthesize(independent(4), SM80), synthesize(independent(32), SM80)
    assert many.exact
    for i in range(4):
        assert str(many.shared[f"s{i}"]) == str(one.shared[f"s{i}"])
    assert len(many.rejected) < 12 * len(one.rejected)

    def seconds(count):
        program = independent(count)
        best = float("inf")
        for _ in range(3):
            started = perf_counter()
            synthesize(program, SM80)
            best = min(best, perf_counter() - started)
        return best

    # Eight times as many take about eight times as long; a product would take years.
    assert seconds(32) < 30 * seconds(4)


def test_interpreted_and_simulated_attention_are_the_softmax_it_stands_for():
    found = tile_runs.run(attention(64, 32, 32, 32, 32))
    assert np.isfinite(found.outputs["out"]).all()
