"""Programs that the stages below the frontend refuse, each with the words of its fix and with what
the fix says to write: `(fix, refused, taken)`, each a call that gives its program to the stage."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
from test_backend_source import SPAN, TRUE, emitted, i32, value
from test_simulator_values import evaluate
from test_thread_verify import program as laws
from test_thread_verify import regs
from tile_builder import TileBuilder

import hexcute_core as hx
from hexcute_core import backend
from hexcute_core import dtypes as dt
from hexcute_core.arch import arch
from hexcute_core.lowering import lower
from hexcute_core.scalar import Binary, Call, Cast, Const, Select, Unary, Var, compare
from hexcute_core.simulator import interpret, simulate
from hexcute_core.synthesis import synthesize
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    GlobalPtr,
    If,
    Prim,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
)
from hexcute_core.thread.verify import verify
from hexcute_core.tile import Assign as TileAssign
from hexcute_core.tile import CallStmt

N, X, SCALE = Var("n"), Var("x"), Var("scale", dt.f32)
TX, V = Var("threadIdx.x"), Var("v", dt.f32)
ONE = i32(1)
HALF, NARROW = Cast(SCALE, dt.f16), Cast(SCALE, dt.f8e4m3)


def emits(*stmts, arch="sm_80"):
    return lambda: emitted(DeclareArray("x", dt.f16, 8), *stmts, arch=arch)


def gives(e, arch="sm_80"):
    """`e` given to the backend."""
    return emits(value(e), arch=arch)


def product(kind):
    """A product of 16 x 8 x 32 (or 16) in the backend: the operands' words are all of x."""
    depth = 32 if kind.startswith("f8") else 16
    c, a, b = (DeclareArray(n, t, s) for n, t, s in (
        ("c", dt.f32, 4), ("a", dt.BY_NAME[kind], depth // 2), ("b", dt.BY_NAME[kind], depth // 4),
    ))  # fmt: skip
    word = 4 if depth == 32 else 2
    operands = (
        regs("c", dt.f32, 1, range(4)),
        regs("a", a.dtype, word, range(0, a.size, word)),
        regs("b", b.dtype, word, range(0, b.size, word)),
    )
    return c, a, b, Prim(f"mma.16x8x{depth}.f32.{kind}.{kind}", operands, SPAN)


def clustered(arch):
    body, one = (), (ONE, ONE, ONE)
    made = ThreadProgram("kernel", (), one, 32, 0, body, cluster_dim=(2, 1, 1))
    return lambda: backend.emit(made, arch)


BACKEND = [
    ("use one of hidet", lambda: backend.emit(laws(), "sm_80", "llvm"), emits()),
    ("write a cast, as in f32(x)", emits(Prim("cuda_cvt_f32_to_f16", (N,), SPAN)),
     gives(Cast(N, dt.f32))),
    ("cast to f32 first", gives(Call("tanh", (NARROW,), dt.f8e4m3), "sm_90"),
     gives(Call("tanh", (Cast(NARROW, dt.f32),), dt.f32), "sm_90")),
    ("call it as a statement", gives(Call("syncwarp", (), dt.i32)), emits(Prim("syncwarp", ()))),
    ("write hx.cast(x, f16)", gives(Call("cuda_f16_tanh", (SCALE,), dt.f16)),
     gives(Call("cuda_f16_tanh", (HALF,), dt.f16))),
    ("ask for it as dtype=f16 and hx.cast it", gives(Call("cuda_f16_tanh", (HALF,), dt.f32)),
     gives(Cast(Call("cuda_f16_tanh", (HALF,), dt.f16), dt.f32))),
    ("compile for sm_89 or later, or keep the tensor in f16 or bf16", gives(NARROW),
     gives(NARROW, "sm_89")),
    ("cast the operand to an integer type", gives(Unary("inv", SCALE, dt.f32)),
     gives(Unary("inv", Cast(SCALE, dt.i32), dt.i32))),
    ("cast the operands to an integer type", gives(Binary("and", SCALE, SCALE, dt.f32)),
     gives(Binary("and", Cast(SCALE, dt.i32), Cast(SCALE, dt.i32), dt.i32))),
    ("cast the base to f32, or multiply in a loop", gives(Binary("pow", N, N, dt.i32)),
     gives(Binary("pow", Cast(N, dt.f32), Cast(N, dt.f32), dt.f32))),
    ("write // for the integer quotient, or cast the operands to f32",
     gives(Binary("div", N, N, dt.i32)), gives(Binary("floordiv", N, N, dt.i32))),
    ("or cast the operands to f32", gives(Binary("div", N, N, dt.i32)),
     gives(Binary("div", Cast(N, dt.f32), Cast(N, dt.f32), dt.f32))),
    ("cast the operand to f32 first", gives(Unary("exp", N, dt.i32)),
     gives(Unary("exp", Cast(N, dt.f32), dt.f32))),
    ("assign it in an enclosing block first",
     emits(If(TRUE, (Assign(X, ONE, True),)), Assign(X, ONE, False)),
     emits(Assign(X, ONE, True), If(TRUE, (Assign(X, N, False),)), Assign(X, ONE, False))),
    ("declare it in an enclosing block first",
     emits(If(TRUE, (DeclareArray("r", dt.i32, 1),)), SetElement("r", i32(0), ONE)),
     emits(DeclareArray("r", dt.i32, 1), If(TRUE, (SetElement("r", i32(0), ONE),)))),
    ('compile with target="sm_90"', emits(Prim("mbarrier.init", (SharedPtr(i32(0)), ONE))),
     lambda: emitted(Prim("mbarrier.init", (SharedPtr(i32(0)), ONE)), arch="sm_90", shared=16)),
    ('compile with target="sm_90"', clustered("sm_80"), clustered("sm_90")),
    ("convert the operands to f16", emits(*product("f8e4m3")), emits(*product("f16"))),
]  # fmt: skip


def shuffled(*, first):
    told = Call("shfl.xor", (Const(1.0, dt.f32), ONE), dt.f32)
    scale, known = Var("scale", dt.f32), compare("lt", TX, 8)
    chosen = Select(known, V if first else told, scale, dt.f32)
    lines = [Assign(V, told, True, SPAN)] if first else []
    return lambda: verify(laws(*lines, Assign(Var("z", dt.f32), chosen, True, SPAN)))


def loads(name, width):
    part = Prim(f"ld.global.{2 * width}", (
        regs(width=width), GlobalPtr(name, TX * width, dt.f16), TRUE,
    ), SPAN)  # fmt: skip
    return lambda: verify(laws(part))


def claims(**changes):
    return lambda: verify(laws(Prim("setmaxnreg.inc", (i32(240),), SPAN), **changes))


THREAD = [
    ("assign what it gives to a variable, and choose afterwards", shuffled(first=False),
     shuffled(first=True)),
    ("cast the value", lambda: verify(laws(Assign(V, N, True, SPAN))),
     lambda: verify(laws(Assign(V, Cast(N, dt.f32), True, SPAN)))),
    ("move one element at a time", loads("y", 8), loads("y", 1)),
    ("specialise for aligned pointers", loads("y", 8), loads("x", 8)),
    ("set min_blocks = 1", claims(), claims(min_blocks=1)),
]  # fmt: skip


def computes(e):
    return lambda: evaluate(e, n=3, scale=2.0)


def thread_program(*body, shared=0, grid=(N, ONE, ONE), **changes):
    params = (
        ThreadParam("x", dt.f32, (i32(8), i32(4)), pointer=True),
        ThreadParam("w", dt.i4, (i32(8),), pointer=True),
        ThreadParam("n", dt.i32),
    )
    declared = DeclareArray("r", dt.f32, 1)
    return ThreadProgram("kernel", params, grid, 32, shared, (declared, *body), **changes)


def runs(*body, arrays=(), numbers=(("n", 4),), blocks=None, **program):
    """A run of a thread program whose arguments are right but for what is given here."""
    def run():
        right = {"x": np.zeros((8, 4), np.float32), "w": np.zeros(4, np.uint8)}
        made = {k: a for k, a in {**right, **dict(arrays)}.items() if a is not None}
        return simulate(thread_program(*body, **program), made, dict(numbers), blocks)

    return run


def grid(*extents):
    return {"grid": tuple(i32(e) for e in extents)}


MET = (Prim("cluster.arrive", ()), Prim("cluster.wait", ()))
PAIRS = {"cluster_dim": (2, 1, 1)}
FIRST = If(compare("lt", TX, 3), (Prim("bar.sync", ()),), (), SPAN)
STORE = Prim("st.global.4", (GlobalPtr("x", TX, dt.f32), regs("r", dt.f32, 1), TRUE), SPAN)
PUT = SetElement("r", i32(0), Const(1.0, dt.f32))
FETCH = Prim("cp.async.4", (SharedPtr(TX * 4), GlobalPtr("x", TX, dt.f32), TRUE), SPAN)
READ = Prim("ld.shared.4", (regs("r", dt.f32, 1), SharedPtr(TX * 4)), SPAN)
WAITED = (Prim("cp.async.commit", ()), Prim("cp.async.wait", (i32(0),)), Prim("bar.sync", ()))


def frozen():
    array = np.zeros((8, 4), np.float32)
    array.flags.writeable = False
    return array


SIMULATOR = [
    ("cast to f32 first", computes(Binary("div", N, N, dt.i32)),
     computes(Binary("div", Cast(N, dt.f32), Cast(N, dt.f32), dt.f32))),
    ("cast to i32 first", computes(Binary("add", TRUE, TRUE, dt.boolean)),
     computes(Binary("add", Cast(TRUE, dt.i32), Cast(TRUE, dt.i32), dt.i32))),
    ("cast to an integer first", computes(Binary("and", SCALE, SCALE, dt.f32)),
     computes(Binary("and", Cast(SCALE, dt.i32), N, dt.i32))),
    ("cast to an integer first", computes(Unary("inv", SCALE, dt.f32)),
     computes(Unary("inv", Cast(SCALE, dt.i32), dt.i32))),
    ("or run this kernel on a GPU", computes(Call("cuda_f16_tanh", (N,), dt.i32)),
     computes(Unary("tanh", SCALE, dt.f32))),
    ("write it with the primitives of thread.prims", runs(Prim("cuda_syncthreads", ())),
     runs(Prim("bar.sync", ()))),
    ("wait for the copy's group, then synchronise the block, before this access",
     runs(FETCH, READ, shared=128), runs(FETCH, *WAITED, READ, shared=128)),
    ("move the barrier out of the `if` or loop whose condition differs by thread", runs(FIRST),
     runs(Prim("bar.sync", ()))),
    ("pass scalars={name: number} for each of them", runs(numbers=()), runs()),
    ("put the longest dimension along x", runs(**grid(1, 70000, 1)),
     runs(blocks=[(0, 0, 0)], **grid(70000, 1, 1))),
    ("give each block more of the work", runs(grid=(Const(2**31, dt.i64), ONE, ONE)),
     runs(blocks=[(0, 0, 0)], grid=(Const(2**30, dt.i64), ONE, ONE))),
    ("compute an extent that is 0 where there is no work", runs(**grid(-1, 1, 1)),
     runs(**grid(0, 1, 1))),
    ("name blocks (x, y, z) of it", runs(blocks=[(4, 0, 0)]), runs(blocks=[(3, 0, 0)])),
    ("round the grid up to a multiple of the cluster", runs(**grid(3, 1, 1), **PAIRS),
     runs(**grid(4, 1, 1), **PAIRS)),
    ("name all blocks of a cluster", runs(*MET, blocks=[(0, 0, 0)], **PAIRS),
     runs(*MET, blocks=[(0, 0, 0), (1, 0, 0)], **PAIRS)),
    ("pass arrays={name: numpy array} for each of them", runs(arrays={"x": None}), runs()),
    ("pass arrays={'x': numpy array}", runs(arrays={"x": [1.0]}),
     runs(arrays={"x": np.ones((8, 4), np.float32)})),
    ("pass np.ascontiguousarray(...)", runs(arrays={"x": np.zeros((4, 8), np.float32).T}),
     runs(arrays={"x": np.ascontiguousarray(np.zeros((4, 8), np.float32).T)})),
    ("pass x.astype('float32')", runs(arrays={"x": np.zeros((8, 4))}),
     runs(arrays={"x": np.zeros((8, 4)).astype("float32")})),
    ("pass the shape that the symbols give", runs(arrays={"x": np.zeros((4, 8), np.float32)}),
     runs()),
    ("pack the elements, the first in the lowest bits, into a uint8 array",
     runs(arrays={"w": np.zeros(8, np.uint8)}), runs(arrays={"w": np.zeros(4, np.uint8)})),
    ("pass x.copy()", runs(PUT, STORE, arrays={"x": frozen()}, **grid(1, 1, 1)),
     runs(PUT, STORE, arrays={"x": frozen().copy()}, **grid(1, 1, 1))),
]  # fmt: skip


def tiled(fill):
    """What `fill(builder)` writes into a tile program of one 8 x 8 tile, interpreted."""
    def run():
        b = TileBuilder(threads=32)
        fill(b)
        return interpret(b.program(), {}, {})

    return run


def called(b):
    b.add(CallStmt("syncwarp", (), b.span()))


def over_elements(inside):
    def fill(b):
        r, i, j = b.register("r", dt.f32, 8, 8), Var("i"), Var("j")
        b.fill(r, 0.0, dt.f32)
        if not inside:
            b.add(assigned(b, i32(0), True))
        with b.elements(r, (i, j)):
            b.add(assigned(b, i, inside))

    return fill


def assigned(b, value, declares):
    return TileAssign(Var("v"), value, declares, b.span())


def with_role(nested):
    def lowered():
        b = TileBuilder(threads=32)
        with b.when(Const(True, dt.boolean)) if nested else nullcontext(), b.role(0, 32):
            b.sync()
        return lower(synthesize(b.program(), arch("sm_90")), arch("sm_90"))

    return lowered


@hx.kernel(cache=False)
def narrowed(x: hx.f16[8, 16], y: hx.f8e4m3[8, 16]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(hx.f16, (8, 16))
    hx.copy(hx.global_view(x, ((8, 16), (16, 1))), r)
    hx.copy(hx.cast(r, hx.f8e4m3), hx.global_view(y, ((8, 16), (16, 1))))


def barriers(count):
    @hx.kernel(cache=False)
    def kernel(x: hx.f32[8]):
        hx.attrs.cuda.grid_dim = 1
        for _ in hx.static_range(count):
            met = hx.named_barrier(256)
        with hx.warp_groups_producer():
            met.arrive()
        with hx.warp_groups_consumer():
            met.sync()

    return lambda: kernel.compile("sm_90").thread


TILE = [
    ("run this kernel on a GPU", tiled(called), tiled(lambda b: b.sync())),
    ("write the roles one after another at the top of the kernel", with_role(nested=True),
     with_role(nested=False)),
    ("declare it inside the loop", tiled(over_elements(inside=False)),
     tiled(over_elements(inside=True))),
    ("compile for sm_89 or later, or cast to f16 or bf16 first",
     lambda: narrowed.compile("sm_80").tile, lambda: narrowed.compile("sm_89").tile),
    ("use fewer named barriers, or mbarriers", barriers(14), barriers(13)),
]  # fmt: skip

CALLS = [*BACKEND, *THREAD, *SIMULATOR, *TILE]
