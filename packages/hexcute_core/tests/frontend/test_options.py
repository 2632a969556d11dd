"""Options of calls: what is of another kind than a call takes is refused, with what it takes."""

import io
import sys

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f32
from hexcute_core.commands import main
from hexcute_core.errors import HexcuteError, MissingDependency, OptionError, SimulationError
from hexcute_core.scalar.numbers import typed

m = hx.dim("m")


@hx.kernel(cache=False)
def kernel(x: f32[m, 32], *, BM: int = 4):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(f32, (BM, 32))
    hx.fill(r, 1.0)
    hx.copy(r, hx.global_view(x, ((BM, 32), (32, 1))))


COMPILE = [
    ({"target": ["sm_80"]}, "target is a list, which is no GPU", "use one of sm_80, sm_86"),
    ({"target": "sm_70"}, "target is 'sm_70'", "use one of sm_80, sm_86"),
    ({"code": 90}, "code is 90, which is no GPU", "use one of sm_80, sm_86"),
    ({"aligned": None}, "aligned is None", "pass aligned=True or aligned=False"),
    ({"verify": 2}, "verify is 2", "pass verify=True or verify=False"),
    ({"trace": 5}, "trace is 5, which cannot be called", "pass a function of a stage's name"),
    ({"constants": "BM"}, "constants is 'BM', expected a mapping", "pass a dict, such as"),
    ({"constants": {1: 2}}, "expected a mapping from names", 'pass a dict, such as {"BM": 64}'),
    ({"only": [1]}, "only is a list, expected a mapping", 'pass a dict, such as {"BM": 64}'),
    ({"only": {"copy": 1}}, "only['copy'] is 1, expected text", "write it as explain() does"),
    ({"target": 10**400}, "target is a huge number", "use one of sm_80, sm_86"),
    ({"target": "x" * 99}, "xxx..., which is no GPU", "use one of sm_80, sm_86"),
]  # fmt: skip


@pytest.mark.parametrize("options, text, fix", COMPILE)
def test_compile(options, text, fix):
    with pytest.raises(OptionError) as caught:
        kernel.compile(**{"target": "sm_80", **options})
    assert text in caught.value.message and caught.value.fix.startswith(fix)
    assert caught.value.span == kernel.definition.span
    assert kernel.compile("sm_80", constants={"BM": 4}, only=None, trace=None).thread


@pytest.mark.parametrize("options, text, fix", [
    ({"form": "pdf"}, "form is 'pdf'", "use one of text, json, html"),
    ({"form": np.zeros(2)}, "form is a ndarray", "use one of text, json, html"),
    ({"rejected": "all"}, "rejected is 'all'", "pass how many candidates to list, or None for all"),
    ({"rejected": -1}, "rejected is -1", "pass how many candidates to list, or None for all"),
    ({"rejected": True}, "rejected is True", "pass how many candidates to list, or None for all"),
])  # fmt: skip
def test_explain(options, text, fix):
    compiled = kernel.compile("sm_80")
    with pytest.raises(OptionError) as caught:
        compiled.explain(**options)
    assert (caught.value.message, caught.value.fix) == (text, fix)
    assert compiled.explain(None, "json") and compiled.explain(0)


@pytest.mark.parametrize("options, fix", [
    ({"seed": -1}, "pass seed=0 or more"), ({"seed": 1.5}, "pass seed=0 or more"),
    ({"seed": True}, "pass seed=0 or more"), ({"seed": 2**63}, "pass seed=0 or more"),
    ({"schedules": 0}, "pass schedules=1 or more"),
    ({"schedules": None}, "pass schedules=1 or more"),
    ({"blocks": 5}, "name blocks as [(x, y, z), ...]"),
    ({"blocks": [5]}, "name blocks as [(x, y, z), ...]"),
    ({"blocks": [(0.5, 0, 0)]}, "name blocks as [(x, y, z), ...]"),
    ({"blocks": [(0, 0)]}, "name blocks as [(x, y, z), ...]"),
    ({"blocks": [(9, 0, 0)]}, "name blocks (x, y, z) of it"),
])  # fmt: skip
def test_simulate(options, fix):
    with pytest.raises(SimulationError) as caught:
        kernel.simulate(np.zeros((8, 32), np.float32), target="sm_80", **options)
    assert caught.value.fix == fix
    taken = {"seed": np.int64(3), "schedules": 2, "blocks": [(0, 0, 0)]}
    kernel.simulate(np.zeros((8, 32), np.float32), target="sm_80", **taken)


