"""The verifier of tile programs: a sound program passes, each broken law is found at its line."""

from dataclasses import replace

import pytest

from hexcute_core.dtypes import boolean, f16, f32, i32
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.scalar import Compare, Const, Element, Var, as_scalar, binary
from hexcute_core.tile import (
    Assign,
    AsyncWait,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GlobalTensor,
    GlobalView,
    If,
    Rearrange,
    Reduce,
    RegisterTensor,
    Relabel,
    SetElement,
    SharedTensor,
    SubMode,
    Sync,
    TileProgram,
    TileRef,
    While,
)
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify

AT = SourceSpan("k.py", 7)
m, n, i, j, x = Var("m"), Var("n"), Var("i"), Var("j"), Var("x")
ZERO, ONE = as_scalar(0), as_scalar(1)


def ref(name, *shape, at=None, kept=None):
    starts = tuple(as_scalar(s) for s in at) if at else (ZERO,) * len(shape)
    return TileRef(name, starts, shape, tuple(range(len(shape))) if kept is None else kept)


A = GlobalTensor("a", f16, (m, as_scalar(64)), AT)
MODES = (
    (SubMode(as_scalar(16), ONE, 0),),
    (SubMode(as_scalar(8), ONE, 1),),
    (SubMode(binary("floordiv", m, 8), as_scalar(8), 1),),
)
GA = GlobalView("ga", "a", f16, (binary("mul", Var("blockIdx.x"), 16), ZERO), MODES, AT)
S = SharedTensor("s", f16, (16, 8), AT)
R, Q = RegisterTensor("r", f16, (16, 8), AT), RegisterTensor("q", f16, (16, 8), AT)
C, V = RegisterTensor("c", f32, (16, 16), AT), RegisterTensor("v", f16, (16, 1), AT)

r, q, s, c, v = (ref(t.name, *t.shape) for t in (R, Q, S, C, V))
ga = ref("ga", 16, 8, 1, at=(0, 0, i), kept=(0, 1))
HALF = Const(0.0, f16)
e0, e1 = Var("$0", f16), Var("$1", f16)
COPY = For(i, ZERO, m, ONE, (Copy(1, ga, r, AT), Copy(2, r, s, AT)), AT)
ELEMENTS = ForElements(
    5, r, (i, j), (SetElement("r", (i, j), Element("q", (i, j), f16), AT),), AT
)  # fmt: skip


def program(*body, **changes):
    base = TileProgram(
        "k", (A,), (("n", i32),), ("m",), (m, ONE, ONE), 32, (GA, S, R, Q, C, V), tuple(body),
        Promise((("m", 8),), frozenset({"a"})), AT,
    )  # fmt: skip
    return replace(base, **changes)


SOUND = (
    Fill(0, r, HALF, AT),
    COPY,
    Sync(AT),
    Copy(3, ref("s", 8, 8, at=(8, 0)), ref("q", 8, 8, at=(n, 0)), AT),
    Gemm(4, c, r, q, AT),
    Assign(x, ZERO, True, AT),
    While(Compare("lt", x, n), (Assign(x, binary("add", x, 1), False, AT),), AT),
    Elementwise(6, r, (q, v), binary("mul", e0, e1), AT),
    Reduce(7, v, r, 1, "sum", AT),
    CastTile(8, ref("r", 16, 1), ref("c", 16, 1), AT),
    Rearrange(9, q, r, None, AT),
    Relabel(10, q, r, (0, 1), (16, 16), AT),
    AsyncWait(0, AT),
)


def test_a_sound_program_passes():
    verify(program(*SOUND))
    verify(program(ELEMENTS))


def at_i(stmt):
    return For(i, ZERO, m, ONE, (stmt,), AT)


