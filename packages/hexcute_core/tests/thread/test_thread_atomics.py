"""Atomics, flags, fences and votes: their laws, the PTX they mean, the machine code it becomes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import pytest
from machine_code import opcodes_of

from hexcute_core import dtypes as dt
from hexcute_core.arch.updates import ORDERS
from hexcute_core.backend import emit
from hexcute_core.dtypes import DType
from hexcute_core.errors import BackendError, MissingDependency, SourceSpan, VerifyError
from hexcute_core.scalar import Call, Cast, Const, Scalar, Var, compare
from hexcute_core.simulator import primitives
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    GlobalPtr,
    Operand,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    Stmt,
    ThreadParam,
    ThreadProgram,
    show_program,
    verify,
)  # fmt: skip
from hexcute_core.thread.prims_atomics import ATOMICS, FLAGS, UPDATES
from hexcute_core.toolchain import compile_cubin, sass

T = Var("threadIdx.x")
TRUE, SOME = Const(True, dt.boolean), compare("lt", T, 9)
AT = SourceSpan("kernel.py", 8)
SCOPES = {"global": "gpu", "shared": "cta"}
ARCHES = ["sm_80", "sm_90"]
SHARED = 40 * 2048
BY_SIZE = {1: dt.u8, 2: dt.f16, 4: dt.i32, 8: dt.i64, 16: dt.f32}


def width_of(name: str) -> int:
    """The elements that one instruction of update `name` takes."""
    return next((int(w[1:]) for w in name.split(".") if w[0] == "v" and w[1:].isdigit()), 1)


def i32(value: int) -> Const:
    return Const(value, dt.i32)


def regs(array: str, dtype: DType, count: int = 1, first: int = 0) -> Regs:
    return Regs(array, i32(first), (0,), count, dtype)


def program(body: Sequence[Stmt], types: Sequence[DType]) -> ThreadProgram:
    """`body`, with three register arrays and two tensors of each type."""
    params = [
        ThreadParam(f"{name}_{t}", t, (i32(1 << 17),), pointer=True, aligned=True)
        for t in types for name in "xy"
    ]  # fmt: skip
    arrays = [DeclareArray(f"{name}_{t}", t, 8) for t in types for name in "oab"]
    return ThreadProgram("probe", tuple(params), (i32(1),) * 3, 128, SHARED, (*arrays, *body))


def element(name: str) -> DType:
    """The type that an update or a flag's access moves here."""
    return dt.BY_NAME[name.split(".")[3]] if name in UPDATES else BY_SIZE[FLAGS[name].bytes]


def operands(name: str, count: int = 1, pred: Scalar = SOME, place: int = 0) -> tuple[Operand, ...]:
    """Right operands of an update or a flag's access, `count` elements per thread."""
    t = element(name)
    arrays = iter("ab" if name.startswith(("red", "st")) else "oab")
    out: list[Operand] = []
    for kind in ATOMICS[name].operands:
        if kind == "regs":
            out.append(regs(f"{next(arrays)}_{t}", t, count))
        elif kind == "scalar":
            out.append(pred)
        else:
            at = T * 16 + place * 2048
            out.append(SharedPtr(at) if kind == "shared" else GlobalPtr(f"x_{t}", at, t))
    return tuple(out)


