"""Layouts that authors name, in the notation of `explain()`: obeyed, proved, and refused with what
would fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.arch import Fragment, Mode
from hexcute_core.errors import HexcuteError, LayoutConflict, NoLayout, VerifyError
from hexcute_core.synthesis.proof.check import check
from hexcute_core.tile.printer import show_program

m, n, k = hx.dims("m n k")
SHAPE = (4, 1024)


def softmax(shape=SHAPE, block=128, scan=False, **named):
    """A softmax of each row, or their sums up to each place; r lies as is `named`."""

    @hx.kernel(cache=False)
    def kernel(x: f16[m, n], y: f16[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = block
        r = hx.register_tensor(f16, shape, **named)
        hx.copy(hx.global_view(x, (shape, (n, 1))), r)
        f = hx.cast(r, f32)
        if scan:
            f = hx.cumsum(f, 1)
        else:
            f = hx.exp(f - hx.max(f, 1))
            f = f / hx.sum(f, 1)
        hx.copy(hx.cast(f, f16), hx.global_view(y, (shape, (n, 1))))

    return kernel


def right(made, shape, scan=False):
    """Whether a compiled one computes what it should."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float16)
    y = np.full_like(x, np.nan)
    made.simulate(x, y)
    wide = x.astype(np.float64)
    meant = np.exp(wide) / np.exp(wide).sum(1, keepdims=True)
    return np.allclose(y, wide.cumsum(1) if scan else meant, atol=0.05 if scan else 1e-3)


def counts(f):
    return tuple(
        int(np.prod([digit.size for digit in f.thread if digit.step and digit.dim == d]))
        for d in range(len(f.shape))
    )


