"""More statements with their fixes: names and their values, roles, clusters, and signatures; see
`fix_cases`."""

from __future__ import annotations

from fix_cases import CUDA

LOOP = "for i in range(n):\n"

NAMES = [
    ("use another name, or hx.cast(x, f16)", f"x = r + 1.0\n{LOOP}    x = q + 1.0\nhx.copy(x, s)",
     f"x = r + 1.0\n{LOOP}    x = hx.cast(q, f16)\nhx.copy(x, s)"),
    ("use another name", f"x = n\n{LOOP}    x = r\ny = x", f"x = n\n{LOOP}    y = r\ny = x"),
    ("give `x` a value first", "y = x\nx = 1", "x = 1\ny = x"),
    ("assign `x` before", "if n > 0:\n    x = 1\ny = n + x",
     "x = 0\nif n > 0:\n    x = 1\ny = n + x"),
    ("assign the value to a name on a line before", "x = (r * 2.0, filled(r, n))",
     "y = r * 2.0\nx = (y, filled(r, n))"),
    ("end the recursion on a compile-time condition", "x = deep(n, -1)", "x = deep(n, 3)"),
    ("call hx.fill(dst, value)", "hx.fill(r)", "hx.fill(r, 0.0)"),
    ("write d= for axis=", "x = hx.max(r, axis=1)", "x = hx.max(r, d=1)"),
    ("write axis= for dim=", "x = hx.cumsum(r, dim=1)", "x = hx.cumsum(r, axis=1)"),
    ("write shape= for shapes=", "x = hx.reshape(r, shapes=(8, 16))",
     "x = hx.reshape(r, shape=(8, 16))"),
    ("write hx.reshape(r, (16, 1, 8))", "x = r[:, None, :]", "x = hx.reshape(r, (16, 1, 8))"),
    ("write hx.reshape(r, (16, 8, 1))", "x = r[:, :, None]", "x = hx.reshape(r, (16, 8, 1))"),
    ("write hx.reshape(r, (1, 16, 8))", "x = r[None]", "x = hx.reshape(r, (1, 16, 8))"),
    ("use hx.cast(x, f16) or another name", "r[...] = q", "r[...] = hx.cast(q, f16)"),
    ("move it out, or make the condition depend on the block alone",
     "if hx.threadIdx.x > 3:\n    hx.fill(r, 0.0)",
     "if hx.blockIdx.x > 3:\n    hx.fill(r, 0.0)"),
    ("stay within [0, 16)", "x = s[0:32, :]", "x = s[0:16, :]"),
    ("write at most 2", "x = s[0, 0, 0]", "x = s[0, 0:8]"),
    ("write at most 2", "x = hx.global_view(a[0:, 0:, 0:], ((16, 8), (k, 1)))",
     "x = hx.global_view(a[0:, 0:], ((16, 8), (k, 1)))"),
    ("write hx.register_tensor(f16, (BM, BK))", "x = hx.register_tensor(3, (4, 4))",
     "BM, BK = 4, 4\nx = hx.register_tensor(f16, (BM, BK))"),
    ("write a positive int known at compile time, as in vector=8",
     "x = hx.register_tensor(f16, (16, 8), vector=n)",
     "x = hx.register_tensor(f16, (16, 8), vector=8)"),
    ("leave threads= and vector= out, or name these alone",
     'x = hx.register_tensor(f16, (16, 8), layout="(128,1):(1,0)", vector=2)',
     "x = hx.register_tensor(f16, (16, 8), vector=2)"),
    ("write it as explain() prints it, in quotes",
     "x = hx.shared_tensor(f16, (16, 8), layout=3)",
     'x = hx.shared_tensor(f16, (16, 8), layout="(16,8):(8,1)")'),
    ("write how many threads lie along each mode, as in threads=(4, 32)",
     "x = hx.register_tensor(f16, (16, 8), threads=128)",
     "x = hx.register_tensor(f16, (16, 8), threads=(16, 8))"),
    ("use sum, max or min", 'x = hx.reduce(r, 0, "mean")', 'x = hx.reduce(r, 0, "max")'),
    ("write one of ", 'hx.copy(g, s, hint="never")', 'hx.copy(g, s, hint="evict_first")'),
    ("write `with hx.warp_groups_producer():`", "hx.warp_groups_producer()", "hx.fill(r, 0.0)"),
    ("use an index from 0 to 1", "b = hx.mbarrier(1, 2)\nx = b[2]",
     "b = hx.mbarrier(1, 2)\nx = b[1]"),
    ("write hx.turns(2)", "x = hx.turns(0)", "x = 2"),
    ("use a rank from 0 to 1", f"{CUDA}.cluster_dim = 2\nhx.copy(hx.remote(s, 2), r)",
     f"{CUDA}.cluster_dim = 2\nhx.copy(hx.remote(s, 1), r)"),
    ("pass the block's own tile: hx.remote(s, rank)",
     f"{CUDA}.cluster_dim = 2\nx = hx.remote(hx.remote(s, 0), 1)",
     f"{CUDA}.cluster_dim = 2\nx = hx.remote(s, 1)"),
]  # fmt: skip

