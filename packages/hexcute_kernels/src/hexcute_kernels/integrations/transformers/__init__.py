"""Models of transformers 5.x computed by our operators.

    from hexcute_kernels.integrations.transformers import load, use
    report = use(model)                 a model that is there
    model, report = load(path)          a quantized checkpoint, packed as it is read

from then on `model.generate` calls them. The `Report` says what was replaced, and why not the rest.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from transformers import PreTrainedModel

from hexcute_core.errors import LaunchError
from hexcute_kernels.integrations.transformers.attention import NAME, HandedBack, register
from hexcute_kernels.integrations.transformers.layers import holds, replacement
from hexcute_kernels.integrations.transformers.loading import loaded
from hexcute_kernels.integrations.transformers.report import Left, Replaced, Report

__all__ = ["HandedBack", "Left", "Replaced", "Report", "load", "use"]


def use(model: PreTrainedModel) -> Report:
    """Replaces in `model`, in place, what our operators compute: its attention, its RMS norms, its
    linear layers of FP8 blocks and of four bits, its experts, the convolutions and scans of its
    Mamba layers. Parameters keep their names and memory, but for those of four bits: these are
    packed anew, one layer after the other, each in place of the one before.

    To be called when the model has its type, on its GPU. A second call replaces what is new. Raises
    LaunchError for anything but a model of transformers.
    """
    if not isinstance(model, PreTrainedModel):
        raise LaunchError(
            f"use takes a model of transformers, got {type(model).__qualname__}",
            fix="pass what AutoModelForCausalLM.from_pretrained gives",
        )
    replaced, left = _attention(model)
    within: set[str] = set()
    # Names alone: a module that is held here would stay in memory beside what replaced it.
    for name in [name for name, module in model.named_modules() if name and holds(module)]:
        if name in within:
            continue
        module = model.get_submodule(name)
        kind, found = type(module).__name__, replacement(module)
        if isinstance(found, str):
            left.append(Left(name, kind, found))
            continue
        if found.module is not module:
            found.module.train(module.training)
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, found.module)
        within.update(f"{name}.{inner}" for inner in found.within)
        replaced.append(Replaced(name, kind, found.by))
    return Report(type(model).__name__, tuple(replaced), tuple(left))


def load(
    path: str | Path, device: str | torch.device = "cuda"
) -> tuple[PreTrainedModel, Report]:
    """The causal language model in the folder `path`, of safetensors, on `device` in its own type,
    its quantized layers packed for our operators as they are read, and what `use` did to the rest.

    Weights in AWQ, GPTQ, FP8 blocks or compressed-tensors; no package of theirs is needed. Layers
    that no kernel takes as they are stored become dense, and the report says which. Raises
    CheckpointError for what is missing or in no format known.
    """
    model, dense = loaded(path, device)
    report = use(model)
    names = {kept.name for kept in dense}
    rest = [kept for kept in report.left if kept.name not in names]
    return model, replace(report, left=(*rest, *dense))


def _attention(model: PreTrainedModel) -> tuple[list[Replaced], list[Left]]:
    """Names our attention in the model's configuration, and says where it stayed unnamed."""
    replaced: list[Replaced] = []
    left: list[Left] = []
    before = model.config._attn_implementation
    sinks = [name for name, _ in model.named_parameters() if name.endswith("sinks")]
    if sinks:
        left.append(Left("attention", str(before), f"{sinks[0]} takes part in its softmax"))
        return replaced, left
    register()
    model.set_attn_implementation(NAME)
    if model.config._attn_implementation == NAME:
        replaced.append(Replaced("attention", str(before), "attention and decode_attention"))
    else:
        left.append(Left("attention", str(before), "the model does not choose it by name"))
    return replaced, left
