"""Parts of kernels' texts: the frame of one, tiles and views that many programs use."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

HEAD = """\
import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, k = hx.dims("m n k")

"""
GRID = "hx.attrs.cuda.grid_dim = 1"
X16 = "hx.global_view(x, ((64, 64), (k, 1)))"
Y16 = "hx.global_view(y, ((64, 64), (k, 1)))"
Y16_TURNED = "hx.global_view(y, ((64, 64), (1, k)))"
HALVES = "x: f16[m, k], y: f16[m, k]"
FLOATS = "x: f32[m, k], y: f32[m, k]"
X32, Y32 = (f"hx.global_view({name}, ((32, 32), (k, 1)))" for name in "xy")
SMALL, SQUARE = "hx.register_tensor(f16, (32, 16))", "hx.register_tensor(f16, (32, 32))"
R16, S16 = "hx.register_tensor(f16, (64, 64))", "hx.shared_tensor(f16, (64, 64))"
R = "hx.register_tensor(f32, (32, 32))"


def kernel(signature: str, body: Sequence[str], before: str = "", threads: int = 128) -> str:
    block = f"hx.attrs.cuda.block_dim = {threads}"
    lines = textwrap.indent("\n".join((GRID, block, *body)), "    ")
    return f"{HEAD}{before}\n@hx.kernel(cache=False)\ndef kernel({signature}):\n{lines}\n"


def nested(opening: Callable[[int], str], inner: str, depth: int) -> list[str]:
    """`inner` in `depth` statements that contain one another."""
    return [*(" " * i + opening(i) for i in range(depth)), " " * depth + inner]


def through(body: Sequence[str], signature: str = FLOATS, before: str = "") -> str:
    """A tile `r` is loaded, `body` works on it, and it is stored."""
    return kernel(
        signature, [f"r = {R}", f"hx.copy({X32}, r)", *body, f"hx.copy(r, {Y32})"], before
    )
