"""Compiling ahead: samples are calls, warming up is what calls need, and a bundle is enough for a
process that has no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hexcute_core as hx
import hexcute_kernels
from hexcute_core.errors import LaunchError, SavedKernelError
from hexcute_kernels import FAMILIES, operator_named
from hexcute_kernels.__main__ import main
from hexcute_kernels.gpus import gpu_named
from hexcute_kernels.samples import parse, sample, text_of

torch = pytest.importorskip("torch")
from sample_sizes import SIZES  # noqa: E402
from stand_ins import driver, on_gpu  # noqa: E402

from hexcute_kernels.shipping import Call, calls_of, warm_up, write_bundle  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bundle is in use, and no operator remembers a call."""
    monkeypatch.setattr("hexcute_core.driver.bundle._used", [])
    for name in FAMILIES:
        monkeypatch.setattr(operator_named(name), "_ready", {})


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sample_is_a_call_whose_kernels_are_known_without_a_gpu(name: str) -> None:
    """Those that a call of the same tensors with data, on a GPU, would launch."""
    (call,) = calls_of({name: [SIZES[name]]})
    kernels = call.kernels(gpu_named("h200"))
    (sizes,) = parse(SIZES[name])
    args = [on_gpu(t) if isinstance(t, torch.Tensor) else t for t in sample(name, sizes, "cpu")]
    operator = operator_named(name)
    asked: list[Any] = []

    def fixed(kernel: Any, *given: Any, **how: Any) -> Any:
        asked.append(kernel.compile_for(*given, target="sm_90", constants=how))
        return lambda addresses: None

    with pytest.MonkeyPatch.context() as patch, driver("h200", (9, 0)):
        patch.setattr(hx.Kernel, "fixed", fixed)
        operator(*args)
    assert len(kernels) > 0 and [k.program for k in kernels] == [k.program for k in asked]


def test_sizes_are_read_and_written() -> None:
    text = "m=16/64,k=1.5,on=true,what=none,dtype=bfloat16"
    first, second = parse(text)
    assert first == {"m": 16, "k": 1.5, "on": True, "what": None, "dtype": "bfloat16"}
    assert second["m"] == 64 and parse(text_of(second)) == [second]


@pytest.mark.parametrize(
    "text",
    ["", "m", "m=", "=3", "m=1,m=2", "3=4", "m=1,,n=2", "m=1 n=2", "m=1//2", "m=1=2", "m=(3)"],
)
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(LaunchError, match="are no sizes"):
        parse(text)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ({"matmul": ["m=1,n=2"]}, "matmul is of the sizes m, n, k; got m=1,n=2"),
        ({"matmul": ["m=1,n=2,k=3,j=4"]}, "matmul is of the sizes m, n, k"),
        ({"matmul": ["m=-1,n=2,k=3"]}, "matmul is of the sizes m, n, k"),
        ({"matmul": ["m=one,n=2,k=3"]}, "matmul is of the sizes m, n, k"),
        ({"matmul": ["m=8,n=8,k=8,dtype=half8"]}, "'half8' is no type of torch's"),
        ({"matmul": ["m=8,n=8,k=8,dtype=float64"]}, "takes float16 or bfloat16"),
        ({"matmull": ["m=8,n=8,k=8"]}, "no operator 'matmull'"),
    ],
)
def test_calls_that_are_none(calls: Any, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        warm_up(calls, "h200")


def test_gpus_are_known_by_name_or_there() -> None:
    calls = {"matmul": ["m=8,n=8,k=8"]}
    with pytest.raises(LaunchError, match="no GPU 'h2000' is known"):
        warm_up(calls, "h2000")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hexcute_kernels.gpus.device_count", lambda: 0)
        with pytest.raises(LaunchError, match="there is no GPU here"):
            warm_up(calls)


def test_warming_up_in_processes_fills_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEXCUTE_CACHE_DIR", str(tmp_path))
    calls = {"matmul": ["m=8/300,n=512,k=256"], "linear": ["m=8,n=512,k=256,bias=false"]}
    kernels = warm_up(calls, "h200", processes=2)
    # A matmul of 8 rows is a linear of 8 rows without a bias.
    assert len(kernels) == 2 and len(list(tmp_path.glob("*/*.entry"))) == 2


def child(path: Path, cache: Path) -> str:
    """What a process without a compiler prints."""
    paths = os.pathsep.join(sys.path)
    env = {**os.environ, "PYTHONPATH": paths, "HEXCUTE_CACHE_DIR": str(cache)}
    program = Path(__file__).parent / "without_compiler.py"
    command = [sys.executable, str(program), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_without_a_compiler_launches_from_a_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bundle"
    command = ["build", "matmul", "--shapes", SIZES["matmul"], "--gpu", "h200", "--out", str(out)]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{out}: 1 kernels for sm_90\n"
    printed = child(out, tmp_path / "cache").splitlines()
    assert printed[0] == "launched hexcute_gemm (64, 512)"
    assert printed[1].startswith("MissingDependency ")
    assert f"the bundle {out} has gemm for sm_90, compiled for other sizes, types or " in printed[1]
    assert "cannot be compiled here" in printed[1]
    assert not list((tmp_path / "cache").glob("*/*.entry"))


@pytest.mark.gpu
def test_a_process_without_a_compiler_computes_from_a_bundle(tmp_path: Path) -> None:
    made = write_bundle(tmp_path / "bundle", {"matmul": [SIZES["matmul"]]})
    assert len(made.entries) == 1
    printed = child(made.path, tmp_path / "cache").splitlines()
    assert printed[0] == "right on the GPU" and printed[1].startswith("MissingDependency ")


def test_a_bundle_of_other_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hexcute_kernels.shipping._VERSIONS", {"hexcute-kernels": "0.0.1"})
        write_bundle(tmp_path, {"matmul": [SIZES["matmul"]]}, "h200")
    with pytest.raises(SavedKernelError, match=r"with hexcute-kernels 0\.0\.1, here is"):
        hexcute_kernels.use_bundle(tmp_path)


def test_the_command_line_tells_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "matmul", "--shapes", "m=1", "--gpu", "h200", "--out", "x"]) == 1
    assert capsys.readouterr().err.startswith("error: matmul is of the sizes m, n, k; got m=1")


def test_a_call_names_what_it_is_made_of() -> None:
    assert calls_of({"matmul": ["m=8,n=8,k=8", {"m": 8, "n": 8, "k": 8}]}) == [
        Call("matmul", "m=8,n=8,k=8")
    ]
