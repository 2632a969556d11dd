"""The tensors of a layer, by their names in a checkpoint -> the layer as the operators take it.

    y = x w^T + bias, x's columns in `order`

Layers that lie one behind the other along n, as gate and up do, are joined before they are packed:
that joins words and scales, and changes none. What no kernel takes as it is stored becomes a dense
weight, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hexcute_core.unions import assert_never
from hexcute_kernels.checkpoints.formats import (
    BLOCK,
    Awq,
    Blocks,
    CheckpointError,
    Compressed,
    Format,
    Gptq,
    Plain,
)
from hexcute_kernels.moe.checkpoints import (
    Numbers,
    awq_numbers,
    compressed_numbers,
    gptq_numbers,
)
from hexcute_kernels.parallel.weights import Blockwise, Dense, FourBits, Weight

if TYPE_CHECKING:
    import torch

ALONG_N = {
    "qweight": -1, "qzeros": -1, "scales": -1, "bias": -1, "weight": -2, "weight_scale_inv": -2,
    "weight_packed": -2, "weight_scale": -2, "weight_zero_point": -2,
}  # fmt: skip
"""Where n is among the dimensions of a layer's tensors, by their names."""
ALONG_K = ("g_idx", "weight_g_idx")
"""Tensors that layers side by side along n have in common."""
BESIDE = ("weight_shape", "input_scale")
"""What a checkpoint holds besides, and the operators need not."""
MULTIPLE = 16
"""What the extents of weights of eight bits are multiples of."""


@dataclass(frozen=True)
class Layer:
    """A layer, or a stack of experts with one more dimension in front of its tensors.

    order: int64 [k], or None; x[..., order] is what the weight is multiplied by. bias [n]. why: of
    a dense weight that is stored otherwise, why no kernel takes it as it is stored.
    """

    weight: Weight
    order: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    why: str | None = None


def is_quantized(form: Format, suffixes: Sequence[str]) -> bool:
    """Whether the tensors of a layer are those of the format, and no plain weight."""
    return not isinstance(form, Plain) and any(
        name in ALONG_N and name not in ("weight", "bias") for name in suffixes
    )


def layer_of(
    form: Format, tensors: Mapping[str, torch.Tensor], name: str, dtype: torch.dtype
) -> Layer:
    """The layer `name` of these tensors, called as in a checkpoint of format `form`; dense weights
    and biases are of type `dtype`. Raises CheckpointError, and LaunchError for shapes that do not
    belong together."""
    unknown = [t for t in tensors if t not in ALONG_N and t not in ALONG_K and t not in BESIDE]
    if unknown:
        raise CheckpointError(f"{name}: no reader knows its tensor {unknown[0]}")
    bias = tensors.get("bias")
    made = _weight(form, tensors, name, dtype)
    return made if bias is None else replace(made, bias=bias.to(dtype))


def _weight(
    form: Format, tensors: Mapping[str, torch.Tensor], name: str, dtype: torch.dtype
) -> Layer:
    if not is_quantized(form, tuple(tensors)):
        plain = _given(tensors, name, "weight")
        if plain.dim() != 2:
            raise CheckpointError(
                f"{name}: weight {tuple(plain.shape)} is no matrix: no linear layer",
                fix=f'read it with tensor("{name}.weight")',
            )
        return Layer(Dense(plain.to(dtype)))
    match form:
        case Awq():
            return _four_bits(awq_numbers(*_words(tensors, name)), dtype)
        case Gptq(version):
            g_idx = tensors.get("g_idx")
            numbers = gptq_numbers(*_words(tensors, name), g_idx=g_idx, version=version)
            return _four_bits(numbers, dtype)
        case Blocks():
            return _eight_bits(tensors, name, "weight_scale_inv", dtype)
        case Compressed() if "weight_packed" in tensors:
            packed, scale = (_given(tensors, name, t) for t in ("weight_packed", "weight_scale"))
            zero, g_idx = tensors.get("weight_zero_point"), tensors.get("weight_g_idx")
            return _four_bits(compressed_numbers(packed, scale, zero, g_idx), dtype)
        case Compressed():
            return _eight_bits(tensors, name, "weight_scale", dtype)
        case Plain():
            raise CheckpointError(f"{name}: its tensors are {', '.join(tensors)}, in no format")
        case _:
            assert_never(form)


