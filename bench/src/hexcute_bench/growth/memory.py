"""Programs that grow what synthesis decides: buffers, their readers, products, pipelines."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from hexcute_bench.growth.text import (
    HALVES,
    R16,
    S16,
    SMALL,
    SQUARE,
    X16,
    X32,
    Y16,
    Y16_TURNED,
    Y32,
    kernel,
    nested,
)


def readers(ways: str) -> Callable[[int], str]:
    """One shared buffer, read to be stored along its rows ("n") or its columns ("t"), or for a
    product ("g")."""

    def text(n: int) -> str:
        body = [f"s = {S16}", f"hx.copy({X16}, s)", "hx.syncthreads()"]
        for i, way in zip(range(n), itertools.cycle(ways)):
            body += [f"r{i} = {R16}", f"hx.copy(s, r{i})"]
            if way == "g":
                body += [f"c{i} = hx.register_tensor(f32, (64, 64))", f"hx.fill(c{i}, 0.0)",
                         f"hx.gemm(c{i}, r{i}, r{i})",
                         f"hx.copy(hx.cast(c{i}, f16), {Y16})"]  # fmt: skip
            else:
                body.append(f"hx.copy(r{i}, {Y16 if way == 'n' else Y16_TURNED})")
        return kernel(HALVES, body)

    return text


def parts(n: int) -> str:
    """Parts of one shared buffer, as many rows or columns from another start each time."""
    body = [f"s = {S16}", f"hx.copy({X16}, s)", "hx.syncthreads()"]
    for i in range(n):
        rows, first = (8, 16, 32)[i % 3], 3 * i % 32
        cut = f"{first}:{first + rows}"
        part = (f"s[{cut}, :]", f"s[:, {cut}]")[i % 2]
        shape = ((rows, 64), (64, rows))[i % 2]
        body += [f"r{i} = hx.register_tensor(f16, {shape})", f"hx.copy({part}, r{i})",
                 f"hx.copy(r{i}, hx.global_view(y, ({shape}, (k, 1))))"]  # fmt: skip
    return kernel(HALVES, body)


def writers(n: int) -> str:
    """One shared buffer, written as often from rows as from columns."""
    body = [f"s, r = {S16}, {R16}"]
    for i in range(n):
        step = ("(k, 1)", "(1, k)")[i % 2]
        body += [f"r{i} = {R16}", f"hx.copy(hx.global_view(x, ((64, 64), {step})), r{i})",
                 f"hx.copy(r{i}, s)", "hx.syncthreads()"]  # fmt: skip
    return kernel(HALVES, [*body, "hx.copy(s, r)", f"hx.copy(r, {Y16})"])


def buffers(n: int) -> str:
    """Buffers that share nothing."""
    body = []
    for i in range(n):
        body += [f"s{i}, r{i} = hx.shared_tensor(f16, (16, 64)), hx.register_tensor(f16, (16, 64))",
                 f"hx.copy(hx.global_view(x, ((16, 64), (k, 1))), s{i})", "hx.syncthreads()",
                 f"hx.copy(s{i}, r{i})",
                 f"hx.copy(r{i}, hx.global_view(y, ((16, 64), (1, k))))"]  # fmt: skip
    return kernel(HALVES, body)


def chain(n: int) -> str:
    """Buffers one after the other: what one holds goes through registers to the next."""
    small = "hx.shared_tensor(f16, (16, 64))"
    body = [f"s0 = {small}", "hx.copy(hx.global_view(x, ((16, 64), (k, 1))), s0)",
            "hx.syncthreads()"]  # fmt: skip
    for i in range(n):
        body += [f"r{i}, s{i + 1} = hx.register_tensor(f16, (16, 64)), {small}",
                 f"hx.copy(s{i}, r{i})", f"hx.copy(r{i}, s{i + 1})",
                 "hx.syncthreads()"]  # fmt: skip
    body += ["r = hx.register_tensor(f16, (16, 64))", f"hx.copy(s{n}, r)",
             "hx.copy(r, hx.global_view(y, ((16, 64), (1, k))))"]  # fmt: skip
    return kernel(HALVES, body)


def conflicts(n: int) -> str:
    """Products whose results are the next one's operand, with an arrangement of warps that does
    not let them: a rearrange has to be found for each."""
    body = [f"r = {R16}", f"hx.copy({X16}, r)"]
    for i in range(n):
        warps = ("(4, 1)", "(1, 4)")[i % 2]
        body += [f"c{i} = hx.register_tensor(f32, (64, 64))", f"hx.fill(c{i}, 0.0)",
                 f"hx.gemm(c{i}, r, r, warps={warps})", f"r = hx.cast(c{i}, f16)"]  # fmt: skip
    return kernel(HALVES, [*body, f"hx.copy(r, {Y16})"])


def gemms(n: int) -> str:
    """Products that add to one tile, of operands of their own."""
    body = ["c = hx.register_tensor(f32, (32, 32))", "hx.fill(c, 0.0)"]
    for i in range(n):
        body += [f"a{i}, b{i} = {SMALL}, {SMALL}",
                 f"hx.copy(hx.global_view(x[:, {16 * i}:], ((32, 16), (k, 1))), a{i})",
                 f"hx.copy(hx.global_view(x[:, {16 * i}:], ((32, 16), (k, 1))), b{i})",
                 f"hx.gemm(c, a{i}, b{i})"]  # fmt: skip
    return kernel(HALVES, [*body, f"hx.copy(hx.cast(c, f16), {Y32})"])


def chained(n: int) -> str:
    """Products whose results are the next one's operand."""
    body = [f"r, b = {SQUARE}, {SQUARE}", f"hx.copy({X32}, r)", f"hx.copy({X32}, b)"]
    for i in range(n):
        body += [f"c{i} = hx.register_tensor(f32, (32, 32))", f"hx.fill(c{i}, 0.0)",
                 f"hx.gemm(c{i}, r, b)", f"r = hx.cast(c{i}, f16)"]  # fmt: skip
    return kernel(HALVES, [*body, f"hx.copy(r, {Y32})"], threads=64)


