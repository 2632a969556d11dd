"""Models of transformers 5.x computed by our operators.

    from hexcute_kernels.integrations.transformers import use
    report = use(model)

from then on `model.generate` calls them. The `Report` says what was replaced, and why not the rest.
"""

from __future__ import annotations

from transformers import PreTrainedModel

from hexcute_core.errors import LaunchError
from hexcute_kernels.integrations.transformers.attention import NAME, HandedBack, register
from hexcute_kernels.integrations.transformers.layers import replacement
from hexcute_kernels.integrations.transformers.report import Left, Replaced, Report

__all__ = ["HandedBack", "Left", "Replaced", "Report", "use"]


def use(model: PreTrainedModel) -> Report:
    """Replaces in `model`, in place, what our operators compute: its attention, its RMS norms, its
    linear layers of FP8 blocks, the convolutions and scans of its Mamba layers. Parameters keep
    their names and memory.

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
    for name, module in list(model.named_modules()):
        if not name or name in within or next(module.parameters(recurse=False), None) is None:
            continue
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
