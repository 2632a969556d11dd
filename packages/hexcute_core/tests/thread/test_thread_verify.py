"""Every law of a thread program: a program that keeps it passes, the nearest one that does not
is refused at its source line."""

import pytest

from hexcute_core import dtypes as dt
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import Call, Const, Element, Var, cast, compare, land, select
from hexcute_core.thread import (
    PRIMS,
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
    While,
    verify,
)
from hexcute_core.thread.prims_atomics import UPDATES
from hexcute_core.thread.prims_sm90 import HOPPER

TX, STEP, V = Var("threadIdx.x"), Var("i"), Var("v", dt.f32)
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
AT = SourceSpan("kernel.py", 8)
HALVES, WORDS = DeclareArray("h", dt.f16, 64), DeclareArray("w", dt.f32, 16)


def num(value):
    return Const(value, dt.i32)


def regs(array="h", dtype=dt.f16, width=8, pieces=(0,), offset=ZERO):
    return Regs(array, offset, tuple(pieces), width, dtype)


def prim(name, *operands):
    return Prim(name, operands, AT)


def program(*body, shared=1024, **changes):
    params = (
        ThreadParam("x", dt.f16, (Var("n"),), pointer=True, aligned=True),
        ThreadParam("y", dt.f16, (Var("n"),), pointer=True),
        ThreadParam("n", dt.i32),
        ThreadParam("scale", dt.f32),
    )
    fields = {
        "name": "kernel", "params": params, "grid_dim": (Var("n"), ONE, ONE), "block_dim": 128,
        "shared_bytes": shared, "body": (HALVES, WORDS, *body),
    }  # fmt: skip
    return ThreadProgram(**(fields | changes))


def unrolled(*body, count=8):
    return For(STEP, ZERO, num(count), ONE, tuple(body), unroll=True, span=AT)


X = GlobalPtr("x", TX * 8, dt.f16)
A, B = regs(pieces=(0, 2, 4, 6), width=2), regs(pieces=(8, 10), width=2)
C = regs("w", dt.f32, 1, (0, 1, 2, 3))

FLOAT = Const(0.0, dt.f32)
SHARED = Call("shfl.xor", (Const(1.0, dt.f32), ONE), dt.f32)

GOOD = {
    "a shuffle that decides": program(
        Assign(V, select(compare("lt", SHARED, 8.0), Var("scale", dt.f32), FLOAT), True, AT)
    ),
    "empty": program(),
    "load": program(prim("ld.global.16", regs(), X, compare("lt", TX, Var("n")))),
    "one element of an unaligned pointer": program(
        prim("ld.global.2", regs(width=1), GlobalPtr("y", TX, dt.f16), TRUE)
    ),
    "pieces of one access": program(
        prim("ld.global.16", regs(width=4, pieces=(0, 8)), X, TRUE),
    ),
    "asynchronous": program(
        prim("cp.async.16", SharedPtr(TX * 16 % 1024), X, TRUE),
        prim("cp.async.commit"),
        prim("cp.async.wait", ZERO),
        prim("bar.sync"),
    ),
    "matrices": program(
        prim("ldmatrix.x4", A, SharedPtr(TX % 32 * 16)),
        prim("mma.16x8x16.f32.f16.f16", C, A, B),
    ),
    "tf32 in f32 registers": program(
        prim(
            "mma.16x8x8.f32.tf32.tf32",
            C,
            regs("w", dt.f32, 1, (4, 5, 6, 7)),
            regs("w", dt.tf32, 1, (8, 9)),
        )
    ),
    "unrolled offset": program(
        unrolled(prim("ld.global.16", regs(offset=STEP * 8), X, TRUE)),
    ),
    "offset of a loop at run time": program(
        For(STEP, ZERO, num(8), ONE, (prim("ld.global.16", regs(offset=STEP * 8), X, TRUE),))
    ),
    "locals and shadowing": program(
        Assign(V, Var("scale", dt.f32), True, AT),
        If(compare("lt", TX, 3), (Assign(STEP, ONE, True), Assign(V, V * 2.0, False, AT))),
        For(STEP, ZERO, Var("n"), ONE, (SetElement("w", STEP, V, AT),)),
        While(compare("gt", V, 1.0), (Assign(V, V - Element("w", (ZERO,), dt.f32), False, AT),)),
    ),
    "a call of the code generator": program(prim("nanosleep", num(100))),
}

