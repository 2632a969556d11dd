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
import fix_cases_findings as findings
import fix_cases_launch as launches
import fix_cases_more as more
import fix_cases_stages as stages
import fix_cases_tools as tools
import fix_cases_words as words
import numpy as np
import pytest

import hexcute_core
import hexcute_core as hx
from hexcute_core.driver.signature_data import from_data, to_data
from hexcute_core.errors import FrontendError, HexcuteError, LaunchError, NoLayout
from hexcute_core.frontend import define, trace
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.verify import verify

INSIDE = [*cases.INSIDE, *more.NAMES, *more.PLACES, *words.WORDS]
TOPS = [*cases.ATTRIBUTES, *words.TOPS]
CASES = [
    *((fix, *(cases.TOP + cases.TILES + body for body in bodies)) for fix, *bodies in INSIDE),
    *((fix, *(cases.TOP + body for body in bodies)) for fix, *bodies in TOPS),
    *((fix, *(f"{cases.CUDA}.grid_dim = 1\n{body}" for body in bodies))
      for fix, *bodies in more.ROLES),
    *cases.BARE,
]  # fmt: skip


def traced(body, folder, head=cases.KERNEL):
    path = folder / "written.py"
    path.write_text(cases.HEAD + head + indent(body, "    "))
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


@pytest.mark.parametrize("fix, refused, taken", [*more.SIGNATURES, *words.PARAMETERS])
def test_a_fix_of_a_signature_helps(fix, refused, taken, tmp_path):
    with pytest.raises(FrontendError) as caught:
        traced(cases.TOP, tmp_path, f"def kernel({refused}):\n")
    assert fix in (caught.value.fix or ""), str(caught.value)
    verify(traced(cases.TOP, tmp_path, f"def kernel({taken}):\n"))


BELOW = [*stages.CALLS, *findings.CALLS, *launches.CALLS, *tools.CALLS]


@pytest.mark.parametrize("fix, refused, taken", BELOW, ids=[fix for fix, *_ in BELOW])
def test_a_fix_of_a_stage_below_helps(fix, refused, taken):
    with pytest.raises(HexcuteError) as caught:
        refused()
    assert fix in (caught.value.fix or ""), str(caught.value)
    taken()


LOCAL = {"hx": hx}
exec("def written():\n    pass", LOCAL)

OUTSIDE = {
    "decorate a `def`": lambda: hx.kernel(3),
    "use a `def`": lambda: hx.device(3),
    "use `def`": lambda: hx.kernel(lambda: None),
    "define it in a file (not at a prompt or by exec)": lambda: hx.kernel(LOCAL["written"]),
    'write hx.dims("m n k")': lambda: hx.dims(3),
    'write hx.dim("k") or hx.dims("m n k")': lambda: hx.dim("2k"),
    'write hx.dim("k", multiple_of=8)': lambda: hx.dim("k", multiple_of=0),
    "use one of sm_80": lambda: sized.compile("sm_10", BM=8),
    "pass BM=...": lambda: sized.compile("sm_80"),
    "its constants are BM": lambda: sized.compile("sm_80", BM=8, BN=8),
    "pass another number": lambda: gridded.simulate(np.zeros(8, np.float32), 0),
    "pass BM=... or give it a default": lambda: trace(sized.definition, {}, Promise()),
}


@hx.kernel(cache=False)
def sized(x: hx.f32[8], *, BM: int):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = BM * 32


@hx.kernel(cache=False)
def gridded(x: hx.f32[8], n: hx.i32):
    hx.attrs.cuda.grid_dim = hx.cdiv(8, n)
    hx.attrs.cuda.block_dim = 32


@pytest.mark.parametrize("fix", OUTSIDE)
def test_a_fix_outside_a_kernel_is_given(fix):
    with pytest.raises(HexcuteError) as caught:
        OUTSIDE[fix]()
    assert (caught.value.fix or "").startswith(fix), str(caught.value)


