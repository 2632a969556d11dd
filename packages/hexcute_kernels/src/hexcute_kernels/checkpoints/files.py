"""A model's folder: config.json, and tensors by name in files of safetensors.

One layer is read at a time, from files that are mapped into memory, and is packed where it is to
stay: a model is never in memory twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexcute_kernels.checkpoints.formats import CheckpointError, read_format
from hexcute_kernels.checkpoints.layers import Layer, is_quantized, joined, layer_of, stack

if TYPE_CHECKING:
    import torch

CONFIG, INDEX = "config.json", "model.safetensors.index.json"


class Checkpoint:
    """A model as it is stored in the folder `path`.

    `config` is its config.json, `format` what that says of weights, `dtype` the type of tensors
    that are not quantized. Raises CheckpointError where files are missing or unreadable, and for a
    format that no reader knows.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self._json(CONFIG)
        self.format = read_format(self.config)
        self._open: dict[str, Any] = {}
        self._file = self._files()
        self._suffixes: dict[str, list[str]] = {}
        for name in self._file:
            layer, _, suffix = name.rpartition(".")
            self._suffixes.setdefault(layer, []).append(suffix)

    @property
    def names(self) -> tuple[str, ...]:
        """All tensors' names."""
        return tuple(self._file)

    @property
    def dtype(self) -> torch.dtype:
        """The type that config.json names for the model, else bfloat16."""
        import torch as torch_module

        name = self.config.get("dtype") or self.config.get("torch_dtype") or "bfloat16"
        found = getattr(torch_module, str(name).removeprefix("torch."), None)
        if not isinstance(found, torch_module.dtype):
            raise CheckpointError(f"{self.path / CONFIG}: dtype is {name!r}, no type of torch's")
        return found

    def has(self, layer: str) -> bool:
        """Whether there are tensors of a layer of this name."""
        return layer in self._suffixes

    def quantized(self, layer: str) -> bool:
        """Whether a layer of this name is stored in the model's format, and is not plain."""
        return is_quantized(self.format, self._suffixes.get(layer, ()))

    def tensor(self, name: str, device: str | torch.device = "cpu") -> torch.Tensor:
        """The tensor of this name, on `device`. Raises CheckpointError."""
        if name not in self._file:
            raise CheckpointError(f"{self.path}: there is no tensor {name}")
        return self._handle(self._file[name]).get_tensor(name).to(device)

    def layer(
        self,
        *names: str,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
    ) -> Layer:
        """The layer of this name, packed on `device`; of several names, these layers one behind the
        other along n. What is not quantized is of type `dtype`, None: the model's. Raises
        CheckpointError."""
        parts = [self._tensors(name, device) for name in names]
        name = " and ".join(names)
        return layer_of(self.format, joined(parts, name), name, dtype or self.dtype)

    def experts(
        self,
        names: Sequence[Sequence[str]],
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
    ) -> Layer:
        """A stack of experts on `device`: for each the names of layers that lie one behind the
        other along n, dense ones of type `dtype`, the model's where not given. Raises
        CheckpointError."""

        def each() -> Iterator[Layer]:
            for layers in names:
                yield self.layer(*layers, device=device, dtype=dtype)

        if not names:
            raise CheckpointError(f"{self.path}: a stack of no experts")
        return stack(each(), len(names), " and ".join(names[0]))

    def _tensors(self, layer: str, device: str | torch.device) -> dict[str, torch.Tensor]:
        if layer not in self._suffixes:
            raise CheckpointError(f"{self.path}: there is no layer {layer}")
        return {s: self.tensor(f"{layer}.{s}", device) for s in self._suffixes[layer]}

    def _json(self, name: str) -> dict[str, Any]:
        file = self.path / name
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise CheckpointError(f"{file}: {error.strerror or error}") from error
        except ValueError as error:
            raise CheckpointError(f"{file}: no JSON: {error}") from error
        if not isinstance(found, dict):
            raise CheckpointError(f"{file}: is to be a table, got {type(found).__name__}")
        return found

    def _files(self) -> dict[str, str]:
        """The file of each tensor."""
        if (self.path / INDEX).is_file():
            found = self._json(INDEX).get("weight_map")
            if not isinstance(found, dict):
                raise CheckpointError(f"{self.path / INDEX}: has no weight_map")
            return found
        files = sorted(file.name for file in self.path.glob("*.safetensors"))
        if not files:
            raise CheckpointError(
                f"{self.path}: there is no file of safetensors",
                fix="convert the model: other files may run code when they are read",
            )
        return {name: file for file in files for name in list(self._handle(file).keys())}

    def _handle(self, file: str) -> Any:
        from safetensors import SafetensorError, safe_open

        if file not in self._open:
            try:
                self._open[file] = safe_open(self.path / file, framework="pt")
            except (OSError, SafetensorError) as error:
                raise CheckpointError(f"{self.path / file}: {error}") from error
        return self._open[file]
