"""What the attention operators say of a call, on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import attention, attention_with_lse

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402


def tensors(sq: int = 64, sk: int = 64, h: int = 4, hk: int = 2, d: int = 64, dv: int = 64) -> Any:
    shapes = ((1, sq, h, d), (1, sk, hk, d), (1, sk, hk, dv))
    return tuple(on_gpu(torch.zeros(shape, dtype=torch.float16)) for shape in shapes)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for operator in (attention, attention_with_lse):
        monkeypatch.setattr(operator, "_ready", {})


def test_gpu_and_tensors_choose_variant_and_configuration() -> None:
    with gpu("h200", "sm_90"):
        assert attention.plan((*tensors(), False, None, None, None, 0.0)).variant == "wgmma"
        odd = (*tensors(d=36), False, None, None, None, 0.0)
        assert attention.plan(odd).variant == "mma"
        long = (*tensors(sq=16384, h=16), False, None, None, None, 0.0)
        assert attention.plan(long).config.GROUPS == 3
        causal = (*tensors(sq=16384, h=16), True, None, None, None, 0.0)
        assert attention.plan(causal).config.ORDER == "heads"
    with gpu("a100", "sm_80"):
        assert attention.plan((*tensors(), False, None, None, None, 0.0)).variant == "mma"


def test_bounds_and_scale_reach_the_kernel() -> None:
    with gpu("h200", "sm_90") as launches:
        o = attention(*tensors(), causal=True)
        attention(*tensors(), left=7, scale=0.5, softcap=3.0)
        o2, lse = attention_with_lse(*tensors(sq=8))
    numbers = [noted.prepared[5:] for noted in launches]
    assert numbers == [(0.125, 0, 0, 0.0), (0.5, 0, 7, 3.0), (0.125, 0, 0, 0.0)]
    assert o.shape == (1, 64, 4, 64) and o2.shape == (1, 8, 4, 64) and lse.shape == (1, 4, 8)
    assert launches[2].prepared[4].shape == lse.shape
    assert launches[0].prepared[4].numel() == 0


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        ({"h": 3}, {}, "3 heads of queries do not share 2 of keys evenly"),
        ({"d": 264}, {}, "heads of width 1 to 256, got 264 and 64"),
        ({}, {"left": -1}, "left is a number of keys from 0 on, got -1"),
        ({}, {"softcap": -1.0}, "softcap is positive"),
        ({}, {"scale": -0.5}, "scale is a positive number, got -0.5"),
        ({}, {"scale": 0.0}, "scale is a positive number, got 0.0"),
        ({}, {"scale": float("nan")}, "scale is a positive number, got nan"),
        ({}, {"causal": 1}, "causal is to be bool, got 1"),
    ],
)
def test_what_cannot_be_is_told(changed: Any, options: Any, words: str) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        attention(*tensors(**changed), **options)


def test_shapes_that_do_not_meet_are_told() -> None:
    q, k, v = tensors()
    with gpu("h200", "sm_90"):
        for wrong in ((q, k, v[:, :3]), (q, k[0], v), (q, k.expand(2, -1, -1, -1), v)):
            with pytest.raises(LaunchError, match="attention"):
                attention(*wrong)
