"""Statements that are refused, each with the words of its fix and with what the fix says to write
instead: `(fix, refused, taken)`, the bodies of a kernel with the names of `HEAD`."""

from __future__ import annotations

HEAD = """\
import hexcute_core as hx
from hexcute_core import bf16, f16, f32, i32

m, k = hx.dims("m k")


@hx.device
def add(x, y):
    return x + y


@hx.device
def filled(tile, x):
    hx.fill(tile, 0.0)
    return x


@hx.device
def nothing(tile):
    hx.fill(tile, 0.0)


@hx.device
def deep(x, left):
    return x if left == 0 else deep(x, left - 1)


"""
KERNEL = "def kernel(a: f16[m, k], n: i32):\n"
CUDA = "hx.attrs.cuda"
TOP = "hx.attrs.cuda.grid_dim = 1\nhx.attrs.cuda.block_dim = 128\n"
TILES = """\
r, q = hx.register_tensor(f16, (16, 8)), hx.register_tensor(f32, (16, 8))
s = hx.shared_tensor(f16, (16, 8))
c, d = hx.register_tensor(f32, (16, 16)), hx.register_tensor(f16, (16, 16))
t = hx.register_tensor(f16, (16, 8, 2))
g = hx.global_view(a, ((16, 8), (k, 1)))
hx.fill(r, 0.0), hx.fill(q, 0.0), hx.fill(c, 0.0), hx.fill(d, 0.0), hx.fill(t, 0.0)
"""

ASSIGNMENTS = [
    ("assign a tuple", "x, y = r", "x, y = r, q"),
    ("slice the tuple instead", "x, *y = (1, 2, 3)", "t = (1, 2, 3)\nx, y = t[0], t[1:]"),
    ("make the counts agree", "x, y = 1, 2, 3", "x, y = 1, 2"),
    (
        "swap names",
        "x, y = r + 1.0, r * 2.0\nfor i in range(n):\n    x, (y, z) = y, (x, i)",
        "x, y = r + 1.0, r * 2.0\nfor i in range(n):\n    x, y = y, x",
    ),
    ("index lists by compile-time ints", "x = (1, 2)\nx[0] = 3", "x = [1, 2]\nx[0] = 3"),
    ("write `x: hx.i32 = 0`", "x: hx.i32", "x: hx.i32 = 0"),
    ("annotate scalars only", "x: i32 = r", "x: i32 = n"),
    ("write hx.copy(src, dst)", "r[...] = s", "hx.copy(s, r)"),
    (
        "assign a scalar here",
        "for i, j in hx.elements(r):\n    r[i, j] = r",
        "for i, j in hx.elements(r):\n    r[i, j] = 1.0",
    ),
]

CALLS = [
    ("write `for i in range(n):`", "x = range(n)", "for i in range(n):\n    hx.fill(r, 0.0)"),
    (
        "write range(n)",
        "for i in range(stop=n):\n    hx.fill(r, 0.0)",
        "for i in range(n):\n    hx.fill(r, 0.0)",
    ),
    ("call add(", "x = add(r)", "x = add(r, r)"),
    ("pass a tuple", "x = add(*n)", "x = add(*(r, r))"),
    ("pass a dict", "x = add(r, **n)", 'x = add(r, **{"y": r})'),
    ("write an `if` statement", "x = (n > 0) and nothing(r)", "if n > 0:\n    nothing(r)"),
    ("use tile.shape[0]", "x = len(r)", "x = r.shape[0]"),
    ("copy results to a tensor parameter", "return 1", "hx.copy(r, g)"),
]

EXPRESSIONS = [
    ("compare with == and `or`", "x = n in (1, 2)", "x = n == 1 or n == 2"),
    ("write the entries out", 'x = {**{"y": 1}}', 'x = {"y": 1}'),
    ("write a `for` and an `if`", "x = [i for i in (1, 2) if i < n]",
     "for i in (1, 2):\n    if i < n:\n        hx.fill(r, 0.0)"),
    ("compare in steps with &", "x = 0.0 < r < 1.0", "x = (0.0 < r) & (r < 1.0)"),
    ("iterate over compile-time values", "x = [i for i in n]", "x = [i for i in range(3)]"),
    ("use a name", "x = [0 for r.y in (1, 2)]", "x = [0 for y in (1, 2)]"),
    ("use numbers, scalars and register tiles", "x = n + 'a'", "x = n + 1"),
    ("unpack a tuple or list", "x = [*n]", "x = [*(n, n)]"),
    ("write hx.floor(x / y)", "x = hx.cast(n, f32) // 2.0", "x = hx.floor(hx.cast(n, f32) / 2.0)"),
    ("pass an int or a compile-time constant", "x = s[hx.ds(0, n), :]", "x = s[hx.ds(n, 8), :]"),
    ("slices of tiles are contiguous", "x = s[0:16:2, :]", "x = s[0:8, :]"),
    ("use an integer, a slice with a constant size", "x = s[1.5, :]", "x = s[1, :]"),
]  # fmt: skip

