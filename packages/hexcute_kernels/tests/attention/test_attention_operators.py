"""What the attention operators say of a call, on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import attention, attention_with_lse

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402

ANY = (None, None, None, 0.0, None, None)
"""No scale, no bounds, no cap, and no sequences."""


def tensors(sq: int = 64, sk: int = 64, h: int = 4, hk: int = 2, d: int = 64, dv: int = 64) -> Any:
    shapes = ((1, sq, h, d), (1, sk, hk, d), (1, sk, hk, dv))
    return tuple(on_gpu(torch.zeros(shape, dtype=torch.float16)) for shape in shapes)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for operator in (attention, attention_with_lse):
        monkeypatch.setattr(operator, "_ready", {})


def test_gpu_and_tensors_choose_variant_and_configuration() -> None:
    with gpu("h200", "sm_90"):
        assert attention.plan((*tensors(), False, *ANY)).variant == "wgmma"
        odd = (*tensors(d=36), False, *ANY)
        assert attention.plan(odd).variant == "mma"
        long = (*tensors(sq=16384, h=16), False, *ANY)
        assert attention.plan(long).config.GROUPS == 4
        causal = (*tensors(sq=16384, h=16), True, *ANY)
        assert attention.plan(causal).config.ORDER == "heads"
    with gpu("a100", "sm_80"):
        assert attention.plan((*tensors(), False, *ANY)).variant == "mma"


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


def packed(*ends: int, dtype: Any = torch.int32) -> Any:
    return on_gpu(torch.tensor(ends, dtype=dtype))


@pytest.mark.parametrize(("variant", "bm"), [("wgmma", 64), ("mma", 64)])
def test_sequences_are_placed_before_they_are_attended_to(variant: str, bm: int) -> None:
    q, k, v = (x[0] for x in tensors(sq=100, sk=80))
    at = {"cu_seqlens_q": packed(0, 3, 3, 98), "cu_seqlens_k": packed(0, 9, 40, 80)}
    with gpu("h200", "sm_90") as launches:
        o, lse = attention_with_lse(q, k, v, causal=True, variant=variant, **at)
    assert o.shape == (100, 4, 64) and lse.shape == (4, 100)
    first, second = launches
    assert first.constants == {"BM": bm} and second.constants["BM"] == bm
    place = (100 + 3 * (bm - 1)) // bm, 8
    assert [tuple(x.shape) for x in first.prepared[:3]] == [(4,), (4,), place]
    shapes = [(1, 100, 4, 64), (1, 80, 2, 64), (1, 80, 2, 64), (1, 100, 4, 64), (1, 4, 100), place]
    assert [tuple(x.shape) for x in second.prepared[:6]] == shapes
    assert first.addresses[2] == second.addresses[5]


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((packed(0, 9), None), "belong together, one was given"),
        ((packed(0, 9), packed(0, 4, 9)), r"\(sequences \+ 1,\), .* got \(2,\) and \(3,\)"),
        ((packed(), packed()), r"got \(0,\) and \(0,\)"),
        ((packed(0, 9)[None], packed(0, 9)[None]), r"got \(1, 2\)"),
        ((packed(0, 9, dtype=torch.int64),) * 2, "takes int32"),
    ],
)
def test_ends_that_are_none_are_told(ends: Any, words: str) -> None:
    q, k, v = (x[0] for x in tensors())
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        attention(q, k, v, cu_seqlens_q=ends[0], cu_seqlens_k=ends[1])


def test_packed_sequences_have_no_batch() -> None:
    q, k, v = tensors()
    at = {"cu_seqlens_q": packed(0, 9), "cu_seqlens_k": packed(0, 9)}
    with gpu("h200", "sm_90"):
        with pytest.raises(LaunchError, match=r"q \(total_q, heads, d\)"):
            attention(q, k, v, **at)
        with pytest.raises(LaunchError, match=r"q \(batch, sq, heads, d\)"):
            attention(q[0], k[0], v[0])
        with pytest.raises(LaunchError, match="attention takes q"):
            attention(q[0], k[0], v[0, :5], **at)


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
