"""What decode_attention says of a call and launches for it, on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import decode_attention
from hexcute_kernels.attention.decode_configs import SplitConfig

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402


def tensors(b: int = 1, sq: int = 1, sk: int = 4096, h: int = 8, hk: int = 2, d: int = 64) -> Any:
    shapes = ((b, sq, h, d), (b, sk, hk, d), (b, sk, hk, d))
    return tuple(on_gpu(torch.zeros(shape, dtype=torch.float16)) for shape in shapes)


def lengths(*values: int, dtype: Any = None) -> Any:
    return on_gpu(torch.tensor(values, dtype=dtype or torch.int32))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_attention, "_ready", {})


def test_split_keys_are_two_launches_that_share_a_workspace() -> None:
    q, k, v = tensors()
    with gpu("h200", "sm_90") as launches:
        for _ in range(2):
            o = decode_attention(q, k, v, scale=0.5)
    assert o.shape == q.shape and len(launches) == 4
    first, second = launches[:2]
    splits = second.prepared[0].shape[0]
    assert splits > 1 and first.prepared[3].shape[0] == splits
    assert first.prepared[4] == second.prepared[2] == 0.5
    assert first.addresses[:3] == [t.data_ptr() for t in (q, k, v)]
    assert first.addresses[3] == second.addresses[0] != first.addresses[2]
    assert launches[3].addresses[1] == o.data_ptr()


def test_one_split_is_one_launch_and_its_result_the_output() -> None:
    q, k, v = tensors(b=2, sk=20)
    with gpu("h200", "sm_90") as launches:
        o = decode_attention(q, k, v, lengths(20, 3))
    assert len(launches) == 1 and launches[0].addresses[-1] == o.data_ptr()
    assert len(launches[0].prepared) == 7


def test_nothing_to_see_launches_nothing() -> None:
    with gpu("h200", "sm_90") as launches:
        assert (decode_attention(*tensors(sk=0)) == 0).all()
        assert decode_attention(*tensors(b=0)).numel() == 0
    assert launches == []


def test_given_outputs_and_configurations_are_used() -> None:
    q, k, v = tensors()
    out = on_gpu(torch.full((1, 1, 8, 64), torch.nan, dtype=torch.float16))
    with gpu("a100", "sm_80") as launches:
        config = SplitConfig(16, 4, 8)
        assert decode_attention(q, k, v, out=out, config=config) is out
    assert launches[0].constants == {"BN": 16, "STAGES": 4}
    assert launches[0].prepared[3].shape[0] == 4
    assert launches[1].addresses[1] == out.data_ptr()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"h": 3}, "3 heads of queries do not share 2 of keys evenly"),
        ({"d": 264}, "heads of a multiple of 8 up to 256, got 264"),
        ({"d": 36}, "heads of a multiple of 8 up to 256, got 36"),
        ({"sq": 9}, "up to 8 queries a sequence, got 9"),
    ],
)
def test_what_cannot_be_is_told(changed: Any, words: str) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        decode_attention(*tensors(**changed))


@pytest.mark.parametrize("scale", [-0.5, 0.0, float("inf"), float("nan")])
def test_a_scale_that_orders_scores_otherwise_is_told(scale: float) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match="scale is a positive number"):
        decode_attention(*tensors(), scale=scale)


def test_tensors_that_do_not_meet_are_told() -> None:
    q, k, v = tensors()
    float64, twice = lengths(4, dtype=torch.int64), lengths(4, 4)
    with gpu("h200", "sm_90"):
        for wrong, words in (
            ((q, k, v[:, :3].contiguous()), "v_cache"),
            ((q, k[0], v), "got k_cache of shape"),
            ((q, k, v[:, ::2]), "not row-major"),
            ((q, k, v, float64), "int32, one for all tensors; got seq_lens int64"),
            ((q, k, v, twice), r"seq_lens is to be \(1,\)"),
            ((q, k, v, [4]), "seq_lens is to be a dense torch tensor, got list"),
        ):
            with pytest.raises(LaunchError, match=words):
                decode_attention(*wrong)
