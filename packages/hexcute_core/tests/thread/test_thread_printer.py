"""The text of a thread program: readable, complete, stable."""

from hexcute_core import dtypes as dt
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Element, Var, cdiv, compare
from hexcute_core.thread import (
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
    show_program,
)

TX, STEP, N = Var("threadIdx.x"), Var("i"), Var("n")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
AT = SourceSpan("kernel.py", 8)


def number(value):
    return Const(value, dt.i32)


PROGRAM = ThreadProgram(
    "kernel",
    (
        ThreadParam("x", dt.f16, (N, number(64)), pointer=True, aligned=True),
        ThreadParam("y", dt.f32, (N,), pointer=True),
        ThreadParam("n", dt.i32),
    ),
    (cdiv(N, 128), ONE, ONE),
    128,
    4096,
    (
        DeclareArray("a", dt.f16, 16),
        DeclareArray("c", dt.f32, 4),
        For(
            STEP, ZERO, number(2), ONE,
            (
                Prim(
                    "ld.global.16",
                    (
                        Regs("a", STEP * 8, (0,), 8, dt.f16),
                        GlobalPtr("x", TX * 64 + STEP * 8, dt.f16),
                        compare("lt", TX, N),
                    ),
                    AT,
                ),
            ),
            unroll=True, span=SourceSpan("kernel.py", 7),
        ),
        Prim("st.shared.16", (SharedPtr(TX * 16), Regs("a", number(8), (0,), 8, dt.f16)), AT),
        Prim("bar.sync", (), AT),
        Prim("ldmatrix.x2", (Regs("a", ZERO, (0, 4), 2, dt.f16), SharedPtr(TX * 16)), AT),
        If(
            compare("eq", TX, 0),
            (Assign(Var("v", dt.f32), Element("c", (ZERO,), dt.f32), True, AT),),
            (SetElement("c", ONE, Const(1.5, dt.f32), AT),),
        ),
        While(compare("lt", STEP, 4), (Assign(STEP, STEP + 1, False, AT),)),
    ),
    min_blocks=2,
)  # fmt: skip

TEXT = """\
kernel kernel(x: f16[n, 64] aligned, y: f32[n], n: i32)
  grid (cdiv(n, 128), 1, 1) threads 128 min_blocks 2
  shared 4096 bytes
  f16 a[16]
  f32 c[4]
  unrolled for i: i32 in range(0, 2, 1)
    ld.global.16 a[i * 8 + {0}:8], x + (threadIdx.x * 64) + (i * 8), threadIdx.x < n
  st.shared.16 shared + threadIdx.x * 16, a[8:16]
  bar.sync
  ldmatrix.x2 a[{0, 4}:2], shared + threadIdx.x * 16
  if threadIdx.x == 0
    v: f32 = c[0]
  else
    c[1] = 1.5
  while i < 4
    i = i + 1
"""


def test_a_program_as_text():
    assert show_program(PROGRAM) == TEXT


def test_spans_on_demand():
    lines = show_program(PROGRAM, spans=True).splitlines()
    assert "  bar.sync  # kernel.py:8" in lines
    assert "  unrolled for i: i32 in range(0, 2, 1)  # kernel.py:7" in lines
    assert "# " not in show_program(PROGRAM)
