"""load(path): a model of transformers whose quantized layers go from the files to our operators.

    config.json -> the model's skeleton, without memory
    plain tensors -> transformers' own loader
    each quantized layer or stack of experts -> read, packed on the device, put in its place

transformers' own loaders of such checkpoints want packages that we do not, and memory for a form
that would be thrown away. Its hook for quantizers leaves the quantized layers to us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, GenerationConfig, PreTrainedModel
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING, register_quantizer
from transformers.quantizers.auto import register_quantization_config as register_config
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from hexcute_core.unions import assert_never
from hexcute_kernels.checkpoints import Checkpoint, CheckpointError, Layer
from hexcute_kernels.checkpoints.layers import dense
from hexcute_kernels.integrations.transformers.experts import NAMES, Experts, is_experts, unlike
from hexcute_kernels.integrations.transformers.linears import BlockwiseLinear, FourBitLinear
from hexcute_kernels.integrations.transformers.report import Left
from hexcute_kernels.moe import unpack
from hexcute_kernels.moe.checkpoints import Numbers
from hexcute_kernels.parallel.weights import Blockwise, Dense, FourBits, Weight, extents

METHOD = "hexcute"
PLACES = ((".mlp.", ".block_sparse_moe."),)
"""Parts of names in models, and what some checkpoints have in their stead."""
EXPERTS = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
"""What the layers of an expert are called in checkpoints."""


@dataclass
class _Config(QuantizationConfigMixin):  # type: ignore[misc]
    """What tells transformers that quantized layers are ours to load."""

    quant_method: str = METHOD
    path: str = ""


class Awaited(torch.nn.Module):  # type: ignore[misc]
    """The place of a quantized module: `original` is what a plain one would be, without memory,
    `name` what its layers are called in the checkpoint."""

    def __init__(self, original: torch.nn.Module, name: str) -> None:
        super().__init__()
        # Hidden from the model's parameters, which transformers is to load.
        self.original, self.name = (original,), name


class _Quantizer(HfQuantizer):  # type: ignore[misc]
    """Takes quantized modules out of transformers' hands."""

    requires_calibration = True

    def _process_model_before_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        checkpoint = Checkpoint(self.quantization_config.path)
        for name in [name for name, _ in model.named_modules()]:
            module = _found(model, name)
            stored = None if module is None else _stored(checkpoint, name, module)
            if stored is not None:
                _put(model, name, Awaited(module, stored))
        self.shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        return model

    def is_serializable(self, *args: Any, **kwargs: Any) -> bool:
        """No: packed weights are of one machine."""
        return False

    @property
    def is_trainable(self) -> bool:
        """No."""
        return False


