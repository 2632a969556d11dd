"""What decode_attention says of a call and launches for it, on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from hexcute_core.errors import LaunchError
from hexcute_kernels.attention import decode_attention, decode_attention_with_lse
from hexcute_kernels.attention.decode_configs import SplitConfig
from hexcute_kernels.attention.decoding_operators import UNBOUNDED

torch = pytest.importorskip("torch")
from stand_ins import gpu, on_gpu  # noqa: E402


def tensors(b: int = 1, sq: int = 1, sk: int = 4096, h: int = 8, hk: int = 2, d: int = 64) -> Any:
    shapes = ((b, sq, h, d), (b, sk, hk, d), (b, sk, hk, d))
    return tuple(on_gpu(torch.zeros(shape, dtype=torch.float16)) for shape in shapes)


def lengths(*values: int, dtype: Any = None) -> Any:
    return on_gpu(torch.tensor(values, dtype=dtype or torch.int32))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for operator in (decode_attention, decode_attention_with_lse):
        monkeypatch.setattr(operator, "_ready", {})


def test_split_keys_are_two_launches_that_share_a_workspace() -> None:
    q, k, v = tensors()
    with gpu("h200", "sm_90") as launches:
        for _ in range(2):
            o = decode_attention(q, k, v, scale=0.5)
    assert o.shape == q.shape and len(launches) == 4
    first, second = launches[:2]
    splits = second.prepared[0].shape[0]
    assert splits > 1 and first.prepared[3].shape[0] == splits == first.prepared[9]
    assert second.prepared[4] == splits
    assert first.prepared[4] == second.prepared[2] == 0.5
    assert first.addresses[:3] == [t.data_ptr() for t in (q, k, v)]
    assert first.addresses[3] == second.addresses[0] != first.addresses[2]
    assert launches[3].addresses[1] == o.data_ptr()


def test_one_split_is_one_launch_and_its_result_the_output() -> None:
    q, k, v = tensors(b=2, sk=20)
    with gpu("h200", "sm_90") as launches:
        o = decode_attention(q, k, v, lengths(20, 3))
    assert len(launches) == 1 and launches[0].addresses[-1] == o.data_ptr()
    assert launches[0].prepared[5:] == (64**-0.5, 1.0, 0.0, UNBOUNDED, 20, 1)


def test_lengths_of_their_own_are_shared_out_on_the_device() -> None:
    q, k, v = tensors(b=3, sk=4096)
    with gpu("h200", "sm_90") as launches:
        o, lse = decode_attention_with_lse(q, k, v, lengths(4096, 3, 70), left=500)
    assert o.shape == q.shape and tuple(lse.shape) == (3, 8, 1) and len(launches) == 2
    first, second = launches
    work, plan = first.addresses[4:6]
    assert second.addresses == [work, plan, o.data_ptr(), lse.data_ptr()]
    assert len(first.addresses) == 6
    assert first.prepared[4].shape[0] == first.prepared[-1] > 3


def test_a_table_of_pages_is_handed_on() -> None:
    q, k, v = tensors(b=2, sk=16)
    table = on_gpu(torch.zeros((2, 100), dtype=torch.int32))
    with gpu("h200", "sm_90") as launches:
        decode_attention(q, k, v, lengths(20, 3), table)
    assert launches[0].addresses[4] == table.data_ptr()
    assert launches[0].prepared[-2] == 1600
    assert launches[0].prepared[1].shape == (32, 2, 64)


def test_nothing_to_see_launches_nothing() -> None:
    with gpu("h200", "sm_90") as launches:
        assert (decode_attention(*tensors(sk=0)) == 0).all()
        assert decode_attention(*tensors(b=0)).numel() == 0
        assert (decode_attention_with_lse(*tensors(sk=0))[1] == -torch.inf).all()
    assert launches == []


def test_given_outputs_and_configurations_are_used() -> None:
    q, k, v = tensors()
    out = on_gpu(torch.full((1, 1, 8, 64), torch.nan, dtype=torch.float16))
    with gpu("a100", "sm_80") as launches:
        config = SplitConfig(16, 4, 8)
        assert decode_attention(q, k, v, out=out, config=config) is out
    assert launches[0].constants == {"BN": 16, "STAGES": 4, "COUNT": 32}
    assert launches[0].prepared[3].shape[0] == 4
    assert launches[1].addresses[1] == out.data_ptr()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"h": 3}, "3 heads of queries do not share 2 of keys evenly"),
        ({"d": 264}, "heads of a multiple of 8 up to 256, got 264"),
        ({"d": 36}, "heads of a multiple of 8 up to 256, got 36"),
        ({"sq": 9}, "up to 8 queries per sequence, got 9"),
    ],
)
def test_what_cannot_be_is_told(changed: Any, words: str) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        decode_attention(*tensors(**changed))


@pytest.mark.parametrize("scale", [-0.5, 0.0, float("inf"), float("nan")])
def test_a_scale_that_orders_scores_otherwise_is_told(scale: float) -> None:
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match="scale is a positive number"):
        decode_attention(*tensors(), scale=scale)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"left": -1}, "left is a number of keys from 0 on, got -1"),
        ({"softcap": -1.0}, "softcap is positive, or 0 for none, got -1.0"),
        ({"k_scale": 0.0}, "scale is a positive number"),
        ({"page_table": torch.zeros((1, 4), dtype=torch.int32)}, "says where keys are"),
        ({"page_table": torch.zeros((1, 4)), "seq_lens": 4}, "int32, one for all"),
        ({"page_table": torch.zeros(4, dtype=torch.int32), "seq_lens": 4}, "page_table"),
        ({"page_table": torch.zeros((2, 4), dtype=torch.int32), "seq_lens": 4}, "each of 1"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_options_that_cannot_be_are_told(options: dict[str, Any], words: str) -> None:
    given = dict(options)
    if "page_table" in given:
        given["page_table"] = on_gpu(given["page_table"])
    if "seq_lens" in given:
        given["seq_lens"] = lengths(given["seq_lens"])
    with gpu("h200", "sm_90"), pytest.raises(LaunchError, match=words):
        decode_attention(*tensors(sk=16), **given)


def test_pages_of_odd_sizes_and_other_types_of_caches_are_told() -> None:
    q, k, v = tensors(sk=24)
    table = on_gpu(torch.zeros((1, 4), dtype=torch.int32))
    with gpu("h200", "sm_90"):
        with pytest.raises(LaunchError, match="power of two up to 1024 rows, got 24"):
            decode_attention(q, k, v, lengths(20), table)
        with pytest.raises(LaunchError, match="one for all tensors; got k_cache float32"):
            decode_attention(q, k.float(), v.float())
        narrow = (x[..., :40].contiguous() for x in (q, *[k.to(torch.float8_e4m3fn)] * 2))
        with pytest.raises(LaunchError, match="multiple of 16 in 8 bits, got 40"):
            decode_attention(*narrow)


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
