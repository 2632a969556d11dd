"""Texts of kernels in which one expression is another: as a signature, or as a statement."""

from __future__ import annotations

import importlib.util
import random
import tempfile
from pathlib import Path

import numpy as np

import hexcute_core as hx

EXPRESSIONS = (
    "None", "True", "-1", "0", "1.5", "2**31", "2**70", "10**400", "float('nan')", "''", "'a'",
    "()", "(1,)", "(0, 4)", "(4, 32)", "(4, n)", "[]", "{}", "object()", "len", "lambda: 0", "hx",
    "hx.f16", "f32", "f32[4]", "f32[m, n]", "f32[()]", "f32['m']", "f32[2**40, 2**40]", "m",
    "m + n", "n // 0", "r", "s", "x", "k", "k / 0", "k % 0", "r[0]", "x[0, 0]", "x[:, :]",
    "x[m:, n:]", "hx.blockIdx.x", "hx.cdiv(m, 0)", "hx.cdiv(4, 0)", "hx.sum(r, 5)", "hx.sum(r, 0)",
    "hx.attrs", "hx.range(3)", "hx.static_range(2**70)", "hx.static_range(-1)", "r + s", "r @ r",
    "r * 10**400", "r if r else s", "k << 99", "k ** k", "np", "undefined", "k.shape", "r.T", "*r",
    "yield", "...", "b''", "1j",
)  # fmt: skip
STATEMENTS = (
    "hx.attrs.cuda.grid_dim = {}", "hx.attrs.cuda.block_dim = {}", "hx.attrs.cuda.cluster_dim = {}",
    "hx.attrs.cuda.min_blocks = {}", "hx.attrs.cuda.{} = 1", "hx.copy({}, r)", "hx.copy(r, {})",
    "hx.fill({}, 0.0)", "hx.fill(r, {})", "hx.gemm({}, {}, {})", "q = hx.register_tensor(f32, {})",
    "q = hx.register_tensor({}, (4, 32))", "q = hx.shared_tensor({}, {})", "q = hx.cast({}, {})",
    "q = hx.rearrange(r, {})", "q = {}", "r[{}] = 1.0", "for i in {}:\n        pass",
    "for i in range({}):\n        hx.fill(r, 1.0)", "for i in hx.grid({}):\n        pass",
    "while {}:\n        pass", "if {}:\n        hx.syncthreads()", "return {}", "assert {}",
    "q = hx.reduce({}, {})", "q = hx.global_view({}, {})", "q = hx.global_view(x, ({}, {}))",
    "hx.cp_async_wait({})", "q = hx.pipeline({})", "with {}:\n        pass", "del {}", "q = hx.{}",
    "with hx.warp_groups_producer({}):\n        pass", "q = hx.mbarrier({})", "q = hx.scan({}, {})",
    "q = hx.where({}, {}, {})", "q = hx.exp({})", "q = hx.maximum({}, {})", "hx.primitive({}, {})",
    "q, p = {}", "q = [{} for i in {}]", "q = f'{{{}}}'", "hx.elements({})", "k += {}", "r += {}",
)  # fmt: skip

HEAD = """
import numpy as np
import hexcute_core as hx
from hexcute_core import f16, f32, i32
m, n = hx.dims("m n")

@hx.kernel(cache=False)
def kernel({signature}):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r, s = hx.register_tensor(f32, (4, 32)), hx.register_tensor(f32, (4, 32))
    hx.fill(r, 1.0)
    hx.fill(s, 2.0)
    {statement}
    hx.copy(r, hx.global_view(x, ((4, 32), (n, 1))))
"""
SIGNATURES = (
    "x: {}", "x: f32[{}, n]", "x: {}[m, n]", "x: f32[m, n], k: {}", "x: f32[m, n], k: i32 = {}",
    "x: f32[m, n], *, BM: int = {}", "x: f32[m, n], *, BM: {} = 1", "x: f32[m, n], *args: {}",
    "x: f32[m, n], **named", "x", "x: f32[m, n], /, k: {}", "x: f32[m, n], m: {}", "",
    "x: f32[m, n], x2: f32[{}]", "x: 'f32[{}]'", "x: f32[m, n], *, x3",
)  # fmt: skip


def _filled(rng: random.Random, form: str) -> str:
    while "{}" in form:
        form = form.replace("{}", rng.choice(EXPRESSIONS), 1)
    return form.replace("{{", "{").replace("}}", "}")


def _run(signature: str, statement: str) -> None:
    text = HEAD.format(signature=signature, statement=statement)
    try:
        compile(text, "written.py", "exec")
    except SyntaxError:
        return
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "written.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("written", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except hx.HexcuteError:
            raise
        except Exception as error:
            # The text is Python's before it is ours: `undefined` in a signature is a NameError.
            if _ours(error):
                raise
            return
        assert module.kernel.compile("sm_80").thread
        # A loop of 2**31 turns ends, but not today.
        if not statement.startswith(("for", "while")):
            module.kernel.simulate(np.zeros((4, 32), np.float32), target="sm_80")


def _ours(error: Exception) -> bool:
    """Whether the error was raised within the packages."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return "hexcute_core" in frames[-1].filename and frames[-1].name != "__getattr__"


def signature(rng: random.Random) -> None:
    """A kernel whose signature has something else in one place."""
    _run(_filled(rng, rng.choice(SIGNATURES)), "pass")


def statement(rng: random.Random) -> None:
    """A kernel with one statement of anything."""
    body = _filled(rng, rng.choice(STATEMENTS))
    _run("x: f32[m, n]", body)
