"""The machine code of emitted programs: 16-byte accesses, ldmatrix, HMMA, no local memory."""

from __future__ import annotations

import itertools
import re

import pytest
from machine_code import opcodes_of

from hexcute_core import dtypes as dt
from hexcute_core.backend import emit
from hexcute_core.dtypes import DType
from hexcute_core.errors import BackendError, MissingDependency
from hexcute_core.scalar import (
    Cast,
    Compare,
    Const,
    Element,
    Scalar,
    Var,
    add,
    cdiv,
    floordiv,
    land,
    mod,
    mul,
    xor,
)
from hexcute_core.thread import (
    PRIMS,
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    Operand,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    Stmt,
    ThreadParam,
    ThreadProgram,
    verify,
)
from hexcute_core.thread.prims_atomics import ATOMICS
from hexcute_core.thread.prims_sm90 import HOPPER
from hexcute_core.toolchain import compile_cubin, sass

T = Var("threadIdx.x")
M, N, K = Var("m"), Var("n"), Var("k")
TRUE = Const(True, dt.boolean)


def i32(value: int) -> Const:
    return Const(value, dt.i32)


def unrolled(name: str, trips: int, *body: Stmt) -> For:
    return For(Var(name), i32(0), i32(trips), i32(1), body, unroll=True)


