"""Still more statements with their fixes: values, loops and conditions; see `fix_cases`."""

from __future__ import annotations

from fix_cases import CUDA

LOOP = "for i in range(n):\n"

WORDS = [
    ("annotate the first assignment (`x: hx.f32 = ...`)",
     f"x: i32 = n\n{LOOP}    x = hx.cast(n, f32)\ny = x + 1",
     f"x: hx.f32 = hx.cast(n, f32)\n{LOOP}    x = hx.cast(n, f32)\ny = x + 1.0"),
    ("or write hx.cast(value, i32)", f"x: i32 = n\n{LOOP}    x = hx.cast(n, f32)\ny = x + 1",
     f"x: i32 = n\n{LOOP}    x = hx.cast(hx.cast(n, f32), i32)\ny = x + 1"),
    ("use a variable or a register tensor, or expand the loop with hx.static_range",
     f"x = [1]\n{LOOP}    x.append(2)", "x = [1]\nfor i in hx.static_range(3):\n    x.append(2)"),
    ("write m - 1 for the last ones", "hx.atomic_add(a, (-1, 0), 1.0)",
     "hx.atomic_add(a, (m - 1, 0), 1.0)"),
    ("print its elements in `for i, j in hx.elements(tile):`, or hx.number(tile) of a tile of one",
     'hx.printf("%f", q)', 'for i, j in hx.elements(q):\n    hx.printf("%f", q[i, j])'),
    ("put what is known now into the text", 'hx.printf("%d", "x")', 'hx.printf("x")'),
    ("assert of its elements, in `for i, j in hx.elements(tile):`", "hx.device_assert(q > 0.0)",
     "for i, j in hx.elements(q):\n    hx.device_assert(q[i, j] >= 0.0)"),
    ('write hx.device_assert(i < n, "why")', "hx.device_assert(n > 0, 3)",
     'hx.device_assert(n > 0, "why")'),
    ("read the parameter itself, as in x[i, j]",
     "x = hx.number(g[0, 0])", "x = a[0, 0]"),
    ("write positive extents whose product is 128", "x = hx.reshape(q, (16, 9))",
     "x = hx.reshape(q, (8, 16))"),
    ("call a function", "x = 3\ny = x(1)", "y = add(1, 2)"),
    ("use hx.where(cond, a, b) on tiles", "x = 1 if r > 0.0 else 2",
     "x = hx.where(r > 0.0, 1.0, r)"),
    ("use hx.where(cond, a, b) on tiles", "if r > 0.0:\n    n = 1",
     "x = hx.where(r > 0.0, r, 1.0)"),
    ("write `with hx.elements(tile) as (i, j):`", "with n as i:\n    x = i",
     "with hx.elements(r) as (i, j):\n    r[i, j] = 1.0"),
    ("take equal parts of both tiles", "hx.copy(s, r[0:8, :])", "hx.copy(s[0:8, :], r[0:8, :])"),
    ("write hx.copy(hx.cast(x, f16), y) with x in registers", "hx.copy(q, s)",
     "hx.copy(hx.cast(q, f16), s)"),
    ("index Python objects by compile-time values (hx.static_range gives them)",
     f"x = [r, q]\n{LOOP}    y = x[i]", "x = [r, q]\nfor i in hx.static_range(2):\n    y = x[i]"),
    ("choose by hx.select, or index by what hx.static_range gives", "x = {n: 1}",
     "x = hx.select(n > 0, 1, 2)"),
    ("count up and compute the falling index, or use hx.static_range",
     "for i in range(n, 0, -1):\n    hx.fill(r, 0.0)",
     "for i in range(n):\n    j = n - i\n    hx.fill(r, 0.0)"),
    ("write hx.pipeline(STAGES) with a compile-time constant", "x = hx.pipeline(n)",
     "STAGES = 2\nx = 1"),
    ("assert compile-time constants only", "assert n > 0", "assert r.shape[0] > 0"),
    ("change the compile-time constants", "assert r.shape[0] > 16", "assert r.shape[0] > 8"),
    ("write t[start : start + 16] with a constant size, or hx.ds(start, 16)", "x = s[n : 2 * n, :]",
     "x = s[n : n + 16, :]"),
    ("use ints or compile-time constants (keyword-only parameters) of the kernel",
     "x = hx.shared_tensor(f16, (n, 8))", "x = hx.shared_tensor(f16, (16, 8))"),
    ("pass a register or shared tensor, or a global view, or a part of one", "hx.copy(n, r)",
     "hx.copy(s, r)"),
    ("for the smaller or larger of two values use hx.minimum, hx.maximum", "x = hx.max(n, 2)",
     "x = hx.maximum(n, 2)"),
    ("pass an int >= 0 or a compile-time constant", "hx.cp_async_wait(n)", "hx.cp_async_wait(0)"),
    ("write `for i, j in hx.elements(tile):` to visit its elements",
     "for x in r:\n    n = 1", "for i, j in hx.elements(r):\n    r[i, j] = 1.0"),
    ("do it inside `for i, j in hx.elements(tile):`", "r[0, 0] = 1.0",
     "for i, j in hx.elements(r):\n    r[i, j] = 1.0"),
    ("call hx.wait_gemm(0) before", "hx.gemm(c, s, s, asynchronous=True)\nx = c + 1.0",
     "hx.gemm(c, s, s, asynchronous=True)\nhx.wait_gemm(0)\nx = c + 1.0"),
]  # fmt: skip

TOPS = [
    ("write hx.attrs.cuda.cluster_dim = 2, 1", f"{CUDA}.cluster_dim = n",
     f"{CUDA}.cluster_dim = 2, 1"),
    ("use symbols, scalar parameters and compile-time constants only",
     f"x = hx.blockIdx.x\n{CUDA}.grid_dim = x", f"{CUDA}.grid_dim = n"),
    ("the attributes are ", f"{CUDA}.blocks = 2", f"{CUDA}.block_dim = 64"),
]  # fmt: skip

PARAMETERS = [
    ("launch parameters have none; put compile-time constants after `*`", "n: i32 = 3",
     "n: i32, *, BM: int = 3"),
    ("write `a: f16[m, k]` for a tensor, `a: i32` for a scalar", "a", "a: f16[m, k]"),
]