def wgmmas(n: int) -> str:
    """Products of shared tiles, which Hopper's warp groups compute."""
    body = ["c = hx.register_tensor(f32, (64, 64))", "hx.fill(c, 0.0)"]
    for i in range(n):
        body += [f"a{i}, b{i} = hx.shared_tensor(f16, (64, 16)), hx.shared_tensor(f16, (64, 16))",
                 f"hx.copy(hx.global_view(x[:, {16 * i}:], ((64, 16), (k, 1))), a{i})",
                 f"hx.copy(hx.global_view(x[:, {16 * i}:], ((64, 16), (k, 1))), b{i})",
                 "hx.syncthreads()", f"hx.gemm(c, a{i}, b{i})", "hx.syncthreads()"]  # fmt: skip
    return kernel(HALVES, [*body, f"hx.copy(hx.cast(c, f16), {Y16})"])


def asynchronous(n: int) -> str:
    """Loops inside one another around a product that is not waited for."""
    nest = nested(lambda d: f"for i{d} in range(k):", "hx.gemm(c, a, b, asynchronous=True)", n)
    body = ["a, b = hx.shared_tensor(f16, (64, 16)), hx.shared_tensor(f16, (64, 16))",
            "hx.copy(hx.global_view(x, ((64, 16), (k, 1))), a)",
            "hx.copy(hx.global_view(x, ((64, 16), (k, 1))), b)", "hx.syncthreads()",
            "c = hx.register_tensor(f32, (64, 64))", "hx.fill(c, 0.0)", *nest,
            "hx.wait_gemm(0)", f"hx.copy(hx.cast(c, f16), {Y16})"]  # fmt: skip
    return kernel(HALVES, body)


def pipelines(n: int) -> str:
    """Rings of slots, each filled by TMA, a tile at a time, and read by the consumers."""
    view = "hx.global_view({}, ((16, 64, 4), (k, 1, 64)))[:, :, i]"
    body = []
    for i in range(n):
        body += [f"p{i}, s{i} = hx.pipeline(2), hx.shared_tensor(f16, (16, 64, 2))"]
    body += ["with hx.warp_groups_producer(1):", "    for i in range(4):"]
    for i in range(n):
        body += [f"        with p{i}.produce() as slot:",
                 f"            hx.copy({view.format('x')}, s{i}[:, :, slot])"]  # fmt: skip
    body += ["with hx.warp_groups_consumer(1):", "    for i in range(4):"]
    for i in range(n):
        body += [f"        with p{i}.consume() as slot:",
                 f"            r{i} = hx.register_tensor(f16, (16, 64))",
                 f"            hx.copy(s{i}[:, :, slot], r{i})",
                 f"            hx.copy(r{i}, {view.format('y')})"]  # fmt: skip
    return kernel(HALVES, body, threads=256)