LOOPS = [
    (
        "write it after the loop",
        "i = 0\nwhile i < n:\n    i = i + 1\nelse:\n    i = 2",
        "i = 0\nwhile i < n:\n    i = i + 1\ni = 2",
    ),
    (
        "compute it into a variable before the loop",
        "i = 0\nwhile filled(r, i) < n:\n    i = i + 1",
        "i = 0\nx = filled(r, i)\nwhile x < n:\n    i = i + 1\n    x = filled(r, i)",
    ),
    (
        "iterate over range, hx.grid",
        "for i in 5.0:\n    hx.fill(r, 0.0)",
        "for i, j in hx.grid(2, n):\n    hx.fill(r, 0.0)",
    ),
    (
        "write hx.grid(a, b)",
        "for i in hx.grid():\n    hx.fill(r, 0.0)",
        "for i, j in hx.grid(2, 2):\n    hx.fill(r, 0.0)",
    ),
    (
        "use a step other than 0",
        "for i in hx.static_range(0, 4, 0):\n    hx.fill(r, 0.0)",
        "for i in hx.static_range(0, 4, 2):\n    hx.fill(r, 0.0)",
    ),
    (
        "name it first",
        "for i, j in hx.elements(r * 2.0):\n    n = n + 1",
        "x = r * 2.0\nfor i, j in hx.elements(x):\n    x[i, j] = 1.0",
    ),
    (
        "copy it to a register tensor first: hx.copy(tile, hx.register_tensor(...))",
        "for i, j in hx.elements(s):\n    s[i, j] = 1.0",
        "hx.copy(s, r)\nfor i, j in hx.elements(r):\n    r[i, j] = 1.0",
    ),
    (
        "use integers, or hx.cast(x, i32)",
        "for i in range(hx.cast(n, f32)):\n    hx.fill(r, 0.0)",
        "for i in range(hx.cast(hx.cast(n, f32), i32)):\n    hx.fill(r, 0.0)",
    ),
    (
        "write the `for` in the kernel",
        "x = list(hx.grid(2, 2))",
        "for i, j in hx.grid(2, 2):\n    hx.fill(r, 0.0)",
    ),
]

OPERATIONS = [
    (
        "index the other modes by integers",
        "hx.gemm(c, t, t)",
        "hx.gemm(c, t[:, :, 0], t[:, :, 1])",
    ),
    ("cast one of them", "hx.gemm(c, r, hx.cast(q, bf16))", "hx.gemm(c, r, hx.cast(q, f16))"),
    ("accumulate=i > 0", "hx.gemm(c, r, r, accumulate=2)", "hx.gemm(c, r, r, accumulate=n > 0)"),
    (
        "make it depend on the block or the role alone",
        "hx.gemm(c, r, r, accumulate=hx.threadIdx.x > 0)",
        "hx.gemm(c, r, r, accumulate=hx.blockIdx.x > 0)",
    ),
    (
        "copy it to a shared or register tensor first",
        "hx.gemm(c, g, r)",
        "hx.copy(g, r)\nhx.gemm(c, r, r)",
    ),
    ("write hx.wait_gemm(1)", "hx.wait_gemm(n)", "hx.wait_gemm(1)"),
    (
        "copy what it reads to a tile of its own",
        "hx.gemm(d, d, d)",
        "e = hx.register_tensor(f16, (16, 16))\nhx.copy(d, e)\nhx.gemm(d, e, e)",
    ),
    ("write hx.copy(src, dst)", "hx.fill(r, r)", "hx.copy(r, s)"),
    ("fill a register tensor and hx.copy", "hx.fill(g, 0.0)", "hx.fill(r, 0.0)\nhx.copy(r, g)"),
    ("write hx.cast(x, f16)", "x = hx.cast(q, 16)", "x = hx.cast(q, f16)"),
    ("use a mode from 0 to 1", "x = hx.sum(r, 2)", "x = hx.sum(r, 1)"),
    (
        'write hx.primitive("name", x, dtype=i32)',
        "x = hx.primitive(3)",
        'x = hx.primitive("name", n, dtype=i32)',
    ),
    (
        "write hx.global_view(a, ((BM, BK), (k, 1)))",
        "x = hx.global_view(a, 5)",
        "BM, BK = 16, 8\nx = hx.global_view(a, ((BM, BK), (k, 1)))",
    ),
    (
        "use a positive integer",
        "x = hx.global_view(a, ((0, 8), (k, 1)))",
        "x = hx.global_view(a, ((1, 8), (k, 1)))",
    ),
    (
        "use an integer or an integer scalar of the kernel",
        "x = hx.global_view(a[2.5:, :], ((16, 8), (k, 1)))",
        "x = hx.global_view(a[n:, :], ((16, 8), (k, 1)))",
    ),
]

ATTRIBUTES = [
    ("write grid_dim = x, y", f"{CUDA}.grid_dim = 1, 1, 1, 1", f"{CUDA}.grid_dim = 1, 1"),
    ("= 128", f"{CUDA}.block_dim = n", f"{CUDA}.block_dim = 128"),
    ("write hx.cdiv(m, BM)", f"{CUDA}.grid_dim = 1.5", f"{CUDA}.grid_dim = hx.cdiv(m, 8)"),
]
"""These stand at the top of a kernel that sets its attributes before."""

BARE = [
    (
        "set hx.attrs.cuda.grid_dim at the top",
        "x = hx.gridDim.x\n" + TOP,
        TOP + "x = hx.gridDim.x",
    ),
    ("set it first", "x = hx.attrs.cuda.block_dim\n" + TOP, TOP + "x = hx.attrs.cuda.block_dim"),
    ("write hx.attrs.cuda.block_dim = 128", "hx.attrs.cuda.grid_dim = 1", TOP),
    ("write hx.attrs.cuda.grid_dim = ", "hx.attrs.cuda.block_dim = 128", TOP),
]
"""These are all of a kernel."""

INSIDE = [*ASSIGNMENTS, *CALLS, *EXPRESSIONS, *LOOPS, *OPERATIONS]
"""These come after `TOP` and `TILES`."""
