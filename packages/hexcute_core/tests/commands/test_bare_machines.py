"""Machines that lack things, for real: an interpreter that sees the standard library, our sources
and the packages that are named, with nothing else on its paths."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import cute_layout
import hexcute_core
from hexcute_core.backend.hidet import shim
from hexcute_core.pip import installing
from hexcute_core.toolchain import discovery

SOURCES = [str(Path(p.__file__).parents[1]) for p in (cute_layout, hexcute_core)]
NUMPY, HALVES = ("numpy", "numpy.libs"), ("ml_dtypes",)
HIDET = ("hidet", "tabulate", "tqdm", "tomlkit", "filelock")
ADDING = """
import hexcute_core as hx
from hexcute_core import f16

@hx.kernel(cache=False)
def twice(x: f16[64], y: f16[64]):
    hx.attrs.cuda.grid_dim, hx.attrs.cuda.block_dim = 1, 32
    r = hx.register_tensor(f16, (64,))
    hx.copy(hx.global_view(x, ((64,), (1,))), r)
    hx.copy(r + r, hx.global_view(y, ((64,), (1,))))
"""


@pytest.fixture
def machine(tmp_path):
    """(packages) -> a function that runs `hexcute` there: its status, what it says, and how it
    failed."""
    (tmp_path / "twice.py").write_text(ADDING)

    def make(*packages):
        folder = tmp_path / "site"
        folder.mkdir()
        for name in packages:
            site = Path(find_spec("numpy").origin).parents[1]
            for found in [*site.glob(name), *site.glob(f"{name}.py"), *site.glob(f"{name}-*")]:
                (folder / found.name).symlink_to(found)
        env = {
            "PATH": str(tmp_path), "HOME": str(tmp_path), "HEXCUTE_CACHE_DIR": str(tmp_path / "c"),
            "PYTHONPATH": os.pathsep.join([*SOURCES, str(folder)]),
        }  # fmt: skip

        def hexcute(*words):
            command = [sys.executable, "-S", "-m", "hexcute_core", *words]
            run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path,
                                 timeout=120)  # fmt: skip
            return run.returncode, run.stdout, run.stderr

        return hexcute

    return make


def mended(packages):
    """How the doctor goes on after what is missing."""
    return f"\n{'':<15}  {installing(packages)}\n"


def test_without_numpy_the_doctor_alone_runs(machine):
    hexcute = machine(*HALVES, *HIDET)
    status, told, failed = hexcute("doctor")
    assert (status, failed) == (1, "")
    for aim in ("simulate", "launch", "cache"):
        assert f"{aim:<10}no   numpy is missing{mended('numpy')}" in told
    assert f"hidet cannot be loaded: No module named 'numpy'\n{'':<15}  {shim.FIX}" in told
    status, told, _ = hexcute("doctor", "--json")
    assert status == 1 and json.loads(told)["simulate"][0]["fix"] == installing("numpy")
    for words in (["ptx", "twice.py:twice"], ["cache"]):
        status, told, failed = hexcute(*words)
        assert (status, told) == (1, "") and "Traceback" not in failed
        assert failed.startswith("error: the compiler needs numpy")
        assert f"fix: {installing('numpy')}" in failed


def test_what_hidet_imports_is_asked_as_the_compiler_asks(machine):
    hexcute = machine(*NUMPY, *HALVES, "hidet", "tabulate", "filelock")
    status, told, _ = hexcute("doctor")
    lack = "hidet cannot be loaded: No module named 'tomlkit'"
    assert status == 1 and f"compile   no   {lack}\n{'':<15}  {shim.FIX}\n" in told
    status, _, failed = hexcute("ptx", "twice.py:twice")
    assert status == 1 and f"{lack}\n  fix: {shim.FIX}" in failed


def test_numpy_alone_simulates_and_is_told_what_else_there_is(machine):
    hexcute = machine(*NUMPY)
    status, told, _ = hexcute("doctor")
    assert status == 1 and "Traceback" not in told
    assert "simulate  yes  numpy" in told
    lack = "bf16 and 8-bit floats need ml_dtypes: ml_dtypes is missing"
    assert f"{lack}{mended('ml_dtypes')}" in told
    assert "compile   no" in told and installing("--no-deps hidet==0.6.1") in told
    assert f"torch is missing{mended('torch')}" in told
    status, told, _ = hexcute("simulate", "twice.py:twice")
    assert status == 0 and "bit for bit" in told
    status, _, failed = hexcute("source", "twice.py:twice")
    assert status == 1 and installing("--no-deps hidet==0.6.1") in failed
    assert "Traceback" not in failed
    status, told, _ = hexcute("page", "twice.py:twice")
    assert (status, told) == (0, "twice.html\n")


TOOLKIT = any(Path("/usr/local").glob("cuda*/**/libnvrtc.so*"))


@pytest.mark.skipif(TOOLKIT, reason="a toolkit that is found without any path is installed here")
def test_without_nvrtc_and_a_gpu(machine):
    hexcute = machine(*NUMPY, *HALVES, *HIDET)
    status, told, _ = hexcute("doctor")
    assert status == 1
    assert "simulate  yes" in told and "compile   no   hidet 0.6.1" in told
    assert f"NVRTC is missing\n                 {discovery.NVRTC_FIX}" in told
    assert "GPU is missing" in told and "simulate(...)" in told
    status, _, failed = hexcute("ptx", "twice.py:twice")
    assert status == 1 and discovery.NVRTC_FIX in failed and "Traceback" not in failed
