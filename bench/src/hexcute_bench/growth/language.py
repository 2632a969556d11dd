"""Programs that grow what an author writes: statements, loops, branches, scalars, views."""

from __future__ import annotations

import textwrap

from hexcute_bench.growth.text import FLOATS, R, kernel, nested, through


def statements(n: int) -> str:
    return through([f"r = r * {i + 2}.0 + 1.0" for i in range(n)])


def tiles(n: int) -> str:
    """Tiles that are all made first and added up afterwards."""
    made = [f"r{i} = r * {i + 2}.0" for i in range(n)]
    return through([*made, *(f"r += r{i}" for i in range(n))])


def streams(n: int) -> str:
    """Tiles that share nothing are loaded, changed and stored."""
    body = []
    for i in range(n):
        source, target = (f"hx.global_view({a}[{32 * i}:, :], ((32, 32), (k, 1)))" for a in "xy")
        body += [f"r{i} = {R}", f"hx.copy({source}, r{i})", f"hx.copy(r{i} + 1.0, {target})"]
    return kernel(FLOATS, body)


def reductions(n: int) -> str:
    return through([f"r = r - hx.{('max', 'sum')[i % 2]}(r, {i // 2 % 2})" for i in range(n)])


def scans(n: int) -> str:
    return through([f"r = hx.cumsum(r, {i % 2}) * 0.5" for i in range(n)])


def casts(n: int) -> str:
    return through([f"r = hx.cast(hx.cast(r, {('f16', 'i32')[i % 2]}), f32)" for i in range(n)])


def rearranges(n: int) -> str:
    return through(["r = hx.rearrange(r) + 1.0" for _ in range(n)])


def sequential(n: int) -> str:
    loop = ["for i in range(k):", "    r = r * 2.0 + 1.0"]
    return through(loop * n)


def loops(n: int) -> str:
    """Loops inside one another, eight in a function, as Python has at most 20 in one."""
    parts = -(-n // 8)
    before = ["@hx.device\ndef part0(r):\n    r += 1.0\n"]
    for i in range(1, parts + 1):
        depth = 8 if i > 1 else n - 8 * (parts - 1)
        nest = nested(lambda d: f"for i{d} in range(2):", f"part{i - 1}(r)", depth)
        before.append(f"@hx.device\ndef part{i}(r):\n" + textwrap.indent("\n".join(nest), "    "))
    return through([f"part{parts}(r)"], before="\n\n".join(before) + "\n\n")


def grids(n: int) -> str:
    """Loops inside one another that change a number, eight in a function."""
    parts = -(-n // 8)
    before = ["@hx.device\ndef part0(x):\n    return x * 3 + 1\n"]
    for i in range(1, parts + 1):
        depth = 8 if i > 1 else n - 8 * (parts - 1)
        nest = nested(lambda d: f"for i{d} in range(k):", f"x = part{i - 1}(x + i0)", depth)
        body = textwrap.indent("\n".join([*nest, "return x"]), "    ")
        before.append(f"@hx.device\ndef part{i}(x):\n{body}")
    return through([f"x0 = part{parts}(k)", "r += x0"], before="\n\n".join(before) + "\n\n")


def branches(n: int) -> str:
    body = []
    for i in range(n):
        body += [f"if k > {i}:", f"    r = r * {i + 2}.0", "else:", "    r = r + 1.0"]
    return through(body)


def nested_branches(n: int) -> str:
    return through(nested(lambda i: f"if k > {i}:", "r += 1.0", n))


def otherwise(n: int) -> str:
    """One branch of many conditions."""
    rest = (line for i in range(1, n) for line in (f"elif k == {i}:", f"    r *= {i}.0"))
    return through(["if k == 0:", "    r += 1.0", *rest])


def choices(n: int) -> str:
    """Choices inside one another, on tiles."""
    return through([f"r = hx.where(r > {i}.0, r, r + 1.0)" for i in range(n)])


def scalars(n: int) -> str:
    """Numbers of which each is made of the one before, twice."""
    made = [f"a{i + 1} = a{i} * a{i} + {i}" for i in range(n)]
    return through(["a0 = k", *made, f"r += a{n}"])


def unrolled(n: int) -> str:
    """The same in an expanded loop, with a branch."""
    loop = [f"for i in hx.static_range({n}):", "    if a > i:", "        a = a * a - i",
            "    b = a + b // (i + 1)"]  # fmt: skip
    return through(["a, b = k, m", *loop, "r += a + b"])


def sums(n: int) -> str:
    """One expression of many terms."""
    return through([f"r += {' + '.join(f'(k + {i}) // {i + 1}' for i in range(n))}"])


def elements(n: int) -> str:
    """Statements of single threads on their own elements."""
    body = [f"    e = e * {i + 2}.0 if e < {i}.0 else e + 1.0" for i in range(n)]
    return through(["for i, j in hx.elements(r):", "    e = r[i, j]", *body, "    r[i, j] = e"])


def parameters(n: int) -> str:
    """Tensors, each with a symbol of its own."""
    names = ", ".join(f"x{i}: f32[m, d{i}]" for i in range(n))
    symbols = "".join(f'd{i} = hx.dim("d{i}")\n' for i in range(n))
    loads = []
    for i in range(n):
        loads += [f"r{i} = {R}", f"hx.copy(hx.global_view(x{i}, ((32, 32), (d{i}, 1))), r{i})",
                  f"r += r{i}"]  # fmt: skip
    return through(loads, f"{FLOATS}, {names}", symbols)


def modes(n: int) -> str:
    """One tile of 256 rows, which have as many modes of two and one of the rest."""
    sizes = [2] * n + [256 >> n]
    steps = [32 * 2**i for i in range(n + 1)]
    view = f"(({tuple(sizes)}, 32), ({tuple(steps)}, 1))"
    return kernel(
        "x: f32[256, 32], y: f32[256, 32]",
        ["r = hx.register_tensor(f32, (256, 32))", f"hx.copy(hx.global_view(x, {view}), r)",
         f"hx.copy(r, hx.global_view(y, {view}))"],
    )  # fmt: skip


def indexed(n: int) -> str:
    """A view with modes that are all indexed by run-time numbers."""
    sizes, steps = ", 4" * n, ", k" * n
    index = "".join(f", k // {i + 1}" for i in range(n))
    view = f"hx.global_view({{}}, ((32, 32{sizes}), (k, 1{steps})))[:, :{index}]"
    return kernel(
        FLOATS,
        [f"r = {R}", f"hx.copy({view.format('x')}, r)", f"hx.copy(r, {view.format('y')})"],
    )


def cuts(n: int) -> str:
    """One register tile and as many of its parts."""
    body = [f"r = hx.register_tensor(f32, (8, 32, {n}))"]
    for i in range(n):
        body += [f"hx.copy(hx.global_view(x[{i}:, :], ((8, 32), (k, 1))), r[:, :, {i}])"]
    body += ["r *= 2.0"]
    for i in range(n):
        body += [f"hx.copy(r[:, :, {i}], hx.global_view(y[{i}:, :], ((8, 32), (k, 1))))"]
    return kernel(FLOATS, body)


def calls(n: int) -> str:
    """Functions that call one another, each twice the next one's depth."""
    inner = "@hx.device\ndef part0(r):\n    r = r + 1.0\n    return r\n\n"
    rest = (
        f"@hx.device\ndef part{i}(r):\n    return part{i - 1}(r * 0.5)\n\n" for i in range(1, n + 1)
    )
    return through([f"r = part{n}(r)"], before=inner + "".join(rest))
