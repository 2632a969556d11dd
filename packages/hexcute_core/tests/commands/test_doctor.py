"""`doctor` on machines that lack what kernels need: what it says, and the line that mends it."""

import importlib.metadata
import json

import pytest

from hexcute_core.commands import doctor, main
from hexcute_core.errors import LaunchError, MissingDependency
from hexcute_core.pip import installing
from hexcute_core.runtime import cuda_driver
from hexcute_core.toolchain import discovery


class Driver:
    """Of a machine with these GPUs."""

    def __init__(self, *capabilities):
        self.capabilities = capabilities

    def device_count(self):
        return len(self.capabilities)

    def capability(self, device):
        return self.capabilities[device]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A whole machine with one H100, from which a test takes something away."""
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cuda_driver, "cuda_driver", lambda: Driver((9, 0)))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.6.1")
    return monkeypatch


def aims():
    return {aim.name: aim for aim in doctor.examined()}


def missing(aim):
    return {need.name: need.fix for need in aims()[aim].needs if need.found is None}


def test_a_whole_machine(machine, capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "missing" not in text and " no " not in text
    assert "GPU 0, compute capability 9.0, runs sm_90" in text and "torch 0.6.1" in text
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["simulate", "compile", "sass", "launch", "cache"]
    assert all(need["found"] for needs in told.values() for need in needs)


def test_without_nvrtc(machine, capsys):
    machine.setattr(discovery, "roots", lambda: ())
    for find in (discovery.find_nvrtc, discovery.find_headers):
        find.cache_clear()
    machine.setattr(doctor.nvrtc, "version", discovery.find_nvrtc)
    assert missing("compile") == {
        "NVRTC": discovery.NVRTC_FIX, "CUDA headers": discovery.HEADERS_FIX,
    }  # fmt: skip
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "compile   no" in text and discovery.NVRTC_FIX in text and "simulate  yes" in text


def test_without_packages(machine):
    def version(name):
        if name in ("torch", "ml_dtypes", "hidet"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    machine.setattr(importlib.metadata, "version", version)
    doctor.backend.hidet.shim.installed_version.cache_clear()
    assert missing("launch") == {"torch": installing("torch")}
    assert missing("simulate") == {"ml_dtypes": installing("ml_dtypes")}
    assert missing("compile")["hidet"].endswith(installing("--no-deps hidet==0.6.1"))
    doctor.backend.hidet.shim.installed_version.cache_clear()


@pytest.mark.parametrize("error", [MissingDependency("no driver", fix="install it"),
                                   LaunchError("it does not start", fix="install it")])  # fmt: skip
def test_without_a_driver(machine, error):
    def start():
        raise error

    machine.setattr(cuda_driver, "cuda_driver", start)
    assert missing("launch") == {"GPU": "install it"} and aims()["compile"].met


def test_gpus_that_are_none_or_too_old(machine):
    machine.setattr(cuda_driver, "cuda_driver", Driver)
    assert missing("launch") == {"GPU": "make a GPU visible: see CUDA_VISIBLE_DEVICES"}
    machine.setattr(cuda_driver, "cuda_driver", lambda: Driver((7, 0), (8, 6)))
    assert list(missing("launch")) == ["GPU 0, compute capability 7.0"]
    assert "GPU 1, compute capability 8.6, runs sm_86" in [n.found for n in aims()["launch"].needs]


def test_a_cache_that_cannot_be_written(machine, tmp_path):
    (tmp_path / "file").write_text("")
    machine.setenv("HEXCUTE_CACHE_DIR", str(tmp_path / "file"))
    fix = "set HEXCUTE_CACHE_DIR to a folder of your own"
    assert missing("cache") == {str(tmp_path / "file"): fix}
