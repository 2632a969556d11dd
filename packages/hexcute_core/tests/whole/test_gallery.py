"""The kernels of docs/gallery: each gives what numpy gives, ragged, on the targets it is for."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from machine_code import opcodes_of

from hexcute_core.errors import SimulationError

GALLERY = Path(__file__).parents[4] / "docs" / "gallery"
FILES = sorted(GALLERY.glob("*.py"))
BOTH, FP8, HOPPER = ("sm_80", "sm_90"), ("sm_89", "sm_90"), ("sm_90",)
EPSILON = {"float32": 2.0**-20, "float16": 2.0**-11, "bfloat16": 2.0**-8}
pytestmark = pytest.mark.skipif(not FILES, reason="the documentation is not here")


def kernels(name):
    """The module of a file of the gallery."""
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", GALLERY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rms_norm(run, rng):
    x, w = halves(rng, (9, 777)), halves(rng, 777)
    y = blank(x)
    run("rms_norm", x, w, y, 1e-5)
    wide = x.astype(np.float64)
    yield y, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * w


def softmax(run, rng):
    x = halves(rng, (6, 600))
    y = blank(x)
    run("softmax", x, y)
    weights = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    yield y, weights / weights.sum(1, keepdims=True)


def gemm_gelu(run, rng, name="gemm_gelu"):
    a, b, bias = (brains(rng, shape) for shape in ((77, 72), (40, 72), 40))
    c = blank(a, (77, 40))
    run(name, a, b, bias, c)
    t = wide(a) @ wide(b).T + wide(bias)
    yield c, 0.5 * t * (1 + np.vectorize(math.erf)(t / np.sqrt(2)))


def gemm_gelu_hopper(run, rng):
    yield from gemm_gelu(run, rng, "gemm_gelu_hopper")


def transpose(run, rng):
    x = halves(rng, (72, 100))
    y = blank(x, (100, 72))
    run("transpose", x, y)
    yield y, x.T


def attention(run, rng, name="attention", both=(True,)):
    for causal in both:
        q, k, v = (halves(rng, (1, heads, 70, 64)) for heads in (2, 1, 1))
        o = blank(q)
        run(name, q, k, v, o, 0.125, given=(64, causal))
        scores = wide(q) @ wide(k).swapaxes(2, 3) * 0.125
        if causal:
            scores = np.where(np.tri(70, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        yield o, weights / weights.sum(-1, keepdims=True) @ wide(v)


def attention_hopper(run, rng):
    yield from attention(run, rng, "attention_hopper", (True, False))


def varlen_attention(run, rng):
    lengths = np.array([70, 0, 1, 133], np.int32)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    for causal in (True, False):
        q = halves(rng, (start[-1], 2, 64))
        k, v = (halves(rng, (start[-1], 1, 64)) for _ in range(2))
        o = blank(q)
        run("varlen_attention", q, k, v, start, o, 0.125, 133, given=(64, causal))
        for first, end in itertools.pairwise(start):
            keys, values = wide(k[first:end, 0]), wide(v[first:end, 0])
            scores = np.einsum("ihd,jd->hij", wide(q[first:end]), keys) * 0.125
            if causal:
                scores = np.where(np.tri(end - first, dtype=bool), scores, -np.inf)
            if end > first:
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                weights /= weights.sum(-1, keepdims=True)
                yield o[first:end], np.einsum("hij,jd->ihd", weights, values)


def paged_decode(run, rng):
    length = np.array([70, 0, 16, 33], np.int32)
    q, o = halves(rng, (4, 6, 64)), np.full((4, 6, 64), np.nan, np.float16)
    k, v = halves(rng, (12 * 16, 2, 64)), halves(rng, (12 * 16, 2, 64))
    table = rng.permutation(12)[:10].astype(np.int32)[rng.integers(0, 10, (4, 5))]
    run("paged_decode", q, k, v, table, length, o, 0.125, given=(64, 16))
    for s in (0, 2, 3):
        at = np.arange(length[s])
        slots = table[s, at // 16] * 16 + at % 16
        keys, values = (wide(np.repeat(t[slots], 3, 1)).swapaxes(0, 1) for t in (k, v))
        scores = np.einsum("hd,hjd->hj", wide(q[s]), keys) * 0.125
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        yield o[s], np.einsum("hj,hjd->hd", weights, values)


def block_sparse(run, rng):
    starts, column = np.array([0, 2, 2, 5], np.int32), np.array([1, 3, 0, 2, 3], np.int32)
    values, b = halves(rng, (5, 32, 32)), halves(rng, (40, 120))
    c = blank(b, (90, 40))
    run("block_sparse", values, starts, column, b, c, given=(32, 32))
    a = np.zeros((96, 128))
    for r in range(3):
        for i in range(starts[r], starts[r + 1]):
            a[r * 32 : r * 32 + 32, column[i] * 32 : column[i] * 32 + 32] = values[i]
    yield c, a[:90, :120] @ wide(b).T


def w4a16(run, rng):
    # The last tile of 200 weights is ragged, and rows of 25 words are no whole 16 bytes.
    for depth, word in ((256, np.uint8), (200, np.int32), (146, np.uint8)):
        a, scale = halves(rng, (37, depth)), rng.uniform(0.5, 1.5, (72, 2)).astype(np.float16)
        q = rng.integers(0, 16, (72, depth), np.uint8)
        packed = (q[:, 0::2] | q[:, 1::2] << 4).view(word)
        c = blank(a, (37, 72))
        run("w4a16", a, packed, scale, c)
        yield c, wide(a) @ ((q - 8.0) * np.repeat(wide(scale), 128, 1)[:, :depth]).T


def fp8_gemm(run, rng, name="fp8_gemm"):
    kind = pytest.importorskip("ml_dtypes").float8_e4m3fn
    a, b = (rng.normal(size=shape).astype(kind) for shape in ((70, 272), (136, 272)))
    rows, blocks = (rng.uniform(0.5, 1.5, s).astype(np.float32) for s in ((70, 3), (2, 3)))
    c = blank(brains(rng, 1), (70, 136))
    run(name, a, b, rows, blocks, c)
    left = wide(a) * np.repeat(rows, 128, 1)[:, :272]
    right = wide(b) * np.repeat(np.repeat(blocks, 128, 0), 128, 1)[:136, :272]
    yield c, left @ right.T


def fp8_gemm_hopper(run, rng):
    yield from fp8_gemm(run, rng, "fp8_gemm_hopper")


def split_k(run, rng):
    a, b = halves(rng, (70, 200)), halves(rng, (40, 200))
    w, c = np.full((3, 70, 40), np.nan, np.float32), blank(a, (70, 40))
    run("multiply_parts", a, b, w)
    run("add_parts", w, c)
    yield c, wide(a) @ wide(b).T


def work_queue(run, rng):
    x, length = rng.normal(size=(9, 601)).astype(np.float32), rng.integers(0, 602, 9)
    y, taken = blank(x, (9, 1)), np.zeros(1, np.int32)
    order = np.argsort(-length).astype(np.int32)
    run("ragged_sums", x, length.astype(np.int32), order, taken, y, 3)
    assert taken[0] == 9 + 3
    yield y[:, 0], np.array([x[r, :end].astype(np.float64).sum() for r, end in enumerate(length)])


def work_queue_hopper(run, rng):
    a, b = halves(rng, (300, 136)), halves(rng, (136, 136))
    c, taken = blank(a, (300, 136)), np.zeros(1, np.int32)
    run("queued_gemm", a, b, c, taken, 2)
    assert taken[0] == 9 + 2
    yield c, wide(a) @ wide(b).T


def last_block(run, rng):
    a, b = halves(rng, (70, 200)), halves(rng, (40, 200))
    w, c = np.full((3, 70, 40), np.nan, np.float32), blank(a, (70, 40))
    done = np.zeros((2, 1), np.int32)
    run("split_k_once", a, b, w, done, c)
    assert (done == 3).all()
    yield c, wide(a) @ wide(b).T


def mixture(run, rng):
    x, w = halves(rng, (20, 72)), halves(rng, (3, 40, 72))
    pairs = rng.permutation(40).astype(np.int32)
    pair, expert = np.full(5 * 64, -1, np.int32), np.array([2, 0, -1, 2, 1], np.int32)
    whose = np.repeat(expert, 64)
    pair[np.sort(rng.permutation(np.flatnonzero(whose >= 0))[:38])] = pairs[:38]
    y = np.zeros((40, 40), np.float16)
    run("mixture", x, w, pair, expert, y)
    want = np.zeros((40, 40))
    for i in np.flatnonzero(pair >= 0):
        want[pair[i]] = wide(w[whose[i]]) @ wide(x[pair[i] // 2])
    yield y, want


def selective_scan(run, rng):
    x = rng.normal(size=(2, 70, 6)).astype(np.float32)
    dt = rng.uniform(0.01, 0.2, x.shape).astype(np.float32)
    A, skip = -rng.uniform(0.5, 4, (6, 16)).astype(np.float32), np.ones(6, np.float32)
    B, C = rng.normal(size=(2, 2, 70, 16)).astype(np.float32)
    y = np.full_like(x, np.nan)
    run("selective_scan", x, dt, A, B, C, skip, y, given=(16,))
    h, want = np.zeros((2, 6, 16)), np.zeros(x.shape)
    for t in range(70):
        step = wide(dt)[:, t, :, None]
        h = np.exp(step * A) * h + step * x[:, t, :, None] * B[:, t, None, :]
        want[:, t] = (h * C[:, t, None, :]).sum(-1) + x[:, t] * skip
    yield y, want


def top_k(run, rng):
    x = rng.integers(-50, 50, (7, 200)).astype(np.float32)
    value, index = np.zeros((7, 3), np.float32), np.zeros((7, 3), np.int32)
    run("top_k", x, value, index)
    order = np.argsort(-x, 1, kind="stable")[:, :3]
    yield index, order
    yield value, np.take_along_axis(x, order, 1)


def layer_norm_backward(run, rng):
    x, dy, gamma = (halves(rng, shape) for shape in ((33, 300), (33, 300), 300))
    mean, rstd = wide(x).mean(1), 1 / np.sqrt(wide(x).var(1) + 1e-5)
    given = mean.astype(np.float32), rstd.astype(np.float32)
    dx = blank(x)
    run("gradient_of_rows", x, dy, gamma, *given, dx)
    normal, wdy = (wide(x) - mean[:, None]) * rstd[:, None], wide(dy) * wide(gamma)
    part = normal * (normal * wdy).mean(1, keepdims=True) + wdy.mean(1, keepdims=True)
    yield dx, (wdy - part) * rstd[:, None]
    sums = np.full((2, 3, 300), np.nan, np.float32)
    run("gradient_of_weights", x, dy, *given, *sums)
    for found, want in zip(sums, (wide(dy) * normal, wide(dy))):
        total = blank(x, (300,))
        run("add_parts", found, total)
        yield total, want.sum(0)


def halves(rng, shape):
    return rng.normal(size=shape).astype(np.float16)


def brains(rng, shape):
    return rng.normal(size=shape).astype(pytest.importorskip("ml_dtypes").bfloat16)


def wide(array):
    return array.astype(np.float64)


def blank(like, shape=None):
    """An array of the type of `like` in which nothing is right yet."""
    return np.full(like.shape if shape is None else shape, np.nan, like.dtype)


CASES = [
    (rms_norm, BOTH), (softmax, BOTH), (gemm_gelu, BOTH), (gemm_gelu_hopper, HOPPER),
    (transpose, BOTH), (attention, BOTH), (attention_hopper, HOPPER),
    (varlen_attention, BOTH), (paged_decode, BOTH),
    (block_sparse, BOTH), (w4a16, BOTH), (fp8_gemm, FP8),
    (fp8_gemm_hopper, HOPPER), (split_k, BOTH), (last_block, BOTH), (work_queue, BOTH),
    (work_queue_hopper, HOPPER), (mixture, BOTH), (selective_scan, BOTH),
    (top_k, BOTH), (layer_norm_backward, BOTH),
]  # fmt: skip


@pytest.mark.parametrize(
    "case, target", [(case, target) for case, targets in CASES for target in targets]
)
@pytest.mark.filterwarnings("error::hexcute_core.RearrangeWarning")
def test_a_kernel_of_the_gallery_is_right(case, target, tmp_path, monkeypatch):
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path))
    module = kernels(case.__name__.removesuffix("_hopper"))

    def run(name, *args, given=None, **constants):
        found = getattr(module, name)
        kernel = found if given is None else found(*given)
        kernel.simulate(*args, target=target, **constants)
        assert len(kernel.compile(target, **constants).built.cubin) > 0

    for result, want in case(run, np.random.default_rng(0)):
        scale = np.sqrt((wide(want) ** 2).mean())
        assert scale > 0
        # A few roundings of the type, of the element or of what it was added up from.
        unit = EPSILON.get(result.dtype.name, 0)
        assert (np.abs(wide(result) - want) <= 4 * unit * (np.abs(want) + scale)).all()


def lines(path):
    """The lines of each kernel of a file: from its decorator to the last of its body."""
    import ast

    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            first = min(d.lineno for d in node.decorator_list)
            yield node.name, node.end_lineno - first + 1


def test_the_gallery_is_all_tried_listed_and_short():
    names = {case.__name__.removesuffix("_hopper") for case, _ in CASES}
    assert {path.stem for path in FILES} == names
    page = (GALLERY.parent / "gallery.md").read_text(encoding="utf-8")
    for path in FILES:
        assert f"gallery/{path.name}" in page
        assert all(count <= 60 for _, count in lines(path)), path.name


@pytest.mark.parametrize("target", BOTH)
def test_weights_of_four_bits_are_cast_by_permutations_and_cuts(target):
    """Not by the units for conversions: 32 weights a thread are 16 pairs."""
    sass = kernels("w4a16").w4a16.compile(target).sass()
    codes = Counter(op.split(".")[0] for op in opcodes_of(sass))
    assert codes["PRMT"] >= 16 and codes["LOP3"] >= 16 and codes["HFMA2"] >= 16
    assert not {"I2F", "I2FP", "F2F"} & set(codes), codes


@pytest.mark.parametrize("name", ["rms_norm", "top_k", "layer_norm_backward"])
def test_rows_longer_than_their_tile_are_told(name):
    f16, f32, i32, long = np.float16, np.float32, np.int32, 72
    x, w, row = np.ones((2, long), f16), np.ones(long, f16), np.ones(2, f32)
    given = {
        "rms_norm": (x, w, x.copy(), 1e-5),
        "top_k": (x.astype(f32), np.ones((2, 3), f32), np.ones((2, 3), i32)),
        "layer_norm_backward": (x, x, w, row, row, x.copy()),
    }
    module = kernels(name)
    kernel = getattr(module, {"layer_norm_backward": "gradient_of_rows"}.get(name, name))
    with pytest.raises(SimulationError, match="BN is shorter than a row"):
        kernel.simulate(*given[name], target="sm_80", BN=64)