BAD = {
    "the condition `threadIdx.x` is a i32": program(If(TX, (), (), AT)),
    "variable i is not declared here": program(SetElement("w", STEP, Const(0.0, dt.f32), AT)),
    "variable v is not declared": program(
        If(TRUE, (Assign(V, Const(1.0, dt.f32), True, AT),)), Assign(V, V, False, AT)
    ),
    "v is declared twice": program(
        Assign(V, Const(1.0, dt.f32), True, AT), Assign(V, Const(1.0, dt.f32), True, AT)
    ),
    "variable i of i32 is used as i64": program(
        Assign(STEP, ONE, True), Assign(Var("j", dt.i64), Var("i", dt.i64), True, AT)
    ),
    "variable i of i32 is assigned a i64": program(Assign(STEP, cast(TX, dt.i64), True, AT)),
    "threadIdx.x cannot be assigned": program(Assign(TX, ONE, False, AT)),
    "register array r is not declared here": program(SetElement("r", ZERO, ONE, AT)),
    "register array w of f32 is used as i32": program(SetElement("w", ZERO, ONE, AT)),
    "w[16] is outside the register array of 16": program(
        Assign(V, Element("w", (num(16),), dt.f32), True, AT)
    ),
    "unrolled loop over i has bound n": program(
        For(STEP, ZERO, Var("n"), ONE, (), unroll=True, span=AT)
    ),
    "the loop over i has step 0": program(For(STEP, ZERO, ONE, ZERO, (), span=AT)),
    "shfl.xor stands under a condition": program(
        Assign(V, select(compare("lt", TX, 8), SHARED, Const(0.0, dt.f32)), True, AT)
    ),
    "vote.any stands under a condition": program(
        If(land(compare("lt", TX, 8), Call("vote.any", (TRUE,), dt.boolean)), (), (), AT)
    ),
    "there is no primitive ld.global.32": program(prim("ld.global.32", regs(), X, TRUE)),
    "takes (regs, global, scalar), got (regs, global)": program(prim("ld.global.16", regs(), X)),
    "only those take registers": program(prim("nanosleep", regs())),
    "ld.global.16 moves 16 bytes, 4 registers of f16 hold 8": program(
        prim("ld.global.16", regs(width=4), X, TRUE)
    ),
    "h[60..67] is outside": program(prim("ld.global.16", regs(pieces=(60,)), X, TRUE)),
    "z is not a pointer parameter": program(
        prim("ld.global.16", regs(), GlobalPtr("z", ZERO, dt.f16), TRUE)
    ),
    "scale is not a pointer parameter": program(
        prim("ld.global.4", regs("w", dt.f32, 1), GlobalPtr("scale", ZERO, dt.f32), TRUE)
    ),
    "x of f16 is addressed as f32": program(
        prim("ld.global.16", regs(), GlobalPtr("x", ZERO, dt.f32), TRUE)
    ),
    "which y does not promise": program(
        prim("ld.global.16", regs(), GlobalPtr("y", ZERO, dt.f16), TRUE)
    ),
    "ld.global.16 at element 4 is misaligned": program(
        prim("ld.global.16", regs(), GlobalPtr("x", num(4), dt.f16), TRUE)
    ),
    "the predicate `threadIdx.x` of ld.global.16 is a i32": program(
        prim("ld.global.16", regs(), X, TX)
    ),
    "st.shared.16 at shared byte 1016 is outside the arena of 1024": program(
        prim("st.shared.16", SharedPtr(num(1016)), regs())
    ),
    "cp.async.16 at shared byte 8 is misaligned": program(
        prim("cp.async.16", SharedPtr(num(8)), X, TRUE)
    ),
    "ldmatrix.x4 at shared byte 1016 is outside": program(
        prim("ldmatrix.x4", A, SharedPtr(num(1016)))
    ),
    "needs shared memory": program(prim("st.shared.16", SharedPtr(TX), regs()), shared=0),
    "takes a constant number of groups": program(prim("cp.async.wait", TX)),
    "ldmatrix.x4 takes pieces of 4 bytes, h comes in pieces of 8 f16": program(
        prim("ldmatrix.x4", regs(), SharedPtr(ZERO))
    ),
    "takes bf16, h is f16": program(prim("mma.16x8x16.f32.bf16.bf16", C, A, B)),
    "takes 4 elements of h per thread, got 8": program(prim("mma.16x8x16.f32.f16.f16", C, A, A)),
    "takes pieces of 4 bytes, w comes in pieces of 4 f32": program(
        prim("mma.16x8x16.f32.f16.f16", regs("w", dt.f32, 4), A, B)
    ),
}

UNLOCATED = {
    "two parameters called n": program(params=(ThreadParam("n", dt.i32),) * 2),
    "has 2048 threads per block": program(block_dim=2048),
    "has -1 bytes of shared memory": program(shared=-1),
    "variable threadIdx.x is not declared": program(grid_dim=(TX, ONE, ONE)),
    "variable m is not declared": program(grid_dim=(Var("m"), ONE, ONE)),
    "register array r has 0 elements": program(DeclareArray("r", dt.f32, 0)),
    "h is declared twice": program(HALVES),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_keeps_the_laws_passes(name):
    verify(GOOD[name])


@pytest.mark.parametrize("message", BAD)
def test_what_breaks_a_law_is_refused_at_its_line(message):
    with pytest.raises(VerifyError) as caught:
        verify(BAD[message])
    assert message in str(caught.value)
    assert caught.value.span == AT


@pytest.mark.parametrize("message", UNLOCATED)
def test_what_breaks_a_law_of_the_whole_program(message):
    with pytest.raises(VerifyError) as caught:
        verify(UNLOCATED[message])
    assert message in str(caught.value)


def operand_for(kind, spec):
    """A right operand of a primitive, from its row and the PTX name alone."""
    if kind == "global":
        return GlobalPtr("x", ZERO, dt.f16)
    if kind == "shared":
        return SharedPtr(ZERO)
    if kind == "scalar":
        return ZERO if spec.name == "cp.async.wait" else TRUE
    if spec.name.startswith("ldmatrix"):
        return regs("b", dt.u8, 4, range(0, spec.bytes, 4))
    return regs("b", dt.u8, spec.bytes)


# These have laws of their own, and tests of those.
OWN_LAWS = {n for n in PRIMS if n.startswith("mma.")} | HOPPER | set(UPDATES)


@pytest.mark.parametrize("name", [n for n in PRIMS if n not in OWN_LAWS])
def test_every_row_has_operands_that_pass(name):
    spec = PRIMS[name]
    operands = [operand_for(kind, spec) for kind in spec.operands]
    x = ThreadParam("x", dt.f16 if spec.bytes != 1 else dt.u8, (ONE,), pointer=True, aligned=True)
    if spec.bytes == 1:
        operands = [
            GlobalPtr("x", ZERO, dt.u8) if isinstance(o, GlobalPtr) else o for o in operands
        ]
    body = (DeclareArray("b", dt.u8, 16), Prim(name, tuple(operands)))
    verify(ThreadProgram("kernel", (x,), (ONE, ONE, ONE), 32, 64, body))
