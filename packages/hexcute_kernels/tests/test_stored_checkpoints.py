"""Layers read from models as they are stored: the numbers that were written, in the operators'
order, and every file or entry that cannot be right told with its name."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
from parallel_reference import matrix  # noqa: E402
from reference_gpu import reference_gpu  # noqa: E402
from stored_models import CONFIGS, stored, write_safetensors  # noqa: E402
from test_docs_operators import DOCS, FENCE  # noqa: E402

from hexcute_kernels.checkpoints import (  # noqa: E402
    Checkpoint,
    CheckpointError,
    Gptq,
    layer_of,
    read_format,
)
from hexcute_kernels.parallel.weights import Blockwise, Dense, FourBits  # noqa: E402


def weight(n: int, k: int, seed: int = 0) -> Any:
    return torch.randn(n, k, generator=torch.Generator().manual_seed(seed))


def folder(path: Path, form: str, layers: dict[str, Any], **more: Any) -> tuple[Path, Any]:
    """A model of these layers, by name, and their values."""
    made = {name: stored(w, form, i) for i, (name, w) in enumerate(layers.items())}
    tensors = {f"{name}.{s}": t for name, m in made.items() for s, t in m.tensors.items()}
    config = {"dtype": "float16", "quantization_config": CONFIGS[form]}
    (path / "config.json").write_text(json.dumps(config))
    write_safetensors(path / "model.safetensors", {**tensors, **more})
    return path, {name: m.value for name, m in made.items()}


def value(layer: Any) -> Any:
    """What a layer's weight stands for, x's columns in their own order."""
    got = matrix(layer.weight)
    if layer.order is not None:
        got = got[..., torch.argsort(layer.order)]
    return got


@pytest.mark.parametrize("form", CONFIGS)
def test_each_format_is_read_bit_for_bit(tmp_path: Path, form: str) -> None:
    names = ["a", "b.gate", "b.up", "e.0.w1", "e.0.w3", "e.1.w1", "e.1.w3"]
    ordered = "ordered" in form
    layers = {name: weight(128, 256, i) for i, name in enumerate(names)}
    bias = {"a.bias": torch.arange(128).half(), "norm.weight": torch.ones(4).half()}
    path, want = folder(tmp_path, form, layers, **bias)
    checkpoint = Checkpoint(path)
    got = checkpoint.layer("a")
    kind = Blockwise if form in ("fp8", "compressed_blocks") else FourBits
    assert isinstance(got.weight, kind) and got.why is None
    assert torch.equal(value(got), want["a"]) and torch.equal(got.bias, bias["a.bias"])
    assert (got.order is not None) == ordered
    assert checkpoint.quantized("a") and not checkpoint.quantized("norm")
    with pytest.raises(CheckpointError, match=r"norm: weight \(4,\) is no matrix") as caught:
        checkpoint.layer("norm")
    assert caught.value.fix == 'read it with tensor("norm.weight")'
    if ordered:
        with pytest.raises(CheckpointError, match="b.gate and b.up: layers .* differ in their g_"):
            checkpoint.layer("b.gate", "b.up")
        with pytest.raises(CheckpointError, match="an order of its own") as caught:
            checkpoint.experts([["e.0.w1"], ["e.1.w1"]])
        assert caught.value.fix == "quantize without act-order (desc_act)"
        return
    joined = torch.cat([want["b.gate"], want["b.up"]])
    assert torch.equal(value(checkpoint.layer("b.gate", "b.up")), joined)
    stack = checkpoint.experts([["e.0.w1", "e.0.w3"], ["e.1.w1", "e.1.w3"]])
    rows = [torch.cat([want[f"e.{e}.w1"], want[f"e.{e}.w3"]]) for e in (0, 1)]
    assert torch.equal(value(stack), torch.stack(rows))


@pytest.mark.parametrize(
    ("form", "n", "why"),
    [
        ("awq", 72, r"weights \(256, 72\), k is to be a multiple of 128 and n of 64"),
        ("gptq_v2_ordered", 72, r"weights \(256, 72\)"),
        ("fp8", 72, r"weights \(72, 256\) in e4m3, both are to be multiples of 16"),
    ],
)
def test_what_no_kernel_takes_becomes_dense(
    tmp_path: Path, form: str, n: int, why: str
) -> None:
    path, want = folder(tmp_path, form, {"a": weight(n, 256)})
    layer = Checkpoint(path).layer("a")
    assert isinstance(layer.weight, Dense) and layer.order is None
    assert torch.equal(layer.weight.w, want["a"].half())
    assert layer.why is not None and re.search(why, layer.why)


def changed(form: str, **entries: Any) -> dict[str, Any]:
    """A configuration with other entries, None: without; "a.b" is entry b of entry a."""
    made = json.loads(json.dumps(CONFIGS[form]))
    for name, entry in entries.items():
        *tables, last = name.split("__")
        at = made
        for table in tables:
            at = at[table]
        if entry is None:
            at.pop(last)
        else:
            at[last] = entry
    return made


INSIDE = "config_groups__group_0__"


@pytest.mark.parametrize(
    ("form", "entries", "told"),
    [
        ("awq", {"quant_method": "hqq"}, "quant_method is 'hqq', not one of awq, gptq, fp8"),
        ("awq", {"bits": 8}, "bits is to be 4, got 8"),
        ("awq", {"version": "gemv"}, "version is to be 'gemm', got 'gemv'"),
        ("awq", {"zero_point": False}, "zero_point is to be True, got False"),
        ("gptq", {"bits": 3}, "bits is to be 4, got 3"),
        ("gptq", {"checkpoint_format": "marlin"}, "checkpoint_format is 'marlin', not gptq or"),
        ("fp8", {"weight_block_size": [64, 128]}, r"weight_block_size is to be \[128, 128\]"),
        ("fp8", {"weight_block_size": None}, r"weight_block_size is to be .*, got None"),
        ("fp8", {"activation_scheme": "static"}, "activation_scheme is to be 'dynamic'"),
        ("fp8", {"scale_fmt": "ue8m0"}, "scale_fmt is to be 'float', got 'ue8m0'"),
        ("compressed", {"format": "marlin-24"}, "group_0 is in format 'marlin-24', not pack-"),
        ("compressed", {"config_groups": {}}, "config_groups names no group"),
        ("compressed", {f"{INSIDE}weights__num_bits": 8}, "weights.num_bits is to be 4, got 8"),
        ("compressed", {f"{INSIDE}input_activations": {"num_bits": 8}}, "activations are quant"),
        ("compressed", {"sparsity_config": {"format": "sparse-24"}}, "sparsity_config leaves"),
        ("compressed_blocks", {f"{INSIDE}weights__strategy": "channel"}, "strategy is to be 'blo"),
    ],
)
def test_configurations_that_are_not_known(form: str, entries: Any, told: str) -> None:
    with pytest.raises(CheckpointError, match=told):
        read_format({"quantization_config": changed(form, **entries)})


def test_versions_and_places_of_configurations() -> None:
    assert read_format({"quantization_config": CONFIGS["gptq_v2_ordered"]}) == Gptq(2)
    older = changed("gptq", checkpoint_format=None)
    assert read_format({"text_config": {"quantization_config": older}}) == Gptq(1)
    blocks = changed("compressed_blocks", **{f"{INSIDE}weights__block_structure": "128x128"})
    assert read_format({"quantization_config": blocks}) == read_format(
        {"quantization_config": CONFIGS["compressed"]}
    )


def test_files_that_cannot_be_right(tmp_path: Path) -> None:
    def told(words: str) -> Any:
        return pytest.raises(CheckpointError, match=words)

    with told("config.json: No such file"):
        Checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with told("config.json: is to be a table, got list"):
        Checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with told("config.json: no JSON: "):
        Checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"dtype": "half a byte"}')
    with told("there is no file of safetensors") as caught:
        Checkpoint(tmp_path)
    assert caught.value.fix is not None and "may run code" in caught.value.fix
    file = tmp_path / "model.safetensors"
    write_safetensors(file, {"a.weight": torch.ones(2, 2)})
    with told("dtype is 'half a byte', no type of torch's"):
        Checkpoint(tmp_path).layer("a")
    with told("there is no layer b"):
        Checkpoint(tmp_path).layer("b")
    with told("there is no tensor a.bias"):
        Checkpoint(tmp_path).tensor("a.bias")
    with told("a stack of no experts"):
        Checkpoint(tmp_path).experts([])
    file.write_bytes(file.read_bytes()[:-1])
    with told("model.safetensors: "):
        Checkpoint(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text("{}")
    with told("index.json: has no weight_map"):
        Checkpoint(tmp_path)
    index.write_text('{"weight_map": {"a.weight": "gone.safetensors"}}')
    with told("gone.safetensors: "):
        Checkpoint(tmp_path).tensor("a.weight")


def test_layers_that_cannot_be_right() -> None:
    def read(form: str, drop: str = "", **tensors: Any) -> Any:
        made = dict(stored(weight(128, 256), form).tensors)
        made.pop(drop, None)
        known = read_format({"quantization_config": CONFIGS[form]})
        return layer_of(known, {**made, **tensors}, "a", torch.float16)

    for form, words, given in (
        ("awq", "a: there is no scales beside qweight, qzeros", {"drop": "scales"}),
        ("awq", "a: no reader knows its tensor lora", {"lora": torch.ones(1)}),
        ("fp8", r"weight_scale_inv is to be \(1, 2\) beside", {"weight_scale_inv": torch.ones(1)}),
        ("fp8", "weight is to be a matrix of float8_e4m3fn", {"weight": torch.ones(128, 256)}),
    ):
        with pytest.raises(CheckpointError, match=words):
            read(form, **given)


def test_experts_are_alike(tmp_path: Path) -> None:
    layers = {"e.0": weight(128, 256), "e.1": weight(64, 256), "e.2": weight(72, 256)}
    checkpoint = Checkpoint(folder(tmp_path, "awq", layers)[0])
    with pytest.raises(CheckpointError, match="e.0: expert 1 has another shape than expert 0"):
        checkpoint.experts([["e.0"], ["e.1"]])
    with pytest.raises(CheckpointError, match="e.0: expert 1 is stored otherwise than expert 0"):
        checkpoint.experts([["e.0"], ["e.2"]])
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    path, _ = folder(narrow, "fp8", {"a": weight(64, 256), "b": weight(64, 256)}, **{
        "c.weight": torch.ones(64, 256),
    })  # fmt: skip
    with pytest.raises(CheckpointError, match="a and b: .* end within a block of 128"):
        Checkpoint(path).layer("a", "b")
    with pytest.raises(CheckpointError, match="a and c: .* stored in different formats"):
        Checkpoint(path).layer("a", "c")


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    mlp = "model.layers.0.mlp."
    layers = {f"{mlp}{name}": weight(256, 128) for name in ("gate_proj", "up_proj")}
    layers[f"{mlp}down_proj"] = weight(128, 256)
    layers |= {f"model.layers.1.mlp.experts.{e}.down_proj": weight(128, 256) for e in (0, 1)}
    names: dict[str, object] = {"path": folder(tmp_path, "awq", layers)[0]}
    blocks = FENCE.findall((DOCS / "checkpoints.md").read_text(encoding="utf-8"))
    assert [kind for kind, _ in blocks] == ["python", "text"] * 3
    for (_, source), (_, want) in zip(blocks[::2], blocks[1::2]):
        output = io.StringIO()
        with reference_gpu(), contextlib.redirect_stdout(output):
            exec(compile(source.replace('"cuda"', '"cpu"'), "checkpoints.md", "exec"), names)
        assert output.getvalue() == want