PLACES = [
    ("write hx.copy(ga, sa, mbarrier=bars[s])", "hx.copy(g, s, mbarrier=3)",
     "bars = hx.mbarrier(1, 2)\nhx.copy(g, s, mbarrier=bars[0])"),
    ("write hx.mbarrier(1) where one thread arrives", "x = hx.mbarrier(0)", "x = hx.mbarrier(1)"),
    ("write hx.mbarrier(1, STAGES)", "x = hx.mbarrier(1, 0)", "x = hx.mbarrier(1, 2)"),
    ("write hx.named_barrier(256)", "x = hx.named_barrier(33)", "x = hx.named_barrier(64)"),
    ("index them: bars[s]", "b = hx.mbarrier(1, 2)\nhx.copy(g, s, mbarrier=b)",
     "b = hx.mbarrier(1, 2)\nhx.copy(g, s, mbarrier=b[1])"),
    ("move it out of the loop; inside it read and write t[i, j]",
     "for i, j in hx.elements(r):\n    hx.fill(q, 0.0)",
     "for i, j in hx.elements(r):\n    r[i, j] = 0.0"),
    ("loop while a run-time condition holds", "while True:\n    x = 1",
     "i = 0\nwhile i < n:\n    i = i + 1"),
    ("make the ranks equal and each extent equal or 1", "x = r + r[:, 0]",
     "x = r + hx.sum(r, 1)"),
    ("divide by another number", "x = n // 0", "x = n // 2"),
    ("write hx.gemm(c, a, b)", "x = r @ r", "hx.gemm(c, r, r)"),
    ("set it at the top of the kernel", f"{LOOP}    {CUDA}.block_dim = 64",
     f"{CUDA}.block_dim = 64"),
    ("(tile, 0), or an integer of hx.cluster_rank()",
     f"{CUDA}.cluster_dim = 2\nx = hx.remote(s, 0.5)",
     f"{CUDA}.cluster_dim = 2\nx = hx.remote(s, hx.cluster_rank())"),
    ("give one stride per mode", "x = hx.global_view(a, ((16, 8), (k,)))",
     "x = hx.global_view(a, ((16, 8), (k, 1)))"),
    ("nest the strides exactly as the shape", "x = hx.global_view(a, (((4, 4), 8), (k, 1)))",
     "x = hx.global_view(a, (((4, 4), 8), ((k, 4 * k), 1)))"),
    ("count the threads that meet there", "b = hx.named_barrier(512)\nb.sync()",
     "b = hx.named_barrier(128)\nb.sync()"),
    ("it is called with 2 scalars: those of what comes first", "x = hx.scan(r, 0, len)",
     "x = hx.scan(r, 0, add)"),
    ("write hx.copy(x, t[...])", "s[0, 0] = 1.0", "hx.copy(r, s[...])"),
    ("count places by an integer", "x = n << hx.cast(n, f32)", "x = n << 1"),
    ("pass an int, a float, a symbol or a scalar", 'x = hx.cast("1", i32)', "x = hx.cast(1, i32)"),
]  # fmt: skip

ROWS = "rows = hx.shared_tensor(i32, (16,))\n"
NAMED = f"{ROWS}v = hx.global_view(a, ((16, 8), (rows, 1)))\n"
VIEW = "x = hx.global_view(a, ((16, 8), ({}, 1)))"

