"""`hx.rearrange(tile, layout)` takes layouts as `explain()` prints them, and says where a text is
none."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, f64, i8, i64
from hexcute_core.errors import LayoutConflict

NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i64": np.int64}


def strides_of(shape):
    return tuple(int(np.prod(shape[d + 1 :])) for d in range(len(shape)))


def moved(dtype, shape, layout, threads=128, role=False):
    """A kernel that copies a tile, rearranged to `layout` in between."""
    view = (shape, strides_of(shape))

    @hx.kernel(cache=False)
    def alone(x: dtype[shape], y: dtype[shape]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        r = hx.register_tensor(dtype, shape)
        hx.copy(hx.global_view(x, view), r)
        hx.copy(hx.rearrange(r, layout), hx.global_view(y, view))

    @hx.kernel(cache=False)
    def in_a_role(x: dtype[shape], y: dtype[shape]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads + 128
        with hx.warp_groups_producer(1):
            hx.sync_role()
        with hx.warp_groups_consumer(threads // 128):
            r = hx.register_tensor(dtype, shape)
            hx.copy(hx.global_view(x, view), r)
            hx.copy(hx.rearrange(r, layout), hx.global_view(y, view))

    return in_a_role if role else alone


CASES = [
    (f32, (8, 256), 128, False),
    (f16, (64, 64), 128, False),
    (f16, (229,), 128, False),
    (f32, (229, 3), 96, False),
    (f64, (16, 16), 64, False),
    (i64, (4, 6, 10), 32, False),
    (i8, (32,), 256, False),
    (f32, (1, 1), 64, False),
    (f32, (64, 32), 128, True),
]


@pytest.mark.parametrize("dtype, shape, threads, role", CASES, ids=str)
def test_what_explain_prints_is_taken(dtype, shape, threads, role):
    free = moved(dtype, shape, None, threads, role).compile("sm_90")
    printed = {
        line.split("  ")[-2].strip() if line.endswith("thread)") else line.split()[-1]
        for line in free.explain(rejected=0).splitlines()
        if re.match(r"  \w+ +register", line)
    }
    assert printed
    for text in (*printed, *map(str, free.solution.fragments.values())):
        made = moved(dtype, shape, text, threads, role).compile("sm_90", verify=True)
        x = (np.arange(np.prod(shape)) % 100).reshape(shape).astype(NUMPY[dtype.name])
        y = np.zeros_like(x)
        made.simulate(x, y)
        assert np.array_equal(x, y)


def test_the_tile_gets_the_layout_it_is_given():
    text = "((16,8),16):((16@1,1@0),1@1)"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = moved(f32, (8, 256), text).compile("sm_80", verify=True)
    assert text in map(str, made.solution.fragments.values())


def test_steps_of_the_tile_and_of_its_index_say_the_same():
    for text in ("((8,16),16):((1@0,16@1),1@1)", "((8,16),16):((1,128),8)"):
        made = moved(f32, (8, 256), text).compile("sm_80")
        assert "((8,16),16):((1@0,16@1),1@1)" in map(str, made.solution.fragments.values())


def test_threads_beyond_the_layouts_repeat_it():
    made = moved(f32, (8, 256), "(8,256)").compile("sm_80", verify=True)
    x, y = np.arange(2048, dtype=np.float32).reshape(8, 256), np.zeros((8, 256), np.float32)
    made.simulate(x, y, schedules=2)
    assert np.array_equal(x, y)


WRONG = {
    "": "a number",
    "row major": "not a number",
    "128:1": "two modes",
    "(128,4,4):(1,128,512)": "two modes",
    "(128,16):(1,128": "expected",
    "(128,16):(1,(2,3))": "not a thread-value layout",
    "(128,16):(1@2,1@0)": "no digit",
    "(128,16):(1@0+1@1,1@0)": "no digit",
    "(128,16):(1@0@1,1@0)": "no digit",
    "(128,16):(-1,128)": "no digit",
    "(0,16):(1,128)": "no digit",
    "(256,8):(1,256)": "256 threads",
    "(128,8):(1,128)": "1024 elements are held by none",
    "(128,16):(1,0)": "thread 0 holds an element twice",
    "(128,100000):(1,128)": "values",
    "(128,16):(7,128)": "no digit",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_text_that_is_no_layout_says_where_and_why(text):
    with pytest.raises(LayoutConflict) as caught:
        assert moved(f32, (8, 256), text).compile("sm_80").solution
    assert caught.value.span is not None
    notation = "not a thread-value layout" in caught.value.message
    fix = "a step as explain() prints it" if notation else "every element must be held"
    assert fix in caught.value.fix
    assert "rearrange to" in caught.value.message and WRONG[text] in str(caught.value)
