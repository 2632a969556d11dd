"""What a layer may launch while it serves is known, and compiled, before it does."""

from __future__ import annotations

import random
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("torch")
from hexcute_kernels.gpus import Gpu
from hexcute_kernels.integrations import vllm as plugin
from hexcute_kernels.integrations.vllm import ahead

H200 = Gpu("h200", "sm_90")
LAYERS: dict[str, dict[str, Any]] = {
    "w4a16_matmul": {"n": 512, "k": 1024},
    "fp8_blockwise_matmul": {"n": 512, "k": 1024},
    "quantize_blockwise": {"k": 1024},
    "fp8_grouped_matmul": {"n": 512, "k": 1024, "experts": 8},
    "moe": {"hidden": 1024, "width": 256, "experts": 8, "top_k": 2},
}


@pytest.mark.parametrize("operator", LAYERS)
def test_no_number_of_rows_has_a_kernel_of_its_own(operator: str) -> None:
    sizes, most = LAYERS[operator], 320
    with patch.object(ahead, "EACH", 192):
        known = ahead.classes(operator, sizes, most, H200)
    compiled = {k for m in known for k in ahead.kernels(operator, {**sizes, "m": m}, H200)}
    assert known and len(known) < 64
    for rows in random.Random(0).sample(range(1, most + 1), 60):
        assert compiled.issuperset(ahead.kernels(operator, {**sizes, "m": rows}, H200))


def test_what_is_found_is_compiled_once() -> None:
    compiled: list[Any] = []
    with (
        patch.object(ahead, "warm_up", compiled.append),
        patch.object(ahead, "gpu_here", lambda: H200),
    ):
        ahead.compile_ahead.cache_clear()
        many = ahead.ahead("w4a16_matmul", 64, n=128, k=256)
        assert ahead.ahead("w4a16_matmul", 64, n=128, k=256) == many
    ahead.compile_ahead.cache_clear()
    (calls,) = compiled
    assert len(calls["w4a16_matmul"]) == many >= 3
    assert "k=256,n=128,m=1" in calls["w4a16_matmul"]


def test_where_vllm_is_not_or_has_no_place_nothing_is_said() -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    with patch.object(plugin, "import_module", missing):
        assert plugin.register() == ()


def test_the_entry_point_is_the_function() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    group = text.partition('[project.entry-points."vllm.general_plugins"]\n')[2]
    found = re.match(r'(\w+) = "([\w.:]+)"\n', group)
    assert found is not None
    assert EntryPoint(*found.groups(), "vllm.general_plugins").load() is plugin.register