def joined(parts: Sequence[Mapping[str, torch.Tensor]], name: str) -> dict[str, torch.Tensor]:
    """The tensors of layers one behind the other along n. Raises CheckpointError where they are
    not alike, or blocks of one would reach into the next."""
    import torch as torch_module

    if len(parts) == 1:
        return dict(parts[0])
    if any(part.keys() != parts[0].keys() for part in parts):
        raise CheckpointError(f"{name}: layers that are joined are stored in different formats")
    scaled = [t for t in ("weight_scale_inv", "weight_scale") if t in parts[0]]
    if scaled and "weight" in parts[0] and any(p["weight"].shape[-2] % BLOCK[0] for p in parts):
        raise CheckpointError(f"{name}: layers that are joined end within a block of {BLOCK[0]}")
    made: dict[str, Any] = {}
    for kind in parts[0]:
        tensors = [part[kind] for part in parts]
        if kind in ALONG_N:
            made[kind] = _cat(tensors, ALONG_N[kind])
        elif kind in ALONG_K and not all(torch_module.equal(tensors[0], t) for t in tensors):
            raise CheckpointError(f"{name}: layers that are joined differ in their {kind}")
        else:
            made[kind] = tensors[0]
    return made


def stack(layers: Iterator[Layer], count: int, name: str) -> Layer:
    """`count` layers of one shape as a stack, filled one by one, so that no more than one of them
    is there twice; errors call it `name`. Raises CheckpointError where they differ, and where x's
    columns would have to be in another order for each."""
    first = next(layers)
    if first.order is not None:
        raise CheckpointError(
            f"{name}: each expert meets x's columns in an order of its own",
            fix="quantize without act-order (desc_act)",
        )
    if first.bias is not None:
        raise CheckpointError(f"{name}: experts with a bias are not computed")
    whole = {
        field: None if t is None else t.new_empty((count, *t.shape))
        for field, t in vars(first.weight).items()
    }
    layer: Layer | None = first
    for at in range(count):
        if layer is None or type(layer.weight) is not type(first.weight):
            raise CheckpointError(f"{name}: expert {at} is stored otherwise than expert 0")
        for field, tensor in vars(layer.weight).items():
            into = whole[field]
            if into is not None and tensor.shape != into.shape[1:]:
                raise CheckpointError(f"{name}: expert {at} has another shape than expert 0")
            if into is not None:
                into[at].copy_(tensor)
        layer = next(layers, None)
    return Layer(type(first.weight)(**whole), why=first.why)


def _four_bits(numbers: Numbers, dtype: torch.dtype) -> Layer:
    found = numbers.obstacle()
    if found is not None:
        return Layer(Dense(numbers.dense(dtype)), why=found[0])
    return Layer(FourBits(numbers.packed("layer_of")), numbers.order)


def _eight_bits(
    tensors: Mapping[str, torch.Tensor], name: str, scales: str, dtype: torch.dtype
) -> Layer:
    import torch as torch_module

    w, scale = _given(tensors, name, "weight"), _given(tensors, name, scales)
    if w.dtype != torch_module.float8_e4m3fn or not scale.is_floating_point() or w.dim() != 2:
        raise CheckpointError(
            f"{name}: weight is to be a matrix of float8_e4m3fn beside floats as scales, got "
            f"{w.dtype} of {tuple(w.shape)} and {scale.dtype}"
        )
    n, k = w.shape
    wanted = (-(-n // BLOCK[0]), -(-k // BLOCK[1]))
    if tuple(scale.shape) != wanted:
        raise CheckpointError(
            f"{name}: {scales} is to be {wanted} beside a weight {(n, k)}, got "
            f"{tuple(scale.shape)}"
        )
    whole = Blockwise(w.contiguous(), scale.float().contiguous())
    if n % MULTIPLE or k % MULTIPLE:
        why = f"weights {(n, k)} in e4m3, both are to be multiples of {MULTIPLE}"
        return Layer(Dense(dense(whole, dtype)), why=why)
    return Layer(whole)


def dense(weight: Blockwise, dtype: torch.dtype) -> torch.Tensor:
    """The weights themselves, [..., n, k]: each number times its block's scale, rounded once."""
    (n, k), scale = weight.w.shape[-2:], weight.scale
    wide = scale.repeat_interleave(BLOCK[0], -2).repeat_interleave(BLOCK[1], -1)[..., :n, :k]
    return (weight.w.float() * wide).to(dtype)


def _words(
    tensors: Mapping[str, torch.Tensor], name: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What AWQ and GPTQ call alike."""
    return (
        _given(tensors, name, "qweight"),
        _given(tensors, name, "qzeros"),
        _given(tensors, name, "scales"),
    )


def _given(tensors: Mapping[str, torch.Tensor], name: str, kind: str) -> torch.Tensor:
    if kind not in tensors:
        raise CheckpointError(f"{name}: there is no {kind} beside {', '.join(tensors) or 'it'}")
    return tensors[kind]


def _cat(tensors: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
    """One behind the other; numbers of eight bits as bytes, since not every torch joins them."""
    import torch as torch_module

    if tensors[0].dtype == torch_module.float8_e4m3fn:
        return torch_module.cat([t.view(torch_module.uint8) for t in tensors], dim).view(
            torch_module.float8_e4m3fn
        )
    return torch_module.cat(list(tensors), dim)
