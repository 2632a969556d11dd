"""What adapters share: modules that may be absent, names of configurations."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from hexcute_bench.errors import PeerAbsent


def module(name: str, fix: str = "") -> Any:
    """An optional module, or `PeerAbsent` with the reason."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        hint = f"; {fix}" if fix else ""
        raise PeerAbsent(f"{name} cannot be imported ({error}){hint}") from error


def config_name(config: Any) -> str:
    """A short name of a configuration: its fields as `BM=128 BN=64`."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        fields: Mapping[str, Any] = {
            field.name: getattr(config, field.name) for field in dataclasses.fields(config)
        }
    elif isinstance(config, Mapping):
        fields = config
    else:
        return str(config)
    return " ".join(f"{name}={value}" for name, value in fields.items())
