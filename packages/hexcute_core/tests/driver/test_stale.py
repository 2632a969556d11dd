"""A kernel is never compiled, remembered or filed under what it no longer depends on.

What a trace depends on shows in its program, whose digest is what a cache entry is filed under; and
in one process a kernel is traced anew after anything changed that it can reach.
"""

import itertools
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from staleness import CHANGES, EDITS, ELSEWHERE

import hexcute_core as hx
from hexcute_core import f32
from hexcute_core.driver.cache import Cache
from hexcute_core.frontend import snapshot, trace
from hexcute_core.tile import digest

KERNEL = """
import hexcute_core as hx
from hexcute_core import f32
m, n = hx.dims("m n")
{extra}

@hx.kernel(cache=False)
def k(x: f32[m, n], y: f32[m, n], *, C: object = None):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (4, 32))
    hx.copy(hx.global_view(x, ((4, 32), (n, 1))), r)
    hx.copy(r * ({expr}), hx.global_view(y, ((4, 32), (n, 1))))
"""
FOLDERS = itertools.count()


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Loads a kernel's module beside a fresh `cfg` of the given text."""

    def load(edit, text):
        folder = tmp_path / str(next(FOLDERS))
        folder.mkdir()
        (folder / "cfg.py").write_text(text)
        (folder / "kern.py").write_text(KERNEL.format(extra=edit.extra, expr=edit.expr))
        for name in ("cfg", "kern"):
            sys.modules.pop(name, None)
        monkeypatch.syspath_prepend(folder)
        import cfg
        import kern

        return kern, cfg

    yield load
    for name in ("cfg", "kern"):
        sys.modules.pop(name, None)


def fresh(kern, constant):
    """The digest of a trace made now."""
    promise = kern.k.compile("sm_80", C=constant).tile.promise
    return digest(trace(kern.k.definition, {"C": constant}, promise))


def asked(kern, constant):
    """The digest of what the kernel gives who asks for it."""
    return digest(kern.k.compile("sm_80", C=constant).tile)


@pytest.mark.parametrize("edit", EDITS + ELSEWHERE, ids=lambda e: e.name)
def test_an_edited_dependency_gives_another_key(edit, loaded):
    keys = []
    for text in (edit.before, edit.after):
        kern, cfg = loaded(edit, text)
        keys.append(asked(kern, eval(edit.const, {"kern": kern, "cfg": cfg})))
    assert keys[0] != keys[1]
    kern, cfg = loaded(edit, edit.before)
    assert asked(kern, eval(edit.const, {"kern": kern, "cfg": cfg})) == keys[0]


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: e.name)
def test_a_dependency_redefined_in_the_process_is_seen(edit, loaded):
    kern, cfg = loaded(edit, edit.before)
    asked(kern, eval(edit.const, {"kern": kern, "cfg": cfg}))
    exec(compile(edit.after, cfg.__file__, "exec"), vars(cfg))
    constant = eval(edit.const, {"kern": kern, "cfg": cfg})
    assert asked(kern, constant) == fresh(kern, constant)


@pytest.mark.parametrize("edit", CHANGES, ids=lambda e: e.name)
def test_a_change_in_place_is_seen(edit, loaded):
    kern, cfg = loaded(edit, edit.before)
    names = {"kern": kern, "cfg": cfg}
    before = asked(kern, eval(edit.const, names))
    exec(edit.after, names)
    constant = eval(edit.const, names)
    assert asked(kern, constant) == fresh(kern, constant) != before


@dataclass(frozen=True)
class Setting:
    size: object


@hx.kernel(cache=False)
def kind_of(y: f32[4, 32], *, C: object = None):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (4, 32))
    hx.fill(r, float(len(repr(C))))
    hx.copy(r, hx.global_view(y, ((4, 32), (32, 1))))


APART = [
    1, True, 1.0, np.float32(1), np.float64(1), np.int32(1), np.int64(1), 0, False, 0.0, -0.0,
    np.float32(0.0), np.float32(-0.0), float("nan"), 1 + 0j, "1", b"1", None, (1, 2), [1, 2],
    (1, 2.0), (True, 2), {1: 2}, {1: 2.0}, {1, 2}, frozenset({1, 2}), Setting(1), Setting(True),
    Setting(1.0), Setting(0.0), Setting(-0.0), Setting((1, 2)), Setting([1, 2]), np.zeros(3),
    np.zeros(3, np.float32), np.zeros((3, 1)), -np.zeros(3), np.zeros(5000), hx.f16, hx.f32,
    hx.f16[2, 3], hx.f16[2, 4], hx.dim("x"), hx.dim("x", multiple_of=2), int, float, len, sys,
    range(2), range(3), slice(1), Ellipsis,
]  # fmt: skip


