"""A bundle gives back what was written, to the program it was written for, and nothing else."""

from __future__ import annotations

import json
import os

import pytest

import hexcute_core as hx
from hexcute_core import f32
from hexcute_core.driver import build as build_module
from hexcute_core.driver import bundle
from hexcute_core.errors import MissingDependency, SavedKernelError

m, n = hx.dims("m n")


def scaling(factor):
    """A kernel; another factor makes it another program of the same name."""

    @hx.kernel(cache=False)
    def scaled(x: f32[m, n], y: f32[m, n], *, BM: int = 4):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, 32)
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (BM, 32))
        top, left = hx.blockIdx.x * BM, hx.blockIdx.y * 32
        hx.copy(hx.global_view(x[top:, left:], ((BM, 32), (n, 1))), r)
        hx.copy(r * factor, hx.global_view(y[top:, left:], ((BM, 32), (n, 1))))

    return scaled


@pytest.fixture(scope="module")
def compiled():
    kernel = scaling(2.0)
    return [kernel.compile("sm_80"), kernel.compile("sm_90"), kernel.compile("sm_80", BM=8)]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No bundle is in use, there is no GPU, and nothing can be compiled."""
    monkeypatch.setattr(bundle, "_used", [])
    monkeypatch.setattr(bundle, "_named", {})
    monkeypatch.setattr(bundle, "device_count", lambda: 0)
    monkeypatch.delenv(bundle.VARIABLE, raising=False)


@pytest.fixture
def nothing_compiles(monkeypatch, compiled):
    assert all(kernel.built.cubin for kernel in compiled)

    def refuse(compilation):
        raise MissingDependency("there is no compiler")

    monkeypatch.setattr(build_module, "_compile", refuse)


@pytest.fixture
def written(compiled, tmp_path, nothing_compiles):
    bundle.write_bundle(tmp_path / "b", compiled)
    return tmp_path / "b"


def test_what_was_written_is_found_without_a_compiler(compiled, written):
    assert len(list(written.glob("*.hexcute"))) == 3
    with pytest.raises(MissingDependency, match="there is no compiler"):
        assert scaling(2.0).compile("sm_80").built
    found = hx.use_bundle(written)
    assert [entry.code for entry in found.entries] == ["sm_80", "sm_90", "sm_80"]
    again = scaling(2.0)
    fresh = [again.compile("sm_80"), again.compile("sm_90"), again.compile("sm_80", BM=8)]
    assert [k.built for k in fresh] == [k.built for k in compiled]
    assert all(k.from_cache for k in fresh)


def test_the_environment_names_bundles_too(compiled, written, monkeypatch, tmp_path):
    other = bundle.write_bundle(tmp_path / "other", compiled[:1]).path
    monkeypatch.setenv(bundle.VARIABLE, os.pathsep.join([str(other), "", str(written)]))
    assert scaling(2.0).compile("sm_90").built == compiled[1].built
    monkeypatch.setenv(bundle.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(SavedKernelError, match="there is no bundle: No such file"):
        assert scaling(2.0).compile("sm_90").built


@pytest.mark.parametrize(
    ("compile_", "reason"),
    [
        (lambda: scaling(3.0).compile("sm_80"), "for sm_80, compiled for other sizes, types or"),
        (lambda: scaling(2.0).compile("sm_80", BM=2), "for sm_80, compiled for other sizes"),
        (lambda: scaling(2.0).compile("sm_80", aligned=False), "for sm_80, compiled for other"),
        (lambda: scaling(2.0).compile("sm_86"), "has scaled for sm_80, sm_90, not for sm_86"),
    ],
)
def test_another_program_is_not_taken_and_the_reason_is_told(written, compile_, reason):
    hx.use_bundle(written)
    with pytest.raises(MissingDependency, match=reason) as caught:
        assert compile_().built
    assert "it cannot be compiled here: there is no compiler" in caught.value.message
    assert caught.value.span is not None and "add the call's shape" in caught.value.fix


def test_later_kernels_join_and_the_last_bundle_named_is_asked_first(compiled, written, tmp_path):
    one = bundle.write_bundle(tmp_path / "one", compiled[:1])
    assert len(bundle.write_bundle(one.path, compiled[1:2]).entries) == 2
    assert len(bundle.write_bundle(one.path, compiled[:2]).entries) == 2
    assert hx.use_bundle(written).path == bundle.in_use()[0].path
    hx.use_bundle(one.path)
    assert [b.path for b in bundle.in_use()] == [one.path, written]


CHANGES = {
    "another version": (lambda w: w["versions"].update({"hexcute-core": "0.0.9"}),
                        "built with hexcute-core 0.0.9, here is"),
    "other sources": (lambda w: w["versions"].update({"hexcute-core's sources": "12"}),
                      "hexcute-core's sources 12, here is"),
    "no version": (lambda w: w["versions"].clear(), "hexcute-core unknown, here is"),
    "newer": (lambda w: w.update(form=2), "by a newer version of hexcute-core"),
    "no form": (lambda w: w.pop("form"), "no list of a bundle's kernels"),
    "no kernels": (lambda w: w.update(kernels={}), "no list of a bundle's kernels"),
    "a path": (lambda w: w["kernels"][0].update(program="../../x"), "no list of a bundle's kern"),
    "no digest": (lambda w: w["kernels"][0].update(program="ab"), "no list of a bundle's kernels"),
    "no code": (lambda w: w["kernels"][1].pop("code"), "no list of a bundle's kernels"),
    "more": (lambda w: w["kernels"][1].update(more=1), "no list of a bundle's kernels"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_is_refused_with_the_reason(written, change):
    edit, reason = CHANGES[change]
    whole = json.loads((written / bundle.LIST).read_text())
    edit(whole)
    (written / bundle.LIST).write_text(json.dumps(whole))
    with pytest.raises(SavedKernelError, match=reason) as caught:
        hx.use_bundle(written)
    assert caught.value.fix == "build the bundle again" and str(written) in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * 100000, b"\xff", b"3", b"[]"])
def test_a_list_that_is_none_is_refused(written, raw):
    (written / bundle.LIST).write_bytes(raw)
    with pytest.raises(SavedKernelError, match="no list of a bundle's kernels"):
        hx.use_bundle(written)


def test_other_packages_versions_count_where_they_are_asked_for(compiled, tmp_path):
    bundle.write_bundle(tmp_path, compiled[:1], {"kernels": "1"})
    assert hx.use_bundle(tmp_path) and hx.use_bundle(tmp_path, {"kernels": "1"})
    with pytest.raises(SavedKernelError, match="built with kernels 1, here is 2"):
        hx.use_bundle(tmp_path, {"kernels": "2"})


def test_a_gpu_that_runs_none_of_it_refuses_it(compiled, written, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "device_count", lambda: 1)
    monkeypatch.setattr(bundle, "device_target", lambda device: "sm_86")
    with pytest.raises(SavedKernelError, match="is for sm_80, sm_90, the GPU here is sm_86"):
        hx.use_bundle(written)
    monkeypatch.setattr(bundle, "device_target", lambda device: "sm_90")
    assert hx.use_bundle(written)


def test_files_that_were_changed_or_exchanged_are_refused(written):
    hx.use_bundle(written)
    first, second = (written / f"{e.program}.hexcute" for e in bundle.in_use()[0].entries[:2])
    mine = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(SavedKernelError, match="another kernel than the bundle's list says"):
        assert scaling(2.0).compile("sm_80").built
    first.write_bytes(mine[:-1] + bytes([mine[-1] ^ 1]))
    with pytest.raises(SavedKernelError, match="its digest is not that of its content"):
        assert scaling(2.0).compile("sm_80").built
    first.unlink()
    with pytest.raises(SavedKernelError, match="cannot be read"):
        assert scaling(2.0).compile("sm_80").built


def test_a_folder_that_cannot_be_written(compiled, tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "b"):
        with pytest.raises(SavedKernelError, match="cannot be written"):
            bundle.write_bundle(path, compiled[:1])
