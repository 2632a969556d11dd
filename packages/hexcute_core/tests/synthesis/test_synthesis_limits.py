"""What synthesis does not do: search without end, or hand the C++ compiler what no thread holds."""

from __future__ import annotations

import warnings

import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.errors import NoLayout, RearrangeWarning
from hexcute_core.synthesis import buffer, search

m, k = hx.dims("m k")


def readers(kinds):
    """One shared tile read as often as `kinds` is long: copied out along rows or columns, or
    multiplied with itself."""

    @hx.kernel(cache=False)
    def kernel(x: f16[m, k], y: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        s = hx.shared_tensor(f16, (64, 64))
        hx.copy(hx.global_view(x, ((64, 64), (k, 1))), s)
        hx.syncthreads()
        for i in hx.static_range(len(kinds)):
            r = hx.register_tensor(f16, (64, 64))
            hx.copy(s, r)
            if kinds[i] == "n":
                hx.copy(r, hx.global_view(y, ((64, 64), (k, 1))))
            elif kinds[i] == "t":
                hx.copy(r, hx.global_view(y, ((64, 64), (1, k))))
            else:
                c = hx.register_tensor(f32, (64, 64))
                hx.fill(c, 0.0)
                hx.gemm(c, r, r)
                hx.copy(hx.cast(c, f16), hx.global_view(y, ((64, 64), (k, 1))))

    return kernel


@pytest.mark.parametrize("kinds", ["nt", "tn" * 4, "tn" * 8])
def test_layouts_worked_out_do_not_grow_with_the_readers(kinds, monkeypatch):
    calls = []

    def counted(*args):
        calls.append(args)
        return buffer_synthesize(*args)

    buffer_synthesize = buffer.synthesize_shared
    monkeypatch.setattr(buffer, "synthesize_shared", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RearrangeWarning)
        solution = readers(kinds).compile("sm_80").solution
    # An island's, and at most one for each combination once nothing is left.
    assert len(calls) <= buffer.LAYOUTS + 64
    if len(calls) >= buffer.LAYOUTS:
        assert not solution.exact


def test_a_search_that_ran_out_says_so(monkeypatch):
    assert readers("nt").compile("sm_80").solution.exact
    monkeypatch.setattr(search, "Budget", lambda: buffer.Budget(choices=9, layouts=1))
    compiled = readers("nt").compile("sm_80", verify=True)
    assert not compiled.solution.exact
    assert "the search budget was reached" in compiled.explain()


@pytest.mark.parametrize(
    "shape, threads, words, room",
    [
        ((1024, 1024), 128, 4096, 255),
        ((2**20, 2**20), 128, 2**32, 255),
        ((128, 256), 32, 512, 255),
        ((512, 256), 1024, 64, 64),
    ],
)
def test_a_tile_that_no_thread_can_hold_is_refused_where_it_is_made(shape, threads, words, room):
    @hx.kernel(cache=False)
    def kernel(x: f16[m, k], y: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        r = hx.register_tensor(f16, shape)
        hx.copy(hx.global_view(x, (shape, (k, 1))), r)
        hx.copy(r, hx.global_view(y, (shape, (k, 1))))

    if words <= room:
        assert kernel.compile("sm_80").solution
        return
    with pytest.raises(NoLayout, match=rf"`r`.* takes {words} registers .* have {room}") as caught:
        assert kernel.compile("sm_80").solution
    assert caught.value.span.line == kernel.definition.span.line + 3


def test_a_fill_that_no_thread_can_hold_is_refused_and_done_in_parts():
    @hx.kernel(cache=False)
    def kernel(y: f32[m, k], *, PARTS: int = 1):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        s = hx.shared_tensor(f32, (64, 256))
        for i in hx.static_range(PARTS):
            hx.fill(s[i * (64 // PARTS) : (i + 1) * (64 // PARTS), :], 1.0)
        hx.syncthreads()
        hx.copy(s, hx.global_view(y, ((64, 256), (k, 1))))

    text = "a fill of 64x256 of f32 in shared memory takes 512 registers of each of 32 threads"
    with pytest.raises(NoLayout, match=text) as caught:
        assert kernel.compile("sm_80").solution
    fix = "fill it in parts, as in hx.fill(s[0:32, :], 0.0), or give it more threads"
    assert caught.value.fix == fix
    assert caught.value.span.line == kernel.definition.span.line + 5
    assert kernel.compile("sm_80", PARTS=4).solution