def product_of(rows, columns, groups):
    @hx.kernel(cache=False)
    def product(a: hx.f16[rows, 64], b: hx.f16[columns, 64], c: hx.f32[rows, columns]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = groups * 128
        sa, sb = hx.shared_tensor(hx.f16, (rows, 64)), hx.shared_tensor(hx.f16, (columns, 64))
        rc = hx.register_tensor(hx.f32, (rows, columns))
        hx.fill(rc, 0.0)
        hx.copy(hx.global_view(a, ((rows, 64), (64, 1))), sa)
        hx.copy(hx.global_view(b, ((columns, 64), (64, 1))), sb)
        hx.syncthreads()
        hx.gemm(rc, sa, sb)
        hx.copy(rc, hx.global_view(c, ((rows, columns), (columns, 1))))

    return product.compile("sm_90")


@pytest.mark.parametrize("fix, refused, taken", [
    ("use a smaller tile or more warp groups", (128, 248, 1), (128, 248, 2)),
    ("take M a multiple of 64 per warp group, K of 16", (96, 64, 1), (128, 64, 1)),
    ("make the tile smaller, give it more threads", (128, 256, 1), (128, 256, 2)),
])  # fmt: skip
def test_a_fix_of_a_tile_helps(fix, refused, taken):
    with pytest.raises(NoLayout) as caught:
        assert product_of(*refused).solution
    assert fix in caught.value.fix, str(caught.value)
    assert product_of(*taken).solution


def multiplied(rows, warps=None):
    @hx.kernel(cache=False)
    def kernel(a: hx.f16[rows, 16], c: hx.f32[rows, rows]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r, rc = hx.register_tensor(hx.f16, (rows, 16)), hx.register_tensor(hx.f32, (rows, rows))
        hx.copy(hx.global_view(a, ((rows, 16), (16, 1))), r)
        hx.fill(rc, 0.0)
        hx.gemm(rc, r, r, warps=warps)
        hx.copy(rc, hx.global_view(c, ((rows, rows), (rows, 1))))

    return kernel.compile("sm_80")


def test_a_tile_that_no_instruction_divides_is_told_what_would():
    fix = "make the tile a multiple of the instruction times the warps along M and N"
    with pytest.raises(NoLayout) as caught:
        assert multiplied(16, (4, 1)).solution
    assert caught.value.fix == fix
    assert multiplied(64, (4, 1)).solution


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
    assert "aligned=False, or call the kernel itself" in caught.value.fix
    (argument,) = re.findall(r"(\w+)=False", caught.value.fix)
    y, again = np.zeros_like(x), np.zeros_like(x)
    copied.compile("sm_80", **{argument: False}).simulate(x, y)
    copied.simulate(x, again, target="sm_80")
    assert np.array_equal(x, y) and np.array_equal(x, again)


@pytest.mark.parametrize("multiple", [8, 48])
@pytest.mark.parametrize("aligned", [True, False])
def test_a_broken_promise_is_named_by_what_was_compiled_too(multiple, aligned):
    """`aligned=False` helps against rows of any length, and against no `multiple_of`, which it
    relies on: what keeps it runs."""
    k = hx.dim("k", multiple_of=multiple)

    @hx.kernel(cache=False)
    def copied(x: hx.f16[8, k], y: hx.f16[8, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(hx.f16, (8, 128))
        hx.copy(hx.global_view(x, ((8, 128), (k, 1))), r)
        hx.copy(r, hx.global_view(y, ((8, 128), (k, 1))))

    def arrays(columns):
        x = np.arange(8 * columns).reshape(8, columns).astype(np.float16)
        return x, np.zeros_like(x)

    compiled = copied.compile("sm_80", aligned=aligned)
    kept = to_data(compiled.signature, compiled.divisors, compiled.promise)
    assert from_data(kept)[0].symbols == compiled.signature.symbols
    for simulate in (compiled.simulate, copied.simulate):
        with pytest.raises(LaunchError, match=f"k is not a multiple of {multiple}, as") as caught:
            simulate(*arrays(100))
        assert caught.value.fix == "pad the tensor, or drop the promise"
        x, y = arrays(96)
        simulate(x, y)
        assert np.array_equal(x, y)


ROOT = Path(hexcute_core.__file__).parent
ERRORS = {
    name
    for name, kind in vars(hexcute_core.errors).items()
    if isinstance(kind, type) and issubclass(kind, HexcuteError)
}


# Where the library's own functions take a fix: in all stages, or in one.
GIVEN = {"report": 3, "stop": 3, "fail": 2, "error": 1, ("frontend", "error"): 2}


def fixes():
    """The constant pieces of every fix that the library gives, with its place."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [k.value for k in node.keywords if k.arg == "fix"]
            place = path.relative_to(ROOT).parts[0], called
            at = 2 if called in ERRORS else GIVEN.get(place, GIVEN.get(called, len(node.args)))
            given += node.args[at : at + 1]
            for value in given:
                texts = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant)]
                pieces = [t for t in texts if isinstance(t, str) and t]
                if pieces:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", pieces


# Keyword arguments that a fix may name, by who takes them.
TAKERS = (
    hx.copy, hx.gemm, hx.prefetch, hx.primitive, hx.dim, hx.pipeline, hx.mbarrier, hx.scan,
    hx.warp_groups_producer, hx.warp_groups_consumer, hx.Kernel.compile,
    hx.CompiledKernel.simulate, hx.atomic_add, hx.register_tensor, hx.ptx, hx.persistent,
    hx.Kernel.timeline, hx.CompiledKernel.explain,
)  # fmt: skip


def test_the_arguments_that_fixes_name_exist():
    """`warps=(2, 2)` of hx.gemm, `target="sm_90"` of compile, ...: every keyword in a fix."""
    from hexcute_core.simulator import simulate
    from hexcute_core.tuner import tune

    known = {p for f in (*TAKERS, simulate, tune) for p in inspect.signature(f).parameters}
    # Of command lines and torch, and compile-time constants in examples.
    foreign = {"name"}
    found = list(fixes())
    assert len(found) > 300
    unknown = {
        (place, word)
        for place, fix in found
        for word in re.findall(r"\b([a-z_]+)=(?!=)", "".join(fix))
        if word not in known | foreign
    }
    assert unknown == set()


def test_methods_that_fixes_name_exist():
    """`pipe.release()`, `bars[s]`'s and `order.turn(i)`'s: every method of what hx makes."""
    from hexcute_core.frontend.language.barriers import Mbarriers, Meeting
    from hexcute_core.frontend.language.pipelines import Ring
    from hexcute_core.frontend.language.turns import Turns

    owners = {"pipe": Ring, "bars": Mbarriers, "order": Turns, "barrier": Meeting}
    named = {
        (owner, method)
        for _, fix in fixes()
        for owner, method in re.findall(r"\b(pipe|bars|order|barrier)\.(\w+)", "".join(fix))
    }
    assert named >= {("pipe", "wait"), ("pipe", "release"), ("pipe", "produce")}
    assert {(o, name) for o, name in named if not hasattr(owners[o], name)} == set()


# Pieces and quotes shorter than this say little: they stand between values, or in many texts.
SHORTEST = 8


def quoted():
    """Every text of the tests, as it is without a pattern's backslashes."""
    for path in Path(__file__).parents[1].glob("*/*.py"):
        if path.parent.name in ("attack", "random_kernels"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\\(.)", r"\1", node.value)


def test_every_fix_is_quoted_by_a_test():
    """A fix that no test quotes has been tried by nobody."""
    quotes = [q for q in set(quoted()) if SHORTEST <= len(q) <= 200]
    untried = []
    for place, pieces in fixes():
        long = [piece for piece in pieces if len(piece) >= SHORTEST]
        tried = any(q in piece or piece in q for q in quotes for piece in long)
        if long and not tried:
            untried.append((place, pieces))
    assert untried == []
