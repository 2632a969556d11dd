"""Models written as their publishers store them, byte by byte: numpy quantizes, packs and writes
the files of safetensors, and nothing here is shared with what reads them."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

GROUP = 128
NAMES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.int32: "I32",
         torch.int64: "I64", torch.float8_e4m3fn: "F8_E4M3"}  # fmt: skip
AWQ_BITS = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm",
            "zero_point": True}  # fmt: skip
GPTQ_BITS = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": False}
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
       "weight_block_size": [128, 128]}  # fmt: skip


def compressed(form: str, weights: dict[str, Any], inputs: Any = None) -> dict[str, Any]:
    """A configuration of compressed-tensors for all linear layers."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
        "quantization_status": "compressed", "config_groups": {"group_0": group},
    }  # fmt: skip


def int4(symmetric: bool, **more: Any) -> dict[str, Any]:
    return {
        "num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP,
        "symmetric": symmetric, **more,
    }  # fmt: skip


CONFIGS: dict[str, dict[str, Any]] = {
    "awq": AWQ_BITS,
    "gptq": {**GPTQ_BITS, "desc_act": False, "checkpoint_format": "gptq"},
    "gptq_v2_ordered": {**GPTQ_BITS, "desc_act": True, "checkpoint_format": "gptq_v2"},
    "compressed": compressed("pack-quantized", int4(True)),
    "compressed_zero": compressed("pack-quantized", int4(False)),
    "compressed_blocks": compressed(
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128],
         "symmetric": True},
        {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "dynamic": True,
         "symmetric": True},
    ),
    "fp8": FP8,
}  # fmt: skip


@dataclass
class Stored:
    """What stands for a matrix [n, k]: its tensors by their suffixes, and its value in float32."""

    tensors: dict[str, Any]
    value: Any
    order: Any = field(default=None)


def words(q: np.ndarray, axis: int, order: tuple[int, ...] = tuple(range(8))) -> Any:
    """Words of eight neighbours along `axis`, of which nibble i holds number order[i]."""
    moved = np.moveaxis(q, axis, -1).astype(np.uint32)
    parts = moved.reshape(*moved.shape[:-1], -1, 8)[..., list(order)]
    packed = (parts << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(packed, -1, axis)).view(np.int32))


def four_bits(w: np.ndarray, form: str, seed: int) -> Stored:
    """A matrix [n, k] in four bits, groups along k."""
    n, k = w.shape
    g_idx = np.arange(k) // GROUP
    if form == "gptq_v2_ordered":
        g_idx = np.random.default_rng(seed).permutation(g_idx)
    groups = k // GROUP
    scale, zero = np.zeros((groups, n), np.float16), np.zeros((groups, n), np.int64)
    for g in range(groups):
        part = w[:, g_idx == g]
        if form == "compressed":
            scale[g] = (np.abs(part).max(1) / 7.5).astype(np.float16)
            zero[g] = 8
        else:
            low, high = part.min(1).clip(max=0), part.max(1).clip(min=0)
            scale[g] = ((high - low) / 15).astype(np.float16)
            zero[g] = np.rint(-low / scale[g].astype(np.float32)).clip(0, 15)
    wide = scale.astype(np.float32)[g_idx]
    q = (np.rint(w.T / wide) + zero[g_idx]).clip(0, 15).astype(np.int64)
    value = torch.from_numpy(np.ascontiguousarray(((q - zero[g_idx]) * wide).T)).float()
    scales = torch.from_numpy(scale)
    if form == "awq":
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        return Stored(
            {"qweight": words(q, 1, order), "qzeros": words(zero, 1, order), "scales": scales},
            value,
        )
    if form.startswith("gptq"):
        kept = zero if "v2" in form else zero - 1 & 15
        return Stored(
            {
                "qweight": words(q, 0), "qzeros": words(kept, 1), "scales": scales,
                "g_idx": torch.from_numpy(g_idx.astype(np.int32)),
            },
            value,
        )  # fmt: skip
    made = {
        "weight_packed": words(q.T, 1), "weight_scale": scales.T.contiguous(),
        "weight_shape": torch.tensor([n, k]),
    }  # fmt: skip
    if form == "compressed_zero":
        made["weight_zero_point"] = words(zero.T, 0)
    return Stored(made, value)


