"""Schemas, tables and declarations, without torch."""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

import hexcute_core as hx
import hexcute_kernels
from hexcute_core.errors import LaunchError
from hexcute_kernels.__main__ import main
from hexcute_kernels.gemm.candidates import MMA
from hexcute_kernels.gemm.configs import MmaConfig, WgmmaConfig
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.product import Product, tma_fits
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm
from hexcute_kernels.gpus import KIN, features, short_name
from hexcute_kernels.schema import parse
from hexcute_kernels.tables import Row, Table, constants

LINEAR = "linear(Tensor x, Tensor w, Tensor? bias=None, str? activation=None) -> Tensor"


def test_a_schema_gives_names_kinds_and_defaults() -> None:
    schema = parse(LINEAR)
    assert (schema.name, schema.results) == ("linear", 1)
    assert [(p.name, p.kind, p.optional) for p in schema.parameters] == [
        ("x", "Tensor", False), ("w", "Tensor", False),
        ("bias", "Tensor", True), ("activation", "str", True),
    ]  # fmt: skip
    changing = parse("f(Tensor(a!) x, Tensor y, float s=0.5, bool c=True) -> (Tensor, Tensor)")
    assert changing.results == 2 and [p.written for p in changing.parameters[:2]] == [True, False]


def test_arguments_are_bound_by_place_and_name() -> None:
    schema = parse(LINEAR)
    assert schema.bind((1, 2), {"activation": "gelu"}) == (1, 2, None, "gelu")
    for args, named, words in (
        ((1,), {}, "w not given"),
        ((1, 2), {"w": 3}, "w is given twice"),
        ((1, 2), {"weight": 3}, "got 'weight'"),
        ((1, 2, 3, 4, 5), {}, "got 5 arguments"),
    ):
        with pytest.raises(LaunchError, match=words):
            schema.bind(args, named)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [("int", 3, 3.0), ("float", 3, "3"), ("bool", True, 1), ("str", "a", 1), ("int", 0, True)],
)
def test_numbers_are_of_their_kind(kind: str, right: object, wrong: object) -> None:
    schema = parse(f"f({kind} x, {kind}? y=None) -> Tensor")
    schema.check_numbers((right, None))
    with pytest.raises(LaunchError, match=f"x is to be {kind}, got"):
        schema.check_numbers((wrong, None))
    with pytest.raises(LaunchError, match=f"y is to be {kind} or None, got"):
        schema.check_numbers((right, wrong))


@pytest.mark.parametrize("text", ["f(Tensor a)", "f(Tensor[] a) -> Tensor", "f(a) -> Tensor"])
def test_a_schema_that_is_not_read_is_refused(text: str) -> None:
    with pytest.raises(LaunchError):
        parse(text)


@dataclass(frozen=True)
class Size:
    m: int
    n: int
    k: int = 4096
    batch: int | None = None


@pytest.mark.parametrize(
    ("m", "n", "mma"),
    [
        (1, 4096, (32, 64, 64)),
        (33, 4096, (64, 64, 64)),
        (64, 8193, (64, 64, 64)),
        (100, 4096, (128, 128, 32)),
        (128 * 96, 256, (128, 128, 32)),
        (256 * 64, 256, (256, 128, 64)),
    ],
)
def test_the_row_of_a_size(m: int, n: int, mma: tuple[int, ...]) -> None:
    chosen = MMA.choose("h100", Size(m, n))
    assert mma == (chosen.BM, chosen.BN, chosen.BK)


def test_where_no_row_takes_a_size_the_least_cost_decides() -> None:
    small, large = MmaConfig(64, 64, 64, 6, 4), MmaConfig(128, 128, 32, 4, 4)
    table = Table(
        {"h200": (Row(small, most={"m": 8}),)},
        more=(small, large),
        cost=lambda config, size, gpu: size.m / config.BM if gpu == "h200" else config.BM,
    )
    assert [table.choose("h200", Size(m, 1)) for m in (8, 9)] == [small, large]
    assert table.choose("a100", Size(9, 1)) == small
    measured = {"h200": (Row(large, most={"m": 8}),)}
    assert table.choose("h200", Size(8, 1), lambda gpu: measured.get(gpu, ())) == large


def test_a_gpu_without_rows_takes_its_nearest_kins() -> None:
    small, large = MmaConfig(64, 64, 64, 6, 4), MmaConfig(128, 128, 32, 4, 4)
    table = Table({"a100": (Row(small),), "gh200": (Row(large),)})
    assert table.choose("h200", Size(1, 1)) == large
    assert table.choose("a100", Size(1, 1)) == small
    assert table.choose("l4", Size(1, 1)) == small, "unknown ones take the first"
    assert all(gpu not in kin for gpu, kin in KIN.items())
    with pytest.raises(LaunchError, match="the last row of a table takes everything; a100's"):
        Table({"a100": (Row(small, most={"m": 64}),)})