def words(t: DType, count: int, array: str | None = None, offset: Scalar | int = 0) -> Regs:
    """`count` words of an array of `t`, in order."""
    each = max(1, 32 // t.bits)
    start = i32(offset) if isinstance(offset, int) else offset
    return Regs(array or t.name, start, tuple(range(0, count * each, each)), each, t)


def compiled(
    body: list[Stmt],
    pointers: dict[str, DType],
    arch: str,
    shared: int = 0,
    scalars: tuple[str, ...] = (),
) -> tuple[list[str], str]:
    """(opcodes of the kernel, the whole SASS) or a skip where a tool is missing."""
    params = [
        ThreadParam(n, t, (i32(1 << 20),), pointer=True, aligned=True) for n, t in pointers.items()
    ]
    params += [ThreadParam(name, dt.i32) for name in scalars]
    one = (i32(1), i32(1), i32(1))
    program = ThreadProgram("probe", tuple(params), one, 128, shared, tuple(body))
    verify(program)
    try:
        source = emit(program, arch)
        cubin = compile_cubin(source.text, arch)
        text = sass(cubin)
    except MissingDependency as error:
        pytest.skip(str(error))
    return opcodes_of(text), text


def no_local_memory(opcodes: list[str]) -> None:
    assert not [op for op in opcodes if op.startswith(("LDL", "STL"))]


def count(opcodes: list[str], prefix: str) -> int:
    return sum(op.startswith(prefix) for op in opcodes)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_predicated_vector_accesses_have_no_branch(arch: str) -> None:
    body: list[Stmt] = [DeclareArray("x", dt.f16, 64)]
    for j in range(8):
        ok = Compare("lt", add(T, 128 * j), N)
        regs = Regs("x", i32(8 * j), (0,), 8, dt.f16)
        body.append(
            Prim("ld.global.16", (regs, GlobalPtr("a", add(mul(T, 8), 1024 * j), dt.f16), ok))
        )
    for j in range(8):
        ok = Compare("lt", add(T, 128 * j), N)
        regs = Regs("x", i32(8 * j), (0,), 8, dt.f16)
        body.append(
            Prim("st.global.16", (GlobalPtr("b", add(mul(T, 8), 1024 * j), dt.f16), regs, ok))
        )
    opcodes, text = compiled(body, {"a": dt.f16, "b": dt.f16}, arch, scalars=("n",))
    assert count(opcodes, "LDG.E.128") == 8
    assert count(opcodes, "STG.E.128") == 8
    no_local_memory(opcodes)
    # Predicated in place; the constant part of the address is the instruction's immediate.
    assert len(re.findall(r"@!?P\d\s+LDG\.E\.128", text)) == 8
    assert len(re.findall(r"LDG\.E\.128[^;]*\+0x", text)) == 7
    assert count(opcodes, "BSSY") == 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_mma_on_register_arrays_stays_in_registers(arch: str) -> None:
    """4 x 8 mma calls in unrolled loops over arrays that ldmatrix filled: no moves, no memory."""
    mi, ni = Var("mi"), Var("ni")
    body: list[Stmt] = [
        DeclareArray("c", dt.f32, 128),
        DeclareArray("a", dt.f16, 32),
        DeclareArray("b", dt.f16, 32),
        unrolled("z", 128, SetElement("c", Var("z"), Const(0.0, dt.f32))),
    ]
    load_a = Prim(
        "ldmatrix.x4",
        (words(dt.f16, 4, "a", mul(mi, 8)), SharedPtr(add(mul(T, 16), mul(mi, 1024)))),
    )
    load_b = Prim(
        "ldmatrix.x4.trans",
        (words(dt.f16, 4, "b", mul(ni, 8)), SharedPtr(add(mul(T, 16), mul(ni, 1024), 8192))),
    )
    step = Prim(
        "mma.16x8x16.f32.f16.f16",
        (
            words(dt.f32, 4, "c", add(mul(mi, 32), mul(ni, 4))),
            words(dt.f16, 4, "a", mul(mi, 8)),
            words(dt.f16, 2, "b", mul(ni, 4)),
        ),
    )
    body += [
        For(Var("kk"), i32(0), K, i32(1), (
            Prim("bar.sync", ()),
            unrolled("mi", 4, load_a),
            unrolled("ni", 4, load_b),
            unrolled("mi", 4, unrolled("ni", 8, step)),
        )),
        unrolled("z", 32, Prim(
            "st.global.16",
            (GlobalPtr("o", add(mul(T, 128), mul(Var("z"), 4)), dt.f32),
             Regs("c", mul(Var("z"), 4), (0,), 4, dt.f32), TRUE),
        )),
    ]  # fmt: skip
    opcodes, text = compiled(body, {"o": dt.f32}, arch, shared=16384, scalars=("k",))
    assert count(opcodes, "HMMA.16816.F32") == 32
    assert count(opcodes, "LDSM.16.M88.4") == 4
    assert count(opcodes, "LDSM.16.MT88.4") == 4
    assert count(opcodes, "STG.E.128") == 32
    no_local_memory(opcodes)
    assert re.search(r"LDSM\.16\.M88\.4 R\d+, \[[^\]]*\+0x400\]", text)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_async_copies_fill_with_zeros_and_bypass_l1(arch: str) -> None:
    row = floordiv(T, 4)
    body: list[Stmt] = []
    for size, t in ((16, dt.f16), (8, dt.f16), (4, dt.f16)):
        ok = Compare("lt", row, M)
        source = GlobalPtr("a", add(mul(row, K), mul(mod(T, 4), 8)), t)
        body.append(Prim(f"cp.async.{size}", (SharedPtr(add(mul(T, 16), size * 256)), source, ok)))
        body.append(Prim(f"cp.async.{size}", (SharedPtr(mul(T, 16)), source, TRUE)))
    body += [
        Prim("cp.async.commit", ()),
        Prim("cp.async.wait", (i32(0),)),
        Prim("bar.sync", ()),
        DeclareArray("x", dt.f16, 8),
        Prim("ld.shared.16", (Regs("x", i32(0), (0,), 8, dt.f16), SharedPtr(mul(T, 16)))),
        Prim("st.global.16", (
            GlobalPtr("b", mul(T, 8), dt.f16), Regs("x", i32(0), (0,), 8, dt.f16), TRUE,
        )),
    ]  # fmt: skip
    opcodes, text = compiled(
        body, {"a": dt.f16, "b": dt.f16}, arch, shared=16384, scalars=("m", "k")
    )
    assert count(opcodes, "LDGSTS.E.BYPASS") == 2
    assert count(opcodes, "LDGSTS") == 6
    assert count(opcodes, "LDGDEPBAR") == 1
    assert count(opcodes, "LDS.128") == 1
    assert "BAR.SYNC" in text
    no_local_memory(opcodes)


def test_pairs_of_halves_convert_in_one_instruction() -> None:
    i = Var("i")
    body: list[Stmt] = [
        DeclareArray("x", dt.f32, 8),
        DeclareArray("y", dt.f16, 8),
        DeclareArray("z", dt.bf16, 8),
        *(
            Prim("ld.global.16", (
                Regs("x", i32(4 * k), (0,), 4, dt.f32),
                GlobalPtr("a", add(mul(T, 8), 4 * k), dt.f32), TRUE,
            ))
            for k in range(2)
        ),
        unrolled("i", 8, SetElement("y", i, Cast(Element("x", (i,), dt.f32), dt.f16))),
        unrolled("i", 8, SetElement("z", i, Cast(Element("x", (i,), dt.f32), dt.bf16))),
        Prim("st.global.16", (
            GlobalPtr("b", mul(T, 8), dt.f16), Regs("y", i32(0), (0,), 8, dt.f16), TRUE,
        )),
        Prim("st.global.16", (
            GlobalPtr("c", mul(T, 8), dt.bf16), Regs("z", i32(0), (0,), 8, dt.bf16), TRUE,
        )),
    ]  # fmt: skip
    opcodes, _ = compiled(body, {"a": dt.f32, "b": dt.f16, "c": dt.bf16}, "sm_80")
    assert count(opcodes, "F2F") == 8
    assert count(opcodes, "PRMT") == 0
    no_local_memory(opcodes)


def test_a_swizzled_pipelined_loop_keeps_offsets_in_immediates() -> None:
    """XOR swizzle on the thread part, constants on the rest: one base register a warp tile."""
    stage, tile = Var("stage"), Var("tile")
    lane = xor(mul(mod(T, 4), 16), mul(mod(floordiv(T, 8), 4), 16))
    body: list[Stmt] = [
        Assign(Var("home"), add(mul(floordiv(T, 4), 64), lane), True),
        DeclareArray("x", dt.f16, 64),
        DeclareArray("s", dt.f32, 1),
        SetElement("s", i32(0), Const(0.0, dt.f32)),
        For(tile, i32(0), cdiv(K, 32), i32(1), (
            Assign(stage, mul(mod(tile, 4), 16384), True),
            unrolled("j", 8, Prim("ldmatrix.x4", (
                words(dt.f16, 4, "x", mul(Var("j"), 8)),
                SharedPtr(add(stage, Var("home"), mul(Var("j"), 1024))),
            ))),
            unrolled("i", 64, SetElement("s", i32(0), add(
                Element("s", (i32(0),), dt.f32),
                Cast(Element("x", (Var("i"),), dt.f16), dt.f32),
            ))),
        )),
        Prim("st.global.4", (
            GlobalPtr("o", T, dt.f32), Regs("s", i32(0), (0,), 1, dt.f32),
            land(Compare("lt", T, N)),
        )),
    ]  # fmt: skip
    opcodes, text = compiled(body, {"o": dt.f32}, "sm_80", shared=65536, scalars=("n", "k"))
    # The loop is rolled (not copied for several trips) and its 8 loads share one address.
    assert count(opcodes, "LDSM.16.M88.4") == 8
    addresses = set(re.findall(r"LDSM\.16\.M88\.4 R\d+, \[([^\]]*?)(?:\+0x[0-9a-f]+)?\]", text))
    assert len(addresses) == 1
    no_local_memory(opcodes)


def _operands(name: str) -> list[tuple[Operand, ...]]:
    """Operands that exercise primitive `name`, one tuple a use."""
    parts = name.split(".")
    if parts[0] == "mma":
        m, n, k = (int(x) for x in parts[1].split("x"))
        d, a, b = (dt.BY_NAME[x] for x in parts[2:])
        sizes = (m * n * d.bits, m * k * a.bits, n * k * b.bits)
        return [tuple(words(t, size // 1024) for t, size in zip((d, a, b), sizes))]
    if parts[0] == "ldmatrix":
        return [(words(t, int(parts[1][1:])), SharedPtr(mul(T, 16))) for t in (dt.f16, dt.i8)]
    if name == "cp.async.wait":
        return [(i32(2),)]
    if name.startswith("cp.async.") and parts[2].isdigit():
        source = GlobalPtr("p_f16", mul(T, 8), dt.f16)
        return [(SharedPtr(mul(T, 16)), source, ok) for ok in (TRUE, Compare("lt", T, i32(9)))]
    if parts[0] == "mov":
        bits = int(parts[1]) * 8
        fitting = [Regs(t.name, i32(0), (0,), bits // t.bits, t) for t in _STORED if t.bits <= bits]
        return list(itertools.permutations(fitting, 2))
    if parts[0] in ("ld", "st"):
        out: list[tuple[Operand, ...]] = []
        for t in _STORED:
            if t.bits > int(parts[2]) * 8:
                continue
            regs = Regs(t.name, i32(0), (0,), int(parts[2]) * 8 // t.bits, t)
            if parts[1] == "shared":
                pair: tuple[Operand, ...] = (regs, SharedPtr(mul(T, 16)))
                out.append(pair if parts[0] == "ld" else pair[::-1])
                continue
            pair = (regs, GlobalPtr(f"p_{t}", mul(T, 128), t))
            pair = pair if parts[0] == "ld" else pair[::-1]
            out += [(*pair, TRUE), (*pair, Compare("lt", T, i32(9)))]
        return out
    return [()]


_STORED = (dt.f16, dt.bf16, dt.f32, dt.tf32, dt.f64, dt.i8, dt.u8, dt.i32, dt.u32, dt.i64, dt.i4,
           dt.u1, dt.f8e4m3, dt.f8e5m2)  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_primitive_compiles(arch: str) -> None:
    body: list[Stmt] = [DeclareArray(t.name, t, 256) for t in _STORED]
    # The products last, and stored: an unused one is not there.
    names = sorted(PRIMS, key=lambda name: name.startswith("mma."))
    names = [n for n in names if n not in HOPPER and n not in ATOMICS]
    names = [n for n in names if arch != "sm_80" or ".f8" not in n]
    for name in names:
        for operands in _operands(name):
            body.append(Prim(name, operands))
            if name.startswith("mma."):
                kept = operands[0]
                assert isinstance(kept, Regs)
                regs = Regs(kept.array, i32(0), (0,), 128 // kept.dtype.bits // 2, kept.dtype)
                address = GlobalPtr(f"p_{kept.dtype}", mul(T, 128), kept.dtype)
                body.append(Prim("st.global.8", (address, regs, TRUE)))
    pointers = {f"p_{t}": t for t in _STORED}
    opcodes, _ = compiled(body, pointers, arch, shared=16384)
    for prefix in ("HMMA", "IMMA", "LDSM", "LDGSTS", "LDG.E.128", "STG.E.128", "LDS.128", "BAR"):
        assert count(opcodes, prefix) > 0, prefix


def test_fp8_products_are_refused_before_sm_89() -> None:
    name = "mma.16x8x32.f32.f8e4m3.f8e5m2"
    (operands,) = _operands(name)
    body: list[Stmt] = [
        *(DeclareArray(t.name, t, 16) for t in (dt.f32, dt.f8e4m3, dt.f8e5m2)), Prim(name, operands)
    ]  # fmt: skip
    with pytest.raises(BackendError, match=f"{name} needs sm_89, the target is sm_86"):
        compiled(body, {}, "sm_86")