def loaded(path: str | Path, device: str | torch.device) -> tuple[Any, list[Left]]:
    """The model at `path`, a folder, with its quantized layers in place, and those of them that no
    kernel takes, which are dense now. Raises CheckpointError."""
    checkpoint = Checkpoint(path)
    if METHOD not in AUTO_QUANTIZER_MAPPING:
        register_quantizer(METHOD)(_Quantizer)
        register_config(METHOD)(_Config)
    config = AutoConfig.from_pretrained(path)
    config.quantization_config = {"quant_method": METHOD, "path": str(path)}
    model, info = _class(checkpoint).from_pretrained(
        None, config=config, state_dict=_plain(checkpoint, device), dtype=checkpoint.dtype,
        ignore_mismatched_sizes=True, output_loading_info=True,
    )  # fmt: skip
    _check(checkpoint, model, info)
    model.hf_quantizer.remove_quantization_config(model)
    model = model.to(device).eval()
    if (Path(path) / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(path)
    left: list[Left] = []
    for name in [name for name, module in model.named_modules() if isinstance(module, Awaited)]:
        awaited = model.get_submodule(name)
        module, why = _made(checkpoint, awaited, device)
        _put(model, name, module.eval())
        if why is not None:
            left.append(Left(name, type(awaited.original[0]).__name__, why))
    return model, left


def _check(checkpoint: Checkpoint, model: Any, info: Mapping[str, Any]) -> None:
    """That each plain parameter was loaded: transformers makes up what is missing, and with a
    quantizer some versions take shapes as they come."""
    shapes = model.hf_quantizer.shapes
    found = {name: tuple(p.shape) for name, p in model.named_parameters()}
    found |= {name: tuple(got) for name, got, _ in info["mismatched_keys"]}
    for name, wanted in shapes.items():
        if name in info["missing_keys"]:
            raise CheckpointError(f"{checkpoint.path}: there is no {name}")
        if found[name] != wanted:
            raise CheckpointError(
                f"{checkpoint.path}: {name} is {found[name]}, the model's is {wanted}"
            )


def _class(checkpoint: Checkpoint) -> type[PreTrainedModel]:
    """The class of the model, by the name that its config.json gives."""
    names = checkpoint.config.get("architectures") or [None]
    found = getattr(transformers, str(names[0]), None)
    if not isinstance(found, type) or not issubclass(found, PreTrainedModel):
        raise CheckpointError(f"{checkpoint.path}: architectures is {names}, no model we know")
    return found


def _plain(checkpoint: Checkpoint, device: str | torch.device) -> dict[str, torch.Tensor]:
    """All tensors of layers that are not quantized, by their names."""
    return {
        name: checkpoint.tensor(name, device)
        for name in checkpoint.names
        if not checkpoint.quantized(name.rpartition(".")[0])
    }


def _stored(checkpoint: Checkpoint, name: str, module: torch.nn.Module) -> str | None:
    """What a module's quantized layers are called in the checkpoint, None where it has none."""
    for other in [name, *(name.replace(*place) for place in PLACES)]:
        if isinstance(module, torch.nn.Linear) and checkpoint.quantized(other):
            return other
        if is_experts(module) and any(
            checkpoint.quantized(f"{other}.0.{names[0]}") for names in EXPERTS
        ):
            return other
    return None


def _made(
    checkpoint: Checkpoint, awaited: Awaited, device: str | torch.device
) -> tuple[torch.nn.Module, str | None]:
    """The module for an awaited one, and why it is dense where it is."""
    (original,), name = awaited.original, awaited.name
    if isinstance(original, torch.nn.Linear):
        layer = checkpoint.layer(name, device=device)
        _fits(name, layer, original.weight, original.bias)
        return _linear(layer), layer.why
    count = original.gate_up_proj.shape[0]
    gate, up, down = next(
        names for names in EXPERTS if checkpoint.quantized(f"{name}.0.{names[0]}")
    )
    if checkpoint.has(f"{name}.{count}.{gate}") or not checkpoint.has(f"{name}.{count - 1}.{gate}"):
        raise CheckpointError(f"{name}: the model has {count} experts, the checkpoint others")
    first = [(f"{name}.{e}.{gate}", f"{name}.{e}.{up}") for e in range(count)]
    second = [(f"{name}.{e}.{down}",) for e in range(count)]
    gate_up, last = (checkpoint.experts(names, device=device) for names in (first, second))
    _fits(f"{name}.0.{gate} and {up}", gate_up, original.gate_up_proj, None)
    _fits(f"{name}.0.{down}", last, original.down_proj, None)
    return _experts(original, gate_up, last)


def _fits(name: str, layer: Layer, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """That a layer has the extents of the model's own, and a bias where that has one."""
    (n, k), wanted = extents(layer.weight), tuple(weight.shape[-2:])
    if (n, k) != wanted:
        raise CheckpointError(f"{name}: its weight is {(n, k)}, the model's is {wanted}")
    if (bias is None) != (layer.bias is None):
        told = "a bias, the model's has none" if bias is None else "no bias, the model's has one"
        raise CheckpointError(f"{name}: has {told}")


def _linear(layer: Layer) -> torch.nn.Module:
    bias = None if layer.bias is None else torch.nn.Parameter(layer.bias, requires_grad=False)
    match layer.weight:
        case FourBits():
            return FourBitLinear(layer)
        case Blockwise(w, scale):
            numbers, scales = (torch.nn.Parameter(t, requires_grad=False) for t in (w, scale))
            return BlockwiseLinear(numbers, scales, bias)
        case Dense(w):
            made = torch.nn.Linear(*w.shape[::-1], bias=bias is not None, device="meta")
            made.weight, made.bias = torch.nn.Parameter(w, requires_grad=False), bias
            return made
        case _:
            assert_never(layer.weight)


def _experts(
    original: torch.nn.Module, first: Layer, second: Layer
) -> tuple[torch.nn.Module, str | None]:
    """Experts of these stacks, or the model's own with dense weights."""
    why = first.why or second.why or unlike(original)
    if why is None and type(first.weight) is type(second.weight):
        return Experts(first.weight, second.weight), None
    for name, layer in zip(NAMES, (first, second)):
        w = _dense(layer.weight, original.get_parameter(name).dtype)
        setattr(original, name, torch.nn.Parameter(w, requires_grad=False))
    return original, why or "gate and up are stored in another way than down"


def _dense(weight: Weight, dtype: torch.dtype) -> torch.Tensor:
    """The weights themselves, [..., n, k]."""
    match weight:
        case Dense(w):
            return w
        case Blockwise():
            return dense(weight, dtype)
        case FourBits(w):
            return Numbers(*unpack(w)).dense(dtype)
        case _:
            assert_never(weight)


def _found(model: torch.nn.Module, name: str) -> torch.nn.Module | None:
    """The module of this name; None within one that was replaced, and for the model."""
    try:
        return model.get_submodule(name) if name else None
    except AttributeError:
        return None


def _put(model: torch.nn.Module, name: str, module: torch.nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, module)