BROKEN = {
    "two things are called `r`": program(tensors=(R, R)),
    "two things are called `m`": program(tensors=(replace(R, name="m"),)),
    "a block of 2048 threads": program(block_dim=2048),
    "`x` is used before declared": program(grid_dim=(x, ONE, ONE)),
    "names no symbol": program(promise=Promise((("k", 8),))),
    "`z` aligned is no parameter": program(promise=Promise((), frozenset("z"))),
    "`r` has shape (0, 8)": program(tensors=(replace(R, shape=(0, 8)),)),
    "views no parameter": program(tensors=(replace(GA, param="b"),)),
    "does not fit parameter `a`": program(tensors=(replace(GA, dtype=f32),)),
    "steps along dimension 2": program(tensors=(replace(GA, modes=((SubMode(ONE, ONE, 2),),)),)),
    "two operations have id 0": program(Fill(0, r, HALF, AT), Fill(0, q, HALF, AT)),
    "no tensor is called `t`": program(Fill(0, ref("t", 4), HALF, AT)),
    "a fill of `r`": program(Fill(0, r, Const(0.0, f32), AT)),
    "`ga` is no RegisterTensor or SharedTensor": program(at_i(Fill(0, ga, HALF, AT))),
    "shapes (16, 8) and (16, 1)": program(Copy(0, s, v, AT)),
    "a f32 copied to f16": program(Copy(0, ref("c", 16, 8), s, AT)),
    "`r` and `q` share a space": program(Copy(0, r, q, AT)),
    "a gemm of shapes": program(Gemm(0, c, r, v, AT)),
    "`s` is no RegisterTensor": program(Gemm(0, s, r, r, AT)),
    "a reduce of mode 2": program(Reduce(0, v, r, 2, "sum", AT)),
    "a reduce of (16, 8) to (16, 8)": program(Reduce(0, q, r, 1, "sum", AT)),
    "modes in the order (0, 0)": program(Relabel(0, q, r, (0, 0), (16, 16), AT)),
    "bits (16, 32)": program(Relabel(0, q, r, (0, 1), (16, 32), AT)),
    "2048 bits as 256": program(Relabel(0, v, r, (0, 1), (16, 16), AT)),
    "(16, 8) does not broadcast to (16, 1)": program(Elementwise(0, v, (r,), e0, AT)),
    "`$1` is used before declared": program(Elementwise(0, r, (q,), e1, AT)),
    "a f32 result in `r`": program(Elementwise(0, r, (), Const(1.0, f32), AT)),
    "mode 0 of `r` is out of range": program(Copy(0, s, ref("r", 16, 8, at=(8, 0)), AT)),
    "with other modes": program(Fill(0, ref("r", 16), HALF, AT)),
    "mode 0 of `r` has 16": program(Fill(0, ref("r", 16, 8, kept=(1,)), HALF, AT)),
    "run-time mode of `ga`": program(at_i(Copy(0, ref("ga", 16, 8, 1), s, AT))),
    "`i` is used before declared": program(Copy(0, ga, r, AT)),
    "`i` is declared twice": program(COPY, COPY),
    "a step below 1": program(For(i, ZERO, m, ZERO, (), AT)),
    "index `1.0` is a f32": program(For(i, ZERO, Const(1.0, f32), ONE, (), AT)),
    "`x` is declared twice": program(Assign(x, ZERO, True, AT), Assign(x, ZERO, True, AT)),
    "`x` is assigned before declared": program(Assign(x, ZERO, False, AT)),
    "a f32 assigned to i32 `x`": program(Assign(x, Const(0.0, f32), True, AT)),
    "`n` is not a variable": program(Assign(n, ZERO, False, AT)),
    "condition `m` is a i32": program(If(m, (), (), AT)),
    "a wait for -1 groups": program(AsyncWait(-1, AT)),
    "outside a loop over elements": program(SetElement("r", (i, j), HALF, AT)),
    "by other than the loop's coordinates": program(
        replace(ELEMENTS, body=(SetElement("r", (j, i), HALF, AT),))
    ),
    "mode 1 of `v` is out of range": program(
        replace(ELEMENTS, body=(SetElement("v", (i, j), HALF, AT),))
    ),
    "a f32 set in `r`": program(
        replace(ELEMENTS, body=(SetElement("r", (i, j), Const(0.0, f32), AT),))
    ),
    "a tile operation in a loop over elements": program(replace(ELEMENTS, body=(Sync(AT),))),
    "2 coordinates of `r`": program(replace(ELEMENTS, coords=(i,), body=())),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_law_is_found(message):
    with pytest.raises(VerifyError) as caught:
        verify(BROKEN[message])
    assert message in str(caught.value)
    assert str(caught.value).startswith("k.py:7: ")


def test_a_variable_of_a_branch_is_not_seen_after_it():
    cond = Compare("lt", n, ONE)
    declare = If(cond, (Assign(x, ZERO, True, AT),), (), AT)
    with pytest.raises(VerifyError, match="`x` is assigned before declared"):
        verify(program(declare, Assign(x, ONE, False, AT)))


TEXT = """\
kernel k(a: f16[m, 64], n: i32)
  grid (m, 1, 1) threads 32
  promised m % 8 == 0, a aligned
  ga = view a(blockIdx.x * 16, 0) f16 (16:1@0, 8:1@1, m // 8:8@1)
  s = shared f16 (16, 8)
  r = registers f16 (16, 8)
  q = registers f16 (16, 8)
  c = registers f32 (16, 16)
  v = registers f16 (16, 1)
  %0 fill r = 0.0
  for i in range(0, m, 1):
    %1 copy ga[:, :, i] -> r
    %2 copy r -> s
  syncthreads
  %3 copy s[8:+8, :] -> q[n:+8, :]
  %4 gemm c += r * q^T
  var x: i32 = 0
  while x < n:
    x = x + 1
  %6 r = $0 * $1 where $0 = q, $1 = v
  %7 sum r along 1 -> v
  %8 cast c[:, 0:+1] -> r[:, 0:+1]
  %9 rearrange r -> q
  %10 relabel r -> q
  cp_async_wait 0
"""


def test_the_program_as_text():
    assert show_program(program(*SOUND)) == TEXT
    spans = show_program(program(*SOUND), spans=True)
    assert "  syncthreads  # k.py:7\n" in spans


def test_branches_and_elements_as_text():
    otherwise = (Assign(x, ONE, False, AT),)
    stmt = If(Compare("lt", n, ONE), (Assign(x, ZERO, False, AT),), otherwise, AT)
    text = show_program(program(Assign(x, ZERO, True, AT), stmt, ELEMENTS))
    assert text.endswith(
        "  var x: i32 = 0\n  if n < 1:\n    x = 0\n  else:\n    x = 1\n"
        "  %5 for i, j in elements(r):\n    r[i, j] = q[i, j]\n"
    )


def test_booleans_are_conditions():
    flag = Var("flag", boolean)
    verify(program(Assign(flag, Const(True, boolean), True, AT), If(flag, (), (), AT)))