def eight_bits(w: np.ndarray, form: str) -> Stored:
    """A matrix [n, k] in e4m3, a scale for 128 x 128, the last blocks perhaps short."""
    n, k = w.shape
    scale = np.zeros((-(-n // 128), -(-k // 128)), np.float32)
    wide = np.zeros_like(w, np.float32)
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            at = slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128)
            scale[i, j] = np.abs(w[at]).max() / 448
            wide[at] = scale[i, j]
    numbers = torch.from_numpy(w / wide).to(torch.float8_e4m3fn)
    name = "weight_scale_inv" if form == "fp8" else "weight_scale"
    tensors = {"weight": numbers, name: torch.from_numpy(scale)}
    return Stored(tensors, numbers.float() * torch.from_numpy(wide))


def stored(w: Any, form: str, seed: int = 0) -> Stored:
    """A matrix [n, k] as a layer of this format."""
    numbers = w.float().numpy()
    if form in ("fp8", "compressed_blocks"):
        return eight_bits(numbers, form)
    return four_bits(numbers, form, seed)


def write_safetensors(path: Path, tensors: dict[str, Any]) -> None:
    """A file of safetensors: the length of a table, the table, the tensors' bytes."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, at = [], 0
    for name, tensor in tensors.items():
        data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        table[name] = {
            "dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
            "data_offsets": [at, at + len(data)],
        }  # fmt: skip
        parts.append(data)
        at += len(data)
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(parts))


def write_model(
    folder: Path, model: Any, form: str, expert: tuple[str, str, str], files: int = 1
) -> None:
    """`model`, of transformers, in a folder in this format; its weights become what is stored.

    The linear layers of its blocks are quantized, but for routers; `expert` are the names of an
    expert's layers. Of several files there is an index.
    """
    config = {**model.config.to_dict(), "architectures": [type(model).__name__]}
    config |= {"quantization_config": CONFIGS[form], "dtype": str(model.dtype)[6:]}
    (folder / "config.json").write_text(json.dumps(config, default=str))
    tensors: dict[str, Any] = {}
    state = model.state_dict()
    linears = {
        f"{name}.weight" for name, m in model.model.named_modules(prefix="model")
        if isinstance(m, torch.nn.Linear)
    }  # fmt: skip

    def put(name: str, weight: Any) -> None:
        made = stored(weight, form, len(tensors))
        weight.copy_(made.value)
        tensors.update({f"{name}.{suffix}": t for suffix, t in made.tensors.items()})

    for name, tensor in state.items():
        base, _, kind = name.rpartition(".")
        if name in linears:
            put(base, tensor)
        elif kind == "gate_up_proj":
            for e, w in enumerate(tensor):
                gate, up = w.chunk(2)
                put(f"{base}.{e}.{expert[0]}", gate)
                put(f"{base}.{e}.{expert[1]}", up)
        elif kind == "down_proj":
            for e, w in enumerate(tensor):
                put(f"{base}.{e}.{expert[2]}", w)
        else:
            tensors[name] = tensor
    if expert[0] == "w1":
        tensors = {n.replace(".mlp.", ".block_sparse_moe."): t for n, t in tensors.items()}
    names = list(tensors)
    places = {n: f"model-{1 + i % files:05}-of-{files:05}.safetensors" for i, n in enumerate(names)}
    if files == 1:
        places = dict.fromkeys(names, "model.safetensors")
    for file in set(places.values()):
        write_safetensors(folder / file, {n: tensors[n] for n in names if places[n] == file})
    if files > 1:
        index = {"metadata": {}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