def test_simulate_takes_flags_and_no_masks():
    array = np.zeros((8, 32), np.float32)
    for name in ("check", "compare"):
        with pytest.raises(OptionError, match=f"{name} is 1"):
            kernel.simulate(array, target="sm_80", **{name: 1})
    with pytest.raises(OptionError, match="target is None"):
        kernel.simulate(array, target=None)
    with pytest.raises(SimulationError, match="masked array") as caught:
        kernel.simulate(np.ma.array(array, mask=array == 0), target="sm_80")
    assert caught.value.fix == "pass x.filled(0)"


def test_a_shape_that_contains_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(HexcuteError) as caught:
        assert kernel.compile("sm_80", BM=endless).tile
    assert "contains itself, or nests deeper" in caught.value.message
    assert caught.value.fix == "pass lists and dicts that end, and let helpers call no deeper"
    assert kernel.compile("sm_80", BM=4).tile


def test_a_masked_constant_is_its_numbers_and_its_mask():
    array = np.ma.array([1.0, 2.0], mask=[False, True])
    first = kernel.specialise("sm_80", 0, {"BM": 4, "X": array})
    assert kernel.specialise("sm_80", 0, {"BM": 4, "X": array.copy()}) is first
    other = np.ma.array([1.0, 2.0], mask=[True, True])
    assert kernel.specialise("sm_80", 0, {"BM": 4, "X": other}) is not first


def test_a_call_without_torch_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match="called with torch tensors") as caught:
        kernel(np.zeros((8, 32), np.float32))
    assert "-m pip install torch; without it, kernel.simulate(...)" in caught.value.fix


FILE = """
import hexcute_core as hx
m, n = hx.dims("m n")

@hx.kernel(cache=False)
def kernel(x: hx.f32[m, n]):
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 32
    r = hx.register_tensor(hx.f32, (4, 32))
    hx.fill(r, 1.0)
    hx.copy(r, hx.global_view(x, ((4, 32), (n, 1))))
"""


@pytest.mark.parametrize("words, fix", [
    (["--block", "a,1"], "write --block 0,0,0"), (["--block", "1,x,1"], "write --block 0,0,0"),
    (["--block", "0.5,0,0"], "write --block 0,0,0"), (["--block", "²"], "write --block 0,0,0"),
    (["--block", "0,0,0,0"], "write --block 0,0,0"), (["--seed", "-1"], "pass seed=0 or more"),
    (["--shape", "m=True"], "write --shape m=8"), (["--shape", "m=-1"], "write --shape m=8"),
    (["--shape", "m=9999999999"], "write --shape m=8"),
    (["--shape", "m=2000000000"], "write --shape with smaller sizes"),
    (["--block", "0,0,0"], None), (["--block", "0"], None), ([], None),
])  # fmt: skip
def test_the_command_line(words, fix, tmp_path, capsys):
    (tmp_path / "written.py").write_text(FILE)
    head = ["simulate", f"{tmp_path}/written.py:kernel", "--target", "sm_80"]
    assert main([*head, "--shape", "m=8", "n=32", *words]) == (0 if fix is None else 1)
    said = capsys.readouterr().err
    assert said == "" if fix is None else f"fix: {fix}" in said


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**5000], ids=["large", "least", "huge"])
def test_an_integer_that_no_type_has_is_refused(number, tmp_path, monkeypatch):
    text = FILE.replace("x: hx.f32[m, n]", "x: hx.f32[m, n], *, S: object = 1").replace("1.0", "S")
    (tmp_path / "numbered.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "numbered", raising=False)
    import numbered

    with pytest.raises(HexcuteError, match="bits is beyond all numbers") as caught:
        assert numbered.kernel.compile("sm_80", S=number).tile
    assert caught.value.fix == 'write float("inf") where infinity is meant'
    assert numbered.kernel.compile("sm_80", S=float("inf")).tile
    assert numbered.kernel.compile("sm_80", S=10**300).tile


def test_numbers_beyond_all_floats():
    assert typed(10**400, hx.f16) == float("inf") == -typed(-(10**400), hx.f32)
    assert typed(-(10**400), hx.f8e4m3) == -448.0


@pytest.mark.parametrize("bounds", ["2**70", "0, 2**70, 2**68", "2**17"])
def test_a_loop_that_is_expanded_has_an_end(bounds, tmp_path, monkeypatch):
    text = FILE.replace("    hx.fill(r, 1.0)\n", f"    for i in hx.static_range({bounds}):\n"
                        "        hx.fill(r, 1.0)\n")  # fmt: skip
    (tmp_path / "expanded.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "expanded", raising=False)
    import expanded

    with pytest.raises(HexcuteError, match="expanded a turn at a time") as caught:
        assert expanded.kernel.compile("sm_80").tile
    assert caught.value.fix == "use range: a loop of the run takes any number of turns"


def test_a_compilation_needs_no_stderr_with_a_file_number(monkeypatch):
    import faulthandler

    before = faulthandler.is_enabled()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert kernel.compile("sm_80").source()
    assert faulthandler.is_enabled() == before