def test_names_and_features_of_gpus() -> None:
    names = {
        "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H200": "h200", "NVIDIA A100-SXM4-40GB": "a100",
        "NVIDIA GH200 480GB": "gh200", "NVIDIA GeForce RTX 4090": "nvidiageforcertx4090",
    }  # fmt: skip
    assert {full: short_name(full) for full in names} == names
    every, hopper = {"mma.sync", "cp.async"}, {"wgmma", "tma", "clusters"}
    assert features("sm_80") >= every and not features("sm_80") & {"fp8", *hopper}
    assert features("sm_89") >= {*every, "fp8"} and not features("sm_89") & hopper
    assert features("sm_90") >= {*every, "fp8", *hopper}


@pytest.mark.parametrize(
    ("config", "kernel"),
    [(MmaConfig, pipelined_gemm(hx.f16)), (WgmmaConfig, warp_specialized_gemm(hx.f16))],
    ids=["mma", "wgmma"],
)
def test_a_configuration_has_its_kernels_constants(config: type, kernel: hx.Kernel) -> None:
    ours = {f.name: f.default for f in fields(config)}
    theirs = {c.name: c.default for c in kernel.definition.constants}
    assert list(ours) == list(theirs)
    given = {name: value for name, value in ours.items() if isinstance(value, int | str)}
    assert given == {name: theirs[name] for name in given}
    assert constants(MmaConfig(32, 64, 64, 8, 4))["BK"] == 64


def product(**changed: Any) -> Product:
    sizes = {"m": 64, "n": 64, "k": 64, "dtype": hx.f16, "a_major": "k", "b_major": "k"}
    return Product(**{**sizes, **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, None),
        ({"m": 3}, None),
        ({"aligned": False}, "start at a multiple of 16 bytes"),
        ({"k": 65}, "not those of the first operand and the second"),
        ({"n": 65}, "not those of the result"),
        ({"m": 65, "a_major": "m"}, "not those of the first operand"),
    ],
)
def test_what_tma_moves(changed: dict[str, Any], words: str | None) -> None:
    reason = tma_fits(product(**changed))
    assert reason is None if words is None else words in str(reason)


@pytest.mark.parametrize("name", hexcute_kernels.FAMILIES)
def test_every_operator_is_declared_whole(name: str) -> None:
    operator = hexcute_kernels.operator_named(name)
    assert operator.name == name and operator.__doc__
    assert len({v.name for v in operator.variants}) == len(operator.variants)
    every = features("sm_90")
    for variant in operator.variants:
        assert set(variant.needs) <= every
        assert len(list(variant.configs)) >= 1
    tensors = [p.name for p in operator.schema.parameters]
    assert list(inspect.signature(operator.describe).parameters) == tensors


def test_an_unknown_operator_is_told_from_those_there_are() -> None:
    with pytest.raises(LaunchError, match="no operator 'conv'"):
        hexcute_kernels.operator_named("conv")


def test_compiling_ahead_without_torch_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    words = ["build", "matmul", "--shapes", "m=8,n=8,k=8", "--gpu", "h200", "--out", "x"]
    assert main(words) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: arguments of these sizes are tensors of torch")
    assert "pip install torch" in told


ENGINES = "test_transformers*.py", "test_vllm*.py", "test_stored*.py"
"""The tests of what needs an engine or its files, which those of the operators run without."""


def constants_in(tree: ast.AST) -> list[str]:
    found = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return [text for text in found if isinstance(text, str) and len(text) >= 8]


def test_every_fix_has_a_case() -> None:
    """A fix that the tests of fixes do not quote has been tried by nobody."""
    here = Path(__file__).parent
    files = [here / "test_operator_fixes.py", *here.glob("parallel/*.py")]
    files += [path for pattern in ENGINES for path in here.glob(pattern)]
    tried = [text for file in files for text in constants_in(ast.parse(file.read_text()))]
    untried = []
    for path in sorted(Path(hexcute_kernels.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for given in node.keywords if isinstance(node, ast.Call) else ():
                pieces = constants_in(given.value) if given.arg == "fix" else []
                if pieces and not any(p in t or t in p for p in pieces for t in tried if " " in t):
                    untried.append((path.name, given.value.lineno, pieces))
    assert untried == []