NAMES += [
    ("name one of them: hx.along(1, rows)",
     f"{ROWS}x = hx.global_view(a[0, :], ((16, 8), (hx.along(0, rows), 0)))",
     f"{ROWS}x = hx.global_view(a[0, :], ((16, 8), (hx.along(1, rows), 0)))"),
    ("copy the numbers to a shared tensor, let the threads meet, and name the rows by that",
     f"{ROWS}w = hx.register_tensor(i32, (16,))\nhx.fill(w, 1)\n" + VIEW.format("w"),
     f"{ROWS}w = hx.register_tensor(i32, (16,))\nhx.fill(w, 1)\nhx.copy(w, rows)\n"
     "hx.syncthreads()\n" + VIEW.format("rows")),
    ("copy the numbers to a shared tensor of here",
     f"{CUDA}.cluster_dim = 2\n{ROWS}" + VIEW.format("hx.remote(rows, 1)"),
     f"{CUDA}.cluster_dim = 2\n{ROWS}w = hx.register_tensor(i32, (16,))\n"
     "hx.copy(hx.remote(rows, 1), w)\nhere = hx.shared_tensor(i32, (16,))\nhx.copy(w, here)\n"
     "hx.syncthreads()\n" + VIEW.format("here")),
    ("make it a shared tensor of i32, and hx.cast(x, i32) before the copy to it",
     "w = hx.shared_tensor(f32, (16,))\n" + VIEW.format("w"),
     f"{ROWS}w = hx.register_tensor(f32, (16,))\nhx.fill(w, 1.0)\n"
     "hx.copy(hx.cast(w, i32), rows)\nhx.syncthreads()\n" + VIEW.format("rows")),
    ("give the mode the tile's extent, and the tile one mode, one number per row",
     f"{ROWS}x = hx.global_view(a, ((8, 8), (rows, 1)))",
     f"{ROWS}x = hx.global_view(a, ((8, 8), (rows[0:8], 1)))"),
    ("name the rows of one mode, and let the others step",
     f"{ROWS}x = hx.global_view(a, ((16, 16), (rows, hx.along(1, rows))))",
     f"{ROWS}x = hx.global_view(a, ((16, 16), (rows, 1)))"),
    ("name the rows of a mode without sub-modes, as in ((BM, BK), (rows, 1))",
     f"{ROWS}x = hx.global_view(a, (((16, 2), 8), ((rows, k), 1)))",
     f"{ROWS}x = hx.global_view(a, ((16, 8), (rows, 1)))"),
    ("leave mbarrier= out: threads move such rows",
     f"{NAMED}b = hx.mbarrier(1)\nhx.copy(v, s, mbarrier=b)", f"{NAMED}hx.copy(v, s)"),
    ("leave reduce= out: threads move such rows",
     f'{NAMED}hx.copy(s, v, reduce="add")', f"{NAMED}hx.copy(s, v)"),
    ("leave it out, or copy the tile earlier", f"{NAMED}hx.prefetch(v)", f"{NAMED}hx.copy(v, s)"),
    ("copy a global view to registers, hx.copy(view, r, outside=-1), and those on",
     "hx.copy(g, s, outside=1.0)", "hx.copy(g, r, outside=1.0)\nhx.copy(r, s)"),
    ("write a number, or hx.where(inside, r, tile) afterwards",
     "hx.copy(g, r, outside=q)", "hx.copy(g, r, outside=2.0)"),
    ("name one of its modes, from 0 to 1", "x = hx.iota((16, 8), 2)", "x = hx.iota((16, 8), 1)"),
    ("write hx.along(dim, step) with an int, or with a shared tile of i32",
     VIEW.format("hx.along(0, 0.5)"), VIEW.format("hx.along(0, 2)")),
]  # fmt: skip

ROLE = "with hx.warp_groups_producer(1):\n"
READER = "with hx.warp_groups_consumer(1):\n"
ROLES = [
    ("leave `as` out", "with hx.warp_groups_producer(1) as p:\n    hx.sync_role()",
     f"{ROLE}    hx.sync_role()"),
    ("write it before the first role, or in one of them",
     f"{ROLE}    hx.sync_role()\nhx.syncthreads()\n{READER}    hx.sync_role()",
     f"{ROLE}    hx.sync_role()\n{READER}    hx.sync_role()"),
    ("write `with order.turn(1):` in a role of its own",
     f"order = hx.turns(2)\n{READER}    with order.turn(0):\n        hx.sync_role()",
     f"order = hx.turns(2)\n{READER}    with order.turn(0):\n        hx.sync_role()\n"
     f"{READER}    with order.turn(1):\n        hx.sync_role()"),
    ("leave `as` out",
     f"order = hx.turns(2)\n{READER}    with order.turn(0) as x:\n        hx.sync_role()",
     f"{READER}    hx.sync_role()"),
    ("write pipe.skip(tiles_k)", f"pipe = hx.pipeline(2)\n{READER}    pipe.skip(0.5)",
     f"{READER}    hx.sync_role()"),
    ("end the one before the other begins",
     f"order = hx.turns(2)\n{READER}    with order.turn(0):\n        with order.turn(0):\n"
     "            hx.sync_role()",
     f"{READER}    hx.sync_role()"),
    ("fill one slot after the other",
     f"pipe = hx.pipeline(2)\n{ROLE}    with pipe.produce() as x:\n"
     "        with pipe.produce() as y:\n            n = n",
     f"{ROLE}    hx.sync_role()"),
]  # fmt: skip
"""These stand in a kernel that sets its grid alone."""

SIGNATURES = [
    ('name it: `m, k = hx.dims("m k")`', "a: f16[m, 0]", "a: f16[m, k]"),
    ("name every parameter", "*a", "a: f16[m, k]"),
    ("write `a: f16[m, k]` or `a: i32`", "a: 3", "a: i32"),
    ("use one symbol object for all parameters", 'a: f16[m, k], b: f16[hx.dim("k", 8)]',
     "a: f16[m, k], b: f16[k]"),
    ("define its names at module level, before the kernel", "a: 'f16[unknown]'", "a: 'f16[k]'"),
    ("rename one of them", "a: f16[m, k], k: i32", "a: f16[m, k], n: i32"),
]  # fmt: skip
"""These are the parameters of a kernel."""
