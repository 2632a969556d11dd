"""A saved kernel is one file, comes back as it was, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_core.driver import saved
from hexcute_core.driver.container import Content, pack, unpack
from hexcute_core.driver.launchable import Launchable
from hexcute_core.errors import LaunchError, SavedKernelError
from hexcute_core.runtime import best_key

FORM = b"hexcute kernel 1\n"
m, n = hx.dims("m n")


@hx.kernel(cache=False)
def scaled(x: f32[m, n], s: f32, y: f32[m, n], k: i32):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 4), hx.cdiv(n, 32) + k
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (4, 32))
    top, left = hx.blockIdx.x * 4, hx.blockIdx.y * 32
    hx.copy(hx.global_view(x[top:, left:], ((4, 32), (n, 1))), r)
    hx.copy(r * s, hx.global_view(y[top:, left:], ((4, 32), (n, 1))))


@pytest.fixture(scope="module")
def compiled():
    return scaled.compile("sm_80")


@pytest.fixture
def written(compiled, tmp_path):
    return compiled.save(tmp_path / "scaled.hexcute")


def test_one_file_holds_all_and_gives_it_back(compiled, written):
    assert [path.name for path in written.parent.iterdir()] == ["scaled.hexcute"]
    kernel = hx.load(written)
    assert isinstance(kernel, hx.SavedKernel) and kernel.__name__ == "scaled"
    assert kernel.built == compiled.built
    assert (kernel.source(), kernel.ptx()) == (compiled.source(), compiled.ptx())
    span = kernel.signature.span
    assert replace(kernel.signature, span=compiled.signature.span) == compiled.signature
    assert (span.file, span.line) == ("test_saved.py", compiled.signature.span.line)
    assert kernel._parts.divisors == compiled.divisors
    assert kernel._parts.promise == compiled._request.promise


def test_a_path_with_any_ending_holds_the_same(compiled, tmp_path):
    paths = [compiled.save(str(tmp_path / name)) for name in ("k.cu", "k.ptx", "a.v1", "a.v2")]
    assert [path.name for path in paths] == ["k.cu", "k.ptx", "a.v1", "a.v2"]
    assert len({path.read_bytes() for path in paths}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.v1", "a.v2", "k.cu", "k.ptx"]


class Launches:
    """What a GPU is asked for: the grid, and the values."""

    def __init__(self, kernel, key):
        self.seen = []
        self._grid = saved.grid_function(kernel.built.grid_dim, kernel.signature.value_names)
        self.key = key

    def bind(self, args):
        return self.key, 0, args

    def on(self, device):
        return self, self._grid

    def launch_bound(self, grid, device, values):
        self.seen.append((grid, values))


@pytest.mark.parametrize("lost", [None, 0, 2, 5])
def test_it_launches_what_it_was_compiled_for_alone(compiled, written, lost):
    kernel = hx.load(written)
    best = best_key(compiled.signature, compiled.divisors)
    gpu = Launches(kernel, best if lost is None else best & ~(1 << lost))
    kernel._binder, kernel._launchable = gpu.bind, gpu
    values = (0, 0, 2.0, 3, 9, 70)
    if lost is None:
        kernel(*values)
        assert gpu.seen == [((3, 3 + 3, 1), values)]
    else:
        with pytest.raises(LaunchError, match="compiled for") as caught:
            kernel(*values)
        assert "aligned=False, or call the kernel itself" in caught.value.fix
        assert not gpu.seen


def test_both_launch_by_the_same_code(compiled, monkeypatch):
    made = []
    monkeypatch.setattr(Launchable, "__init__", lambda self, *parts: made.append(parts))
    monkeypatch.setattr(Launchable, "on", lambda self, device: device)
    fresh = scaled.compile("sm_80", trace=lambda *_: None)
    fresh._built = compiled.built
    assert fresh.load(3) == 3
    assert made == [(compiled.built, compiled.signature)]


def test_a_run_killed_midway_leaves_the_old_file(compiled, written, monkeypatch):
    before = written.read_bytes()

    def refuse(source, target, **folders):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(SavedKernelError, match="cannot be saved: No space left") as caught:
        compiled.save(written)
    assert caught.value.fix == "name a file in a folder that can be written, such as kernel.hexcute"
    assert written.read_bytes() == before
    assert len(list(written.parent.iterdir())) == 1


@pytest.mark.parametrize("path", ["", 5, None, "a\0b", b"bytes", ["a"]])
def test_what_is_no_path(compiled, path):
    for use in (compiled.save, hx.load):
        with pytest.raises(SavedKernelError, match="has a path, got") as caught:
            use(path)
        assert caught.value.fix == 'write the path as text, such as "kernel.hexcute"'


def test_places_where_no_file_can_be(compiled, tmp_path):
    for path in (tmp_path, tmp_path / "no" / "k", "/proc/k.hexcute", tmp_path / ("k" * 300)):
        with pytest.raises(SavedKernelError, match="cannot be saved"):
            compiled.save(path)
    assert not list(tmp_path.iterdir())


def test_places_where_no_file_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "no", tmp_path / "pipe", "/dev/zero", "k" * 300):
        with pytest.raises(SavedKernelError, match="cannot be read") as caught:
            hx.load(path)
        assert caught.value.fix == "name the file that save() wrote"


def refused(path, raw, text):
    path.write_bytes(raw)
    with pytest.raises(SavedKernelError, match=text) as caught:
        hx.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value.fix


def test_every_truncation_and_flipped_bit_is_refused(written):
    raw = written.read_bytes()
    rng = np.random.default_rng(0)
    for length in (*range(120), *rng.integers(0, len(raw), 200)):
        refused(written, raw[:length], "no saved kernel, or a damaged one")
    for at in (*range(120), *rng.integers(0, len(raw), 200)):
        flipped = bytearray(raw)
        # Not the digit of the form, which has a refusal of its own.
        flipped[at] ^= 128
        refused(written, bytes(flipped), "no saved kernel, or a damaged one")
    refused(written, raw + b"x", "its digest is not that of its content")


def test_files_of_other_kinds_and_of_newer_versions_are_refused(compiled, written):
    raw = written.read_bytes()
    fix = refused(written, compiled.built.cubin, "it does not begin as such a file does")
    assert fix == "save the kernel again: compiled.save(path)"
    fix = refused(written, raw.replace(b"kernel 1\n", b"kernel 2\n", 1), "by a newer version")
    assert fix == "install that version, or save the kernel again with this one"


CHANGES = {
    "built": [
        ("arch", 90), ("arch", None), ("shared_bytes", -1),
        ("shared_bytes", True), ("block_dim", 2**40), ("block_dim", "128"), ("grid_dim", []),
        ("grid_dim", [{"const": 1, "dtype": "i32"}] * 2), ("grid_dim", [{"zzz": 1}] * 3),
        ("grid_dim", [{"var": "nobody", "dtype": "i32"}] * 3),
        ("grid_dim", [{"const": 1, "dtype": "i33"}] * 3),
        ("grid_dim", [{"const": "__import__('os')", "dtype": "i32"}] * 3),
        ("grid_dim", [{"binary": "zzz", "args": [{"const": 1, "dtype": "i32"}] * 2,
                       "dtype": "i32"}] * 3),
        ("registers", 0.5), ("local_memory", 0), ("maps", [{}]), ("maps", [1]),
        ("maps", [{"name": "t", "param": "q", "box": [8], "swizzle": 0}]),
        ("maps", [{"name": "t", "param": "x", "box": ["8"], "swizzle": 0}]),
        ("cluster_dim", [1, 1]), ("cluster_dim", [1, 1, -1]), ("dependent", "yes"),
    ],
    "call": [
        ("kernel", "another"), ("kernel", 3), ("params", []), ("params", [["x", "f33", [4]]]),
        ("params", [["x", "f32", ["q"]]]), ("params", [["x", "f32", [-4]]]), ("params", [[1]]),
        ("symbols", [["m", "f32"], ["n", "i32"]]), ("symbols", [["m"]]), ("symbols", None),
        ("span", ["f.py"]), ("span", [1, "a", 2]), ("divisors", [["n", 0]]),
        ("divisors", [["q", 4]]), ("multiples", [["n", "4"]]), ("aligned", ["q"]),
        ("aligned", "x"), ("wide", 1), ("more", 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "part, field, value", [(part, *change) for part in CHANGES for change in CHANGES[part]]
)
def test_a_field_that_cannot_be_is_refused(written, part, field, value):
    whole = unpack(FORM, written.read_bytes())
    meta = json.loads(json.dumps(whole.meta))
    meta[part][field] = value
    refused(written, pack(FORM, Content(whole.purpose, whole.files, meta)), "no saved kernel")


@pytest.mark.parametrize("part", ["built", "call", "version"])
def test_a_field_that_is_missing_is_refused(written, part):
    whole = unpack(FORM, written.read_bytes())
    changes = [{k: v for k, v in whole.meta.items() if k != part}]
    if part != "version":
        changes += [
            {**whole.meta, part: {k: v for k, v in whole.meta[part].items() if k != gone}}
            for gone in whole.meta[part]
        ]
    for meta in changes:
        refused(written, pack(FORM, Content(whole.purpose, whole.files, meta)), "no saved kernel")


@pytest.mark.parametrize("change", [
    lambda files: {**files, "more": b""}, lambda files: {"cubin": files["cubin"]},
    lambda files: {**files, "ptx": b"\xff\xfe"},
])  # fmt: skip
def test_other_parts_are_refused(written, change):
    whole = unpack(FORM, written.read_bytes())
    files = change(whole.files)
    refused(written, pack(FORM, Content(whole.purpose, files, whole.meta)), "no saved kernel")


def test_a_grid_that_is_too_deep_is_refused(written):
    whole = unpack(FORM, written.read_bytes())
    meta = json.loads(json.dumps(whole.meta))
    node = {"const": 1, "dtype": "i32"}
    for _ in range(400):
        node = {"neg": node, "dtype": "i32"}
    meta["built"]["grid_dim"] = [node] * 3
    refused(written, pack(FORM, Content(whole.purpose, whole.files, meta)), "no saved kernel")
