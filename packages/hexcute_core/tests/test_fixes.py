"""Every fix is tried: the program it is given for is refused with it, and what it says to write is
taken."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from pathlib import Path
from textwrap import indent

import fix_cases as cases
import numpy as np
import pytest

import hexcute_core
import hexcute_core as hx
from hexcute_core.errors import FrontendError, HexcuteError, LaunchError
from hexcute_core.frontend import define, trace
from hexcute_core.tile.ir import Promise
from hexcute_core.tile.verify import verify

CASES = [
    *((fix, *(cases.TOP + cases.TILES + body for body in bodies))
      for fix, *bodies in cases.INSIDE),
    *((fix, *(cases.TOP + body for body in bodies)) for fix, *bodies in cases.ATTRIBUTES),
    *cases.BARE,
]  # fmt: skip


def traced(body, folder):
    path = folder / "written.py"
    path.write_text(cases.HEAD + indent(body, "    "))
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return trace(define(module.kernel), {}, Promise())


@pytest.mark.parametrize("fix, refused, taken", CASES, ids=[fix for fix, *_ in CASES])
def test_a_fix_helps(fix, refused, taken, tmp_path):
    with pytest.raises(FrontendError) as caught:
        traced(refused, tmp_path)
    assert fix in (caught.value.fix or ""), str(caught.value)
    assert caught.value.span is not None
    verify(traced(taken, tmp_path))


def test_a_ragged_shape_on_an_aligned_kernel_is_told_the_argument_that_helps():
    k = hx.dim("k")

    @hx.kernel(cache=False)
    def copied(x: hx.f16[8, k], y: hx.f16[8, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(hx.f16, (8, 64))
        hx.copy(hx.global_view(x, ((8, 64), (k, 1))), r)
        hx.copy(r, hx.global_view(y, ((8, 64), (k, 1))))

    x = np.arange(8 * 61).reshape(8, 61).astype(np.float16)
    with pytest.raises(LaunchError, match="compiled for k a multiple of 8") as caught:
        copied.compile("sm_80").simulate(x, np.zeros_like(x))
    (argument,) = re.findall(r"(\w+)=False", caught.value.fix)
    y, again = np.zeros_like(x), np.zeros_like(x)
    copied.compile("sm_80", **{argument: False}).simulate(x, y)
    copied.simulate(x, again, target="sm_80")
    assert np.array_equal(x, y) and np.array_equal(x, again)


ROOT = Path(hexcute_core.__file__).parent
ERRORS = {
    name
    for name, kind in vars(hexcute_core.errors).items()
    if isinstance(kind, type) and issubclass(kind, HexcuteError)
}


def fixes():
    """Every constant text that the library gives as a fix, with its place."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [k.value for k in node.keywords if k.arg == "fix"]
            if called in ERRORS and len(node.args) >= 3:
                given.append(node.args[2])
            for value in given:
                texts = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant)]
                text = "".join(t for t in texts if isinstance(t, str))
                if text:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


# Keyword arguments that a fix may name, by who takes them.
TAKERS = (
    hx.copy, hx.gemm, hx.prefetch, hx.primitive, hx.dim, hx.pipeline, hx.mbarrier, hx.scan,
    hx.warp_groups_producer, hx.warp_groups_consumer, hx.Kernel.compile,
    hx.CompiledKernel.simulate,
)  # fmt: skip


def test_the_arguments_that_fixes_name_exist():
    """`warps=(2, 2)` of hx.gemm, `target="sm_90"` of compile, ...: every keyword in a fix."""
    from hexcute_core.simulator import simulate

    known = {p for f in (*TAKERS, simulate) for p in inspect.signature(f).parameters}
    # Of command lines and torch, and compile-time constants in examples.
    foreign = {"name"}
    found = [(place, fix) for place, fix in fixes()]
    assert len(found) > 300
    unknown = {
        (place, word)
        for place, fix in found
        for word in re.findall(r"\b([a-z_]+)=(?!=)", fix)
        if word not in known | foreign
    }
    assert unknown == set()


def test_methods_that_fixes_name_exist():
    """`pipe.release()`, `bars[s]`'s and `order.turn(i)`'s: every method of what hx makes."""
    from hexcute_core.frontend.barriers import Mbarriers, Meeting
    from hexcute_core.frontend.pipelines import Ring
    from hexcute_core.frontend.turns import Turns

    owners = {"pipe": Ring, "bars": Mbarriers, "order": Turns, "barrier": Meeting}
    named = {
        (owner, method)
        for _, fix in fixes()
        for owner, method in re.findall(r"\b(pipe|bars|order|barrier)\.(\w+)", fix)
    }
    assert named >= {("pipe", "wait"), ("pipe", "release"), ("pipe", "produce")}
    assert {(o, name) for o, name in named if not hasattr(owners[o], name)} == set()