def test_constants_that_are_not_the_same_are_compiled_apart():
    """1, True and 1.0 are equal, and so are 0.0 and -0.0."""
    shots = [snapshot(value) for value in APART]
    assert len(set(shots)) == len(APART)
    compiled = [kind_of.compile("sm_80", C=value) for value in APART]
    assert len({id(c) for c in compiled}) == len(APART)


@pytest.mark.parametrize("make", [
    lambda: 1.5, lambda: float("nan"), lambda: np.float32(1.5), lambda: (1, "a"), lambda: [1, [2]],
    lambda: {"a": {"b": 1}}, lambda: Setting((1, 2)), lambda: np.arange(5000), lambda: hx.f16[2, 3],
    lambda: hx.dim("x"), lambda: frozenset({1, 2}),
])  # fmt: skip
def test_constants_that_are_the_same_are_compiled_once(make):
    assert snapshot(make()) == snapshot(make())
    assert kind_of.compile("sm_80", C=make()) is kind_of.compile("sm_80", C=make())


def test_values_that_contain_themselves_are_described():
    loop, other = [1], [2]
    loop.append(loop)
    other.append(other)
    assert snapshot(loop) != snapshot(other)
    assert kind_of.compile("sm_80", C=loop) is kind_of.compile("sm_80", C=loop)


def test_a_changed_constant_that_changes_nothing_is_no_new_kernel(loaded):
    edit = EDITS[0]
    kern, cfg = loaded(edit, edit.before)
    first = kern.k.compile("sm_80")
    assert first.tile
    cfg.S = float("2.0")
    assert kern.k.compile("sm_80") is first
    cfg.S = 3.0
    assert kern.k.compile("sm_80") is not first
    assert first.tile is first.tile


def test_an_observer_is_not_told_of_what_others_compile():
    def broken(stage, value):
        raise ZeroDivisionError

    watched = kind_of.compile("sm_80", trace=broken)
    with pytest.raises(ZeroDivisionError):
        _ = watched.tile
    assert kind_of.compile("sm_80").tile
    assert kind_of.compile("sm_80") is not watched


def test_an_entry_is_filed_under_what_was_traced(loaded, tmp_path):
    """Traced, then a global changed, then built: the entry is of the old program."""
    edit = EDITS[0]
    kern, cfg = loaded(edit, edit.before)
    kern.k.cache = Cache(tmp_path / "cache")
    early = kern.k.compile("sm_80")
    assert early.explain()
    cfg.S = 3.0
    assert "2.0f" in early.source() and not early.from_cache
    late = kern.k.compile("sm_80")
    assert "3.0f" in late.source() and not late.from_cache
    cfg.S = 2.0
    again = kern.k.compile("sm_80")
    assert again.from_cache and again.built == early.built


def test_a_compiler_whose_files_changed_leaves_its_cache_alone(loaded, tmp_path, monkeypatch):
    from hexcute_core import version

    kern, _ = loaded(EDITS[0], EDITS[0].before)
    kern.k.cache = Cache(tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.setattr(version, "_IMPORTED", "another state")
        with pytest.warns(hx.CacheWarning, match="source files changed"):
            assert not kern.k.compile("sm_80").from_cache
    assert not (tmp_path / "cache").exists()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert not kern.k.compile("sm_80", code="sm_90").from_cache
    assert not warned
    assert (tmp_path / "cache").exists()


def test_the_digest_does_not_depend_on_the_process(tmp_path):
    (tmp_path / "cfg.py").write_text("S = 2.0\nNAMES = {'alpha', 'beta', 'gamma'}\n")
    text = KERNEL.format(extra="import cfg", expr="cfg.S * len(cfg.NAMES)")
    (tmp_path / "k.py").write_text(
        text + "from hexcute_core.tile import digest\nprint(digest(k.compile('sm_80').tile))\n"
    )
    seen = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, tmp_path / "k.py"]
        seen.add(subprocess.run(command, env=env, check=True, capture_output=True).stdout)
    assert len(seen) == 1


def test_a_kernel_that_moved_is_the_same_program(loaded):
    edit = EDITS[0]
    first, _ = loaded(edit, edit.before)
    lower, _ = loaded(edit._replace(extra=edit.extra + "\n\nUNUSED = 1\n"), edit.before)
    assert asked(first, None) == asked(lower, None)
