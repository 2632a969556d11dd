"""What a model's config.json says of its weights -> how the tensors of a layer are to be read.

    Plain        weight [n, k]
    Awq          qweight [k, n/8], qzeros [k/g, n/8], scales [k/g, n]
    Gptq         qweight [k/8, n], qzeros [k/g, n/8], scales [k/g, n], g_idx [k]
    Blocks       weight [n, k] in e4m3, weight_scale_inv [n/128, k/128]
    Compressed   weight_packed [n, k/8], weight_scale [n, k/g], weight_zero_point [n/8, k/g],
                 weight_g_idx [k]; or weight in e4m3 and weight_scale [n/128, k/128]

A layer without the tensors of its format is plain. Sources: the published configurations of such
models, and compressed-tensors' documentation of its formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from hexcute_core.errors import HexcuteError

BLOCK = [128, 128]
"""Rows and columns that share a scale in weights of eight bits."""


class CheckpointError(HexcuteError):
    """A model's files say something that no reader here knows, or lack what they are to hold."""


@dataclass(frozen=True)
class Plain:
    """Weights in floats of 16 or 32 bits."""


@dataclass(frozen=True)
class Awq:
    """Four bits, eight columns to a word, in the order of AWQ's "gemm" version."""


@dataclass(frozen=True)
class Gptq:
    """Four bits, eight rows to a word; `version` 1 stores zero points less one, 2 as they are."""

    version: int


@dataclass(frozen=True)
class Blocks:
    """e4m3 with a scale for each 128 x 128, activations quantized as they come."""


@dataclass(frozen=True)
class Compressed:
    """compressed-tensors: of each layer, by its tensors, four bits packed along k, or e4m3."""


Format = Union[Plain, Awq, Gptq, Blocks, Compressed]


def read_format(config: Mapping[str, Any]) -> Format:
    """The format that a config.json, as a dictionary, declares.

    Raises CheckpointError, which names the entry, where no reader here knows it.
    """
    said = config.get("quantization_config") or config.get("compression_config")
    if said is None and isinstance(config.get("text_config"), Mapping):
        said = config["text_config"].get("quantization_config")
    if said is None:
        return Plain()
    if not isinstance(said, Mapping):
        raise CheckpointError(f"quantization_config is to be a table, got {said!r}")
    method = said.get("quant_method")
    readers = {
        "awq": _awq, "gptq": _gptq, "fp8": _blocks, "compressed-tensors": _compressed,
    }  # fmt: skip
    if method not in readers:
        raise CheckpointError(
            f"quantization_config: quant_method is {method!r}, not one of {', '.join(readers)}"
        )
    return readers[method](said)


def _awq(said: Mapping[str, Any]) -> Format:
    _expect(said, "bits", 4, said.get("bits", said.get("w_bit")))
    _expect(said, "version", "gemm", str(said.get("version", "gemm")).lower())
    _expect(said, "zero_point", True, said.get("zero_point", True))
    return Awq()


def _gptq(said: Mapping[str, Any]) -> Format:
    _expect(said, "bits", 4)
    versions = {"gptq": 1, "gptq_v2": 2}
    name = said.get("checkpoint_format") or "gptq"
    if name not in versions:
        raise CheckpointError(
            f"quantization_config: checkpoint_format is {name!r}, not {' or '.join(versions)}"
        )
    return Gptq(versions[name])


def _blocks(said: Mapping[str, Any]) -> Format:
    _expect(said, "fmt", "e4m3", said.get("fmt") or "e4m3")
    _expect(said, "activation_scheme", "dynamic", said.get("activation_scheme", "dynamic"))
    _expect(said, "weight_block_size", BLOCK, _whole(said.get("weight_block_size")))
    _expect(said, "scale_fmt", "float", said.get("scale_fmt") or "float")
    return Blocks()


def _compressed(said: Mapping[str, Any]) -> Format:
    groups = said.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise CheckpointError("quantization_config: config_groups names no group of layers")
    if said.get("sparsity_config") and said["sparsity_config"].get("format") not in (None, "dense"):
        raise CheckpointError("quantization_config: sparsity_config leaves weights out")
    for name, group in groups.items():
        _check_group(f"config_groups.{name}", group, group.get("format") or said.get("format"))
    return Compressed()


def _check_group(name: str, group: Mapping[str, Any], form: Any) -> None:
    """That a group of layers is stored in one of two ways."""
    weights, inputs = group.get("weights") or {}, group.get("input_activations")
    if form == "pack-quantized":
        _expect(weights, f"{name}.weights.num_bits", 4)
        _expect(weights, f"{name}.weights.type", "int", weights.get("type", "int"))
        if inputs is not None:
            raise CheckpointError(
                f"quantization_config: {name}.input_activations are quantized beside weights of "
                "four bits"
            )
    elif form == "float-quantized":
        _expect(weights, f"{name}.weights.num_bits", 8)
        _expect(weights, f"{name}.weights.type", "float")
        _expect(weights, f"{name}.weights.strategy", "block")
        _expect(weights, f"{name}.weights.block_structure", BLOCK, _blocked(weights))
        if inputs is not None:
            _expect(inputs, f"{name}.input_activations.dynamic", True)
    else:
        raise CheckpointError(
            f"quantization_config: {name} is in format {form!r}, not pack-quantized or "
            "float-quantized"
        )


def _blocked(weights: Mapping[str, Any]) -> Any:
    """The extents of blocks, which older files write as "128x128"."""
    found = weights.get("block_structure")
    return [int(n) for n in found.split("x")] if isinstance(found, str) else _whole(found)


def _whole(found: Any) -> Any:
    return list(found) if isinstance(found, (list, tuple)) else found


_MISSING = object()


def _expect(said: Mapping[str, Any], name: str, want: Any, got: Any = _MISSING) -> None:
    """That an entry is what the kernels are for."""
    got = said.get(name.rpartition(".")[2]) if got is _MISSING else got
    if got != want:
        raise CheckpointError(f"quantization_config: {name} is to be {want!r}, got {got!r}")