def uses(names: Sequence[str]) -> Iterator[Stmt]:
    """Each of them once, elsewhere than the others, on fresh values, what it gives stored."""
    for place, name in enumerate(names):
        t = element(name)
        count = max(1, FLAGS[name].bytes * 8 // t.bits) if name in FLAGS else width_of(name)
        for i, array in enumerate("ab"):
            for j in range(count if name in UPDATES else 1):
                yield SetElement(f"{array}_{t}", i32(j), Cast(T + (i + j), t))
        yield Prim(name, operands(name, count, place=place % 38))
        if name.startswith(("atom", "ld")):
            given = regs(f"o_{t}", t, count)
            size = count * t.bits // 8
            yield Prim(f"st.global.{size}", (GlobalPtr(f"y_{t}", T * 16, t), given, TRUE))


def compiled(p: ThreadProgram, arch: str) -> tuple[list[str], str]:
    """(opcodes, source) or a skip where a tool is missing."""
    verify(p)
    source = emit(p, arch).text
    try:
        return opcodes_of(sass(compile_cubin(source, arch))), source
    except MissingDependency as error:
        pytest.skip(str(error))


@functools.cache
def machine(names: tuple[str, ...], arch: str) -> tuple[list[str], str]:
    return compiled(program(list(uses(names)), list(dict.fromkeys(map(element, names)))), arch)


def count(opcodes: list[str], pattern: str) -> int:
    return sum(re.match(pattern, op) is not None for op in opcodes)


def test_the_simulator_has_a_meaning_for_each() -> None:
    assert all(primitives.find(name) for name in ATOMICS)
    assert len(ATOMICS) == len(UPDATES) + len(FLAGS) + 3


# PTX type and SASS suffix of each element type; sums of 64 bits have no sign, bits no type.
SIGNED = {"i32": ("s32", ".S32"), "u32": ("u32", ""), "i64": ("s64", ".S64"), "u64": ("u64", ".64")}
SUMMED = {
    "i32": ("s32", ".S32"), "u32": ("u32", ""), "i64": ("u64", ".64"), "u64": ("u64", ".64"),
    "f32": ("f32", ".F32.FTZ.RN"), "f64": ("f64", ".F64.RN"),
    "f16": ("noftz.f16", ""), "bf16": ("noftz.bf16", ""),
}  # fmt: skip
BITS = {"i32": ("b32", ""), "u32": ("b32", ""), "i64": ("b64", ".64"), "u64": ("b64", ".64")}
PTX: dict[str, dict[str, tuple[str, str]]] = {
    "add": SUMMED, "min": SIGNED, "max": SIGNED, "and": BITS, "or": BITS, "xor": BITS,
    "inc": {"u32": ("u32", "")}, "dec": {"u32": ("u32", "")},
    "exch": {**BITS, "f32": ("b32", "")}, "cas": {**BITS, "u16": ("b16", "")},
}  # fmt: skip


def room(name: str) -> int:
    """The bytes of an element, of a word at least."""
    return max(4, element(name).bits // 8)


def words(name: str) -> tuple[str, str]:
    """What PTX calls the operation and type of an update, and its scope."""
    _, space, op, kind, *more = name.split(".")
    typed, width = f"{op}.{PTX[op][kind][0]}", width_of(name)
    if width > 1 and kind == "f32":
        typed = f"add.v{width}.f32"
    elif width > 1:
        typed = f"add.noftz.{f'v{width // 2}.' if width > 2 else ''}{kind}x2"
    return typed, "cta" if more[-1:] == ["cta"] else SCOPES[space]


def opcode(name: str) -> str:
    """A pattern of the instruction that `name` becomes: a swap in a loop if there is no other."""
    _, space, op, kind, *_ = name.split(".")
    bits, suffix = dt.BY_NAME[kind].bits, re.escape(PTX[op][kind][1])
    width, scope = width_of(name), r"\.STRONG\.(GPU|SM)$"
    if width > 1 and space == "global":
        suffix = r"\.F32" if kind == "f32" else rf"\.{'BF' if kind == 'bf16' else 'F'}16(_V2)?"
        return rf"(RED|ATOM)G?\.E\.ADD{suffix}.*{scope}"
    if bits == 16 and width == 1:
        return r"ATOM(G\.E|S)\.CAS(\.STRONG\.(GPU|SM))?$"
    if space == "global":
        return rf"(RED|ATOM)G?\.E\.{op.upper()}{suffix}{scope}"
    if width > 1 or (kind, op) == ("f32", "add") or (bits == 64 and op not in ("exch", "cas")):
        return r"ATOMS\.CAST\.SPIN(\.64)?$"
    return rf"ATOMS\.{op.upper()}{suffix}$"


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    ("family", "op"),
    [(f, op) for op in PTX for f in ("red", "atom") if f == "atom" or op not in ("exch", "cas")],
)
def test_each_update_is_one_instruction(family: str, space: str, op: str, arch: str) -> None:
    # All of a family are one program. sm_80 lacks sums of bf16, and of more than a word at once.
    new = {n for n in UPDATES if ".bf16" in n or UPDATES[n].bytes > room(n)}
    left = new if arch == "sm_80" else ()
    whole = tuple(n for n in UPDATES if n.startswith(f"{family}.{space}.") and n not in left)
    opcodes, source = machine(whole, arch)
    names = [n for n in whole if n.startswith(f"{family}.{space}.{op}.")]
    wide = [n for n in names if width_of(n) > 1 and (width_of(n) > 2 or ".f32." in n)]
    assert bool(wide) == ((family, space, op, arch) == ("red", "global", "add", "sm_90"))
    for name in names:
        order = next((o for o in ORDERS if o in name.split(".")), "relaxed")
        typed, scope = words(name)
        text = f'asm volatile ("{family}.{order}.{scope}.{space}.{typed} '
        lines = [line for line in source.splitlines() if text in line]
        assert lines and all(line.endswith(': "memory");') for line in lines), name
        alike = [n for n in whole if opcode(n) == opcode(name)]
        assert count(opcodes, opcode(name)) >= len(alike), (name, opcode(name))
    # Barriers next to each other may become one.
    assert count(opcodes, rf"MEMBAR\.ALL\.{SCOPES[space].upper()}$") >= 1
    acquires = family == "atom" and space == "global"
    assert (count(opcodes, r"CCTL\.IVALL") >= 1) == acquires


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_flags_are_strong_and_ordered(size: int, arch: str) -> None:
    names = [n for n in FLAGS if n.endswith(f".{size}")]
    assert len(names) == 8
    opcodes, source = machine(tuple(names), arch)
    width = {1: "u8", 2: "u16", 4: "b32", 8: "b64", 16: "v4.b32"}[size]
    for name in names:
        op, space, order, _ = name.split(".")
        assert f'"{op}.{order}.{SCOPES[space]}.{space}.{width} ' in source
    bits = {1: r"\.U8", 2: r"\.U16", 4: "", 8: r"\.64", 16: r"\.128"}[size]
    for pattern in (rf"LDG\.E{bits}\.STRONG\.GPU$", rf"STG\.E{bits}\.STRONG\.GPU$"):
        assert count(opcodes, pattern) == 2
    for pattern in (rf"LDS{bits}$", rf"STS{bits}$"):
        assert count(opcodes, pattern) == 2
    assert count(opcodes, r"MEMBAR\.ALL\.GPU$") == count(opcodes, r"MEMBAR\.ALL\.CTA$") == 1
    assert count(opcodes, r"CCTL\.IVALL") == 1


@pytest.mark.parametrize("arch", ARCHES)
def test_fences_and_the_warps_barrier(arch: str) -> None:
    put = Prim("st.shared.4", (SharedPtr(T * 4), regs("a_i32", dt.i32)))
    get = Prim("ld.shared.4", (regs("b_i32", dt.i32), SharedPtr((T ^ 1) * 4)))
    keep = Prim("st.global.4", (GlobalPtr("x_i32", T, dt.i32), regs("b_i32", dt.i32), TRUE))
    for name, text, pattern in (
        ("fence.cta", "fence.acq_rel.cta;", r"MEMBAR\.\w+\.CTA$"),
        ("fence.gpu", "fence.acq_rel.gpu;", r"MEMBAR\.\w+\.GPU$"),
        ("bar.warp.sync", "bar.warp.sync 0xffffffff;", r"WARPSYNC|NOP$"),
    ):
        body = [SetElement("a_i32", i32(0), T), put, Prim(name, ()), get, keep]
        opcodes, source = compiled(program(body, [dt.i32]), arch)
        assert f'asm volatile ("{text}" :  :  : "memory")' in source
        assert count(opcodes, pattern) >= 1, name
        # The load comes from memory: other lanes have written there.
        assert count(opcodes, "LDS") == 1


VOTES = {
    "vote.all": (dt.boolean, "vote.sync.all.pred p, p, 0xffffffff;", r"VOTEU?\.ALL"),
    "vote.any": (dt.boolean, "vote.sync.any.pred p, p, 0xffffffff;", r"VOTEU?\.ANY"),
    "vote.ballot": (dt.u32, "vote.sync.ballot.b32 %0, p, 0xffffffff;", r"VOTEU?\.ANY"),
}


def voting(name: str, *args: Scalar, gives: DType) -> ThreadProgram:
    told = Var("told", gives)
    return program(
        [
            Assign(told, Call(name, args, gives), True, AT),
            SetElement("a_u32", i32(0), Cast(told, dt.u32)),
            Prim("st.global.4", (GlobalPtr("x_u32", T, dt.u32), regs("a_u32", dt.u32), TRUE)),
        ],
        [dt.u32],
    )


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", VOTES)
def test_votes(name: str, arch: str) -> None:
    gives, text, pattern = VOTES[name]
    opcodes, source = compiled(voting(name, SOME, gives=gives), arch)
    assert text in source
    assert count(opcodes, pattern) == 1


@pytest.mark.parametrize(
    ("name", "args", "gives", "message"),
    [
        ("vote.all", (T,), dt.boolean, "vote.all takes a bool, got i32"),
        ("vote.any", (), dt.boolean, "vote.any takes a bool, got nothing"),
        ("vote.ballot", (SOME, SOME), dt.u32, "vote.ballot takes a bool, got bool, bool"),
        ("vote.ballot", (SOME,), dt.boolean, "vote.ballot gives a u32, not bool"),
        ("vote.any", (SOME,), dt.i32, "vote.any gives a bool, not i32"),
    ],
)
def test_votes_of_other_types(
    name: str, args: tuple[Scalar, ...], gives: DType, message: str
) -> None:
    with pytest.raises(BackendError, match=message) as caught:
        emit(voting(name, *args, gives=gives), "sm_80")
    assert caught.value.span == AT


@pytest.mark.parametrize("space", SCOPES)
def test_several_elements_are_that_many_updates_side_by_side(space: str) -> None:
    name = f"red.{space}.add.i32"
    p = program([Prim(name, operands(name, 4, TRUE))], [dt.i32])
    source = emit(p, "sm_90").text
    called = re.findall(rf"hx_red_{space}_add_i32\((.*), a_i32\[(\d)\]\);", source)
    assert [index for _, index in called] == ["0", "1", "2", "3"]
    (first, _), *others = called
    steps = ("4u", "8u", "12u") if space == "shared" else ("1ll", "2ll", "3ll")
    assert [at for at, _ in others] == [f"({first} + {step})" for step in steps]
    opcodes, _ = compiled(p, "sm_90")
    assert count(opcodes, r"REDG\.E\.ADD|ATOMS\.ADD") == 4


def test_old_values_may_lie_where_the_values_were() -> None:
    """Each value is read before an old one takes its place."""
    update = Prim(
        "atom.shared.exch.i32",
        (regs("a_i32", dt.i32, 2, 1), SharedPtr(T * 8), regs("a_i32", dt.i32, 2)),
    )
    source = emit(program([update], [dt.i32]), "sm_80").text
    lines = [line.strip() for line in source.splitlines()]
    calls = [i for i, line in enumerate(lines) if line.startswith("hx_atom_shared_exch_i32(")]
    kept = [i for i, line in enumerate(lines) if re.match(r"a_i32\[[12]\] = old", line)]
    assert len(calls) == len(kept) == 2
    assert max(calls) < min(kept)


def test_bf16_is_refused_before_sm_90() -> None:
    name = "red.shared.add.bf16"
    p = program([Prim(name, operands(name), AT)], [dt.bf16])
    with pytest.raises(BackendError, match=f"{name} needs sm_90, the target is sm_80") as caught:
        emit(p, "sm_80")
    assert caught.value.span == AT


@pytest.mark.parametrize("name", ["red.global.add.f32.v2", "red.global.add.f16.v8"])
def test_vectors_are_refused_before_sm_90(name: str) -> None:
    p = program([Prim(name, operands(name, width_of(name)), AT)], [element(name)])
    with pytest.raises(BackendError, match=f"{name} needs sm_90, the target is sm_80") as caught:
        emit(p, "sm_80")
    assert caught.value.span == AT


def test_the_printer_shows_them() -> None:
    body = [
        Prim("red.global.add.i32", operands("red.global.add.i32")),
        Prim("atom.shared.cas.i32.acq_rel", operands("atom.shared.cas.i32.acq_rel")),
        Prim("fence.gpu", ()),
    ]
    assert show_program(program(body, [dt.i32])).splitlines()[-3:] == [
        "  red.global.add.i32 x_i32 + threadIdx.x * 16, a_i32[0:1], threadIdx.x < 9",
        "  atom.shared.cas.i32.acq_rel o_i32[0:1], shared + threadIdx.x * 16, a_i32[0:1], "
        "b_i32[0:1]",
        "  fence.gpu",
    ]


X, A, OLD = GlobalPtr("x_i32", T, dt.i32), regs("a_i32", dt.i32), regs("o_i32", dt.i32)
BAD: dict[str, tuple[str, tuple[Operand, ...]]] = {
    "there is no primitive red.global.exch.i32": ("red.global.exch.i32", (X, A, TRUE)),
    "there is no primitive red.global.add.i32.acquire": (
        "red.global.add.i32.acquire", (X, A, TRUE)
    ),
    "there is no primitive ld.global.release.4": ("ld.global.release.4", (A, X, TRUE)),
    "there is no primitive fence.sys": ("fence.sys", ()),
    "takes (global, regs, scalar), got (global, regs)": ("red.global.add.i32", (X, A)),
    "takes (regs, shared, regs, regs), got (regs, shared, regs)": (
        "atom.shared.cas.i32", (OLD, SharedPtr(T * 4), A)
    ),
    "red.global.add.u32 takes u32, a_i32 is i32": ("red.global.add.u32", (X, A, TRUE)),
    "atom.global.add.i32 gets 1 and 2 elements per thread": (
        "atom.global.add.i32", (OLD, X, regs("a_i32", dt.i32, 2), TRUE)
    ),
    "red.global.add.i32 updates i32, x_i64 is addressed as i64": (
        "red.global.add.i32", (GlobalPtr("x_i64", T, dt.i64), A, TRUE)
    ),
    "the predicate `threadIdx.x` of red.global.add.i32 is a i32": (
        "red.global.add.i32", (X, A, T)
    ),
    "a_i32[7..8] is outside the register array of 8": (
        "red.global.add.i32", (X, regs("a_i32", dt.i32, 2, 7), TRUE)
    ),
    "red.shared.add.i32 at shared byte 81920 is outside the arena": (
        "red.shared.add.i32", (SharedPtr(i32(SHARED - 4)), regs("a_i32", dt.i32, 2))
    ),
    "red.global.add.f32.v4 takes 4 elements per thread, gets 2": (
        "red.global.add.f32.v4",
        (GlobalPtr("x_f32", T * 4, dt.f32), regs("a_f32", dt.f32, 2), TRUE),
    ),
    "there is no primitive red.shared.add.f32.v2": (
        "red.shared.add.f32.v2", (SharedPtr(T * 8), regs("a_f32", dt.f32, 2))
    ),
    "there is no primitive red.shared.add.i32.cta": (
        "red.shared.add.i32.cta", (SharedPtr(T * 4), A)
    ),
    "red.shared.add.i32 at shared byte 6 is misaligned": (
        "red.shared.add.i32", (SharedPtr(i32(6)), A)
    ),
    "st.shared.release.8 moves 8 bytes, 1 registers of i32 hold 4": (
        "st.shared.release.8", (SharedPtr(T * 8), A)
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_what_breaks_a_law_is_refused_at_its_line(message: str) -> None:
    name, given = BAD[message]
    with pytest.raises(VerifyError) as caught:
        verify(program([Prim(name, given, AT)], [dt.i32, dt.i64, dt.f32]))
    assert message in str(caught.value)
    assert caught.value.span == AT