WAYS = [(rows, 128 // rows) for rows in (1, 2, 4)]


@pytest.mark.parametrize("threads", [*WAYS, (4, 16), (1, 1), (3, 32)], ids=str)
@pytest.mark.parametrize("vector", [None, 1, 2, 8])
@pytest.mark.parametrize("scan", [False, True])
def test_threads_and_vectors_lie_as_they_are_told(threads, vector, scan):
    shape = (6, 1024) if threads[0] == 3 else SHAPE
    told = {"threads": threads} if vector is None else {"threads": threads, "vector": vector}
    made = softmax(shape, scan=scan, **told).compile("sm_80", verify=True)
    f = made.solution.fragments["r"]
    assert counts(f) == threads
    if vector is not None:
        assert [f.coord(0, v) for v in range(vector)] == [(0, v) for v in range(vector)]
    if threads != (1, 1):
        assert right(made, shape, scan)


@pytest.mark.parametrize("vector", [1, 2, 4, 16])
def test_a_vector_alone_leaves_threads_to_the_compiler(vector):
    made = softmax(vector=vector).compile("sm_90", verify=True)
    f = made.solution.fragments["r"]
    assert f.value[0] == Mode(vector, 1, 1) if vector > 1 else f.thread[0].step == 1
    assert right(made, SHAPE)


@pytest.mark.parametrize("shape, block", [(SHAPE, 128), ((8, 256), 64), ((2, 2048), 128)])
@pytest.mark.parametrize("scan", [False, True])
def test_what_is_chosen_costs_no_more_than_any_arrangement(shape, block, scan):
    """`search exact` is true of it: nothing that an author can name is cheaper."""
    chosen = softmax(shape, block, scan).compile("sm_80").solution
    assert chosen.exact
    for rows in (1 << i for i in range(shape[0].bit_length())):
        for vector in (v for v in (1, 2, 4, 8) if v * block // rows <= shape[1]):
            named = softmax(shape, block, scan, threads=(rows, block // rows), vector=vector)
            assert chosen.cost <= named.compile("sm_80").solution.cost


def test_a_whole_layout_is_taken_as_it_is_written():
    text = "(128,(8,4)):(8@1,(1@1,1@0))"
    made = softmax(layout=text).compile("sm_80", verify=True)
    assert str(made.solution.fragments["r"]) == text and right(made, SHAPE)
    assert f"r = registers f16 (4, 1024) with layout='{text}'" in show_program(made.tile)
    again = softmax(layout=str(softmax().compile("sm_80").solution.fragments["r"]))
    assert again.compile("sm_80").solution.cost == softmax().compile("sm_80").solution.cost


def product(shared=None, registers=None, hopper=False, BK=64):
    """c = a b^T of one tile; `shared` is the layout of a's, `registers` that of c's."""

    @hx.kernel(cache=False)
    def kernel(a: f16[m, k], b: f16[n, k], c: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        sa = hx.shared_tensor(f16, (64, BK), layout=shared)
        sb = hx.shared_tensor(f16, (64, BK))
        rc = hx.register_tensor(f32, (64, 64), layout=registers)
        hx.copy(hx.global_view(a, ((64, BK), (k, 1))), sa)
        hx.copy(hx.global_view(b, ((64, BK), (k, 1))), sb)
        hx.syncthreads()
        hx.fill(rc, 0.0)
        if hopper:
            hx.gemm(rc, sa, sb)
        else:
            ra, rb = hx.register_tensor(f16, (64, BK)), hx.register_tensor(f16, (64, BK))
            hx.copy(sa, ra)
            hx.copy(sb, rb)
            hx.gemm(rc, ra, rb)
        hx.copy(rc, hx.global_view(c, ((64, 64), (n, 1))))

    return kernel


SHARED = [
    "(64,64):(64,1)",
    "Sw<3,3,3> o (64,64):(64,1)",
    "Sw<2,3,3> o (64,(32,2)):(32,(1,2048))",
    "(64,64):(1,64)",
    "((8,8),64):((1,512),8)",
    "Sw<1,0,3> o (64,64):(64,1)",
]


@pytest.mark.parametrize("text", SHARED)
def test_a_shared_tensor_lies_as_it_is_told(text):
    made = product(text).compile("sm_80", verify=True)
    assert str(made.solution.shared["sa"]) == text
    assert f"sa = shared f16 (64, 64) as {text}" in show_program(made.tile)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2, 64, 64)).astype(np.float16)
    c = np.full((64, 64), np.nan, np.float32)
    made.simulate(a, b, c)
    assert np.array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))


@pytest.mark.parametrize("hopper", [False, True])
def test_what_explain_prints_of_all_tensors_is_taken(hopper):
    target = "sm_90" if hopper else "sm_80"
    free = product(hopper=hopper).compile(target).solution
    named = product(str(free.shared["sa"]), str(free.fragments["rc"]), hopper)
    made = named.compile(target, verify=True).solution
    assert (made.cost, made.exact) == (free.cost, free.exact)


MISFITS = {
    "a layout of more elements": (lambda: softmax(layout="(64,(8,4)):(8@1,(1@1,1@0))"),
                                  "elements are held by none", "every element must be held"),
    "no layout": (lambda: softmax(layout="rows"), "not a thread-value layout", "8@1 is eight"),
    "too many threads": (lambda: softmax(threads=(8, 32)), "are 256 threads, 128 run this",
                         "write numbers whose product is 128, or less"),
    "too many rows": (lambda: softmax(threads=(8, 16)), "8 along mode 0, of 4 elements",
                      "write 4 at most there"),
    "no divisor": (lambda: softmax(vector=3), "is cut into such", "write vector=1 or 2 or 4"),
    "a vector for too many": (lambda: softmax((4, 64), threads=(4, 32), vector=4),
                              "is cut into such vectors", "write vector=1 or 2"),
    "not the product's": (lambda: product(registers="(64,64):(1@0,1@1)"), "breaks with it",
                          "or name a layout that fits: ((4,8,"),
    "another extent": (lambda: product("(64,32):(32,1)"), "extents (64, 32)",
                       "as in (64,64):(64,1)"),
    "two elements at a place": (lambda: product("(64,64):(63,1)"), "a place of its own", "(64,64)"),
    "no shared layout": (lambda: product("rows"), "not one of a tile", "write a mode for each"),
    "coordinates": (lambda: product("(64,64):(1@0,1@1)"), "a place of its own", "(64,1)"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_is_told_what_would(case):
    kernel, message, fix = MISFITS[case]
    with pytest.raises(LayoutConflict) as caught:
        assert kernel().compile("sm_80").solution
    assert caught.value.span is not None
    assert message in caught.value.message and fix in caught.value.fix


def test_what_a_wgmma_cannot_read_is_told_what_it_can():
    with pytest.raises(NoLayout) as caught:
        assert product("(64,64):(64,1)", hopper=True).compile("sm_90").solution
    assert "wants Sw<3,3,3>" in caught.value.message
    assert "or name one that fits: Sw<3,3,3> o (64,64):(64,1)" in caught.value.fix
    assert product("Sw<3,3,3> o (64,64):(64,1)", hopper=True).compile("sm_90").solution


def cut(**named):
    @hx.kernel(cache=False)
    def kernel(x: f32[16, 64, 2], y: f32[16, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f32, (16, 64, 2), **named)
        hx.copy(hx.global_view(x, ((16, 64, 2), (128, 2, 1))), r)
        q = r[:, :, 0] + r[:, :, 1]
        hx.copy(q, hx.global_view(y, ((16, 64), (64, 1))))

    return kernel


def test_modes_that_are_taken_in_parts_lie_in_every_thread():
    made = cut(threads=(16, 8, 1)).compile("sm_80", verify=True)
    assert counts(made.solution.fragments["r"]) == (16, 8, 1)
    text = str(made.solution.fragments["r"])
    assert str(cut(layout=text).compile("sm_80", verify=True).solution.fragments["r"]) == text
    for wrong in ({"threads": (16, 4, 2)}, {"layout": "((16,4,2),16):((1@0,1@1,1@2),4@1)"}):
        with pytest.raises(LayoutConflict, match="taken in parts at") as caught:
            assert cut(**wrong).compile("sm_80").solution
        assert caught.value.fix.startswith("write ")


def test_the_proof_sees_a_tensor_that_lies_otherwise():
    made = softmax(threads=(4, 32), vector=8).compile("sm_80").solution
    check(made)
    ways = [
        Fragment(SHAPE, (Mode(128, 8, 1),), (Mode(8, 1, 1), Mode(4, 1, 0))),
        Fragment(SHAPE, (Mode(32, 4, 1), Mode(4, 1, 0)), (Mode(4, 1, 1), Mode(8, 128, 1))),
    ]
    for f in ways:
        alike = {t: f if g.shape == SHAPE else g for t, g in made.fragments.items()}
        with pytest.raises(VerifyError, match="`r`, .* does not lie as threads="):
            check(replace(made, fragments=alike))
    named = softmax(layout="(128,(8,4)):(8@1,(1@1,1@0))").compile("sm_80").solution
    alike = {t: ways[1] if g.shape == SHAPE else g for t, g in named.fragments.items()}
    with pytest.raises(VerifyError, match="does not lie as layout="):
        check(replace(named, fragments=alike))
    shared = product(SHARED[1]).compile("sm_80").solution
    moved = replace(shared.shared["sa"], swizzle=None)
    with pytest.raises(VerifyError, match="`sa` does not lie as Sw<3,3,3>"):
        check(replace(shared, shared={**shared.shared, "sa": moved}))


def test_two_named_tensors_that_disagree_are_refused():
    @hx.kernel(cache=False)
    def kernel(x: f16[m, n], y: f16[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f16, SHAPE, threads=(4, 32))
        q = hx.register_tensor(f16, SHAPE, threads=(1, 128))
        hx.copy(hx.global_view(x, (SHAPE, (n, 1))), r)
        hx.copy(hx.global_view(x, (SHAPE, (n, 1))), q)
        hx.copy(r + q, hx.global_view(y, (SHAPE, (n, 1))))

    with pytest.raises(HexcuteError, match="cannot have threads=") as caught:
        assert kernel.compile("sm_80").solution
    assert "hx.rearrange" in caught.value.fix and caught.value.span is not None
